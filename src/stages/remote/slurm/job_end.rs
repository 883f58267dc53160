//! How an attempt ends: by its own record, or by the queue's state where that is more precise.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::cancel_jobs;
use super::job_attempt::{FOLDER_POLL_INTERVAL, JobAttempt, submission_command};
use super::job_protocol::{FolderSize, JobEnd};
use super::queue_interpreter::{QueueInterpreter, pick};
use crate::remote::slurm::commands::{JobState, QueueEntry};
use base::event::{Done, Failure, FailureKind};
use exec::process;
use plan::Lifetime;

/// How long the files of an output may need to reach us.
const FILES: Duration = Duration::from_mins(2);
/// How long the queue may need to report why a job was ended that has recorded its end.
const WHY: Duration = Duration::from_mins(1);
/// The same with a cluster's epilog, during which it does not report that.
const WHY_AFTER_EPILOG: Duration = Duration::from_mins(15);
/// The same for a server: what uses it goes on without it until its end is known.
const WHY_OF_SERVICE: Duration = Duration::from_secs(20);
const TAIL: usize = 20;

impl JobAttempt<'_> {
    /// The job recorded its end.
    pub async fn conclude(&mut self, ended: JobEnd, queue: &mut QueueInterpreter) -> Result<Done, Failure> {
        match ended.how {
            Ok(done) => {
                self.await_files(ended.extent).await?;
                Ok(done)
            }
            // Slurm signals the stage's own processes, too: either may be the first to notice.
            Err(failure) if matches!(failure.kind, FailureKind::Interrupted | FailureKind::Signal(_)) => {
                Err(self.why_stopped(failure, queue).await)
            }
            Err(mut failure) => {
                failure.log = Some(self.lease.log.clone());
                Err(failure)
            }
        }
    }

    /// It was stopped, but not by this run: the queue reports the cause.
    async fn why_stopped(&mut self, failure: Failure, queue: &mut QueueInterpreter) -> Failure {
        let begun = Instant::now();
        let is_service = self.spec.task.lifetime == Lifetime::Service;
        let mut deadline = begun + if is_service { WHY_OF_SERVICE } else { WHY };
        let claimant = self.folder.claimant().ok().flatten();
        let (requeued, job) = loop {
            let view = self.view.borrow_and_update().clone();
            let job = pick(view.of(&self.spec.job()), claimant.as_deref()).cloned();
            let now = Instant::now();
            let stop = &self.lease.stop;
            if is_completing(job.as_ref()) && !stop.is_requested() && !is_service {
                deadline = (now + WHY).min(begun + WHY_AFTER_EPILOG);
            }
            let requeued = job.as_ref().and_then(|job| queue.observe_stopped(&view, job, begun));
            // Of a job that ended long ago the queue has nothing.
            let is_forgotten = queue.was_over_before() && job.is_none() && view.at.is_some_and(|at| at >= begun);
            let is_known = is_forgotten || requeued.is_some() || job.as_ref().is_some_and(|job| job.state.is_final());
            if is_known || now > deadline || stop.is_hard_requested() {
                break (requeued, job);
            }
            self.lease.report_progress("waits for Slurm to report why its job was ended", 0, None);
            self.cluster.queue.poll_soon();
            tokio::select! {
                _ = self.view.changed() => {}
                () = sleep(FOLDER_POLL_INTERVAL) => {}
            }
        };
        if job.as_ref().is_some_and(|job| !job.state.is_final()) {
            // A job that was put back would begin again, and end at once.
            let _ = cancel_jobs::ask_to_end(self, false).await;
        }
        let job_failure = match (requeued, job) {
            (Some(requeued), _) => requeued,
            (None, Some(job))
                if job.state.is_final() && !matches!(job.state, JobState::Completed | JobState::Failed) =>
            {
                queue.failure(&job)
            }
            (None, job) if is_completing(job.as_ref()) && failure.kind == FailureKind::Interrupted => {
                Failure::new(FailureKind::Signal(15), "its job was ended, and Slurm has not reported why yet")
            }
            _ if failure.kind == FailureKind::Interrupted && queue.was_over_before() => {
                Failure::new(FailureKind::Lost, "its job was stopped before this run began")
            }
            _ if failure.kind == FailureKind::Interrupted => {
                Failure::new(FailureKind::Signal(15), "its job received SIGTERM from an unknown sender")
            }
            _ => return Failure { log: Some(self.lease.log.clone()), ..failure },
        };
        Failure { tail: failure.tail, command: failure.command, log: Some(self.lease.log.clone()), ..job_failure }
    }

    /// On a filesystem of the network what a node has written may need a while until it is seen here.
    async fn await_files(&self, there: FolderSize) -> Result<(), Failure> {
        let deadline = Instant::now() + FILES;
        loop {
            let here = FolderSize::of(&self.spec.out);
            if here == there {
                return Ok(());
            }
            if Instant::now() > deadline {
                let what = format!(
                    "its output has {} files and {} bytes here, and had {} files and {} bytes on its node",
                    here.files, here.bytes, there.files, there.bytes
                );
                return Err(Failure::new(FailureKind::System, what)
                    .hint("is the project folder on a filesystem that all nodes share? Was it written to after the job's end?"));
            }
            self.lease.report_progress("waits for the files of its output", 0, None);
            sleep(FOLDER_POLL_INTERVAL).await;
        }
    }

    /// The queue has decided. Whatever of the job is left is ended.
    pub async fn give_up(&self, mut failure: Failure) -> Failure {
        let _ = self.folder.cancel();
        let _ = cancel_jobs::ask_to_end(self, false).await;
        failure.tail = process::tail(&self.spec.log, TAIL);
        if failure.tail.is_empty() {
            failure.tail = process::tail(&self.output(), TAIL);
        }
        failure.command = Some(submission_command(&self.submission()));
        failure.log = Some(self.lease.log.clone());
        failure
    }
}

