//! The end of an attempt: an output to accept, a failure to try again or to report, a server that has ended.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::{AttemptOutcome, Keyed, Runner, RunnerMessage, Running, TaskEnd, TaskOutput};
use crate::attempt::accept;
use crate::schedule::{ScheduleState, TaskIndex};
use crate::store::{FinishedOutput, discard};
use crate::{KeptService, TaskExecutor, note_full_disk};
use base::event::{Event, Failure, FailureKind, MemoryKind, ReducedSetting, TaskId};
use plan::Lifetime;

impl<W: TaskExecutor> Runner<W> {
    pub(super) fn take_tried(&mut self, ix: TaskIndex, tried: AttemptOutcome) {
        let Some(running) = self.running.remove(&ix) else { return };
        let task = self.task(ix);
        let AttemptOutcome { result, folder, seconds } = tried;
        if task.lifetime == Lifetime::Service {
            return self.take_service_end(ix, running, result.map(|_| ()), folder, seconds);
        }
        let Some(keyed) = self.keyed(ix) else { return };
        let result = result.and_then(|(done, sealed, restored)| {
            let (Some(folder), Some(sealed)) = (folder.clone(), sealed) else {
                return Err(Box::new(Failure::new(FailureKind::System, "a step left no output")));
            };
            let output = FinishedOutput { folder, sealed, done, seconds, from: None, is_signed: false };
            let (record, unchanged) =
                accept(&self.cache, &self.run, &self.plan.name, &task, &keyed, output, restored.as_deref())
                    .map_err(Box::new)?;
            self.show_latest()
                .and_then(|()| self.latest.link(&task.id, &self.cache.folder(&record)))
                .map_err(|e| Box::new(e.into()))?;
            self.passes(ix, &record).map_err(Box::new)?;
            Ok((record, unchanged, restored.is_some()))
        });
        match result {
            Ok((record, unchanged, is_uncached)) => {
                let folder = self.cache.folder(&record);
                (self.emit)(Event::TaskFinished {
                    task: task.id.clone(),
                    done: record.done.clone(),
                    out: Some(folder.clone()),
                    digest: Some(record.digest),
                    unchanged,
                    seconds,
                });
                self.has_uncached |= is_uncached;
                // Other machines may have it.
                if let (Some(shared), false) = (&self.options.output_source, is_uncached) {
                    shared.push(&record.task, Arc::clone(&record));
                }
                self.summary.tally.ran += 1;
                self.note_done(task.id.clone(), &record, folder);
                self.unchanged[ix as usize] = self.options.unchanged.is_output_as_before(ix, &record);
                self.outputs[ix as usize] = Some(TaskOutput::Output(record));
                self.forget_key(ix);
                self.schedule.finish_task(ix, TaskEnd::Done);
            }
            Err(failure) => self.take_failure(ix, running, *failure, folder, seconds),
        }
    }

    fn take_failure(
        &mut self,
        ix: TaskIndex,
        running: Running,
        mut failure: Failure,
        mut folder: Option<PathBuf>,
        seconds: f64,
    ) {
        let task = self.task(ix);
        let is_measured = matches!(failure.kind, FailureKind::Invalid(_));
        let is_full = self.cache.home().is_full();
        // What is left is in the way of the next attempt, unless that goes on with it, or it is a result.
        let is_removed =
            is_full && !task.resume && !is_measured && folder.take_if(|folder| discard(folder).is_ok()).is_some();
        // Often the stage could not even log why.
        if is_full && !is_measured {
            note_full_disk(&mut failure, is_removed);
        }
        if let Some(folder) = folder {
            match self.cache.set_aside(&task.id, &folder, task.resume) {
                Ok(kept) => failure.kept = kept,
                // The stage could neither read nor write what is below it, and often not even log that.
                Err(error) => {
                    // Unless that is the failure itself.
                    if failure.kind != FailureKind::System {
                        failure.cause.get_or_insert_with(|| error.to_string());
                    }
                    if error.source.kind() != io::ErrorKind::PermissionDenied {
                        let hint = "finished outputs are kept; run it again once the filesystem answers";
                        failure.hint.get_or_insert_with(|| hint.to_owned());
                    }
                }
            }
        }
        let blamed = self.stopped_by_server.remove(&ix);
        // A measurement records its own result, and keeps its verdict.
        if let (Some(server), false) = (blamed, is_measured) {
            let server = self.id(server);
            failure.cause = Some(format!("its server {server} ended; see its failure"));
            failure.kind = FailureKind::Service;
        }
        // Another of its servers may have ended for good meanwhile.
        let has_servers = self.schedule.ended_service(ix).is_none();
        if self.to_repeat.remove(&ix) && !self.schedule.is_halted && has_servers {
            let text = "its server is restarted, then the stage runs again".to_owned();
            (self.emit)(Event::Notice { task: Some(task.id.clone()), text });
            return self.schedule.rekey(ix);
        }
        if blamed.is_none() && self.lower(ix, running.attempt, &mut failure) {
            return self.retry_rekeyed(ix, running, failure, seconds);
        }
        if let Some(text) = self.repeat_reason(ix, &failure).filter(|_| has_servers) {
            (self.emit)(Event::Notice { task: Some(task.id.clone()), text });
            return self.schedule.rekey(ix);
        }
        let rule = task.retry.as_ref().filter(|rule| rule.lower.is_none());
        let rule = rule.filter(|rule| !rule.on_oom || failure.out_of_memory.is_some());
        let attempts = 1 + rule.map_or(0, |r| r.times);
        // Without its server a new attempt would have no endpoint to connect to.
        let hopeless = blamed.is_some()
            || matches!(failure.kind, FailureKind::Refused | FailureKind::Differs | FailureKind::Interrupted);
        let is_over = self.stop.is_requested() || self.schedule.is_halted;
        if running.attempt >= attempts || hopeless || is_over {
            return self.fail(ix, running.attempt, failure, seconds);
        }
        // Another step may have its slots by now: it waits for its turn.
        if self.schedule.is_hashing(ix) {
            return self.retry_rekeyed(ix, running, failure, seconds);
        }
        self.emit_failed(ix, running.attempt, &failure, true, seconds);
        self.running.insert(ix, running);
        self.after_pause(ix, RunnerMessage::RetryDue(ix, Box::new(failure)));
    }

