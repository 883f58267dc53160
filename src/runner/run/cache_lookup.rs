//! The key of a task, with which it need not run if its output is in the cache or comes from the shared store; what is
//! made here is offered there. And what the user has to know of a measurement that is taken from the cache although its
//! servers are not started by the run.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use super::{Keyed, Runner, RunnerMessage, TaskEnd, TaskOutput, TaskRole};
use crate::attempt::{accept, catch_panics, panic_is_failure};
use crate::keying::{KeyContext, own_patterns};
use crate::schedule::{ScheduleState, TaskIndex};
use crate::store::{FinishedOutput, Lookup, PathError, RESULT_FILES, TaskKey, TaskRecord, WatchedPaths, discard};
use crate::task_executor::{OutputRequest, TaskExecutor};
use base::event::{Event, Failure, FailureKind, TaskId};
use plan::{Lifetime, Task};

impl<W: TaskExecutor> Runner<W> {
    pub(super) fn key_context(&self) -> KeyContext<'_, W> {
        KeyContext { plan: &self.plan, work: &*self.work, output_cache: &self.cache, digests: &self.digests }
    }

    pub(super) fn key(&mut self, ix: TaskIndex) {
        let unchanged = || self.options.unchanged.record(&self.key_context(), ix, &self.unchanged);
        // It need not be looked at.
        if let Some(record) = (!self.options.forced[ix as usize]).then(unchanged).flatten() {
            return self.take_unchanged(ix, &record);
        }
        let task = self.task(ix);
        let upstream: BTreeMap<u32, _> = task
            .needs
            .iter()
            .filter_map(|need| Some((need.task, self.outputs[need.task as usize].as_ref()?.digest()?)))
            .collect();
        let project = self.cache.home().project();
        let asks_servers = task.cache && task.external.is_some();
        let slow = task.container.is_some()
            || asks_servers
            || task.inputs.values().any(|p| own_patterns(p) && !self.digests.is_quick(project, p));
        let work = Arc::clone(&self.work);
        let (plan, output_cache, digests) =
            (Arc::clone(&self.plan), Arc::clone(&self.cache), Arc::clone(&self.digests));
        let key = move || {
            let context = KeyContext { plan: &plan, work: &*work, output_cache: &output_cache, digests: &digests };
            context.key_of(&task, work.facts(&task), |need| upstream.get(&need).copied())
        };
        if slow {
            // Reading a large input is not the loop's work, nor is waiting for a container program.
            let send = self.send.clone();
            tokio::task::spawn_blocking(move || {
                let _ = send.send(RunnerMessage::Keyed(ix, panic_is_failure("computing its key", key)));
            });
        } else {
            let keyed = key();
            self.take_keyed(ix, keyed);
        }
    }

    pub(super) fn take_keyed(&mut self, ix: TaskIndex, keyed: Result<Keyed, Failure>) {
        if self.schedule.state(ix) != ScheduleState::ComputingKey {
            return;
        }
        let keyed = match keyed {
            Ok(keyed) => Arc::new(keyed),
            Err(failure) => return self.fail(ix, 1, failure, 0.0),
        };
        if !self.is_current(ix, &keyed) {
            return self.key(ix);
        }
        let forced = self.options.forced[ix as usize];
        if forced && keyed.lowered.is_some() && !self.attempts.contains_key(&ix) {
            // A forced task runs with the manifest's value.
            self.cache.forget_lowered(&keyed.base);
            return self.key(ix);
        }
        self.set_key(ix, Arc::clone(&keyed));
        let task = self.task(ix);
        if task.lifetime == Lifetime::Service {
            return self.schedule.set_keyed(ix);
        }
        if forced || !task.cache {
            return self.schedule.set_cache_miss(ix);
        }
        let lookup = match self.key_context().look_up(&task, &keyed.digest) {
            Ok(found) => found,
            Err(error) => {
                let again = format!("if it stays so, `--force {}` makes it again", task.stage);
                return self.fail(ix, 1, Failure::from(error).hint(again), 0.0);
            }
        };
        match lookup {
            Lookup::Hit(record) => self.take_hit(ix, &record, None),
            _ if self.key_context().is_made_by_another(&task, &keyed.digest) => self.missed(ix),
            _ if self.options.roles[ix as usize] == TaskRole::Restore && self.options.output_source.is_none() => {
                self.missed(ix);
            }
            _ => {
                let maker = *self.task_by_key.entry(keyed.digest).or_insert(ix);
                let is_made = maker == ix || matches!(self.schedule.state(maker), ScheduleState::Finished(_));
                if task.kind.facts().is_determined_by_key && !is_made {
                    return self.schedule.waits_for(ix, maker);
                }
                // The shared store has one output of the key, which is that of one of them.
                let is_repeat = maker != ix && task.repeats(&self.plan.tasks[maker as usize]);
                if is_repeat || !self.request_remote_output(ix, &keyed) {
                    self.missed(ix);
                }
            }
        }
    }

    /// Whether a key was computed from what the task's needs have now: a server may have been started again since,
    /// under another key.
    pub(super) fn is_current(&self, ix: TaskIndex, keyed: &Keyed) -> bool {
        self.task(ix).needs.iter().filter(|need| need.data).all(|need| {
            let now = self.outputs[need.task as usize].as_ref().and_then(TaskOutput::digest);
            keyed.key.upstream.get(self.id(need.task)) == now.as_ref()
        })
    }

    pub(super) fn set_key(&mut self, ix: TaskIndex, keyed: Arc<Keyed>) {
        if self.task(ix).lifetime == Lifetime::Service {
            let (key, lowered) = (keyed.digest, keyed.lowered.clone());
            self.outputs[ix as usize] =
                Some(TaskOutput::Service { key, endpoints: Vec::new(), gpus: Vec::new(), lowered });
        }
        self.keys[ix as usize] = KeyState::Keyed(keyed);
    }
}

