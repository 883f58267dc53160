//! The summary at the end: what ran, what did not and why, the numbers, the failures with their details, and the paths.

use std::fmt::Write as _;
use std::path::PathBuf;

use crate::command_tables::run_word;
use crate::document::{Block, Cell, Section, Table};
use crate::run_state::{RunState, TaskPhase, TaskState};
use crate::styler::{Styler, TextRole, clean, cut, duration_text};
use base::event::{Failure, FailureKind, TaskId, Verdict};
use base::units::counted;

/// Where a run's things are, as they are to be shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunPaths {
    /// The HTML page.
    pub report: Option<PathBuf>,
    /// The folder of links to the newest outputs.
    pub latest: Option<PathBuf>,
    pub logs: Option<PathBuf>,
}

/// At most this many tasks that ran are listed; the rest is a number, and in the report.
const LISTED: usize = 40;

/// The most characters of a log's line; the log has all of it.
const LONGEST_LINE: usize = 400;

/// The whole summary, lines with `\n`.
pub fn summary(run_state: &RunState, places: &RunPaths, styler: Styler) -> String {
    let mut out = String::new();
    let sections = [ran(run_state), cached(run_state), not_run("Skipped", run_state, TaskPhase::Skipped)];
    let rest = [not_run("Not started", run_state, TaskPhase::Cancelled), headlines(run_state)];
    for section in sections.into_iter().chain(rest).flatten() {
        section.write(styler, &mut out);
    }
    if !out.is_empty() {
        out.insert(0, '\n');
    }
    out.push_str(&failures_text(run_state, None, styler));
    closing(run_state, places, styler, &mut out);
    out
}

/// The failures of all tasks but `without`: the one whose result is printed, with the reasons of its verdict.
pub fn failures_text(run_state: &RunState, without: Option<&str>, styler: Styler) -> String {
    let mut out = String::new();
    for (task, entry, failure) in failed(run_state).filter(|(task, ..)| Some(task.as_str()) != without) {
        out.push('\n');
        failure_section(task, entry, failure).write(styler, &mut out);
    }
    out
}

fn failed(run_state: &RunState) -> impl Iterator<Item = (&TaskId, &TaskState, &Failure)> {
    let failed = run_state.in_phase(TaskPhase::Failed);
    failed.filter_map(|(task, entry)| Some((task, entry, entry.failure.as_deref()?)))
}

/// All failures, for a page.
pub(crate) fn failures(run_state: &RunState) -> Option<Section> {
    let parts: Vec<Section> =
        failed(run_state).map(|(task, entry, failure)| failure_section(task, entry, failure)).collect();
    let heading = if run_state.interrupted() == parts.len() { "Interrupted" } else { "Failures" };
    (!parts.is_empty()).then(|| Section { anchor: "failures".to_owned(), parts, ..Section::page(heading) })
}

fn ran(run_state: &RunState) -> Option<Section> {
    let row = |(task, entry): (&TaskId, &TaskState)| {
        let notes = entry.notes(entry.service.then_some("service"));
        let took = entry.seconds.map(duration_text).unwrap_or_default();
        [Cell::new(TextRole::Good, "✓"), Cell::name(task.as_str()), took.into(), Cell::quiet(notes.join(", "))]
    };
    tasks("Ran", run_state, TaskPhase::Ran, row)
}

fn not_run(title: &str, run_state: &RunState, phase: TaskPhase) -> Option<Section> {
    let row = |(task, entry): (&TaskId, &TaskState)| {
        [Cell::name(task.as_str()), Cell::quiet(entry.why.as_deref().unwrap_or_default())]
    };
    tasks(title, run_state, phase, row)
}

/// The first tasks in a state, and how many more there are.
fn tasks<const N: usize>(
    title: &str,
    run_state: &RunState,
    phase: TaskPhase,
    row: impl Fn((&TaskId, &TaskState)) -> [Cell; N],
) -> Option<Section> {
    let count = run_state.in_phase(phase).count();
    let table = Table::list([], run_state.in_phase(phase).take(LISTED).map(row));
    let more = (count > LISTED).then(|| Block::plain(format!("… and {} more", count - LISTED)));
    (count > 0).then(|| Section::new(title).with([Block::table(table)]).with(more))
}

