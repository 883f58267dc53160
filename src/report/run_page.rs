//! The page of a run: the values for its template.

use crate::chart::run;
use crate::command_tables::run_word;
use crate::document::{Block, Cell, Fact, Item, Table};
use crate::page_template::render_page;
use crate::result_page::{self, ResultSection};
use crate::run_state::{Notice, RunState, TaskPhase, TaskState};
use crate::styler::{TextRole, as_typed, clean, clean_lines, duration_text, to_the_second};
use crate::summary::{failure_lines, failure_text, failure_word, reasons_of};
use crate::sweep::{self, HIGHEST, NamedSweep, SweepSection, draw};
use crate::what_if::distinct;
use base::event::TaskId;
use base::units::counted;
use harness::{LoadPattern, RequestRecord, SearchReport, SweepReport};
use interop::MeasuredResult;
use minijinja::value::Serde;
use minijinja::{Value, context};
use plan::{ActionKind, Plan, Task};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;

const PAGE: &str = include_str!("../../templates/report/page.html");
/// The most rows that a table of tasks has; the page shows how many there are.
const ROWS: usize = 1000;

/// The result of one benchmark of a run.
#[derive(Clone, Debug)]
pub struct PageResult {
    pub task: TaskId,
    pub result: MeasuredResult,
    /// The `search.json` of the same folder, where it is the best probe of a search.
    pub search: Option<SearchReport>,
    /// The first of its requests, for their timeline: at most [`REQUESTS`](Self::REQUESTS).
    pub requests: Vec<RequestRecord>,
    /// Of a point of a sweep, whose task is its level: the name of the sweep.
    pub sweep: Option<String>,
}

impl PageResult {
    /// A page shows the timeline of as many requests.
    pub const REQUESTS: usize = 200;
    /// The most benchmarks, and points of a sweep, that have all their numbers on the page; a table has them all.
    pub const DETAILED: usize = 16;

    /// A result alone.
    pub const fn new(task: TaskId, result: MeasuredResult) -> Self {
        Self { task, result, search: None, requests: Vec::new(), sweep: None }
    }
}

/// The whole page. `results` are those of the benchmarks, `sweeps` those of benchmarks at several levels, by name.
pub fn run_page(
    run_state: &RunState,
    results: &[PageResult],
    sweeps: &[(String, SweepReport)],
    plan: &Plan,
) -> Result<String, minijinja::Error> {
    let (points, mut results): (Vec<&PageResult>, Vec<&PageResult>) =
        results.iter().partition(|page| page.sweep.is_some());
    // What is judged by its speed comes first, and is at the top of the page.
    let is_beside = |page: &PageResult| page.result.own().is_some_and(|result| !result.is_of_speed());
    results.sort_by_cached_key(|page| (is_beside(page), natural_key(page.task.as_str())));
    let mut sweeps = sweeps.to_vec();
    sweeps.sort_by(|a, b| natural_key(&a.0).cmp(&natural_key(&b.0)));
    let section = |((name, report), place): (&(String, SweepReport), usize)| {
        let points = points.iter().copied().filter(|page| page.sweep.as_ref() == Some(name));
        sweep::section(name, report, place, &points.collect::<Vec<_>>())
    };
    let mut sections: Vec<_> = sweeps.iter().zip(1..).map(section).collect();
    let benches: Vec<_> = results.iter().map(|page| result_page::section(page)).collect();
    // One task has no order and no needs.
    let is_pipeline = plan.tasks.len() > 1;
    let (gantt, left_out) = is_pipeline.then(|| run::timeline(run_state)).flatten().unzip();
    let (tone, word) = run_word(run_state, false);
    let word = word.split(';').next();
    let total = plan.tasks.len().max(run_state.total);
    let params = typed(if run_state.params.is_empty() { &plan.params } else { &run_state.params });
    // After the end, the rest are servers that no task needed, and stages that were not selected.
    let not_needed =
        if run_state.finished.is_some_and(|end| end.exit == 0) { total.saturating_sub(run_state.done()) } else { 0 };
    let tops = match PageTop::of_sweeps(&sweeps, &sections) {
        Some(top) => vec![top],
        None => PageTop::of_benches(&results, &benches),
    };
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
            workloads => workloads(&benches, &sections),
            measured => measured(&benches, &sections),
            tops => Serde(tops),
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
            detailed => PageResult::DETAILED,
            troubles => failures(run_state),
            gantt,
            left_out => left_out.unwrap_or(0),
            network => is_pipeline.then(|| run::network(plan, run_state)).flatten(),
            tasks => Serde(tasks(run_state)),
            notices => Serde(notices(run_state)),
            origin => Serde(origin(run_state, &params)),
            params,
        },
    )
}

