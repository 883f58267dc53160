//! How an attempt ends: by its own record, or by the queue's state where that is more precise.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::cancel_jobs;
use super::job_attempt::{FOLDER_POLL_INTERVAL, JobAttempt, submission_command};
use super::job_protocol::{FolderSize, JobEnd};
use super::queue_interpreter::{QueueInterpreter, pick};
use crate::event::{Done, Failure, FailureKind};
use crate::exec::process;
use crate::stages::remote::slurm::commands::JobState;

/// How long the files of an output may need to reach us.
const FILES: Duration = Duration::from_mins(2);
/// How long the queue may need to report why a job was ended that has recorded its end.
const WHY: Duration = Duration::from_mins(1);
/// The same with a cluster's epilog, during which it does not report that.
const WHY_AFTER_EPILOG: Duration = Duration::from_mins(15);
const TAIL: usize = 20;

impl JobAttempt<'_> {
    /// The job recorded its end.
    pub async fn conclude(&mut self, ended: JobEnd, queue: &QueueInterpreter) -> Result<Done, Failure> {
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
    async fn why_stopped(&mut self, failure: Failure, queue: &QueueInterpreter) -> Failure {
        let begun = Instant::now();
        let mut deadline = begun + WHY;
        let claimant = self.folder.claimant().ok().flatten();
        let job = loop {
            let view = self.view.borrow_and_update().clone();
            let job = pick(view.of(&self.spec.job()), claimant.as_deref()).cloned();
            let is_completing = job.as_ref().is_some_and(|job| job.state == JobState::Completing);
            let now = Instant::now();
            let stop = &self.lease.stop;
            if is_completing && !stop.is_requested() {
                self.lease.report_progress("waits for Slurm to report why its job was ended", 0, None);
                deadline = (now + WHY).min(begun + WHY_AFTER_EPILOG);
            }
            if now > deadline || stop.is_hard_requested() || job.as_ref().is_some_and(|job| job.state.is_final()) {
                break job;
            }
            self.cluster.queue.poll_soon();
            tokio::select! {
                _ = self.view.changed() => {}
                () = sleep(FOLDER_POLL_INTERVAL) => {}
            }
        };
        let job_failure = match job {
            Some(job) if job.state.is_final() && !matches!(job.state, JobState::Completed | JobState::Failed) => {
                queue.failure(&job)
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

#[cfg(test)]
mod tests {
    use super::super::job_protocol::FolderSize;
    use super::super::stand_in::StandIn;
    use super::*;
    use crate::manifest::model::Slurm;
    use crate::plan::Lifetime;

    #[tokio::test(start_paused = true)]
    async fn the_cause_of_an_end_is_waited_for_while_the_epilog_runs() {
        let slurm = StandIn::new(&[]);
        let lease = slurm.lease(Lifetime::Step);
        let mut attempt = slurm.attempt(&lease, Slurm::default()).await;
        let folder = attempt.folder.clone();
        let job = async {
            folder.claim("7").unwrap();
            sleep(Duration::from_secs(5)).await;
            std::fs::write(slurm.path("job"), "COMPLETING").unwrap();
            let how = Err(Failure::new(FailureKind::Interrupted, "stopped"));
            let (number, node) = ("7".to_owned(), "n1".to_owned());
            folder.end(&JobEnd { number, node, how, extent: FolderSize::default() }).unwrap();
            sleep(Duration::from_secs(90)).await;
            std::fs::write(slurm.path("job"), "PREEMPTED").unwrap();
        };
        let (ended, ()) = tokio::join!(attempt.go(false, None, None), job);
        let failure = ended.unwrap_err();
        assert_eq!((failure.kind, failure.what.as_str()), (FailureKind::Lost, "its job 7 on n1 was preempted"));
    }
}
