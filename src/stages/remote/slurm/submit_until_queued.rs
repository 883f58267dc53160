//! Submits one job, and repeats that until the job is in the queue.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::cancel_jobs::{Enqueued, JobExistence};
use super::commands::{QueueView, Submission, SubmitOutcome, submit};
use super::run_attempt::{JobAttempt, submission_command};
use base::event::{Failure, FailureKind};
use base::spec::TimeSpan;

/// From one try to the next, while the controller takes nothing; doubled each time.
pub const FIRST_RETRY_DELAY: Duration = Duration::from_secs(2);

pub const LONGEST_RETRY_DELAY: Duration = Duration::from_mins(1);

/// A submission without an answer may still be on its way into the queue when the queue is searched for it.
pub const SUBMISSION_DELAY: Duration = Duration::from_secs(3);

/// Submits until there is a job.
pub async fn until_submitted(
    attempt: &JobAttempt<'_>,
    submission: &Submission,
    mut known: JobExistence,
) -> Result<Enqueued, Failure> {
    let stop = &attempt.lease.stop;
    let mut pause = FIRST_RETRY_DELAY;
    let mut full = FullQueue::default();
    let mut text = String::new();
    let mut notify = |why: &str| {
        if text != why {
            why.clone_into(&mut text);
            attempt.lease.notice(format!("Slurm has not taken its job yet: {why}; it is tried again"));
        }
    };
    loop {
        if known == JobExistence::Unknown {
            tokio::select! {
                biased;
                () = stop.requested() => return Ok(Enqueued::Unanswered),
                found = is_there(attempt) => if found { return Ok(Enqueued::InQueue) },
            }
        }
        attempt.lease.report_progress("is submitted", 0, None);
        let submitted = {
            // The semaphore is never closed; if it were, more jobs would be submitted at once.
            let _turn = tokio::select! {
                biased;
                () = stop.requested() => {
                    if known == JobExistence::Absent {
                        // Nothing was submitted: nothing stays.
                        attempt.mark_ended();
                    }
                    return Ok(Enqueued::of_stop(known));
                }
                turn = attempt.cluster.submitting.acquire() => turn.ok(),
            };
            tokio::select! {
                biased;
                // A gentle stop waits for the answer: what is abandoned goes on by itself, and cannot be cancelled
                // before it is there.
                () = stop.hard_requested() => return Ok(Enqueued::UnderWay),
                submitted = submit(submission) => submitted,
            }
        };
        match submitted {
            SubmitOutcome::Number(number) => {
                // For display only: the name finds it too.
                let _ = attempt.folder.note_number(&number);
                return Ok(Enqueued::InQueue);
            }
            SubmitOutcome::Unknown(why) => {
                notify(&why);
                known = JobExistence::Unknown;
            }
            SubmitOutcome::RetryLater(why) => notify(&why),
            SubmitOutcome::TooMany(why) => {
                if full.is_over(attempt.spec.slurm.queue_timeout.as_ref()) {
                    attempt.mark_ended();
                    return Err(full_failure(&why, "job").command(submission_command(submission)));
                }
                notify(&why);
            }
            SubmitOutcome::Refused(why) => {
                attempt.mark_ended();
                return Err(rejection_failure(&why, "job").command(submission_command(submission)));
            }
            SubmitOutcome::Absent(why) => {
                attempt.mark_ended();
                return Err(absent(why));
            }
        }
        tokio::select! {
            () = stop.requested() => {}
            () = sleep(pause) => {}
        }
        pause = (pause * 2).min(LONGEST_RETRY_DELAY);
    }
}

/// It will never be taken like this. `what`: a job, or an array.
pub fn rejection_failure(why: &str, what: &str) -> Failure {
    Failure::new(FailureKind::Refused, format!("Slurm rejects its {what}: {why}"))
        .hint("check `host.slurm`, and `SBATCH_*` in the environment")
}

/// The time since Slurm first had too many jobs of the user to take another one: that is a queue, too.
#[derive(Default)]
pub struct FullQueue(Option<Instant>);

impl FullQueue {
    /// Once more.
    pub fn is_over(&mut self, queue_timeout: Option<&TimeSpan>) -> bool {
        let since = *self.0.get_or_insert_with(Instant::now);
        queue_timeout.is_some_and(|limit| since.elapsed() >= limit.time())
    }
}

/// It was not taken within its `queue_timeout`.
pub fn full_failure(why: &str, what: &str) -> Failure {
    Failure::new(FailureKind::Timeout, format!("Slurm did not take its {what} within `queue_timeout`: {why}"))
        .hint("`queue_timeout` may be longer, or other jobs be cancelled")
}

/// Slurm's programs are not installed here.
pub fn absent(why: String) -> Failure {
    Failure::new(FailureKind::Spawn, why)
        .hint("`host: slurm` needs Slurm's own programs: start Regatta on a node of the cluster that can submit")
}

