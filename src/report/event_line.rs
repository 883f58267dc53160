//! The line that an event deserves, if any.

use base::units::{counted, size};
use std::fmt::Write as _;

use crate::run_state::{RunState, TaskPhase, TaskState};
use crate::styler::{Styler, TextRole, as_typed, clean, duration_text};
use base::event::{Event, TaskId};

/// The runner's reason for a task without a record.
const FIRST_TIME: &str = "not in cache";
const WAITS_FOR_NONE: &str = "which uses this state folder; a run with its own folder (`--home DIR`) does not wait";

/// How much to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Verbosity {
    /// Only what failed, and notices.
    pub quiet: bool,
    /// Cached tasks one by one, too.
    pub verbose: bool,
    /// The frame of a pipeline is left out: the run is one benchmark, and its result is printed after it.
    pub frameless: bool,
    /// Starts are shown by a bar, so the reasons move to the line of the end.
    pub bars: bool,
}

/// The text for an event that `run_state` has already folded; empty when there is nothing to show.
pub(crate) fn line(event: &Event, run_state: &RunState, verbosity: Verbosity, styler: Styler, out: &mut String) {
    match event {
        // The result shows it, or the end of the run.
        Event::TaskFailed { will_retry: false, .. } if verbosity.frameless => {}
        Event::TaskFailed { task, attempt, failure, will_retry, seconds } => {
            let (sign, tone) = if *will_retry { ("↻", TextRole::Warning) } else { ("✗", TextRole::Bad) };
            let again = if *will_retry { format!("; attempt {attempt} failed, trying again") } else { String::new() };
            let problem = clean(&failure.what);
            put(out, styler, (tone, sign), task, &format!("{}  {problem}{again}", duration_text(*seconds)), "");
        }
        Event::Notice { task, text } => {
            let about = task.as_ref().map(|task| format!("{task}: ")).unwrap_or_default();
            let _ = writeln!(out, "{} {about}{}", styler.tone(TextRole::Warning, "!"), clean(text));
        }
        Event::Stopping { why } => {
            let _ = writeln!(out, "{} stopping: {}", styler.tone(TextRole::Warning, "!"), clean(why));
        }
        Event::Waiting { run, pid } => {
            let mark = styler.tone(TextRole::Warning, "!");
            let _ = writeln!(out, "{mark} waiting for run {run} (process {pid}), {WAITS_FOR_NONE}");
        }
        Event::TaskFinished { task, done, .. } | Event::TaskCached { task, done, .. } if verbosity.quiet => {
            warnings(task, &done.warnings, styler, out);
        }
        _ if verbosity.quiet => {}
        Event::ServiceReady { seconds, .. } if verbosity.frameless && *seconds < 1.0 => {}
        Event::MetricsServed { url } => {
            let _ = writeln!(out, "{}", styler.tone(TextRole::Quiet, format!("metrics of this run: {}", clean(url))));
        }
        Event::ServiceReady { task, endpoints, seconds } => {
            let at = endpoints.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            put(out, styler, (TextRole::Good, "▲"), task, &format!("ready after {}", duration_text(*seconds)), &at);
        }
        _ if verbosity.frameless => {}
        Event::RunStarted { run, manifest, params, tasks, jobs: _, .. } => {
            let mut set = String::new();
            for (key, value) in params {
                if let Some(value) = as_typed(value) {
                    let _ = write!(set, " {key}={}", clean(&value));
                }
            }
            let name = styler.tone(TextRole::Strong, clean(manifest));
            let _ = writeln!(
                out,
                "{name}{set}  {}",
                styler.tone(TextRole::Quiet, format!("{}, run {run}", counted(*tasks, "task")))
            );
        }
        Event::TaskStarted { task, attempt, reasons, .. } if !verbosity.bars => {
            let again = if *attempt > 1 { format!("attempt {attempt}") } else { String::new() };
            put(out, styler, (TextRole::Quiet, "→"), task, &again, &why(reasons));
        }
        Event::TaskFetching { task, from, bytes } if !verbosity.bars => {
            put(out, styler, (TextRole::Quiet, "→"), task, &format!("fetching {}", size(*bytes)), &clean(from));
        }
        Event::TaskCached { task, from: Some(from), .. } => {
            put(out, styler, (TextRole::Good, "↓"), task, "from another machine", &clean(from));
        }
        Event::TaskCached { task, .. } if verbosity.verbose => {
            put(out, styler, (TextRole::Quiet, "="), task, "cached", "");
        }
        Event::TaskSkipped { task, why } if verbosity.verbose => {
            put(out, styler, (TextRole::Quiet, "-"), task, "skipped", &clean(why));
        }
        Event::TaskCancelled { task, why } => {
            put(out, styler, (TextRole::Quiet, "-"), task, "not started", &clean(why));
        }
        Event::ServiceStopped { task, seconds } => {
            put(out, styler, (TextRole::Quiet, "▼"), task, &format!("stopped, was up {}", duration_text(*seconds)), "");
        }
        Event::TaskFinished { task, done, unchanged, seconds, .. } => {
            let entry = run_state.tasks.get(task);
            // A service has reported that when it stopped.
            if entry.is_some_and(|entry| entry.service) {
                return;
            }
            let mut summary = duration_text(*seconds);
            if let Some(headline) = &done.headline {
                // The brackets at its end hold how the numbers were measured; the summary shows that.
                let numbers = headline.split_once(" (").map_or(headline.as_str(), |(numbers, _)| numbers);
                let _ = write!(summary, "  {}", clean(numbers));
            }
            if *unchanged {
                summary.push_str("  output unchanged");
            }
            let reasons = entry.filter(|_| verbosity.bars).map(|entry| why(&entry.reasons)).unwrap_or_default();
            // On a first run that would be all that there is to read.
            let reasons = if reasons == FIRST_TIME { String::new() } else { reasons };
            put(out, styler, (TextRole::Good, "✓"), task, &summary, &reasons);
            warnings(task, &done.warnings, styler, out);
        }
        _ => {}
    }
}

