//! `compare` and `report --as`: numbers side by side.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde_json::Value;

use super::found_result::FoundResult;
use super::result_name::{FoundSweep, ResultFinder, TaskRuns, find_all};
use crate::cli::{CliExit, CompareRequest, Global, ReportRequest};
use crate::console::{print, print_as, print_error};
use crate::error::CommandError;
use base::diag::ErrorText;
use interop::{COPY_REPEATS, MeasuredRun, Tool};
use report::Document;
use report::compare::{
    self, CompareRules, ComparedResult, ComparedSweep, Comparison, FailCondition, FailConditionOutcome, Judgement,
    RunSet,
};
use runner::store::write_named;

/// A side of a comparison as it was named, task by task.
struct Side<'a> {
    argument: &'a str,
    tasks: Vec<TaskRuns>,
}

impl Side<'_> {
    fn with(&self, task: Option<&String>) -> Option<&TaskRuns> {
        self.tasks.iter().find(|known| known.task.as_ref() == task)
    }
}

/// The results of one task: those of the first side, and those of each other that has it.
type TaskRow<'a> = Vec<(String, &'a [FoundResult])>;

pub(super) fn compare(global: &Global, request: &CompareRequest) -> Result<CliExit, CommandError> {
    let conditions = conditions(&request.fail_if)?;
    let as_tool = request.as_tool;
    let finder = ResultFinder::new(global);
    if let Some(sweeps) = sweeps(&finder, request)? {
        return compare_sweeps(global, request, &sweeps);
    }
    let mut sides = Vec::new();
    for argument in &request.results {
        let mut tasks = finder.find_runs(argument)?;
        for result in tasks.iter_mut().flat_map(|task| &mut task.runs) {
            check_run(result, conditions.is_empty())?;
        }
        sides.push(Side { argument, tasks });
    }
    let rows = by_task(&sides)?;
    if let (Some(_), [_, _, ..]) = (&request.html, rows.as_slice()) {
        let names: Vec<&str> = rows.iter().filter_map(|row| row.first()).map(|(name, _)| name.as_str()).collect();
        let hint = format!("name one of them on each side: {}", names.join(", "));
        return Err(CommandError::hinted("a page compares one task", hint));
    }
    check_same_measurements(&rows, conditions.is_empty())?;
    let mut exit = report_missing_tasks(&sides, !conditions.is_empty());
    let (mut all_sets, mut all_comparisons, mut texts) = (Vec::new(), Vec::new(), Vec::new());
    for row in &rows {
        let sets = row.iter().map(|(name, runs)| run_set(name, runs, as_tool)).collect::<Result<Vec<_>, _>>()?;
        let [first, others @ ..] = sets.as_slice() else { continue };
        let comparisons: Vec<Comparison> =
            others.iter().map(|other| Comparison::new(first, other, rules(request))).collect();
        texts.push(compare::document(&sets, &comparisons, &[]).terminal(global.styler()));
        if let Some(path) = &request.html {
            let firsts: Vec<MeasuredRun> = row.iter().filter_map(|(_, runs)| Some(runs.first()?.run.clone())).collect();
            write_page(Some(path), &compare::document(&sets, &comparisons, &firsts))?;
        }
        all_sets.extend(sets);
        all_comparisons.extend(comparisons);
    }
    let json = || compare::json(&all_sets, &all_comparisons);
    print_as(global.styler(), request.json, json, |_| texts.join("\n"));
    // An INVALID run fails every condition, however good its numbers are.
    for set in all_sets.iter().filter(|_| !conditions.is_empty()) {
        for line in compare::invalid_runs(set) {
            print_error(&format!("--fail-if fails: {} is {line}\n", set.name));
            exit = exit.max(CliExit::DifferenceExceeded);
        }
    }
    for comparison in &all_comparisons {
        for condition in &conditions {
            exit = exit.max(check(condition, comparison, as_tool)?);
        }
        if !comparison.has_any() {
            exit = exit.max(CliExit::Usage);
        }
    }
    Ok(exit)
}

