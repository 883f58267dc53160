//! The page itself: the values for the template.

use std::collections::BTreeMap;

use minijinja::value::Serde;
use minijinja::{Value as Safe, context};
use serde::Serialize;

use super::block::Block;
use super::metric_row::COLUMNS;
use super::natural_order::natural_order;
use super::page_top::PageTop;
use super::sweep_charts::{NamedSweep, draw};
use super::{bench, network, sweep, timeline};
use crate::page_template::render_page;
use crate::run_state::{RunState, TaskPhase, TaskState};
use crate::terminal::styler::{as_typed, clean, clean_lines, duration_text, to_the_second};
use crate::terminal::summary::{failure_text, reasons_of};
use base::event::{FailureKind, TaskId};
use base::files::Digest;
use base::units::counted;
use harness::{SearchReport, SweepReport};
use interop::MeasuredResult;
use plan::{ActionKind, Plan, Task};

const PAGE: &str = include_str!("../../../../templates/report/page.html");
/// The most rows that a table of tasks has; the page shows how many there are.
const ROWS: usize = 1000;
/// The most benchmarks that have all their numbers on the page; the table of results has them all.
const DETAILED: usize = 16;

/// Where a run came from: enough to do it again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunOrigin {
    /// As it is to be shown.
    pub manifest_path: String,
    /// The manifest, includes worked in, as text.
    pub manifest: String,
    /// `regatta` → `0.1.0`, `tritonserver` → `2.60.0`, …
    pub versions: Vec<(String, String)>,
    /// The key under which each task's output is stored.
    pub keys: BTreeMap<TaskId, Digest>,
}

#[derive(Serialize)]
struct Row {
    task: String,
    state: &'static str,
    took: String,
    summary: String,
    key: String,
    out: String,
    log: String,
}

#[derive(Serialize)]
struct FailureEntry {
    task: String,
    word: &'static str,
    took: String,
    what: String,
    command: Option<String>,
    cause: Option<String>,
    hint: Option<String>,
    /// Why a benchmark is no measurement.
    reasons: Vec<String>,
    log: Option<String>,
    kept: Option<String>,
    earlier: Vec<String>,
    tail: String,
}

/// The result of one benchmark of a run.
#[derive(Clone, Debug)]
pub struct PageResult {
    pub task: TaskId,
    pub result: MeasuredResult,
    /// The `search.json` beside it, where it is the best probe of a search.
    pub search: Option<SearchReport>,
}

