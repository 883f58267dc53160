//! The end of an attempt: an output to accept, a failure to try again or to report, a server that has ended.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use super::{AttemptOutcome, Runner, RunnerMessage, Running, TaskEnd, TaskOutput};
use crate::attempt::accept;
use crate::options::note_full_disk;
use crate::schedule::{ScheduleState, TaskIndex};
use crate::store::{FinishedOutput, discard};
use crate::task_executor::{KeptService, TaskExecutor};
use base::event::{Event, Failure, FailureKind, TaskId};
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
}

// Services that are up for the caller: reported when the last one is ready.

impl<W: TaskExecutor> Runner<W> {
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