fn cached(run_state: &RunState) -> Option<Section> {
    let fetched = run_state.in_phase(TaskPhase::Cached).filter(|(_, entry)| entry.from.is_some()).count();
    let cached = run_state.tally.cached;
    if cached == 0 || (run_state.done() == cached && fetched == 0) {
        return None;
    }
    let text = match (cached - fetched, fetched) {
        (before, 0) => format!("{} as before", counted(before, "task")),
        (0, fetched) => format!("{} from another machine", counted(fetched, "task")),
        (before, fetched) => format!("{} as before, {fetched} from another machine", counted(before, "task")),
    };
    Some(Section::new("Cached").with([Block::plain(text)]))
}

/// A headline is a verdict or a name, two spaces, and numbers; the brackets at its end hold how the numbers
/// were measured, which is put below them.
fn headlines(run_state: &RunState) -> Option<Section> {
    let rows: Vec<Vec<Cell>> = run_state.tasks.iter().filter_map(headline_rows).flatten().collect();
    (!rows.is_empty()).then(|| Section::new("Results").with([Block::table(Table::list([], rows).ragged())]))
}

fn headline_rows((task, entry): (&TaskId, &TaskState)) -> Option<Vec<Vec<Cell>>> {
    let headline = entry.headline.as_deref()?;
    let (text, how) = headline.split_once(" (").unwrap_or((headline, ""));
    let text = text.trim_end();
    let (first, numbers) = text.split_once("  ").unwrap_or((text, ""));
    let again = if entry.state == TaskPhase::Cached { "cached" } else { "" };
    let mut row = vec![Cell::name(task.as_str()), Cell::new(verdict_role(first), first)];
    row.extend(Some(numbers.trim()).filter(|numbers| !numbers.is_empty()).map(Cell::from));
    let aside: Vec<&str> = [again, how.trim_end_matches(')')].into_iter().filter(|text| !text.is_empty()).collect();
    let aside = Cell::quiet(aside.join(", "));
    let mut rows = if how.is_empty() {
        row.push(aside);
        vec![row]
    } else {
        vec![row, vec![Cell::default(), Cell::default(), aside]]
    };
    rows.extend(entry.below.iter().map(|(name, text)| vec![Cell::default(), Cell::name(name), text.into()]));
    let warning = || Cell::new(TextRole::Warning, "warning");
    rows.extend(entry.warnings.iter().map(|text| vec![Cell::default(), warning(), text.into()]));
    Some(rows)
}

/// The color of a verdict; other texts have none.
fn verdict_role(word: &str) -> TextRole {
    let verdict = Verdict::ALL.into_iter().rfind(|verdict| word.starts_with(verdict.as_str()));
    verdict.map_or(TextRole::Plain, TextRole::from)
}

/// One failure: command, last lines, likely cause, what to try, and where to look.
fn failure_section(task: &TaskId, entry: &TaskState, failure: &Failure) -> Section {
    let took = entry.seconds.map(duration_text).filter(|took| !failure.what.contains(took));
    let after = took.map(|took| format!(" after {took}")).unwrap_or_default();
    let attempt = if entry.attempts > 1 { format!(" (attempt {})", entry.attempts) } else { String::new() };
    let heading = format!("✗ {task} {}{after}{attempt}: {}", failure_word(failure), clean(failure_text(failure)));
    let section = Section { role: TextRole::Bad, look: "trouble", ..Section::new(heading) };
    let section = section.with([Block::pairs(failure_lines(entry, failure))]);
    // Reasons are in place of a program's last lines.
    if failure.tail.is_empty() || !reasons_of(failure).is_empty() {
        return section;
    }
    let tail = failure.tail.iter().map(|line| cut(line.trim_end(), LONGEST_LINE)).collect();
    section.with(Block::notes(["last lines"])).with([Block::lines(tail)])
}

