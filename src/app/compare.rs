//! `compare` and `report --compat`: numbers side by side.

use serde_json::Value;

use super::find_result::{FoundResult, find_all, find_runs, find_sweep};
use crate::app::error::CommandError;
use crate::app::output::{print, print_error};
use crate::cli::{CliExit, Compare, Global, Report};
use crate::interop::{self, COPY_REPEATS, Tool};
use crate::report::compare::{
    self, CompareRules, ComparedResult, ComparedSweep, Comparison, FailCondition, FailConditionOutcome, RunSet,
};
use crate::report::{self, Styler, html};
use crate::runner::store::write_named;
use crate::stats::Margins;

pub(super) fn compare(global: &Global, request: &Compare) -> Result<CliExit, CommandError> {
    let gates = gates(&request.fail_if)?;
    let as_tool = request.as_tool.as_deref().map(tool).transpose()?;
    if let Some(sweeps) = sweeps(global, request)? {
        return compare_sweeps(global, request, &sweeps);
    }
    let (mut firsts, mut sets) = (Vec::new(), Vec::new());
    for word in &request.results {
        let mut sheets = Vec::new();
        let runs = find_runs(global, word)?.into_iter().map(|found| as_one_run(found, gates.is_empty()));
        let runs = runs.collect::<Result<Vec<_>, _>>()?;
        for found in &runs {
            sheets.push(match as_tool {
                Some(tool) => ComparedResult::as_tool(&found.run, tool).map_err(CommandError::usage)?,
                None => ComparedResult::of(&found.run),
            });
        }
        sets.push(RunSet::new(word.as_str(), sheets).map_err(CommandError::usage)?);
        firsts.extend(runs.into_iter().next().map(|found| found.run));
    }
    let [first, others @ ..] = sets.as_slice() else { return Ok(CliExit::Done) };
    let rules = rules(request);
    let comparisons: Vec<Comparison> = others.iter().map(|other| Comparison::of(first, other, rules)).collect();
    print(&if request.json {
        format!("{:#}\n", compare::json(&sets, &comparisons))
    } else {
        compare::text(&sets, &comparisons, Styler::chosen(global.color.choice()))
    });
    if let Some(path) = &request.html {
        write_page(path, &html::compare(&firsts, &sets, &comparisons).map_err(anyhow::Error::from)?)?;
    }
    let mut exit = CliExit::Done;
    // What an INVALID run measured passes no gate, however good its numbers are.
    for set in sets.iter().filter(|_| !gates.is_empty()) {
        for line in compare::invalid_runs(set) {
            print_error(&format!("--fail-if fails: {} is {line}\n", set.name));
            exit = CliExit::DifferenceExceeded;
        }
    }
    for comparison in &comparisons {
        for gate in &gates {
            exit = exit.max(check(gate, comparison, as_tool)?);
        }
        if !comparison.has_any() {
            exit = exit.max(CliExit::Usage);
        }
    }
    Ok(exit)
}

fn rules(request: &Compare) -> CompareRules {
    CompareRules { force: request.force, margins: Margins { smallest_percent: request.smallest_effect.unwrap_or(1.0) } }
}

/// The sweeps that all arguments name; `None` where none does.
fn sweeps(global: &Global, request: &Compare) -> Result<Option<Vec<ComparedSweep>>, CommandError> {
    let mut found = Vec::new();
    let mut others = Vec::new();
    for word in &request.results {
        match find_sweep(global, word)? {
            Some(report) => found.push(ComparedSweep { name: word.clone(), report }),
            None => others.push(word.as_str()),
        }
    }
    let Some(one) = found.first() else { return Ok(None) };
    let refuse = |what: String| Err(CommandError::Usage(what));
    if !others.is_empty() {
        let hint = format!("compare sweeps with sweeps; a point of it is a result: {}/points/…", one.name);
        return refuse(format!("{} is a sweep, and {} is none\n  hint: {hint}", one.name, others.join(", ")));
    }
    if !request.fail_if.is_empty() || request.as_tool.is_some() {
        return refuse(
            "`--fail-if` and `--as` are for single results: the points of a sweep are one run each, and are not judged"
                .to_owned(),
        );
    }
    Ok(Some(found))
}

fn compare_sweeps(global: &Global, request: &Compare, sweeps: &[ComparedSweep]) -> Result<CliExit, CommandError> {
    let rules = rules(request);
    print(&if request.json {
        format!("{:#}\n", compare::sweeps_json(sweeps, rules))
    } else {
        compare::sweeps_text(sweeps, rules, Styler::chosen(global.color.choice()))
    });
    if let Some(path) = &request.html {
        write_page(path, &html::compare_sweeps(sweeps, rules).map_err(anyhow::Error::from)?)?;
    }
    Ok(CliExit::Done)
}