/// The whole page. `results` are those of the benchmarks, `sweeps` those of benchmarks at several levels, by name.
pub fn render(
    run_state: &RunState,
    about: &RunOrigin,
    results: &[PageResult],
    sweeps: &[(String, SweepReport)],
    plan: &Plan,
) -> Result<String, minijinja::Error> {
    let mut results: Vec<&PageResult> = results.iter().collect();
    // What is judged by its speed comes first, and is at the top of the page.
    let is_beside = |one: &PageResult| one.result.own().is_some_and(|own| !own.is_of_speed());
    results
        .sort_by(|a, b| is_beside(a).cmp(&is_beside(b)).then_with(|| natural_order(a.task.as_str(), b.task.as_str())));
    let mut sweeps = sweeps.to_vec();
    sweeps.sort_by(|a, b| natural_order(&a.0, &b.0));
    let sections: Vec<_> =
        sweeps.iter().zip(1..).map(|((name, report), place)| sweep::section(name, report, place)).collect();
    let benches: Vec<_> =
        results.iter().map(|one| bench::section(&one.task, &one.result, one.search.as_ref())).collect();
    let (gantt, left_out) = timeline::draw(run_state).unzip();
    let (tone, word) = verdict(run_state);
    let total = plan.tasks.len().max(run_state.total);
    // After the end, the rest are servers that no task needed, and stages that were not selected.
    let not_needed =
        if run_state.finished.is_some_and(|end| end.exit == 0) { total.saturating_sub(run_state.done()) } else { 0 };
    let compared = compared(run_state, plan);
    let top = PageTop::of_sweeps(&sweeps, &sections).or_else(|| benches.first()?.top.clone());
    let top_of =
        if sections.is_empty() && benches.len() > 1 { benches.first().map(|bench| bench.task.clone()) } else { None };
    // The picture of a single sweep is at the top already.
    let shown_above = usize::from(sections.len() == 1);
    let overlaid = overlaid(&sweeps);
    render_page(
        PAGE,
        context! {
            name => named(if run_state.manifest.is_empty() { &plan.name } else { &run_state.manifest }),
            run => run_state.run.as_ref().map(ToString::to_string),
            started_at => to_the_second(&run_state.started_at),
            tone, word,
            simulated => benches.iter().any(|bench| bench.simulated) || sections.iter().any(|sweep| sweep.simulated),
            rehearsal => benches.iter().any(|bench| bench.rehearsal),
            measured => measured(&benches, &sections),
            top => top.map(|top| context! {
                sentence => top.sentence,
                numbers => top.numbers,
                picture => top.picture.map(Safe::from_safe_string),
                of => top_of,
            }),
            compared => Serde(compared),
            verdicts => verdicts(&benches, &sections),
            overlaid => safe(overlaid.get(1..).unwrap_or_default()),
            sweeps => sections.iter().map(|sweep| sweep_values(sweep, shown_above)).collect::<Vec<_>>(),
            results => benches.iter().map(result_row).collect::<Vec<_>>(),
            result_columns => bench::ROW,
            results_total => benches.len(),
            took => run_state.finished.map(|end| duration_text(end.seconds)),
            tally => Serde(run_state.tally),
            total => counted(total, "task"),
            not_needed,
            benches => benches.iter().take(DETAILED).map(bench_values).collect::<Vec<_>>(),
            columns => COLUMNS,
            troubles => Serde(failures(run_state)),
            gantt => gantt.map(Safe::from_safe_string),
            left_out => left_out.unwrap_or(0),
            network => network::draw(plan, run_state).map(Safe::from_safe_string),
            rows => Serde(rows(run_state, about, |state| state != TaskPhase::Cached)),
            rows_total => run_state.tasks.iter().filter(|(_, entry)| entry.state != TaskPhase::Cached).count(),
            cached => Serde(rows(run_state, about, |state| state == TaskPhase::Cached)),
            cached_total => run_state.of(TaskPhase::Cached).count(),
            cached_at_once => run_state.cached_at_once,
            with_keys => !about.keys.is_empty(),
            notices => notices(run_state),
            params => typed(if run_state.params.is_empty() { &plan.params } else { &run_state.params }),
            versions => &about.versions,
            manifest_path => &about.manifest_path,
            manifest => &about.manifest,
        },
    )
}

/// A sweep, without the first plots: they are shown above it.
fn sweep_values(sweep: &sweep::SweepSection, shown_above: usize) -> Safe {
    let plots = safe(sweep.plots.get(shown_above..).unwrap_or_default());
    context! { plots, ..Safe::from(Serde(sweep)) }
}

/// A row of the table of results.
fn result_row(bench: &bench::BenchSection) -> Safe {
    context! {
        task => &bench.task, verdict => &bench.verdict, tone => bench.tone, row => &bench.row,
        remark => &bench.remark,
    }
}

/// A benchmark with all its numbers.
fn bench_values(bench: &bench::BenchSection) -> Safe {
    let block = |block: &Block| context! { plots => safe(&block.plots), ..Safe::from(Serde(block)) };
    context! {
        plots => safe(&bench.plots),
        blocks => bench.blocks.iter().map(block).collect::<Vec<_>>(),
        server_plots => safe(bench.server.as_ref().map_or(&[][..], |server| &server.plots)),
        ..Safe::from(Serde(bench))
    }
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
    if named.len() > 1 { draw(&named) } else { Vec::new() }
}