// What is known of a task's key. A run of many tasks keeps none that a record has.

#[derive(Clone)]
pub(super) enum KeyState {
    /// The task was not looked at.
    Unseen,
    Keyed(Arc<Keyed>),
    /// Its output is there, and the record of that has the key. What was looked at for its inputs.
    Recorded(WatchedPaths),
}

impl KeyState {
    /// The files of all inputs, and the folders that were listed for them.
    pub(super) fn seen_inputs(&self) -> WatchedPaths {
        match self {
            Self::Unseen => WatchedPaths::new(),
            Self::Keyed(keyed) => keyed.inputs.values().flat_map(|state| state.seen.iter().cloned()).collect(),
            Self::Recorded(seen) => seen.clone(),
        }
    }
}

impl<W: TaskExecutor> Runner<W> {
    /// The key of a task that is not settled.
    pub(super) fn keyed(&self, ix: TaskIndex) -> Option<Arc<Keyed>> {
        match &self.keys[ix as usize] {
            KeyState::Keyed(keyed) => Some(Arc::clone(keyed)),
            KeyState::Unseen | KeyState::Recorded(_) => None,
        }
    }

    /// A settled task's record has its key: the key itself is needed no more.
    pub(super) fn forget_key(&mut self, ix: TaskIndex) {
        let state = &mut self.keys[ix as usize];
        if matches!(state, KeyState::Keyed(_)) {
            *state = KeyState::Recorded(state.seen_inputs());
        }
    }

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
        match self.adopt(ix, record, false) {
            Ok(record) => {
                self.unchanged[ix as usize] = true;
                self.settle_cached(ix, record, None);
            }
            Err(failure) => self.fail(ix, 1, failure, 0.0),
        }
    }

    /// Its output is there; `from` elsewhere, if it came just now.
    pub(super) fn take_hit(&mut self, ix: TaskIndex, record: &Arc<TaskRecord>, from: Option<String>) {
        let record = match self.adopt(ix, record, true) {
            Ok(record) => record,
            Err(failure) => return self.fail(ix, 1, failure, 0.0),
        };
        if let Some(keyed) = self.keyed(ix)
            && let Some((task, text)) = age_notice(&self.task(ix), &keyed.key, &record)
        {
            (self.emit)(Event::Notice { task: Some(task), text });
        }
        self.unchanged[ix as usize] = self.options.unchanged.is_output_as_before(ix, &record);
        self.settle_cached(ix, record, from);
    }

    /// Its output becomes that of this task, if it passes. `links`: its link in `latest` may lead elsewhere.
    fn adopt(&mut self, ix: TaskIndex, record: &Arc<TaskRecord>, links: bool) -> Result<Arc<TaskRecord>, Failure> {
        let task = self.task(ix);
        // The next run explains itself by this one, whichever task or manifest made the output.
        let record = self.cache.adopt(&self.plan.name, &task.id, record)?;
        self.show_latest()?;
        if links {
            self.latest.link(&task.id, &self.cache.folder(&record))?;
        }
        self.passes(ix, &record)?;
        Ok(record)
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
