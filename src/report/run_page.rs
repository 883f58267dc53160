//! The page of a run: a [`Document`] of its results, failures and tasks.

use crate::chart::run;
use crate::command_tables::run_word;
use crate::document::{Badge, Block, Cell, Document, Item, Section, Table, TableColumn, Top};
use crate::result_page::{self, ResultSection};
use crate::run_state::{Notice, RunState, TaskPhase, TaskState};
use crate::styler::{TextRole, as_typed, clean, duration_text, to_the_second};
use crate::summary::{failures, tally};
use crate::sweep::{self, HIGHEST, NamedSweep, SweepSection, draw};
use crate::what_if::distinct;
use base::event::TaskId;
use base::units::counted;
use harness::{LoadPattern, RequestRecord, SearchReport, SweepReport};
use indexmap::IndexMap;
use interop::MeasuredResult;
use plan::{ActionKind, Plan};
use std::collections::BTreeMap;
use std::path::PathBuf;

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
    let named: Vec<_> = sweeps.iter().map(|(name, report)| NamedSweep { name: name.clone(), report }).collect();
    let section = |(sweep, place): (&NamedSweep<'_>, usize)| {
        let points = points.iter().copied().filter(|page| page.sweep.as_ref() == Some(&sweep.name));
        sweep::section(&sweep.name, sweep.report, place, &points.collect::<Vec<_>>())
    };
    let measured = Measured {
        sweeps: named.iter().zip(1..).map(section).collect(),
        benches: results.iter().map(|page| result_page::section(page)).collect(),
    };
    // Several sweeps are drawn over each other; the first picture is at the top.
    let mut overlaid = (named.len() > 1).then(|| draw(&named).into_iter());
    let tops = if sweeps.is_empty() {
        tops_of_benches(&results, &measured.benches)
    } else {
        vec![top_of_sweeps(&named, &measured.sweeps, overlaid.as_mut().and_then(Iterator::next))]
    };
    let (role, word) = run_word(run_state, false);
    let name = named_by_file(if run_state.manifest.is_empty() { &plan.name } else { &run_state.manifest });
    let params = typed(if run_state.params.is_empty() { &plan.params } else { &run_state.params });
    let warnings = measured.warnings();
    let titles = [name, word].into_iter().chain(warnings.iter().map(|badge| badge.text.as_str()));
    let title = titles.collect::<Vec<_>>().join(" · ");
    let badge = Badge { role, text: word.to_owned() };
    let is_measured = !measured.benches.is_empty() || !measured.sweeps.is_empty();
    let failures = failures(run_state);
    let is_in_trouble = failures.is_some();
    let overlaid = overlaid.map(|plots| part("overlaid", "Sweeps over each other").with([Block::charts(plots)]));
    // One task has no order and no needs.
    let pictures = (plan.tasks.len() > 1).then(|| [timeline(run_state), pipeline(run_state, plan, is_in_trouble)]);
    let is_open = Some(is_in_trouble || !is_measured);
    let document = Document {
        name: title,
        title: name.to_owned().into(),
        badges: [badge].into_iter().chain(warnings).chain(measured.verdicts(word)).collect(),
        head: head(run_state, &measured, &params),
        tops: if tops.is_empty() { tops } else { compared(run_state, plan).chain(tops).collect() },
        sections: failures
            .into_iter()
            .chain(overlaid)
            .chain(measured.sections())
            .chain(pictures.into_iter().flatten().flatten())
            .chain([Section { is_open, ..part("tasks", "Tasks") }.with(tasks(run_state))])
            .chain(notices(run_state))
            .chain([Section { look: "whole", ..part("origin", "Provenance") }.with([origin(run_state, &params)])])
            .collect(),
        footer: "Each number states its population, the start of its clock, its token source, its window and its \
                 percentile rule.",
    };
    document.html()
}

/// The results of a run.
struct Measured {
    sweeps: Vec<SweepSection>,
    benches: Vec<ResultSection>,
}

impl Measured {
    /// What a reader has to know before any number.
    fn warnings(&self) -> Vec<Badge> {
        let Self { sweeps, benches } = self;
        let is_simulated = benches.iter().any(|bench| bench.simulated) || sweeps.iter().any(|sweep| sweep.simulated);
        let is_rehearsal = benches.iter().any(|bench| bench.rehearsal);
        let warnings = [(is_simulated, "SIMULATED"), (is_rehearsal, "REHEARSAL")];
        let badge = |text: &str| Badge { role: TextRole::Warning, text: text.to_owned() };
        warnings.into_iter().filter(|(is_shown, _)| *is_shown).map(|(_, text)| badge(text)).collect()
    }

