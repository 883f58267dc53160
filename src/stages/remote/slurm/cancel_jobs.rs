//! Ending jobs, and being certain of it.

use std::time::{Duration, Instant};

use tokio::time::{sleep, timeout};

use super::cancelling::living;
use super::commands::{CancelCommand, CancelError, Environment, QueueView, cancel, environment};
use super::context::SlurmContext;
use super::job_attempt::JobAttempt;
use super::spec::{JobEnd, JobSpec};
use crate::runner::store::JobFolder;

/// How long a server may take to drain.
const DRAIN: Duration = Duration::from_mins(1);
/// How long a cancelled job may take to end: Slurm's `KillWait` is 30 s by default.
const GONE: Duration = Duration::from_secs(90);
const LOOK: Duration = Duration::from_millis(200);
/// Interval between queue queries for a caller that needs a single view.
const LONGEST: Duration = Duration::from_mins(1);
/// Between tries to reach the controller.
const PAUSE: Duration = Duration::from_secs(2);

/// Waits until a service that was requested to stop has recorded its end; `None` if it did not, or if the user forces the stop.
pub async fn gently(attempt: &JobAttempt<'_>) -> Option<JobEnd> {
    let deadline = Instant::now() + DRAIN;
    attempt.folder.claimant()?;
    while Instant::now() < deadline && !attempt.lease.stop.is_now() {
        if let Some(ended) = attempt.folder.ended() {
            return Some(ended);
        }
        sleep(LOOK).await;
    }
    None
}

/// Cancels it: by its name, or an element of an array by the number that the queue shows. `hard`: KILL at once.
pub async fn ask_to_end(attempt: &JobAttempt<'_>, hard: bool) -> Result<Vec<String>, CancelError> {
    let name = &attempt.spec.name;
    if attempt.spec.element.is_none() {
        let what = if hard { CancelCommand::Now(name) } else { CancelCommand::Name(name) };
        return cancel(what, &attempt.env).await.map(|()| Vec::new());
    }
    let numbers = living(attempt.view.borrow().of(&attempt.spec.job()));
    attempt.cluster.cancelling.cancel(&numbers, hard, &attempt.env).await.map(|()| numbers)
}

/// Cancels, and waits until the queue shows no unfinished job of it. The error is the reason why that is not certain.
pub async fn for_certain(attempt: &mut JobAttempt<'_>) -> Result<(), CancelError> {
    let job = attempt.spec.job();
    let stop = attempt.lease.stop.clone();
    let deadline = Instant::now() + GONE;
    let mut hard = false;
    loop {
        let asked = Instant::now();
        let error = match ask_to_end(attempt, hard).await {
            Ok(numbers) => {
                attempt.cluster.queue.hurry();
                // Elements that were not known yet have to be named first.
                let news = |view: &QueueView| {
                    let left = living(view.of(&job));
                    let by_number = job.element.is_some() && left.iter().any(|number| !numbers.contains(number));
                    view.at.is_some_and(|at| at >= asked) && (left.is_empty() || by_number)
                };
                let left = deadline.saturating_duration_since(Instant::now());
                let queue = attempt.cluster.queue.clone();
                let hurry = async {
                    loop {
                        sleep(PAUSE).await;
                        queue.hurry();
                    }
                };
                tokio::select! {
                    seen = attempt.view.wait_for(news) => match seen {
                        Ok(view) if living(view.of(&job)).is_empty() => return Ok(()),
                        Ok(_) => continue,
                        Err(closed) => return Err(closed.into()),
                    },
                    () = sleep(left) => return Err(CancelError::StillQueued),
                    () = stop.asked_now(), if !hard => { hard = true; continue }
                    () = hurry => continue,
                }
            }
            Err(error) => error,
        };
        if Instant::now() > deadline || hard {
            return Err(error);
        }
        tokio::select! {
            () = sleep(PAUSE) => {}
            () = stop.asked_now() => hard = true,
        }
    }
}

/// Ends jobs of earlier runs that no run can resume. Jobs that cannot be ended stay for the next run. Returns messages for
/// the user.
pub async fn end_abandoned(folders: Vec<JobFolder>) -> Vec<String> {
    end_abandoned_by(folders, &SlurmContext::default()).await
}

/// The same by a run that queries the queue already.
pub async fn end_abandoned_by(folders: Vec<JobFolder>, cluster: &SlurmContext) -> Vec<String> {
    let env = environment(std::env::vars_os(), None);
    let mut told = Vec::new();
    let mut elements = Vec::new();
    for folder in folders {
        let Some(spec) = folder.read::<JobSpec>() else {
            // A run that died while it wrote it: nothing was submitted.
            let _ = folder.forget();
            continue;
        };
        let _ = folder.cancel();
        if spec.element.is_some() {
            elements.push((folder, spec));
            continue;
        }
        let ended = cancel(CancelCommand::Name(&spec.name), &env).await;
        told.push(tell(&folder, &spec, ended));
    }
    if !elements.is_empty() {
        let ended = end_elements(&elements, cluster, &env).await;
        told.extend(elements.iter().map(|(folder, spec)| tell(folder, spec, ended.clone())));
    }
    told
}

/// Elements of arrays: the queue knows their numbers, and the array's name is that of others, too.
async fn end_elements(
    elements: &[(JobFolder, JobSpec)],
    cluster: &SlurmContext,
    env: &Environment,
) -> Result<(), CancelError> {
    let asked = Instant::now();
    let mut view = cluster.queue.listen(env, LONGEST);
    cluster.queue.hurry();
    let seen = timeout(GONE, view.wait_for(|view| view.at.is_some_and(|at| at >= asked))).await;
    let Ok(Ok(seen)) = seen.map(|seen| seen.map(|view| view.clone())) else {
        return Err(CancelError::NoQueue);
    };
    let numbers: Vec<String> = elements.iter().flat_map(|(_, spec)| living(seen.of(&spec.job()))).collect();
    cluster.cancelling.cancel(&numbers, false, env).await
}

fn tell(folder: &JobFolder, spec: &JobSpec, ended: Result<(), CancelError>) -> String {
    match ended {
        Ok(()) => {
            if let Some(element) = spec.element {
                folder.arrays().forget(&spec.name, element);
            }
            let _ = folder.forget();
            format!("cancelled the job {} of {}, which an earlier run left behind", spec.job(), spec.task.id)
        }
        Err(why) => format!("the job {} of an earlier run could not be cancelled: {why}", spec.job()),
    }
}