/// Looks for the job by its name until the queue has answered: it must be missing twice, some time apart.
async fn is_there(attempt: &JobAttempt<'_>) -> bool {
    let mut view = attempt.view.clone();
    let mut first_miss: Option<Instant> = None;
    let mut after = Instant::now();
    attempt.lease.report_progress("is looked for in the queue", 0, None);
    loop {
        // It may be over already.
        if attempt.folder.is_claimed() {
            return true;
        }
        attempt.cluster.queue.poll_soon();
        let seen: QueueView = match view.wait_for(|view| view.at.is_some_and(|at| at >= after)).await {
            Ok(seen) => seen.clone(),
            // Its sender lives as long as we.
            Err(_) => return false,
        };
        if !seen.entries(&attempt.spec.job()).is_empty() {
            return true;
        }
        match first_miss {
            Some(first) if first.elapsed() >= SUBMISSION_DELAY => return false,
            Some(_) => {}
            None => first_miss = Some(Instant::now()),
        }
        sleep(SUBMISSION_DELAY).await;
        after = Instant::now();
    }
}

#[cfg(test)]
mod tests {
    use super::super::stand_in::StandIn;
    use super::*;
    use plan::Lifetime;
    use plan::manifest::model::Slurm;

    /// It answers once there is a file `gate`, or its test is over.
    const SLOW: &str = r#"touch "$W/asked"; while [ -d "$W" ] && [ ! -e "$W/gate" ]; do sleep 0.01; done
echo RUNNING > "$W/job"; echo 7"#;

    async fn until_exists(path: std::path::PathBuf) {
        // Not by the runtime's clock, which stands still while a program runs.
        let exists = move || {
            while !path.exists() {
                std::thread::sleep(Duration::from_millis(5));
            }
        };
        tokio::task::spawn_blocking(exists).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_gentle_stop_waits_for_sbatch_and_then_cancels_its_job() {
        let slurm = StandIn::new(&[("sbatch", SLOW)]);
        let lease = slurm.lease(Lifetime::Step);
        let mut attempt = slurm.attempt(&lease, Slurm::default()).await;
        let stop = async {
            until_exists(slurm.path("asked")).await;
            slurm.stop.request();
            // What is not waited for would look for the job before it is there.
            tokio::task::yield_now().await;
            std::fs::write(slurm.path("gate"), "").unwrap();
        };
        let (ended, ()) = tokio::join!(attempt.go(false, None, None), stop);
        assert_eq!(ended.unwrap_err().what, "stopped, and its job cancelled");
        assert!(!slurm.path("job").exists());
        assert!(attempt.settled.into_inner());
    }

    #[tokio::test(start_paused = true)]
    async fn the_time_until_there_is_room_counts_as_time_in_the_queue() {
        let slurm = StandIn::new(&[("sbatch", "echo AssocMaxSubmitJobLimit >&2; exit 1")]);
        let lease = slurm.lease(Lifetime::Step);
        let settings = Slurm { queue_timeout: Some(Duration::from_secs(5).into()), ..Slurm::default() };
        let mut attempt = slurm.attempt(&lease, settings).await;
        let failure = attempt.go(false, None, None).await.unwrap_err();
        assert_eq!(
            (failure.kind, failure.what.as_str()),
            (FailureKind::Timeout, "Slurm did not take its job within `queue_timeout`: AssocMaxSubmitJobLimit")
        );
        assert!(attempt.settled.into_inner());
    }

    #[tokio::test(start_paused = true)]
    async fn a_job_whose_submission_is_abandoned_stays_for_the_next_run() {
        let slurm = StandIn::new(&[("sbatch", SLOW)]);
        let lease = slurm.lease(Lifetime::Step);
        let mut attempt = slurm.attempt(&lease, Slurm::default()).await;
        let folder = attempt.folder.clone();
        let stop = async {
            until_exists(slurm.path("asked")).await;
            slurm.stop.now();
            while !folder.is_cancelled() {
                tokio::task::yield_now().await;
            }
            // The runtime's clock stands still until it ends.
            std::fs::write(slurm.path("gate"), "").unwrap();
        };
        let (ended, ()) = tokio::join!(attempt.go(false, None, None), stop);
        assert_eq!(ended.unwrap_err().what, "stopped; its job may still be there");
        assert!(!attempt.settled.into_inner());
    }

    #[tokio::test(start_paused = true)]
    async fn a_job_that_appears_after_a_lost_answer_is_cancelled() {
        // It has arrived, and is in the queue a view later.
        let sbatch = r#"touch "$W/sent"; echo "Socket timed out on send/recv operation" >&2; exit 1"#;
        let squeue = r#"[ ! -e "$W/job" ] || echo "7|RUNNING|None|n1|$(cat "$W/name")"
if [ -e "$W/cancelled" ] && [ ! -e "$W/late" ]; then touch "$W/late" "$W/job"; fi"#;
        let scancel = r#"rm -f "$W/job"; touch "$W/cancelled""#;
        let slurm = StandIn::new(&[("sbatch", sbatch), ("squeue", squeue), ("scancel", scancel)]);
        let lease = slurm.lease(Lifetime::Step);
        let mut attempt = slurm.attempt(&lease, Slurm::default()).await;
        let stop = async {
            until_exists(slurm.path("sent")).await;
            slurm.stop.request();
        };
        let (ended, ()) = tokio::join!(attempt.go(false, None, None), stop);
        assert_eq!(ended.unwrap_err().what, "stopped, and its job cancelled");
        assert!(slurm.path("late").exists() && !slurm.path("job").exists());
    }
}