fn is_completing(job: Option<&QueueEntry>) -> bool {
    job.is_some_and(|job| job.state == JobState::Completing)
}

#[cfg(test)]
mod tests {
    use super::super::job_protocol::FolderSize;
    use super::super::stand_in::StandIn;
    use super::*;
    use plan::manifest::model::Slurm;

    /// The end of an attempt that was stopped, after which the queue shows its job in these states, each from a time on.
    async fn end_of_stopped(lifetime: Lifetime, states: &[(Duration, &str)]) -> (Failure, StandIn) {
        let slurm = StandIn::new(&[]);
        let lease = slurm.lease(lifetime);
        let mut attempt = slurm.attempt(&lease, Slurm::default()).await;
        let folder = attempt.folder.clone();
        let job = async {
            folder.claim("7").unwrap();
            sleep(Duration::from_secs(5)).await;
            let how = Err(Failure::new(FailureKind::Interrupted, "stopped"));
            let (number, node) = ("7".to_owned(), "n1".to_owned());
            folder.end(&JobEnd { number, node, how, extent: FolderSize::default() }).unwrap();
            let ended = Instant::now();
            for (after, state) in states {
                tokio::time::sleep_until(ended + *after).await;
                std::fs::write(slurm.path("job"), state).unwrap();
            }
        };
        let (result, ()) = tokio::join!(attempt.go(false, None, None), job);
        drop(attempt);
        drop(lease);
        (result.unwrap_err(), slurm)
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_whose_job_is_preempted_fails() {
        let states = [(Duration::ZERO, "COMPLETING"), (Duration::from_secs(9), "PREEMPTED")];
        let (failure, _) = end_of_stopped(Lifetime::Service, &states).await;
        assert_eq!((failure.kind, failure.what.as_str()), (FailureKind::Lost, "its job 7 on n1 was preempted"));
    }

    #[tokio::test(start_paused = true)]
    async fn the_end_of_a_server_does_not_wait_for_an_epilog() {
        let (failure, _) = end_of_stopped(Lifetime::Service, &[(Duration::ZERO, "COMPLETING")]).await;
        assert_eq!(failure.what, "its job was ended, and Slurm has not reported why yet");
    }

    #[tokio::test(start_paused = true)]
    async fn a_job_that_was_stopped_and_put_back_is_cancelled_and_lost() {
        let states = [(Duration::ZERO, "COMPLETING"), (Duration::from_secs(3), "PENDING")];
        let (failure, slurm) = end_of_stopped(Lifetime::Step, &states).await;
        assert_eq!(failure.kind, FailureKind::Lost, "it is submitted again");
        assert_eq!(failure.what, "its job 7 was put back into the queue after it had begun");
        assert!(!slurm.path("job").exists());
    }

    #[tokio::test(start_paused = true)]
    async fn the_cause_of_an_end_is_waited_for_while_the_epilog_runs() {
        let states = [(Duration::ZERO, "COMPLETING"), (Duration::from_secs(90), "PREEMPTED")];
        let (failure, _) = end_of_stopped(Lifetime::Step, &states).await;
        assert_eq!((failure.kind, failure.what.as_str()), (FailureKind::Lost, "its job 7 on n1 was preempted"));
    }
}