    fn take_service_end(
        &mut self,
        ix: TaskIndex,
        running: Running,
        result: Result<(), Box<Failure>>,
        folder: Option<PathBuf>,
        seconds: f64,
    ) {
        let task = self.task(ix);
        if let Some(folder) = folder {
            let _ = std::fs::remove_dir(folder);
        }
        let is_stopping = self.schedule.state(ix) == ScheduleState::Stopping || self.stop.is_requested();
        match result {
            Err(mut failure) if !is_stopping => {
                let lost = self.restarts_elsewhere(ix, &failure);
                let again = lost.is_some()
                    || !self.is_announced(ix)
                        && (self.lower(ix, running.attempt, &mut failure)
                            || self.restarts(ix, running.attempt, &failure));
                for dependent in self.schedule.running_dependents(ix) {
                    self.stopped_by_server.insert(dependent, ix);
                    if again {
                        self.to_repeat.insert(dependent);
                    }
                    if let Some(step) = self.running.get(&dependent) {
                        step.stop.request_with_reason(format!("{}: {}", task.id, failure.what));
                    }
                }
                if let Some(text) = lost {
                    (self.emit)(Event::Notice { task: Some(task.id.clone()), text });
                    // This does not count as an attempt of its retry rule.
                    let _ = self.send.send(RunnerMessage::RekeyDue(ix, failure));
                } else if again {
                    self.retry_rekeyed(ix, running, *failure, seconds);
                } else {
                    self.fail(ix, running.attempt, *failure, seconds);
                }
            }
            // Found dead at the stop request: those that failed have failed because of it.
            Err(failure)
                if failure.kind == FailureKind::Service && !self.stop.is_requested() && self.a_dependent_failed(ix) =>
            {
                self.fail(ix, running.attempt, *failure, seconds);
            }
            result => {
                if let Err(failure) = result
                    && failure.kind != FailureKind::Interrupted
                {
                    let text = format!("while it was stopped: {}", failure.what);
                    (self.emit)(Event::Notice { task: Some(task.id.clone()), text });
                }
                (self.emit)(Event::ServiceStopped { task: task.id.clone(), seconds });
                // Steps that wait for it cannot have it any more.
                let is_without_need = self.schedule.ended_service(ix).is_some();
                self.schedule.finish_task(ix, if is_without_need { TaskEnd::Cancelled } else { TaskEnd::Done });
            }
        }
    }

    fn a_dependent_failed(&self, ix: TaskIndex) -> bool {
        let failed = |id: &TaskId| self.summary.failures.iter().any(|(task, _)| task == id);
        self.plan.tasks.iter().any(|task| task.needs.iter().any(|need| need.task == ix) && failed(&task.id))
    }

    // Services that are up for the caller: reported when the last one is ready.

    /// Sends the kept services to the caller if all of them are up.
    pub(super) fn announce_services(&mut self) {
        let Some(requested) = self.options.kept_services.as_ref().filter(|_| self.schedule.are_kept_services_up())
        else {
            return;
        };
        if std::mem::replace(&mut self.services_announced, true) {
            return;
        }
        let kept = self.plan.tasks.iter().enumerate().filter(|(ix, _)| requested.tasks[*ix]);
        let services = kept.filter_map(|(ix, task)| match &self.outputs[ix] {
            Some(TaskOutput::Service { endpoints, .. }) if !endpoints.is_empty() => {
                Some(KeptService { task: task.id.clone(), endpoints: endpoints.clone() })
            }
            _ => None,
        });
        // No receiver is left: then the caller is stopping.
        let _ = requested.ready.send(services.collect());
    }

    /// The caller has the address of this service.
    pub(super) fn is_announced(&self, ix: TaskIndex) -> bool {
        let is_kept = self.options.kept_services.as_ref().is_some_and(|services| services.tasks[ix as usize]);
        is_kept && self.services_announced && self.schedule.state(ix) == ScheduleState::Serving
    }
}

// Further attempts. Before some of them the key is computed again: what a retry lowered because memory ran out,
// servers that are started again, and steps that gave their slots back.
//
// The lower number is written down first, by the key of the task as the manifest has it. Then the task is looked up
// again: its key now holds the number, so its output, and for a server the outputs of those that use it, are recorded
// under what was really run.

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