fn run_set(name: &str, runs: &[FoundResult], as_tool: Option<Tool>) -> Result<RunSet, CommandError> {
    let compared = |found: &FoundResult| {
        if let Some(tool) = as_tool {
            return ComparedResult::as_tool(&found.run, tool).map_err(CommandError::usage);
        }
        let result = ComparedResult::new(&found.run);
        Ok(found.search.iter().fold(result, ComparedResult::with_search))
    };
    let sheets = runs.iter().map(compared).collect::<Result<Vec<_>, _>>()?;
    RunSet::new(name, sheets).map_err(CommandError::usage)
}

/// Which results are compared with each other. Sides of one task each are compared whatever their names are; others
/// task by task, because a mean over several tasks is a number of none of them.
fn by_task<'a>(sides: &'a [Side<'_>]) -> Result<Vec<TaskRow<'a>>, CommandError> {
    if sides.iter().all(|side| side.tasks.len() == 1) {
        let cell = |side: &'a Side<'_>| side.tasks.iter().map(|task| (side.argument.to_owned(), task.runs.as_slice()));
        return Ok(vec![sides.iter().flat_map(cell).collect()]);
    }
    let [first, others @ ..] = sides else { return Ok(Vec::new()) };
    let cell = |task: &'a TaskRuns| (task.argument.clone(), task.runs.as_slice());
    let row = |task: &'a TaskRuns| {
        let same = others.iter().filter_map(|side| side.with(task.task.as_ref()));
        [task].into_iter().chain(same).map(cell).collect::<TaskRow<'a>>()
    };
    let rows: Vec<TaskRow<'a>> = first.tasks.iter().map(row).filter(|row| row.len() > 1).collect();
    if rows.is_empty() {
        let arguments =
            |side: &Side<'_>| side.tasks.iter().map(|task| task.argument.clone()).collect::<Vec<_>>().join(", ");
        let several = sides.iter().filter(|side| side.tasks.len() > 1);
        let hints: Vec<String> =
            several.map(|side| format!("one of {} for {}", arguments(side), side.argument)).collect();
        let named: Vec<&str> = sides.iter().map(|side| side.argument).collect();
        let message = format!("{} have no task in common, and different tasks are not averaged", named.join(" and "));
        return Err(CommandError::hinted(message, format!("name {}", hints.join("; "))));
    }
    Ok(rows)
}

