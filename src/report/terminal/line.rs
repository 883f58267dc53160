//! The line that an event deserves, if any.

use crate::units::size;
use std::fmt::Write as _;

use crate::event::{Event, TaskId};
use crate::report::run_state::RunState;
use crate::report::terminal::styler::{Styler, TextRole, as_typed, clean, counted, duration};

/// The runner's reason for a task without a record.
const FIRST_TIME: &str = "not in cache";

/// How much to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Verbosity {
    /// Only what failed, and notices.
    pub quiet: bool,
    /// Cached tasks one by one, too.
    pub verbose: bool,
    /// Starts are shown by a bar, so the reasons move to the line of the end.
    pub bars: bool,
}

/// The text for an event that `story` has already folded; empty when there is nothing to show.
pub(super) fn line(event: &Event, story: &RunState, ear: Verbosity, paint: Styler, out: &mut String) {
    match event {
        Event::TaskFailed { task, attempt, failure, will_retry, seconds } => {
            let (sign, tone) = if *will_retry { ("↻", TextRole::Odd) } else { ("✗", TextRole::Bad) };
            let again = if *will_retry { format!("; attempt {attempt} failed, trying again") } else { String::new() };
            let what = clean(&failure.what);
            put(out, paint, (tone, sign), task, &format!("{}  {what}{again}", duration(*seconds)), "");
        }
        Event::Notice { task, text } => {
            let about = task.as_ref().map(|task| format!("{task}: ")).unwrap_or_default();
            let _ = writeln!(out, "{} {about}{}", paint.tone(TextRole::Odd, "!"), clean(text));
        }
        Event::Stopping { why } => {
            let _ = writeln!(out, "{} stopping: {}", paint.tone(TextRole::Odd, "!"), clean(why));
        }
        Event::Waiting { run, pid } => {
            let _ = writeln!(out, "{} waiting for run {run} (process {pid})", paint.tone(TextRole::Odd, "!"));
        }
        Event::TaskFinished { task, done, .. } | Event::TaskCached { task, done, .. } if ear.quiet => {
            warnings(task, &done.warnings, paint, out);
        }
        _ if ear.quiet => {}
        Event::RunStarted { run, manifest, params, tasks, jobs: _, .. } => {
            let mut set = String::new();
            for (key, value) in params {
                if let Some(value) = as_typed(value) {
                    let _ = write!(set, " {key}={}", clean(&value));
                }
            }
            let name = paint.tone(TextRole::Strong, clean(manifest));
            let _ = writeln!(
                out,
                "{name}{set}  {}",
                paint.tone(TextRole::Quiet, format!("{}, run {run}", counted(*tasks, "task")))
            );
        }
        Event::TaskStarted { task, attempt, reasons, .. } if !ear.bars => {
            let again = if *attempt > 1 { format!("attempt {attempt}") } else { String::new() };
            put(out, paint, (TextRole::Quiet, "→"), task, &again, &why(reasons));
        }
        Event::TaskFetching { task, from, bytes } if !ear.bars => {
            put(out, paint, (TextRole::Quiet, "→"), task, &format!("fetching {}", size(*bytes)), &clean(from));
        }
        Event::TaskCached { task, from: Some(from), .. } => {
            put(out, paint, (TextRole::Good, "↓"), task, "from another machine", &clean(from));
        }
        Event::TaskCached { task, .. } if ear.verbose => put(out, paint, (TextRole::Quiet, "="), task, "cached", ""),
        Event::TaskSkipped { task, why } if ear.verbose => {
            put(out, paint, (TextRole::Quiet, "-"), task, "skipped", &clean(why));
        }
        Event::TaskCancelled { task, why } => put(out, paint, (TextRole::Quiet, "-"), task, "not started", &clean(why)),
        Event::ServiceReady { task, endpoints, seconds } => {
            let at = endpoints.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            put(out, paint, (TextRole::Good, "▲"), task, &format!("ready after {}", duration(*seconds)), &at);
        }
        Event::ServiceStopped { task, seconds } => {
            put(out, paint, (TextRole::Quiet, "▼"), task, &format!("stopped, was up {}", duration(*seconds)), "");
        }
        Event::TaskFinished { task, done, unchanged, seconds, .. } => {
            let chapter = story.tasks.get(task);
            // A service has reported that when it stopped.
            if chapter.is_some_and(|chapter| chapter.service) {
                return;
            }
            let mut told = duration(*seconds);
            if let Some(headline) = &done.headline {
                // The brackets at its end hold how the numbers were measured; the summary shows that.
                let numbers = headline.split_once(" (").map_or(headline.as_str(), |(numbers, _)| numbers);
                let _ = write!(told, "  {}", clean(numbers));
            }
            if *unchanged {
                told.push_str("  output unchanged");
            }
            let reasons = chapter.filter(|_| ear.bars).map(|chapter| why(&chapter.reasons)).unwrap_or_default();
            // On a first run that would be all that there is to read.
            let reasons = if reasons == FIRST_TIME { String::new() } else { reasons };
            put(out, paint, (TextRole::Good, "✓"), task, &told, &reasons);
            warnings(task, &done.warnings, paint, out);
        }
        _ => {}
    }
}

fn warnings(task: &TaskId, warnings: &[String], paint: Styler, out: &mut String) {
    for warning in warnings {
        put(out, paint, (TextRole::Odd, "!"), task, &format!("warning: {}", clean(warning)), "");
    }
}

fn put(out: &mut String, paint: Styler, sign: (TextRole, &str), task: &TaskId, told: &str, aside: &str) {
    let _ = write!(out, "{} {}", paint.tone(sign.0, sign.1), paint.tone(TextRole::Name, task.as_str()));
    if !told.is_empty() {
        let _ = write!(out, "  {told}");
    }
    if !aside.is_empty() {
        let _ = write!(out, "  {}", paint.tone(TextRole::Quiet, aside));
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