    /// The verdicts of the results, each once, without what the other badges have: `word` of the run, and `SIMULATED`
    /// where all are.
    fn verdicts(&self, word: &str) -> Vec<Badge> {
        let is_mixed = self.benches.iter().any(|bench| !bench.simulated) || self.sweeps.iter().any(|it| !it.simulated);
        let shown = |text: String| if is_mixed { text } else { text.replace(" SIMULATED", "") };
        let of_sweeps = || self.sweeps.iter().map(|sweep| sweep.verdict.clone()).collect();
        let of_benches = || self.benches.iter().filter_map(|bench| bench.verdict.clone()).collect();
        let verdicts: Vec<Badge> = if self.sweeps.is_empty() { of_benches() } else { of_sweeps() };
        let mut counts: IndexMap<String, (TextRole, usize)> = IndexMap::new();
        for Badge { role, text } in verdicts {
            counts.entry(shown(text)).or_insert((role, 0)).1 += 1;
        }
        let text = |text: String, count| if count > 1 { format!("{count} × {text}") } else { text };
        let badges = counts.into_iter().map(|(verdict, (role, count))| Badge { role, text: text(verdict, count) });
        badges.filter(|badge| badge.text != word).collect()
    }

    /// The servers and the loads, each once; of many the first.
    fn workloads(&self) -> Vec<String> {
        let of_sweeps = self.sweeps.iter().map(|sweep| &sweep.workload);
        let workloads = of_sweeps.chain(self.benches.iter().map(|bench| &bench.workload));
        distinct(workloads.flatten().cloned()).into_iter().take(4).collect()
    }

    /// What was measured, each different line once.
    fn identities(&self) -> Vec<String> {
        let of_benches = self.benches.iter().map(|bench| &bench.identity);
        distinct(of_benches.chain(self.sweeps.iter().map(|sweep| &sweep.identity)).flatten().cloned())
    }

    /// A section for each sweep, and one for all other results.
    fn sections(self) -> Vec<Section> {
        let Self { sweeps, benches } = self;
        let is_alone = sweeps.len() == 1;
        let mut sections: Vec<Section> = sweeps.into_iter().map(|sweep| sweep.section(is_alone)).collect();
        if !benches.is_empty() {
            let (table, count) = (results_table(&benches), benches.len());
            let detailed = PageResult::DETAILED;
            let rest = (count > detailed).then(|| {
                format!("{detailed} of {count} have all their numbers below; those of the others are in their folders.")
            });
            let table = (count > 1).then(|| Block::table(table));
            let cards = benches.into_iter().take(detailed).zip(1..);
            let parts = cards.map(|(bench, n)| bench.card(format!("bench-{n}"), count == 1)).collect();
            sections.push(Section { parts, ..part("results", "Results") }.with(table).with(Block::notes(rest)));
        }
        sections
    }
}

/// A section that the contents have.
fn part(anchor: &str, heading: &str) -> Section {
    Section { anchor: anchor.to_owned(), ..Section::page(heading) }
}

/// A row for each result, which leads to its card where it has one.
fn results_table(benches: &[ResultSection]) -> Table {
    let columns = result_page::row_columns().into_iter().chain([TableColumn::new("verdict")]);
    let mut table = Table::new("all results", [TableColumn::new("benchmark")].into_iter().chain(columns)).look("");
    for (bench, n) in benches.iter().zip(1..) {
        let link = if n <= PageResult::DETAILED { format!("#bench-{n}") } else { String::new() };
        let Badge { role, text } = bench.badge();
        let verdict = Cell::new(role, std::iter::once(text).chain(bench.remark.clone()).collect::<Vec<_>>().join(", "));
        table.row([Cell::name(&bench.task).link(link)].into_iter().chain(bench.row.clone()).chain([verdict]));
    }
    table
}

