//! The key of a task, and what the cache has for it.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Keyed, Runner, RunnerMessage, TaskOutput, TaskRole};
use crate::keying::{KeyContext, own_patterns};
use crate::schedule::{ScheduleState, TaskIndex};
use crate::store::{Lookup, WatchedPaths};
use crate::task_executor::TaskExecutor;
use crate::time_limit::panic_is_failure;
use base::event::Failure;
use plan::Lifetime;

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
}
