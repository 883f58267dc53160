//! A run that would do nothing: written down by the run before it, and shown without looking at any task again.

use std::path::Path;
use std::time::Instant;

use super::run_end::{TaskLine, places, task_lines};
use crate::console;
use base::event::{Event, RunId, TaskTally};
use base::files::Digest;
use plan::Plan;
use report::{LiveDisplay, LiveOptions};
use runner::store::{CachedSource, CompilerId, FileStamp, NoOpConditions, StateFolder};
use runner::{RunSummary, WatchedRun};
use stages::source_notice;

/// Everything was checked, and nothing has changed since the last run.
pub(super) fn report_no_op_run(
    rest: &NoOpConditions,
    look: LiveOptions,
    home: &StateFolder,
    begun: Instant,
) -> Vec<TaskLine> {
    let mut live = LiveDisplay::new(look, console::writer(look));
    let mut notices = source_notices(&rest.sources);
    for event in rest.events.lines().filter_map(|line| serde_json::from_str::<Event>(line).ok()) {
        if matches!(event, Event::RunFinished { .. }) {
            notices.drain(..).for_each(|notice| live.event(&notice));
        }
        let event = match event {
            Event::RunFinished { tally, exit, .. } => {
                Event::RunFinished { tally, exit, seconds: begun.elapsed().as_secs_f64() }
            }
            event => event,
        };
        live.event(&event);
    }
    let lines = task_lines(live.state());
    live.finish(&places(home, true));
    lines
}

/// What is to be reported of outputs whose source may be another by now. The remotes of clones are queried, all at once.
fn source_notices(sources: &[CachedSource]) -> Vec<Event> {
    std::thread::scope(|scope| {
        let query = |CachedSource { task, stage, source }: &CachedSource| {
            let text = source_notice(source, stage, true)?;
            Some(Event::Notice { task: Some(task.clone()), text })
        };
        let queries: Vec<_> = sources.iter().map(|source| scope.spawn(move || query(source))).collect();
        queries.into_iter().filter_map(|query| query.join().ok().flatten()).collect()
    })
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
        let Ok(stamp) = FileStamp::of_path(lock) else { return compiler.drop_rest() };
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
    let sources = summary.done.iter().filter_map(|(id, done, _)| {
        let source = done.source.clone()?;
        let stage = plan.tasks.iter().find(|task| task.id == *id)?.stage.clone();
        Some(CachedSource { task: id.clone(), stage, source })
    });
    let sources = sources.collect();
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
    let conditions = NoOpConditions { plan: compiled, events: text, shared, tasks, sources };
    let _ = compiler.write_no_op_conditions(conditions);
}