fn notices(run_state: &RunState) -> Option<Block> {
    let item = |notice: &Notice| {
        let about = notice.task.as_ref().map(|task| format!("{task}: ")).unwrap_or_default();
        Item { text: format!("{about}{}", clean(&notice.text)), ..Item::default() }
    };
    let items: Vec<Item> = run_state.notices.iter().map(item).collect();
    (!items.is_empty()).then(|| Block::items(items))
}

/// What makes the same run again.
fn origin(run_state: &RunState, params: &BTreeMap<&str, String>) -> Block {
    let manifest = Some(&run_state.manifest).filter(|manifest| !manifest.is_empty());
    let again = manifest.map(|manifest| [("manifest", manifest.clone()), ("run again", run_state.again())]);
    let params = params.iter().map(|(key, value)| (*key, value.clone()));
    let version = ("regatta", env!("CARGO_PKG_VERSION").to_owned());
    Block::pairs(again.into_iter().flatten().chain(params).chain([version]))
}

/// What comparisons of this run found: for each its task, and its line.
fn compared<'a>(run_state: &'a RunState, plan: &'a Plan) -> Vec<(&'a str, &'a str)> {
    let line = |task: &'a Task| Some((task.id.as_str(), run_state.tasks.get(&task.id)?.headline.as_deref()?));
    plan.tasks.iter().filter(|task| task.kind == ActionKind::Compare).filter_map(line).collect()
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

/// The servers and the loads, each once; of many the first.
fn workloads(benches: &[ResultSection], sweeps: &[SweepSection]) -> Vec<String> {
    let workloads = sweeps.iter().map(|sweep| &sweep.workload).chain(benches.iter().map(|bench| &bench.workload));
    distinct(workloads.flatten().cloned()).into_iter().take(4).collect()
}

/// What was measured, each different line once.
fn measured(benches: &[ResultSection], sweeps: &[SweepSection]) -> Vec<String> {
    let identities = benches.iter().map(|bench| &bench.identity).chain(sweeps.iter().map(|sweep| &sweep.identity));
    distinct(identities.flatten().cloned())
}

/// A manifest that was given as a file is named by its file name; its folder is shown below.
fn named(manifest: &str) -> &str {
    let file = std::path::Path::new(manifest).file_stem().and_then(std::ffi::OsStr::to_str);
    file.filter(|_| manifest.contains('/')).unwrap_or(manifest)
}

