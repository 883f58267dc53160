//! With its key a task need not run if its output is in the cache or comes from the shared store; what is made here is
//! offered there. And what the user has to know of a measurement that is taken from the cache although its servers are
//! not started by the run.

use std::path::PathBuf;
use std::sync::Arc;

use super::{Keyed, Runner, RunnerMessage, TaskEnd, TaskOutput, TaskRole};
use crate::attempt::accept;
use crate::schedule::{ScheduleState, TaskIndex};
use crate::store::{FinishedOutput, PathError, RESULT_FILES, TaskKey, TaskRecord, discard};
use crate::task_executor::{OutputRequest, TaskExecutor};
use crate::time_limit::catch_panics;
use base::event::{Event, Failure, FailureKind, TaskId};
use plan::Task;

impl<W: TaskExecutor> Runner<W> {
    /// Requests an output, if there is a shared store; the answer comes as a message.
    pub(super) fn request_remote_output(&self, ix: TaskIndex, keyed: &Keyed) -> bool {
        let Some(shared) = self.options.output_source.clone() else { return false };
        let wanted = OutputRequest { task: self.id(ix).clone(), key: keyed.key.clone(), digest: keyed.digest };
        let (send, stop) = (self.send.clone(), self.stop.clone());
        let emit = Arc::clone(&self.emit);
        tokio::spawn(async move {
            let task = wanted.task.clone();
            let fetch = catch_panics("fetching its output", async { Ok(shared.fetch(wanted).await) });
            // What has come so far stays, and the next run goes on with it.
            let fetched = tokio::select! {
                fetched = fetch => fetched.unwrap_or_else(|failure| {
                    emit(Event::Notice { task: Some(task), text: failure.what });
                    None
                }),
                () = stop.requested() => None,
            };
            let _ = send.send(RunnerMessage::RemoteLookup(ix, fetched.map(Box::new)));
        });
        true
    }

    pub(super) fn take_fetched(&mut self, ix: TaskIndex, fetched: Option<FinishedOutput>) {
        if self.schedule.state(ix) != ScheduleState::ComputingKey {
            return;
        }
        let Some(keyed) = self.keyed(ix) else { return self.missed(ix) };
        if !self.is_current(ix, &keyed) {
            return self.key(ix);
        }
        let Some(fetched) = fetched else { return self.missed(ix) };
        let task = self.task(ix);
        // It has been made meanwhile, and may have come from there.
        if self.key_context().is_made_by_another(&task, &keyed.digest) {
            let _ = discard(&fetched.folder);
            return self.missed(ix);
        }
        let from = fetched.from.clone();
        match accept(&self.cache, &self.run, &self.plan.name, &task, &keyed, fetched, None) {
            Ok((record, _)) => self.take_hit(ix, &record, from),
            Err(failure) => {
                let text = format!("what another machine made could not be kept: {}", failure.what);
                (self.emit)(Event::Notice { task: Some(task.id.clone()), text });
                self.missed(ix);
            }
        }
    }

    /// Its link in `latest` is one of the things that look as they did.
    pub(super) fn take_unchanged(&mut self, ix: TaskIndex, record: &Arc<TaskRecord>) {
        let task = self.task(ix);
        let adopted = self.cache.adopt(&self.plan.name, &task.id, record);
        let record = match self.show_latest().and(adopted) {
            Ok(record) => record,
            Err(e) => return self.fail(ix, 1, e.into(), 0.0),
        };
        if let Err(failure) = self.passes(ix, &record) {
            return self.fail(ix, 1, failure, 0.0);
        }
        self.unchanged[ix as usize] = true;
        self.settle_cached(ix, record, None);
    }

    /// Its output is there; `from` elsewhere, if it came just now.
    pub(super) fn take_hit(&mut self, ix: TaskIndex, record: &Arc<TaskRecord>, from: Option<String>) {
        let task = self.task(ix);
        // The next run explains itself by this one, whichever task or manifest made the output.
        let record = match self.cache.adopt(&self.plan.name, &task.id, record) {
            Ok(record) => record,
            Err(e) => return self.fail(ix, 1, e.into(), 0.0),
        };
        let folder = self.cache.folder(&record);
        if let Err(e) = self.show_latest().and_then(|()| self.latest.link(&task.id, &folder)) {
            return self.fail(ix, 1, e.into(), 0.0);
        }
        if let Err(failure) = self.passes(ix, &record) {
            return self.fail(ix, 1, failure, 0.0);
        }
        if let Some(keyed) = self.keyed(ix)
            && let Some((task, text)) = age_notice(&task, &keyed.key, &record)
        {
            (self.emit)(Event::Notice { task: Some(task), text });
        }
        self.unchanged[ix as usize] = self.options.unchanged.is_output_as_before(ix, &record);
        self.settle_cached(ix, record, from);
    }