/// `failed`, `interrupted`, or a verdict.
const fn failure_word(failure: &Failure) -> &'static str {
    match failure.kind {
        FailureKind::Interrupted => "interrupted",
        FailureKind::Invalid(verdict) => verdict.as_str(),
        _ => "failed",
    }
}

/// What to know about a failure, each line with its name.
pub(crate) fn failure_lines(entry: &TaskState, failure: &Failure) -> Vec<(&'static str, String)> {
    let reasons = reasons_of(failure);
    let texts =
        |name: &'static str, texts: &[String]| texts.iter().map(|text| (name, text.clone())).collect::<Vec<_>>();
    let text = |name: &'static str, text: &Option<String>| texts(name, text.as_slice());
    let path = |name: &'static str, path: &Option<PathBuf>| {
        path.iter().map(|path| (name, path.display().to_string())).collect()
    };
    let cause = if reasons.is_empty() { text("cause", &failure.cause) } else { Vec::new() };
    [
        texts("workload", entry.workload().map(std::slice::from_ref).unwrap_or_default()),
        texts("because", reasons),
        text("command", &failure.command),
        texts("earlier", &entry.retried),
        cause,
        text("try", &failure.hint),
        path("log", &failure.log),
        path("kept", &failure.kept),
    ]
    .concat()
}

/// The text of a failure. A benchmark's headline begins with its verdict, which its row shows already.
pub(crate) fn failure_text(failure: &Failure) -> &str {
    match failure.kind {
        FailureKind::Invalid(verdict) => failure.what.strip_prefix(verdict.as_str()).unwrap_or(&failure.what).trim(),
        _ => &failure.what,
    }
}

/// Why a benchmark measured nothing: what it leaves in place of a program's last lines. Empty for other failures.
fn reasons_of(failure: &Failure) -> &[String] {
    match failure.kind {
        FailureKind::Invalid(_) => &failure.tail,
        _ => &[],
    }
}

fn closing(run_state: &RunState, places: &RunPaths, styler: Styler, out: &mut String) {
    if !out.is_empty() {
        out.push('\n');
    }
    let (tone, word) = run_word(run_state, false);
    let time = run_state.finished.map(|end| format!(" in {}", duration_text(end.seconds))).unwrap_or_default();
    let _ = writeln!(out, "{} {}{time}", styler.tone(tone, format!("{word}:")), tally(run_state));
    let paths = [("report", &places.report), ("outputs", &places.latest), ("logs", &places.logs)];
    let paths = paths.into_iter().filter_map(|(name, path)| Some((name, path.as_ref()?.display().to_string())));
    Block::pairs(paths).write(styler, "  ", out);
}