/// A line for each server that has been starting since `before` (seconds from the start of the run): where it stands.
pub(crate) fn starting_lines(run_state: &RunState, before: f64, styler: Styler, out: &mut String) {
    let is_starting = |state: &TaskState| {
        state.service && state.state == TaskPhase::Running && state.started.is_some_and(|started| started <= before)
    };
    for (task, state) in run_state.tasks.iter().filter(|(_, state)| is_starting(state)) {
        if let Some(progress) = &state.progress {
            put(out, styler, (TextRole::Quiet, "…"), task, &clean(&progress.text), "");
        }
    }
}

/// A line for each step that has been running since `before`, seconds from the start of the run: how far it is, and
/// since when.
pub(crate) fn running_lines(run_state: &RunState, now: f64, before: f64, styler: Styler, out: &mut String) {
    let is_running = |state: &TaskState| {
        !state.service && state.state == TaskPhase::Running && state.started.is_some_and(|started| started <= before)
    };
    for (task, state) in run_state.tasks.iter().filter(|(_, state)| is_running(state)) {
        let far = state.progress.as_ref().map_or_else(String::new, |progress| clean(&progress.line()) + ", ");
        let since = duration_text(now - state.started.unwrap_or(now));
        // What waits, in a queue for example, does not run.
        let text = if far.is_empty() { format!("running for {since}") } else { format!("{far}after {since}") };
        put(out, styler, (TextRole::Quiet, "…"), task, &text, "");
    }
}

fn warnings(task: &TaskId, warnings: &[String], paint: Styler, out: &mut String) {
    for warning in warnings {
        put(out, paint, (TextRole::Warning, "!"), task, &format!("warning: {}", clean(warning)), "");
    }
}

fn put(out: &mut String, styler: Styler, sign: (TextRole, &str), task: &TaskId, text: &str, aside: &str) {
    let _ = write!(out, "{} {}", styler.tone(sign.0, sign.1), styler.tone(TextRole::Name, task.as_str()));
    if !text.is_empty() {
        let _ = write!(out, "  {text}");
    }
    if !aside.is_empty() {
        let _ = write!(out, "  {}", styler.tone(TextRole::Quiet, aside));
    }
    out.push('\n');
}

/// The first reason, and how many more there are.
fn why(reasons: &[String]) -> String {
    match reasons {
        [] => String::new(),
        [only] => clean(only),
        [first, rest @ ..] => format!("{} (and {} more)", clean(first), rest.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_step_shows_how_far_it_is_and_a_short_one_does_not() {
        let mut state = RunState::new();
        for (task, at) in [("long", 1.0), ("short", 30.0)] {
            let task = TaskId::new(task);
            let started =
                Event::TaskStarted { task: task.clone(), attempt: 1, service: false, reasons: Vec::new(), log: None };
            state.fold_at(&started, Some(at));
            let text = "answered, 2 failed".to_owned();
            state.fold_at(&Event::Progress { task, text, done: 120, total: Some(500), live: None }, Some(at + 1.0));
        }
        let mut out = String::new();
        running_lines(&state, 31.0, 21.0, Styler::OFF, &mut out);
        assert_eq!(out, "… long  120 of 500 answered, 2 failed, after 30 s\n");
    }

    #[test]
    fn the_line_of_a_wait_names_how_to_avoid_it() {
        let mut out = String::new();
        let verbosity = Verbosity { quiet: true, verbose: false, frameless: false, bars: false };
        let waiting = Event::Waiting { run: "r1".to_owned(), pid: 7 };
        line(&waiting, &RunState::new(), verbosity, Styler::OFF, &mut out);
        let expected = "! waiting for run r1 (process 7), which uses this state folder; a run with its own folder \
                       (`--home DIR`) does not wait\n";
        assert_eq!(out, expected);
    }
}