/// What ran and what did not, and below a summary what was cached. At most [`ROWS`] rows of each: a page of ten
/// thousand rows is not readable.
fn tasks(run_state: &RunState) -> Vec<Block> {
    let (cached, others): (Vec<_>, Vec<_>) =
        run_state.tasks.iter().partition(|(_, entry)| entry.state == TaskPhase::Cached);
    let path =
        |path: &Option<PathBuf>| Cell::quiet(path.as_ref().map_or_else(String::new, |p| p.display().to_string()));
    let row = |(task, entry): &(&TaskId, &TaskState)| {
        let state = if entry.service && entry.state == TaskPhase::Ran { "served" } else { entry.label() };
        let role = match state {
            "failed" => TextRole::Bad,
            "interrupted" => TextRole::Warning,
            "ran" | "served" => TextRole::Good,
            _ => TextRole::Quiet,
        };
        let reasons = entry.reasons.iter().chain(&entry.why).map(|line| clean(line)).chain(entry.notes(None));
        let (reasons, took) = (reasons.collect::<Vec<_>>().join("; "), entry.seconds.map(duration_text));
        let name = Cell::name(task.as_str());
        let state = Cell::new(role, state);
        [name, state, took.unwrap_or_default().into(), reasons.into(), path(&entry.out), path(&entry.log)]
    };
    let heads = ["task", "state", "took", "why", "output", "log"];
    let table = match others.as_slice() {
        [] => Block::plain("Nothing had to run."),
        others => Block::table(Table::list(heads, others.iter().take(ROWS).map(row))),
    };
    let listed = (others.len() > ROWS).then(|| format!("{ROWS} of {} are listed.", others.len()));
    let count = cached.len();
    let rows = cached.into_iter().take(ROWS).map(|(task, entry)| [Cell::name(task.as_str()), path(&entry.out)]);
    let summary =
        if count > ROWS { format!("{count} cached, of which {ROWS} are listed") } else { format!("{count} cached") };
    let cached = (count > 0).then(|| Block::list(rows).folded(summary, false));
    let at_once = Some(run_state.cached_at_once).filter(|count| *count > 0).map(|count| format!("{count} cached."));
    [table].into_iter().chain(Block::notes(listed)).chain(cached).chain(Block::notes(at_once)).collect()
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
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct PageTop {
    /// Which of several benchmarks it is of.
    pub task: String,
    pub sentence: String,
    pub numbers: Vec<Fact>,
    /// SVG.
    pub picture: Option<String>,
}

impl PageTop {
    /// Of the first benchmark, and of the first one with the other kind of load: Offline has throughput, Server has
    /// latencies.
    fn of_benches(results: &[&PageResult], benches: &[ResultSection]) -> Vec<Self> {
        let is_offline = |page: &PageResult| {
            let run = page.result.own().filter(|run| run.is_of_speed())?;
            Some(matches!(run.requested.scenario, LoadPattern::Offline))
        };
        let first = results.first().map(|page| is_offline(page));
        let other = results.iter().position(|page| is_offline(page).is_some() && Some(is_offline(page)) != first);
        let named = |bench: &ResultSection| {
            let task = if benches.len() > 1 { bench.task.clone() } else { String::new() };
            Some(Self { task, ..bench.top.clone()? })
        };
        benches.first().into_iter().chain(other.map(|at| &benches[at])).filter_map(named).collect()
    }

    /// Of one sweep: its own; of several: the best of each of the first three, and all over each other.
    fn of_sweeps(sweeps: &[(String, SweepReport)], sections: &[SweepSection]) -> Option<Self> {
        if let [section] = sections {
            return Some(Self {
                sentence: section.sentence.clone(),
                numbers: section.numbers.clone(),
                picture: section.plots.first().cloned(),
                ..Self::default()
            });
        }
        let named: Vec<NamedSweep<'_>> =
            sweeps.iter().map(|(name, report)| NamedSweep { name: name.clone(), report }).collect();
        let best = |section: &SweepSection| {
            let [name, rate, about] = section.numbers.first()?;
            (name == HIGHEST).then(|| [section.name.clone(), rate.clone(), about.clone()])
        };
        let points: usize = sweeps.iter().map(|(_, report)| report.points.len()).sum();
        (!sweeps.is_empty()).then(|| Self {
            sentence: format!("{} with {}.", counted(sweeps.len(), "sweep"), counted(points, "point")),
            numbers: sections.iter().filter_map(best).take(3).collect(),
            picture: draw(&named).into_iter().next(),
            ..Self::default()
        })
    }
}

/// Orders names with their runs of digits by number: `load/2` before `load/10`.
fn natural_key(name: &str) -> Vec<(u64, &str)> {
    let runs = name.as_bytes().chunk_by(|a, b| a.is_ascii_digit() == b.is_ascii_digit());
    // Each run ends where a digit begins or ends, which is between characters.
    let texts = runs.map(|run| std::str::from_utf8(run).unwrap_or_default());
    texts.map(|text| (text.parse().unwrap_or_default(), text)).collect()
}

#[cfg(test)]
mod tests;
