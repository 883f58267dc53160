//! The page of a run: the values for its template.

use crate::chart::{number, run};
use crate::command_tables::run_word;
use crate::document::Fact;
use crate::page_template::render_page;
use crate::result_page::{self, ResultSection};
use crate::run_state::{RunState, TaskPhase, TaskState};
use crate::styler::{TextRole, as_typed, clean, clean_lines, duration_text, to_the_second};
use crate::summary::{failure_lines, failure_text, failure_word, reasons_of};
use crate::sweep::{self, SweepSection};
use crate::sweep_charts::{NamedSweep, draw};
use base::event::TaskId;
use base::units::counted;
use harness::{SearchReport, SweepReport};
use interop::MeasuredResult;
use minijinja::value::Serde;
use minijinja::{Value, context};
use plan::{ActionKind, Plan, Task};
use serde::Serialize;
use std::cmp::Ordering;
use std::collections::BTreeMap;

const PAGE: &str = include_str!("../../templates/report/page.html");
/// The most rows that a table of tasks has; the page shows how many there are.
const ROWS: usize = 1000;
/// The most benchmarks that have all their numbers on the page; the table of results has them all.
const DETAILED: usize = 16;

/// The result of one benchmark of a run.
#[derive(Clone, Debug)]
pub struct PageResult {
    pub task: TaskId,
    pub result: MeasuredResult,
    /// The `search.json` of the same folder, where it is the best probe of a search.
    pub search: Option<SearchReport>,
}

/// The whole page. `results` are those of the benchmarks, `sweeps` those of benchmarks at several levels, by name.
pub fn run_page(
    run_state: &RunState,
    results: &[PageResult],
    sweeps: &[(String, SweepReport)],
    plan: &Plan,
) -> Result<String, minijinja::Error> {
    let mut results: Vec<&PageResult> = results.iter().collect();
    // What is judged by its speed comes first, and is at the top of the page.
    let is_beside = |page: &PageResult| page.result.own().is_some_and(|result| !result.is_of_speed());
    results
        .sort_by(|a, b| is_beside(a).cmp(&is_beside(b)).then_with(|| natural_order(a.task.as_str(), b.task.as_str())));
    let mut sweeps = sweeps.to_vec();
    sweeps.sort_by(|a, b| natural_order(&a.0, &b.0));
    let mut sections: Vec<_> =
        sweeps.iter().zip(1..).map(|((name, report), place)| sweep::section(name, report, place)).collect();
    let benches: Vec<_> =
        results.iter().map(|page| result_page::section(&page.task, &page.result, page.search.as_ref())).collect();
    let (gantt, left_out) = run::timeline(run_state).unzip();
    let (tone, word) = run_word(run_state, false);
    let word = word.split(';').next();
    let total = plan.tasks.len().max(run_state.total);
    // After the end, the rest are servers that no task needed, and stages that were not selected.
    let not_needed =
        if run_state.finished.is_some_and(|end| end.exit == 0) { total.saturating_sub(run_state.done()) } else { 0 };
    let top = PageTop::of_sweeps(&sweeps, &sections).or_else(|| benches.first()?.top.clone());
    let top_task = benches.first().filter(|_| sections.is_empty() && benches.len() > 1).map(|bench| &bench.task);
    // The picture of a single sweep is at the top already.
    if let [section] = sections.as_mut_slice() {
        section.plots.drain(..section.plots.len().min(1));
    }
    render_page(
        PAGE,
        context! {
            name => named(if run_state.manifest.is_empty() { &plan.name } else { &run_state.manifest }),
            run => run_state.run.as_ref().map(ToString::to_string),
            started_at => to_the_second(&run_state.started_at),
            tone => Serde(tone), word,
            simulated => benches.iter().any(|bench| bench.simulated) || sections.iter().any(|sweep| sweep.simulated),
            rehearsal => benches.iter().any(|bench| bench.rehearsal),
            measured => measured(&benches, &sections),
            top => Serde(top),
            top_task,
            compared => Serde(compared(run_state, plan)),
            verdicts => Serde(verdicts(&benches, &sections)),
            overlaid => overlaid(&sweeps),
            sweeps => Serde(&sections),
            result_columns => result_page::ROW,
            took => run_state.finished.map(|end| duration_text(end.seconds)),
            tally => Serde(run_state.tally),
            total => counted(total, "task"),
            not_needed,
            benches => Serde(&benches),
            detailed => DETAILED,
            troubles => failures(run_state),
            gantt,
            left_out => left_out.unwrap_or(0),
            network => run::network(plan, run_state),
            rows => rows(run_state, |state| state != TaskPhase::Cached),
            rows_total => run_state.tasks.iter().filter(|(_, entry)| entry.state != TaskPhase::Cached).count(),
            cached => rows(run_state, |state| state == TaskPhase::Cached),
            cached_total => run_state.in_phase(TaskPhase::Cached).count(),
            cached_at_once => run_state.cached_at_once,
            notices => notices(run_state),
            params => typed(if run_state.params.is_empty() { &plan.params } else { &run_state.params }),
            manifest => &run_state.manifest,
            again => run_state.again(),
            version => env!("CARGO_PKG_VERSION"),
        },
    )
}