/// The verdicts of the results, each once, with their color.
fn verdicts(benches: &[bench::BenchSection], sweeps: &[sweep::SweepSection]) -> Vec<(&'static str, String)> {
    let of_sweeps = sweeps.iter().map(|sweep| (sweep.tone, sweep.verdict.clone()));
    let of_benches = benches.iter().filter_map(|bench| Some((bench.tone, bench.verdict.clone()?)));
    let all: Vec<_> = if sweeps.is_empty() { of_benches.collect() } else { of_sweeps.collect() };
    let mut counted: Vec<(&'static str, String, usize)> = Vec::new();
    for (tone, verdict) in all {
        match counted.iter_mut().find(|one| one.1 == verdict) {
            Some(known) => known.2 += 1,
            None => counted.push((tone, verdict, 1)),
        }
    }
    let text = |(tone, verdict, count)| (tone, if count > 1 { format!("{count} × {verdict}") } else { verdict });
    counted.into_iter().map(text).collect()
}

/// What was measured, each different line once.
fn measured(benches: &[bench::BenchSection], sweeps: &[sweep::SweepSection]) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let all = benches.iter().filter_map(|bench| bench.identity.as_ref());
    for line in all.chain(sweeps.iter().filter_map(|sweep| sweep.identity.as_ref())) {
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

/// Pictures that were drawn here.
fn safe(pictures: &[String]) -> Vec<Safe> {
    pictures.iter().map(|svg| Safe::from_safe_string(svg.clone())).collect()
}

fn verdict(run_state: &RunState) -> (&'static str, &'static str) {
    match run_state.finished {
        None => ("odd", "not finished"),
        Some(end) if end.exit == 130 => ("odd", "interrupted"),
        Some(end) if end.exit == 0 => ("good", "done"),
        Some(_) if run_state.is_only_invalid() => ("bad", "invalid"),
        Some(_) => ("bad", "failed"),
    }
}

/// At most [`ROWS`] rows: a page of ten thousand rows is not readable.
fn rows(run_state: &RunState, about: &RunOrigin, wanted: impl Fn(TaskPhase) -> bool) -> Vec<Row> {
    let row = |(task, entry): (&TaskId, &TaskState)| {
        let mut lines: Vec<String> = entry.reasons.iter().map(|reason| clean(reason)).collect();
        lines.extend(entry.why.as_deref().map(clean));
        if entry.attempts > 1 {
            lines.push(format!("attempt {}", entry.attempts));
        }
        if entry.unchanged {
            lines.push("output unchanged".to_owned());
        }
        Row {
            task: task.to_string(),
            state: if entry.service && entry.state == TaskPhase::Ran { "served" } else { entry.label() },
            took: entry.seconds.map(duration_text).unwrap_or_default(),
            summary: lines.join("; "),
            key: about.keys.get(task).map(Digest::short).unwrap_or_default(),
            out: entry.out.as_ref().map(|path| path.display().to_string()).unwrap_or_default(),
            log: entry.log.as_ref().map(|path| path.display().to_string()).unwrap_or_default(),
        }
    };
    run_state.tasks.iter().filter(|(_, entry)| wanted(entry.state)).take(ROWS).map(row).collect()
}

/// Parameters as a user would type them; without those that were left out.
fn typed(params: &BTreeMap<String, String>) -> BTreeMap<&str, String> {
    params.iter().filter_map(|(key, value)| Some((key.as_str(), as_typed(value)?))).collect()
}

fn failures(run_state: &RunState) -> Vec<FailureEntry> {
    let path = |path: &Option<std::path::PathBuf>| path.as_ref().map(|path| path.display().to_string());
    run_state
        .of(TaskPhase::Failed)
        .filter_map(|(task, entry)| {
            let failure = entry.failure.as_ref()?;
            Some(FailureEntry {
                task: task.to_string(),
                word: match failure.kind {
                    FailureKind::Interrupted => "interrupted",
                    FailureKind::Invalid(verdict) => verdict.as_str(),
                    _ => "failed",
                },
                took: entry.seconds.map(duration_text).filter(|took| !failure.what.contains(took)).unwrap_or_default(),
                what: clean(failure_text(failure)).replace("  ", " · "),
                command: failure.command.as_deref().map(clean_lines),
                cause: failure.cause.as_deref().filter(|_| reasons_of(failure).is_empty()).map(clean),
                reasons: reasons_of(failure).iter().map(|reason| clean(reason)).collect(),
                hint: failure.hint.as_deref().map(clean),
                log: path(&failure.log),
                kept: path(&failure.kept),
                earlier: entry.retried.iter().map(|what| clean(what)).collect(),
                tail: if reasons_of(failure).is_empty() {
                    failure.tail.iter().map(|line| clean(line.trim_end())).collect::<Vec<_>>().join("\n")
                } else {
                    String::new()
                },
            })
        })
        .collect()
}

#[cfg(test)]
mod tests;
