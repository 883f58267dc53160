//! Further attempts. Before some of them the key is computed again: what a retry lowered because memory ran out,
//! servers that are started again, and steps that gave their slots back.
//!
//! The lower number is written down first, by the key of the task as the manifest has it. Then the task is looked up
//! again: its key now holds the number, so its output, and for a server the outputs of those that use it, are recorded
//! under what was really run.

use std::sync::Arc;
use std::time::Duration;

use super::{Keyed, Runner, RunnerMessage, Running};
use crate::schedule::{ScheduleState, TaskIndex};
use crate::task_executor::TaskExecutor;
use base::event::{Failure, FailureKind, MemoryKind, ReducedSetting};
use plan::Lifetime;

/// Frequent saves of a file should not keep a stage running for ever.
const STALE_ATTEMPTS: u32 = 3;

impl<W: TaskExecutor> Runner<W> {
    /// Whether a server that did not come up is started again as it is.
    pub(super) fn restarts(&self, ix: TaskIndex, attempt: u32, failure: &Failure) -> bool {
        let task = self.task(ix);
        let Some(rule) = task.retry.as_ref().filter(|rule| rule.lower.is_none()) else { return false };
        self.schedule.state(ix) == ScheduleState::Starting
            && attempt <= rule.times
            && (!rule.on_oom || failure.out_of_memory.is_some())
            && failure.kind != FailureKind::Refused
            && !self.schedule.carries_a_service(ix)
            && !self.schedule.is_halted
    }

    /// A message where a server that was not up yet is started again, because its machine was lost.
    pub(super) fn restarts_elsewhere(&mut self, ix: TaskIndex, failure: &Failure) -> Option<String> {
        let is_starting = self.schedule.state(ix) == ScheduleState::Starting && !self.schedule.carries_a_service(ix);
        (failure.kind == FailureKind::Lost && is_starting).then(|| self.repeat_reason(ix, failure)).flatten()
    }

    /// Why an attempt is repeated, if its failure is not caused by the task itself: an input changed under it, or its
    /// machine was lost.
    pub(super) fn repeat_reason(&mut self, ix: TaskIndex, failure: &Failure) -> Option<String> {
        if self.schedule.is_halted {
            return None;
        }
        match failure.kind {
            FailureKind::InputChanged => {
                let attempts = self.stale.entry(ix).or_default();
                *attempts += 1;
                (*attempts < STALE_ATTEMPTS).then(|| format!("{}; it is run again", failure.what))
            }
            FailureKind::Lost if !self.stop.is_requested() => {
                let times = self.lost_machine_attempts.entry(ix).or_default();
                *times += 1;
                let again = *times;
                let rest = "it is submitted again, and what the old attempt still writes counts for nothing";
                let may_again = again <= self.task(ix).resubmit();
                may_again.then(|| format!("{}; {rest}", failure.what))
            }
            _ => None,
        }
    }

    /// Memory ran out, and the rule has a number to lower: writes the lower one down, under which the task has another
    /// key. Where there is such a rule and it is of no use, the failure contains the reason.
    pub(super) fn lower(&mut self, ix: TaskIndex, attempt: u32, failure: &mut Failure) -> bool {
        let task = self.task(ix);
        let (Some(rule), Some(keyed)) = (&task.retry, self.keyed(ix)) else { return false };
        let (Some(lowering), Some(memory)) = (&rule.lower, &failure.out_of_memory) else { return false };
        if self.stop.is_requested() || self.schedule.is_halted {
            return false;
        }
        let setting = &lowering.setting;
        let first = keyed.lowered.as_ref().map(|lowered| lowered.from);
        let next = memory.value.and_then(|now| lowering.next(first.unwrap_or(now), now));
        let reason = match (memory.value, next) {
            (None, _) => format!("this stage has no number `{setting}`"),
            _ if memory.of == MemoryKind::Host && ["gpu", "kv_cache"].iter().any(|part| setting.contains(part)) => {
                format!("`{setting}` is a share of the GPU's memory, but the host ran out of memory")
            }
            _ if attempt > rule.times => format!("`times: {}` are used up", rule.times),
            _ if self.schedule.carries_a_service(ix) => "another server depends on this one".to_owned(),
            (Some(now), None) => format!("`{setting}` is {now}, and may not go lower"),
            (Some(now), Some(to)) => {
                let lowered = ReducedSetting { setting: setting.clone(), from: first.unwrap_or(now), to };
                match self.cache.record_reduced_setting(&keyed.base, &task.id, &lowered) {
                    Ok(()) => return true,
                    Err(error) => error.to_string(),
                }
            }
        };
        // The next run begins with the manifest's value.
        self.cache.forget_lowered(&keyed.base);
        let reason = format!("not tried again with a lower {setting}: {reason}");
        add_hint(failure, reason);
        false
    }