fn notices(run_state: &RunState) -> Vec<String> {
    let mut lines = Vec::new();
    for notice in &run_state.notices {
        let about = notice.task.as_ref().map(|task| format!("{task}: ")).unwrap_or_default();
        lines.push(format!("{about}{}", clean(&notice.text)));
    }
    lines
}

/// What comparisons of this run found: for each its task, and its line.
fn compared<'a>(run_state: &'a RunState, plan: &'a Plan) -> Vec<(&'a str, &'a str)> {
    let line = |task: &'a Task| {
        (task.kind == ActionKind::Compare)
            .then(|| Some((task.id.as_str(), run_state.tasks.get(&task.id)?.headline.as_deref()?)))
            .flatten()
    };
    plan.tasks.iter().filter_map(line).collect()
}

/// Several sweeps over each other.
fn overlaid(sweeps: &[(String, SweepReport)]) -> Vec<String> {
    let named: Vec<_> = sweeps.iter().map(|(name, report)| NamedSweep { name: name.clone(), report }).collect();
    // The first one is at the top.
    if named.len() > 1 { draw(&named).split_off(1) } else { Vec::new() }
}

/// The verdicts of the results, each once, with their color.
fn verdicts(benches: &[ResultSection], sweeps: &[SweepSection]) -> Vec<(TextRole, String)> {
    let of_benches = || benches.iter().filter_map(|bench| Some((bench.tone, bench.verdict.clone()?))).collect();
    let of_sweeps = || sweeps.iter().map(|sweep| (sweep.tone, sweep.verdict.clone())).collect();
    let verdicts: Vec<(TextRole, String)> = if sweeps.is_empty() { of_benches() } else { of_sweeps() };
    let mut counts: Vec<(TextRole, String, usize)> = Vec::new();
    for (tone, verdict) in verdicts {
        match counts.iter_mut().find(|counted| counted.1 == verdict) {
            Some(counted) => counted.2 += 1,
            None => counts.push((tone, verdict, 1)),
        }
    }
    let text = |(tone, verdict, count)| (tone, if count > 1 { format!("{count} × {verdict}") } else { verdict });
    counts.into_iter().map(text).collect()
}

/// What was measured, each different line once.
fn measured(benches: &[ResultSection], sweeps: &[SweepSection]) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let identities = benches.iter().filter_map(|bench| bench.identity.as_ref());
    for line in identities.chain(sweeps.iter().filter_map(|sweep| sweep.identity.as_ref())) {
        if !lines.contains(line) {
            lines.push(line.clone());
        }
    }
    lines
}

/// A manifest that was given as a file is named by its file name; its folder is shown below.
fn named(manifest: &str) -> &str {
    let file = std::path::Path::new(manifest).file_stem().and_then(std::ffi::OsStr::to_str);
    file.filter(|_| manifest.contains('/')).unwrap_or(manifest)
}