/// A task that was cached is the same measurement in two runs: a warning for a reader, and an error for a condition,
/// which would judge nothing that was measured.
fn check_same_measurements(rows: &[TaskRow<'_>], may_go_on: bool) -> Result<(), CommandError> {
    let mut same = Vec::new();
    for row in rows {
        let [(first, runs), others @ ..] = row.as_slice() else { continue };
        let is_same = |(_, other): &&(String, &[FoundResult])| locations(other) == locations(runs);
        same.extend(others.iter().filter(is_same).map(|(other, _)| format!("{first} and {other}")));
    }
    if same.is_empty() {
        return Ok(());
    }
    let problem = format!("both sides are the same measurement: {}", same.join("; "));
    if !may_go_on {
        let hint = "`regatta run MANIFEST --force STAGE` measures a cached stage again";
        return Err(CommandError::hinted(format!("{problem}, and `--fail-if` has nothing to check"), hint));
    }
    print_error(&format!("warning: {problem}\n"));
    Ok(())
}

fn locations(runs: &[FoundResult]) -> BTreeSet<&PathBuf> {
    runs.iter().map(|found| &found.location).collect()
}

/// Prints which tasks are not compared because a side lacks them. A condition fails where a side lacks a task of the
/// first: there is nothing to check against it.
fn report_missing_tasks(sides: &[Side<'_>], is_gated: bool) -> CliExit {
    let mut exit = CliExit::Done;
    let [first, others @ ..] = sides else { return exit };
    if sides.iter().all(|side| side.tasks.len() == 1) {
        return exit;
    }
    let of_others = others.iter().flat_map(|side| &side.tasks);
    print_missing(first, of_others, "not compared");
    for side in others {
        let consequence = if is_gated { "--fail-if fails" } else { "not compared" };
        if print_missing(side, first.tasks.iter(), consequence) && is_gated {
            exit = CliExit::DifferenceExceeded;
        }
    }
    exit
}

/// Whether a side that may have several tasks lacks one of these.
fn print_missing<'a>(side: &Side<'_>, tasks: impl Iterator<Item = &'a TaskRuns>, what: &str) -> bool {
    let tasks: BTreeSet<&String> = tasks.filter_map(|task| task.task.as_ref()).collect();
    let missing: Vec<&str> =
        tasks.into_iter().filter(|task| side.with(Some(*task)).is_none()).map(String::as_str).collect();
    if matches!(side.tasks.as_slice(), [only] if only.argument == side.argument) || missing.is_empty() {
        return false;
    }
    print_error(&format!("{what}: {} has no result of {}\n", side.argument, missing.join(", ")));
    true
}

fn rules(request: &CompareRequest) -> CompareRules {
    let smallest_percent = request.smallest_effect.unwrap_or(CompareRules::default().smallest_percent);
    CompareRules { force: request.force, smallest_percent }
}

/// The sweeps that all arguments name; `None` where none does.
fn sweeps(finder: &ResultFinder<'_>, request: &CompareRequest) -> Result<Option<Vec<ComparedSweep>>, CommandError> {
    let mut sweeps = Vec::new();
    let mut others = Vec::new();
    for argument in &request.results {
        match finder.find_sweep(argument)? {
            Some(sweep) => sweeps.push((argument, sweep)),
            None => others.push(argument.as_str()),
        }
    }
    let Some((first, _)) = sweeps.first() else { return Ok(None) };
    let points: Vec<String> = sweeps.iter().filter_map(|(_, sweep)| sweep.first_point()).collect();
    let points = if points.is_empty() { String::new() } else { format!(", such as {}", points.join(", ")) };
    if !others.is_empty() {
        let hint = format!("compare sweeps with sweeps; a point of one is a result{points}");
        return Err(CommandError::hinted(format!("{first} is a sweep, and {} is not", others.join(", ")), hint));
    }
    if !request.fail_if.is_empty() || request.as_tool.is_some() {
        let hint = format!("name a result, or a point of each sweep{points}");
        return Err(CommandError::hinted("`--fail-if` and `--as` are for single results, not for sweeps", hint));
    }
    let compared = |(name, sweep): (&String, FoundSweep)| ComparedSweep { name: name.clone(), report: sweep.report };
    Ok(Some(sweeps.into_iter().map(compared).collect()))
}

fn compare_sweeps(
    global: &Global,
    request: &CompareRequest,
    sweeps: &[ComparedSweep],
) -> Result<CliExit, CommandError> {
    let rules = rules(request);
    let document = compare::sweeps_document(sweeps, rules);
    let json = || compare::sweeps_json(sweeps, rules);
    print_as(global.styler(), request.json, json, |styler| document.terminal(styler));
    write_page(request.html.as_deref(), &document)?;
    Ok(CliExit::Done)
}

/// Writes the page of a document, and prints where it is.
pub(super) fn write_page(path: Option<&std::path::Path>, document: &Document) -> Result<(), CommandError> {
    let Some(path) = path else { return Ok(()) };
    write_named(path, document.html().map_err(anyhow::Error::from)?)?;
    print_error(&format!("the page: {}\n", path.display()));
    Ok(())
}

/// Two things are a warning for a reader, and an error for a condition. A result of several runs is read as the first
/// of them where the folder of the runs is missing: a condition would judge by one run what was measured several
/// times so that chance does not decide. And a task that the last run did not have is of an earlier one, which a
/// condition after the last run is not meant for.
fn check_run(result: &mut FoundResult, may_go_on: bool) -> Result<(), CommandError> {
    if let Some((earlier, problem)) = result.earlier.as_ref().zip(result.earlier_text()) {
        if !may_go_on {
            let hint = format!("name the run, too: `{}/{}`", earlier.run, earlier.task);
            return Err(CommandError::hinted(format!("{problem}, and `--fail-if` is not checked against it"), hint));
        }
        print_error(&format!("warning: {problem}\n"));
    }
    let name = result.run.name.clone();
    if let Some(problem) = result.run.without_other_runs(&name) {
        if !may_go_on {
            return Err(CommandError::hinted(format!("{problem}, and `--fail-if` needs all runs"), COPY_REPEATS));
        }
        let warning = ErrorText::new(format!("warning: {problem}: only its first run is compared"));
        print_error(&format!("{}\n", warning.hint(COPY_REPEATS)));
    }
    Ok(())
}

/// Prints the outcome of a comparison for a condition: a log shows that it was checked, and the difference.
fn check(condition: &FailCondition, comparison: &Comparison, as_tool: Option<Tool>) -> Result<CliExit, CommandError> {
    let name = &comparison.b;
    let percent = |delta: &compare::Delta| condition.percent_text(delta.percent.unwrap_or_default());
    // A condition has a rule of its own: the interval of the table is two-sided, and its judgement is corrected for
    // all rows of its family.
    let bound = |delta: &compare::Delta| {
        let bound = condition.bound(comparison, delta)?;
        let side = if condition.is_upper() { "at least" } else { "at most" };
        Some(format!("one-sided 95 %, this number alone: {side} {}", condition.percent_text(bound)))
    };
    Ok(match condition.outcome(comparison, as_tool).map_err(CommandError::usage)? {
        FailConditionOutcome::Passed(delta) => {
            print_error(&format!("{condition} does not hold for {name}: {}\n", percent(delta)));
            CliExit::Done
        }
        FailConditionOutcome::Inconclusive(delta) => {
            let bound = bound(delta).map_or_else(String::new, |bound| format!(" ({bound})"));
            let more = match (&comparison.too_few_plans, delta.runs_needed) {
                (Some(why), _) => format!(": {why}"),
                (None, Some(runs)) => format!("; about {runs} runs each would find a change of 5 %"),
                (None, None) => String::new(),
            };
            print_error(&format!(
                "{condition} is not shown for {name}: {}, which may be chance{bound}{more}\n",
                percent(delta)
            ));
            CliExit::Done
        }
        FailConditionOutcome::Exceeded(delta) => {
            if delta.b.is_some_and(f64::is_infinite) {
                let both = if delta.a.is_some_and(f64::is_infinite) { ", as that of the first side is" } else { "" };
                print_error(&format!("{condition} holds for {name}: its value is infinite{both}\n"));
                return Ok(CliExit::DifferenceExceeded);
            }
            let how = match bound(delta) {
                Some(bound) => format!("shown with {} ({bound})", compare::run_counts(comparison)),
                None if delta.judgement.is_some_and(|judged| judged != Judgement::NotJudged) => {
                    "the 95 % intervals of the two searches do not overlap".to_owned()
                }
                None => "one run on a side: this may be chance, `--repeat 5` measures it".to_owned(),
            };
            print_error(&format!("{condition} holds for {name}: {}, {how}\n", percent(delta)));
            CliExit::DifferenceExceeded
        }
    })
}

/// Reports all errors at once.
fn conditions(texts: &[String]) -> Result<Vec<FailCondition>, CommandError> {
    let read: Vec<_> = texts.iter().map(|text| text.parse::<FailCondition>()).collect();
    let wrong: Vec<String> =
        read.iter().filter_map(|condition| condition.as_ref().err().map(ToString::to_string)).collect();
    if !wrong.is_empty() {
        return Err(CommandError::Usage(wrong.join("\n")));
    }
    Ok(read.into_iter().flatten().collect())
}

/// Regatta's numbers beside those of other tools.
pub(super) fn compat(global: &Global, request: &ReportRequest) -> Result<CliExit, CommandError> {
    let argument = match &request.run {
        Some(argument) => argument.clone(),
        None => super::past_runs::last(global)?,
    };
    let styler = global.styler();
    let mut by_name = serde_json::Map::new();
    for found in find_all(global, &argument)? {
        let measured_run = found.run;
        if measured_run.request_traces.is_empty() {
            print_error(&format!(
                "{}: it has no records of single requests with their start times\n",
                measured_run.name
            ));
            continue;
        }
        let rows: Vec<_> = request.as_tools.iter().flat_map(|tool| interop::compat(&measured_run, *tool)).collect();
        if request.json {
            by_name.insert(measured_run.name, serde_json::to_value(rows).map_err(anyhow::Error::from)?);
        } else {
            // The table itself names the tool that measured an imported result, and such a result has no verdict.
            let verdict =
                measured_run.result.own().map_or_else(String::new, |result| format!("  {}", result.verdict_text()));
            print(&format!("{}{verdict}\n{}", measured_run.name, report::tool_metrics(&rows, styler)));
        }
    }
    if request.json {
        print(&format!("{:#}\n", Value::Object(by_name)));
    }
    Ok(CliExit::Done)
}
