//! A run that would do nothing: written down by the run before it, and shown without looking at any task again.

use std::path::Path;
use std::time::Instant;

use super::run_end::{TaskLine, places, task_lines};
use crate::app::console;
use crate::event::{Event, RunId, TaskTally};
use crate::files::Digest;
use crate::plan::Plan;
use crate::report::{LiveDisplay, LiveOptions};
use crate::runner::store::{CompilerId, FileStamp, NoOpConditions, StateFolder};
use crate::runner::{RunSummary, WatchedRun};

/// Everything was checked, and nothing has changed since the last run.
pub(super) fn report_no_op_run(
    rest: &NoOpConditions,
    look: LiveOptions,
    home: &StateFolder,
    begun: Instant,
) -> Vec<TaskLine> {
    let mut live = LiveDisplay::new(look, console::writer(look));
    for event in rest.events.lines().filter_map(|line| serde_json::from_str::<Event>(line).ok()) {
        let event = match event {
            Event::RunFinished { tally, exit, .. } => {
                Event::RunFinished { tally, exit, seconds: begun.elapsed().as_secs_f64() }
            }
            event => event,
        };
        live.event(&event);
    }
    let lines = task_lines(live.state());
    live.finish(&places(home));
    lines
}

/// Records what makes the next run a no-op, if this one finished everything, and the
/// lock file, if it writes one, as it would be written again. `compiled`: the stored plan that it ran, which may have been replaced
/// since by that of a changed manifest.
pub(super) fn record_no_op_conditions(
    compiler: &CompilerId,
    compiled: Option<Digest>,
    id: &RunId,
    plan: &Plan,
    summary: RunSummary,
    manifest: &str,
    lock: Option<&Path>,
) {
    /// With more tasks than this the next run shows how many there are, not each.
    const EACH: usize = 200;
    let (Some(mut watched), Some(compiled)) = (summary.watched, compiled) else {
        return compiler.drop_rest();
    };
    if let Some(lock) = lock {
        let Ok(stamp) = FileStamp::of(lock) else { return compiler.drop_rest() };
        watched.shared.push((lock.to_owned(), stamp));
    }
    let cached = summary.tally.ran + summary.tally.cached;
    // Nothing was finished: the next run says why again.
    if cached == 0 {
        return compiler.drop_rest();
    }
    let started = Event::RunStarted {
        run: id.clone(),
        manifest: manifest.to_owned(),
        params: plan.params.clone(),
        settings: plan.settings(),
        tasks: cached + summary.tally.skipped,
        jobs: 0,
        at: String::new(),
        pid: 0,
    };
    let mut events = vec![started];
    if cached <= EACH {
        events.extend(
            summary.skipped.iter().map(|(task, why)| Event::TaskSkipped { task: task.clone(), why: why.clone() }),
        );
        events.extend(summary.done.iter().map(|(task, done, out)| Event::TaskCached {
            task: task.clone(),
            done: done.clone(),
            out: Some(out.clone()),
            from: None,
        }));
    } else {
        events.push(Event::AllCached { tasks: cached });
    }
    let tally = TaskTally { cached, skipped: summary.tally.skipped, ..TaskTally::default() };
    events.push(Event::RunFinished { tally, exit: 0, seconds: 0.0 });
    let text = events.iter().filter_map(|event| serde_json::to_string(event).ok()).collect::<Vec<_>>().join("\n");
    let WatchedRun { shared, tasks } = watched;
    let _ = compiler.write_no_op_conditions(NoOpConditions { plan: compiled, events: text, shared, tasks });
}