    /// Reports an attempt that failed, and begins the next one with its key computed again.
    pub(super) fn retry_rekeyed(&mut self, ix: TaskIndex, running: Running, failure: Failure, seconds: f64) {
        self.emit_failed(ix, running.attempt, &failure, true, seconds);
        self.attempts.insert(ix, running.attempt);
        match self.task(ix).lifetime {
            Lifetime::Step => drop(self.running.insert(ix, running)),
            Lifetime::Service => self.schedule.down(ix),
        }
        self.after_pause(ix, RunnerMessage::RekeyDue(ix, Box::new(failure)));
    }

    /// The next attempt of a step that has kept its slots and its key. `failure`: of the one before.
    pub(super) fn retry(&mut self, ix: TaskIndex, failure: Failure) {
        let Some(running) = self.running.remove(&ix) else { return };
        let is_server_restarted = self.forget_server_end(ix);
        if let Some(failure) = self.end_of_retries(ix, failure) {
            return self.fail(ix, running.attempt, failure, 0.0);
        }
        if is_server_restarted {
            self.attempts.insert(ix, running.attempt);
            return self.schedule.rekey(ix);
        }
        self.start(ix, running.attempt + 1, running.gpus, None);
    }

    /// Like `retry`, where the key is computed again first.
    pub(super) fn rekey_for_retry(&mut self, ix: TaskIndex, failure: Failure) {
        let service = self.task(ix).lifetime == Lifetime::Service;
        let running = self.running.remove(&ix);
        self.forget_server_end(ix);
        if matches!(self.schedule.state(ix), ScheduleState::Finished(_)) {
            return;
        }
        if let Some(failure) = self.end_of_retries(ix, failure) {
            return self.fail(ix, running.map_or(1, |running| running.attempt), failure, 0.0);
        }
        if !service {
            return self.schedule.rekey(ix);
        }
        match self.recompute_key(ix) {
            Ok(keyed) => {
                self.set_key(ix, Arc::new(keyed));
                self.schedule.relaunch(ix);
            }
            Err(failure) => self.fail(ix, 1, failure, 0.0),
        }
    }

    /// Forgets that a server of a step ended during the pause: a failure of the next attempt has another cause. Returns
    /// whether that server is started again.
    fn forget_server_end(&mut self, ix: TaskIndex) -> bool {
        self.stopped_by_server.remove(&ix);
        self.to_repeat.remove(&ix)
    }

    /// How a task ends that cannot have its next attempt after the pause.
    fn end_of_retries(&self, ix: TaskIndex, mut failure: Failure) -> Option<Failure> {
        if self.stop.is_requested() {
            return Some(Failure::new(FailureKind::Interrupted, "interrupted before the next attempt"));
        }
        if self.task(ix).lifetime == Lifetime::Service {
            return None;
        }
        let cause = match self.schedule.ended_service(ix) {
            Some(server) => format!("its server {} ended meanwhile", self.id(server)),
            None if self.schedule.is_halted => "another stage failed meanwhile".to_owned(),
            None => return None,
        };
        add_hint(&mut failure, format!("not tried again: {cause}"));
        Some(failure)
    }

    /// The key of a service with settled needs.
    fn recompute_key(&self, ix: TaskIndex) -> Result<Keyed, Failure> {
        let task = self.task(ix);
        let facts = self.work.facts(&task);
        let upstream = |need: u32| self.outputs[need as usize].as_ref()?.digest();
        self.key_context().key_of(&task, facts, upstream)
    }

    /// Sends a message when the pause before the next attempt has ended.
    pub(super) fn after_pause(&self, ix: TaskIndex, msg: RunnerMessage) {
        let delay = self.task(ix).retry.as_ref().map_or(Duration::ZERO, |rule| rule.delay);
        let (send, stop) = (self.send.clone(), self.stop.clone());
        tokio::spawn(async move {
            tokio::select! {
                () = tokio::time::sleep(delay) => {}
                () = stop.requested() => {}
            }
            let _ = send.send(msg);
        });
    }
}

fn add_hint(failure: &mut Failure, text: String) {
    failure.hint = Some(match failure.hint.take() {
        Some(hint) => format!("{hint}\n{text}"),
        None => text,
    });
}