fn write_page(path: &std::path::Path, page: &str) -> Result<(), CommandError> {
    write_named(path, page)?;
    print_error(&format!("the page: {}\n", path.display()));
    Ok(())
}

/// A result of several runs is read as the first of them where the folder of the runs is missing: its requests and its spread are
/// known, those of the others are not. That is a warning for a reader, and an error for a gate: it would judge by one run what was
/// measured several times so that chance does not decide.
fn as_one_run(mut found: FoundResult, may_go_on: bool) -> Result<FoundResult, CommandError> {
    let name = found.run.name.clone();
    if let Some(what) = found.run.without_other_runs(&name) {
        if !may_go_on {
            return Err(CommandError::Usage(format!("{what}, and `--fail-if` needs all runs\n  hint: {COPY_REPEATS}")));
        }
        print_error(&format!("warning: {what}: it is compared as one run, the first\n  hint: {COPY_REPEATS}\n"));
    }
    Ok(found)
}

/// Prints the outcome of a comparison for a gate, where the gate does not simply pass.
fn check(gate: &FailCondition, comparison: &Comparison, as_tool: Option<Tool>) -> Result<CliExit, CommandError> {
    let percent = |delta: &compare::Delta| delta.percent.unwrap_or_default();
    let name = &comparison.b;
    Ok(match gate.outcome(comparison).map_err(|error| CommandError::usage(error.as_tool(as_tool)))? {
        FailConditionOutcome::Passed(_) => CliExit::Done,
        FailConditionOutcome::Inconclusive(delta) => {
            let more =
                delta.runs_needed.map_or_else(String::new, |runs| format!("; about {runs} runs each could tell"));
            let percent = report::signed_percent(percent(delta));
            print_error(&format!("{gate} is not shown for {name}: {percent} %, which may be chance{more}\n"));
            CliExit::Done
        }
        FailConditionOutcome::Exceeded(delta) => {
            if delta.percent.is_some_and(f64::is_infinite) {
                print_error(&format!("{gate} holds for {name}: its value is infinite\n"));
                return Ok(CliExit::DifferenceExceeded);
            }
            let how = if comparison.is_judged() {
                format!("shown at 95 % with {} and {} runs", comparison.a_runs, comparison.b_runs)
            } else {
                "one run on a side: this may be chance, `--repeat 5` measures it".to_owned()
            };
            let percent = report::signed_percent(percent(delta));
            print_error(&format!("{gate} holds for {name}: {percent} %, {how}\n"));
            CliExit::DifferenceExceeded
        }
    })
}

/// Reports all errors at once.
fn gates(texts: &[String]) -> Result<Vec<FailCondition>, CommandError> {
    let read: Vec<_> = texts.iter().map(|text| text.parse::<FailCondition>()).collect();
    let wrong: Vec<String> = read.iter().filter_map(|gate| gate.as_ref().err().map(ToString::to_string)).collect();
    if !wrong.is_empty() {
        return Err(CommandError::Usage(wrong.join("\n")));
    }
    Ok(read.into_iter().flatten().collect())
}

fn tool(name: &str) -> Result<Tool, CommandError> {
    name.parse::<Tool>().map_err(CommandError::usage)
}

/// Regatta's numbers beside those of other tools.
pub(super) fn compat(global: &Global, request: &Report) -> Result<CliExit, CommandError> {
    let tools = request.compat.iter().map(|name| tool(name)).collect::<Result<Vec<_>, _>>()?;
    let word = match &request.run {
        Some(word) => word.clone(),
        None => super::past_runs::last(global)?,
    };
    let styler = Styler::chosen(global.color.choice());
    let mut all = serde_json::Map::new();
    for found in find_all(global, &word)? {
        let measured_run = found.run;
        if measured_run.request_traces.is_empty() {
            print_error(&format!(
                "{}: it has no records of single requests with their start times\n",
                measured_run.name
            ));
            continue;
        }
        let rows: Vec<_> = tools.iter().flat_map(|tool| interop::compat(&measured_run, *tool)).collect();
        if request.json {
            all.insert(measured_run.name, serde_json::to_value(rows).map_err(anyhow::Error::from)?);
        } else {
            // The table itself names the tool that measured an imported result, and such a result has no verdict.
            let verdict =
                measured_run.result.own().map_or_else(String::new, |result| format!("  {}", result.verdict_text()));
            print(&format!("{}{verdict}\n{}", measured_run.name, report::tool_metrics(&rows, styler)));
        }
    }
    if request.json {
        print(&format!("{:#}\n", Value::Object(all)));
    }
    Ok(CliExit::Done)
}