/// At most [`ROWS`] rows: a page of ten thousand rows is not readable.
fn rows(run_state: &RunState, wanted: impl Fn(TaskPhase) -> bool) -> Vec<Value> {
    let row = |(task, entry): (&TaskId, &TaskState)| {
        let mut lines: Vec<String> = entry.reasons.iter().map(|reason| clean(reason)).collect();
        lines.extend(entry.why.as_deref().map(clean));
        lines.extend(entry.notes(None));
        context! {
            task => task.to_string(),
            state => if entry.service && entry.state == TaskPhase::Ran { "served" } else { entry.label() },
            took => entry.seconds.map(duration_text),
            summary => lines.join("; "),
            out => entry.out.as_ref().map(|path| path.display().to_string()),
            log => entry.log.as_ref().map(|path| path.display().to_string()),
        }
    };
    run_state.tasks.iter().filter(|(_, entry)| wanted(entry.state)).take(ROWS).map(row).collect()
}

/// Parameters as a user would type them; without those that were left out.
fn typed(params: &BTreeMap<String, String>) -> BTreeMap<&str, String> {
    params.iter().filter_map(|(key, value)| Some((key.as_str(), as_typed(value)?))).collect()
}

fn failures(run_state: &RunState) -> Vec<Value> {
    let entry = |(task, entry): (&TaskId, &TaskState)| {
        let failure = entry.failure.as_ref()?;
        // Reasons stand in place of a program's last lines.
        let tail = failure.tail.iter().filter(|_| reasons_of(failure).is_empty());
        let lines = failure_lines(entry, failure).into_iter().map(|(name, text)| (name, clean_lines(&text)));
        Some(context! {
            task => task.to_string(),
            word => failure_word(failure),
            took => entry.seconds.map(duration_text).filter(|took| !failure.what.contains(took)),
            what => clean(failure_text(failure)).replace("  ", " · "),
            lines => Serde(lines.collect::<Vec<_>>()),
            tail => tail.map(|line| clean(line.trim_end())).collect::<Vec<_>>().join("\n"),
        })
    };
    run_state.in_phase(TaskPhase::Failed).filter_map(entry).collect()
}

/// The head of a page.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct PageTop {
    pub sentence: String,
    pub numbers: Vec<Fact>,
    /// SVG.
    pub picture: Option<String>,
}

impl PageTop {
    /// Of one sweep: its own; of several: the best of each of the first three, and all over each other.
    fn of_sweeps(sweeps: &[(String, SweepReport)], sections: &[SweepSection]) -> Option<Self> {
        if let [section] = sections {
            return Some(Self {
                sentence: section.sentence.clone(),
                numbers: section.numbers.clone(),
                picture: section.plots.first().cloned(),
            });
        }
        let named: Vec<NamedSweep<'_>> =
            sweeps.iter().map(|(name, report)| NamedSweep { name: name.clone(), report }).collect();
        let best = |(name, report): &(String, SweepReport)| {
            let best = report.best()?;
            let rate = best.output_tokens_per_s.map(number)?;
            Some([
                name.clone(),
                format!("{rate} tok/s"),
                format!("highest throughput of its valid points, at {}", best.level),
            ])
        };
        let points: usize = sweeps.iter().map(|(_, report)| report.points.len()).sum();
        (!sweeps.is_empty()).then(|| Self {
            sentence: format!("{} with {}.", counted(sweeps.len(), "sweep"), counted(points, "point")),
            numbers: sweeps.iter().filter_map(best).take(3).collect(),
            picture: draw(&named).into_iter().next(),
        })
    }
}

/// Compares two names, runs of digits by their number: `load/2` before `load/10`.
fn natural_order(a: &str, b: &str) -> Ordering {
    let (a_parts, b_parts) = (parts(a), parts(b));
    for (a_part, b_part) in a_parts.iter().zip(&b_parts) {
        let order = match (a_part.parse::<u64>(), b_part.parse::<u64>()) {
            (Ok(a), Ok(b)) => a.cmp(&b),
            _ => a_part.cmp(b_part),
        };
        if order != Ordering::Equal {
            return order;
        }
    }
    a_parts.len().cmp(&b_parts.len()).then_with(|| a.cmp(b))
}

/// A name cut where digits begin and end.
fn parts(name: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = name;
    while let Some(first) = rest.chars().next() {
        let is_digit = first.is_ascii_digit();
        let end = rest.find(|c: char| c.is_ascii_digit() != is_digit).unwrap_or(rest.len());
        parts.push(&rest[..end]);
        rest = &rest[end..];
    }
    parts
}

#[cfg(test)]
mod tests;
