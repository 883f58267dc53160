//! Submits one job, and repeats that until the job is in the queue.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::commands::{QueueView, Submission, SubmitOutcome, submit};
use super::job_attempt::{JobAttempt, submission_command};
use super::job_existence::JobExistence;
use crate::event::{Failure, FailureKind};

/// From one try to the next, while the controller takes nothing; doubled each time.
pub const FIRST_RETRY_DELAY: Duration = Duration::from_secs(2);

pub const LONGEST_RETRY_DELAY: Duration = Duration::from_mins(1);

/// A submission without an answer may still be on its way into the queue when the queue is searched for it.
pub const SUBMISSION_DELAY: Duration = Duration::from_secs(3);

/// Submits until there is a job. `Ok(false)`: a stop was requested meanwhile, and a job may be there or not.
pub async fn until_submitted(
    attempt: &JobAttempt<'_>,
    submission: &Submission,
    mut known: JobExistence,
) -> Result<bool, Failure> {
    let stop = &attempt.lease.stop;
    let mut pause = FIRST_RETRY_DELAY;
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
                () = stop.requested() => return Ok(false),
                found = is_there(attempt) => if found { return Ok(true) },
            }
        }
        attempt.lease.report_progress("is submitted", 0, None);
        let submitted = {
            // A closed semaphore would be our own doing, and only mean more at once.
            let _turn = tokio::select! {
                biased;
                () = stop.requested() => return Ok(known == JobExistence::Absent && discard_attempt(attempt)),
                turn = attempt.cluster.submitting.acquire() => turn.ok(),
            };
            tokio::select! {
                biased;
                // It goes on by itself; its result is looked up by name.
                () = stop.requested() => return Ok(false),
                submitted = submit(submission) => submitted,
            }
        };
        match submitted {
            SubmitOutcome::Number(number) => {
                // For display only: the name finds it too.
                let _ = attempt.folder.note_number(&number);
                return Ok(true);
            }
            SubmitOutcome::Unknown(why) => {
                notify(&why);
                known = JobExistence::Unknown;
            }
            SubmitOutcome::RetryLater(why) | SubmitOutcome::TooMany(why) => notify(&why),
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

/// There is no Slurm here.
pub fn absent(why: String) -> Failure {
    Failure::new(FailureKind::Spawn, why)
        .hint("`host: slurm` needs Slurm's own programs: start Regatta on a node of the cluster that can submit")
}

/// Nothing was submitted: nothing stays.
fn discard_attempt(attempt: &JobAttempt<'_>) -> bool {
    attempt.mark_ended();
    false
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
        if !seen.of(&attempt.spec.job()).is_empty() {
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