/// How many tasks came to which end.
pub(crate) fn tally(run_state: &RunState) -> String {
    let interrupted = run_state.interrupted();
    // All that a run which ended well left out are servers that no task needed.
    let is_cut = run_state.finished.is_some_and(|end| end.exit != 0);
    let not_needed = if is_cut { run_state.not_needed } else { 0 };
    let unreached = if is_cut { run_state.unmentioned().saturating_sub(not_needed) } else { 0 };
    let counts = [
        (run_state.tally.ran, "ran"),
        (run_state.tally.cached, "cached"),
        (run_state.tally.skipped, "skipped"),
        (run_state.tally.failed - interrupted, if run_state.verdict().is_some() { "not VALID" } else { "failed" }),
        (interrupted, "interrupted"),
        (run_state.tally.cancelled + unreached, "not started"),
        (not_needed, "not needed"),
    ];
    let counts = counts.into_iter().filter(|(count, _)| *count > 0);
    let parts: Vec<String> = counts.map(|(count, word)| format!("{count} {word}")).collect();
    if parts.is_empty() { "nothing to do".to_owned() } else { parts.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::event::Event;

    /// For good, in its first attempt.
    fn task_failed(task: &TaskId, failure: &Failure, seconds: f64) -> Event {
        let (task, failure) = (task.clone(), Box::new(failure.clone()));
        Event::TaskFailed { task, attempt: 1, failure, will_retry: false, seconds }
    }

    fn shown(task: &TaskId, run_state: &RunState, failure: &Failure) -> String {
        let mut out = String::new();
        failure_section(task, &run_state.tasks[task], failure).write(Styler::OFF, &mut out);
        out
    }

    #[test]
    fn an_invalid_benchmark_says_its_verdict_once_and_each_reason_once() {
        let mut failure = Failure::new(FailureKind::Invalid(Verdict::LimitMissed), "LIMIT MISSED  686 tok/s")
            .cause("limits: TTFT p99 is 175 ms");
        failure.tail = vec!["limits: TTFT p99 is 175 ms".to_owned(), "core_wait: 1.2 %".to_owned()];
        let mut run_state = RunState::new();
        let task = TaskId::new("load");
        failure.below = vec![("workload".to_owned(), "toy @ h:1 (OpenAI chat) · 5 req/s Poisson".to_owned())];
        run_state.fold(&task_failed(&task, &failure, 16.0));
        insta::assert_snapshot!(shown(&task, &run_state, &failure), @r"
        ✗ load LIMIT MISSED after 16 s: 686 tok/s
          workload toy @ h:1 (OpenAI chat) · 5 req/s Poisson
          because  limits: TTFT p99 is 175 ms
                   core_wait: 1.2 %
        ");
    }

    #[test]
    fn a_task_that_was_interrupted_did_not_fail() {
        let mut run_state = RunState::new();
        for (task, kind) in [("a", FailureKind::Interrupted), ("b", FailureKind::Exit(3))] {
            run_state.fold(&task_failed(&TaskId::new(task), &Failure::new(kind, "it ended"), 1.0));
        }
        assert_eq!((run_state.interrupted(), run_state.finished_tasks()), (1, 1));
        let tally = run_state.tally;
        run_state.fold(&Event::RunFinished { tally, exit: 1, seconds: 2.0 });
        let text = summary(&run_state, &RunPaths::default(), Styler::OFF);
        assert!(text.ends_with("failed: 1 failed, 1 interrupted in 2.0 s\n"), "{text}");
    }

    #[test]
    fn all_that_a_failed_run_did_not_start_is_counted() {
        let mut run_state = RunState::new();
        run_state.total = 6;
        run_state.fold(&task_failed(&TaskId::new("a"), &Failure::new(FailureKind::Exit(3), "it ended"), 1.0));
        run_state.fold(&Event::TaskCancelled { task: TaskId::new("b"), why: "it needs a".to_owned() });
        let tally = run_state.tally;
        run_state.fold(&Event::RunFinished { tally, exit: 1, seconds: 2.0 });
        let text = summary(&run_state, &RunPaths::default(), Styler::OFF);
        assert!(text.ends_with("failed: 1 failed, 5 not started in 2.0 s\n"), "{text}");
        run_state.not_needed = 1;
        let text = summary(&run_state, &RunPaths::default(), Styler::OFF);
        assert!(text.ends_with("failed: 1 failed, 4 not started, 1 not needed in 2.0 s\n"), "{text}");
    }

    #[test]
    fn a_long_line_of_a_log_is_cut() {
        let mut failure = Failure::new(FailureKind::Exit(3), "exit code 3");
        failure.tail = vec!["x".repeat(3000)];
        let mut run_state = RunState::new();
        let task = TaskId::new("build");
        run_state.fold(&task_failed(&task, &failure, 1.0));
        let text = shown(&task, &run_state, &failure);
        assert!(text.lines().all(|line| line.chars().count() < 410) && text.ends_with("x …\n"), "{text}");
    }

    #[test]
    fn a_script_is_shown_line_by_line() {
        let failure = Failure::new(FailureKind::Exit(3), "exit code 3").command("sh -c 'set -e\nmake\n'");
        let mut run_state = RunState::new();
        let task = TaskId::new("build");
        run_state.fold(&task_failed(&task, &failure, 1.0));
        insta::assert_snapshot!(shown(&task, &run_state, &failure), @r"
        ✗ build failed after 1.0 s: exit code 3
          command  sh -c 'set -e
                   make
                   '
        ");
    }
}