/// What was measured, and when.
fn head(run_state: &RunState, measured: &Measured, params: &BTreeMap<&str, String>) -> Vec<Block> {
    let run = run_state.run.as_ref().map(|run| format!("run {run}"));
    let started = Some(to_the_second(&run_state.started_at)).filter(|at| !at.is_empty());
    let took = run_state.finished.map(|end| format!("took {}", duration_text(end.seconds)));
    let facts = run.into_iter().chain(started.map(|at| format!("started {at}"))).chain(took).chain([tally(run_state)]);
    let params: Vec<String> = params.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let lines = [facts.collect::<Vec<_>>().join(" · "), params.join(" ")];
    let workloads = measured.workloads().into_iter().map(|line| Block::text(TextRole::Strong, line));
    let lines = measured.identities().into_iter().chain(lines).filter(|line| !line.is_empty());
    workloads.chain(Block::notes(lines)).collect()
}

fn timeline(run_state: &RunState) -> Option<Section> {
    let (picture, left_out) = run::timeline(run_state)?;
    let curves = [("ran", "ran"), ("service", "service, pale until ready"), ("failed", "failed")];
    let left_out = (left_out > 0).then(|| format!("{left_out} shorter tasks are not drawn."));
    let section = Section { look: "whole", ..part("timeline", "Timeline") }.with([legend(curves)]);
    Some(section.with([Block::charts([picture])]).with(Block::notes(left_out)))
}

fn pipeline(run_state: &RunState, plan: &Plan, is_open: bool) -> Option<Section> {
    let boxes = [
        ("ran", "ran"),
        ("service", "service"),
        ("idle", "cached; dashed: skipped or not started"),
        ("failed", "failed"),
    ];
    let section = Section { look: "network", is_open: Some(is_open), ..part("pipeline", "Pipeline") };
    let arrows = Block::notes(["dashed arrows: order only"]);
    Some(section.with([legend(boxes), Block::charts([run::network(plan, run_state)?])]).with(arrows))
}

fn legend<const N: usize>(colors: [(&str, &str); N]) -> Block {
    Block::legend(colors.map(|(color, name)| [String::new(), color.to_owned(), name.to_owned()]).to_vec())
}

fn notices(run_state: &RunState) -> Option<Section> {
    let item = |notice: &Notice| {
        let about = notice.task.as_ref().map(|task| format!("{task}: ")).unwrap_or_default();
        Item { text: format!("{about}{}", clean(&notice.text)), ..Item::default() }
    };
    let items: Vec<Item> = run_state.notices.iter().map(item).collect();
    (!items.is_empty()).then(|| part("notices", "Notices").with([Block::items(items)]))
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
fn compared<'a>(run_state: &'a RunState, plan: &'a Plan) -> impl Iterator<Item = Top> {
    plan.tasks.iter().filter(|task| task.kind == ActionKind::Compare).filter_map(move |task| {
        let sentence = run_state.tasks.get(&task.id)?.headline.clone()?;
        Some(Top { task: task.id.to_string(), sentence, ..Top::default() })
    })
}

/// A manifest that was given as a file is named by its file name; its folder is shown below.
fn named_by_file(manifest: &str) -> &str {
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

/// Of the first benchmark, and of the first one with the other kind of load: Offline has throughput, Server has
/// latencies.
fn tops_of_benches(results: &[&PageResult], benches: &[ResultSection]) -> Vec<Top> {
    let is_offline = |page: &PageResult| {
        let run = page.result.own().filter(|run| run.is_of_speed())?;
        Some(matches!(run.requested.scenario, LoadPattern::Offline))
    };
    let first = results.first().map(|page| is_offline(page));
    let other = results.iter().position(|page| is_offline(page).is_some() && Some(is_offline(page)) != first);
    let named = |bench: &ResultSection| {
        let task = if benches.len() > 1 { bench.task.clone() } else { String::new() };
        Some(Top { task, ..bench.top.clone()? })
    };
    benches.first().into_iter().chain(other.map(|at| &benches[at])).filter_map(named).collect()
}

/// Of one sweep: its own; of several: the best of each of the first three, and the picture of all.
fn top_of_sweeps(sweeps: &[NamedSweep<'_>], sections: &[SweepSection], picture: Option<String>) -> Top {
    if let [section] = sections {
        return section.top.clone();
    }
    let best = |section: &SweepSection| {
        let [name, rate, about] = section.top.facts.first()?;
        (name == HIGHEST).then(|| [section.name.clone(), rate.clone(), about.clone()])
    };
    let points: usize = sweeps.iter().map(|sweep| sweep.report.points.len()).sum();
    Top {
        sentence: format!("{} with {}.", counted(sweeps.len(), "sweep"), counted(points, "point")),
        facts: sections.iter().filter_map(best).take(3).collect(),
        picture,
        ..Top::default()
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