    /// For the summary.
    pub(super) fn note_done(&mut self, task: TaskId, record: &TaskRecord, folder: PathBuf) {
        if record.may_hold(&RESULT_FILES) {
            self.summary.measured.push((task.clone(), folder.clone()));
        }
        self.summary.done.push((task, record.done.clone(), folder));
    }

    /// Once in a run, with its first output.
    pub(super) fn show_latest(&mut self) -> Result<(), PathError> {
        if !self.is_latest_shown {
            let inputs = self.plan.tasks.iter().flat_map(|task| task.inputs.values().flatten());
            self.latest.keep_inputs(self.cache.home().project(), inputs)?;
            self.latest.show()?;
            self.is_latest_shown = true;
        }
        Ok(())
    }

    fn settle_cached(&mut self, ix: TaskIndex, record: Arc<TaskRecord>, from: Option<String>) {
        let task = self.id(ix).clone();
        let folder = self.cache.folder(&record);
        // Beside the run: it may query a remote.
        if let Some(source) = record.done.source.clone() {
            let (work, emit, task) = (Arc::clone(&self.work), Arc::clone(&self.emit), self.task(ix));
            self.source_checks.spawn_blocking(move || {
                if let Some(text) = work.source_notice(&task.stage, &source) {
                    emit(Event::Notice { task: Some(task.id.clone()), text });
                }
            });
        }
        (self.emit)(Event::TaskCached {
            task: task.clone(),
            done: record.done.clone(),
            out: Some(folder.clone()),
            from,
        });
        self.summary.tally.cached += 1;
        self.note_done(task, &record, folder);
        self.outputs[ix as usize] = Some(TaskOutput::Output(record));
        self.forget_key(ix);
        self.schedule.finish_task(ix, TaskEnd::Cached);
    }

    /// The shared store does not have its output.
    pub(super) fn missed(&mut self, ix: TaskIndex) {
        if self.options.roles[ix as usize] == TaskRole::Restore {
            let failure = Failure::new(FailureKind::Refused, "it has not finished yet, and --only excludes it")
                .hint("run without --only, or with --until, to make it first");
            return self.fail(ix, 1, failure, 0.0);
        }
        self.schedule.set_cache_miss(ix);
    }
}

/// Reports how old a cached result of `task` is and which servers it was measured on. `None` for tasks that depend on
/// nothing outside their run. `now`: seconds since 1970.
fn age_of(task: &Task, key: &TaskKey, record: &TaskRecord, now: i64) -> Option<String> {
    let servers = task.external_servers();
    if servers.is_empty() {
        return None;
    }
    let age = match record.finished {
        0 => "at an unknown time".to_owned(),
        finished => format!("{} ago", ago(now - finished)),
    };
    let described: Vec<String> = servers
        .iter()
        .map(|server| {
            let fact = |what: &str| key.facts.get(&format!("{server} {what}")).map(String::as_str);
            let words: Vec<&str> = ["kind", "version", "model"].into_iter().filter_map(fact).collect();
            if words.is_empty() {
                format!("{server}, which reports nothing about itself")
            } else {
                format!("{server} ({})", words.join(" "))
            }
        })
        .collect();
    Some(format!("measured {age} in run {} on {}; `cache: true` keeps it", record.run, described.join(", ")))
}

/// The notice of a run, by task.
pub(crate) fn age_notice(task: &Task, key: &TaskKey, record: &TaskRecord) -> Option<(TaskId, String)> {
    let now = jiff::Timestamp::now().as_second();
    Some((task.id.clone(), age_of(task, key, record, now)?))
}

fn ago(seconds: i64) -> String {
    match seconds.max(0) {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds @ 120..7200 => format!("{} min", seconds / 60),
        seconds @ 7200..172_800 => format!("{} h", seconds / 3600),
        seconds => format!("{} days", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_has_the_unit_that_people_use() {
        let ages: Vec<String> = [-5, 0, 119, 120, 7199, 7200, 172_799, 172_800].into_iter().map(ago).collect();
        assert_eq!(ages, ["0 s", "0 s", "119 s", "2 min", "119 min", "2 h", "47 h", "2 days"]);
    }
}
