//! Ending jobs, and being certain of it.

use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::follow::Attempt;
use super::spec::{Ended, Spec};
use crate::process::slurm::{Cancel, View, cancel, environment};
use crate::store::JobFolder;

/// How long a server may take to drain.
const DRAIN: Duration = Duration::from_mins(1);
/// How long a cancelled job may take to be gone: Slurm's `KillWait` is 30 s unless a cluster says otherwise.
const GONE: Duration = Duration::from_secs(90);
const LOOK: Duration = Duration::from_millis(200);
/// Between tries to reach the controller.
const PAUSE: Duration = Duration::from_secs(2);

/// Waits until a service that was asked to end has told its end; `None` when it did not, or somebody is in a hurry.
pub async fn gently(attempt: &Attempt<'_>) -> Option<Ended> {
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

/// Cancels by name, and waits until the queue shows nothing of that name that is not over. The error says why that is not certain.
pub async fn for_certain(attempt: &mut Attempt<'_>) -> Result<(), String> {
    let name = attempt.spec.name.clone();
    let stop = attempt.lease.stop.clone();
    let deadline = Instant::now() + GONE;
    let mut why = String::new();
    let mut hard = false;
    loop {
        let what = if hard { Cancel::Now(&name) } else { Cancel::Name(&name) };
        let asked = Instant::now();
        match cancel(what, &attempt.env).await {
            Ok(()) => {
                attempt.cluster.queue.hurry();
                let gone = |view: &View| {
                    view.at.is_some_and(|at| at >= asked)
                        && view.jobs.get(&name).is_none_or(|jobs| jobs.iter().all(|job| job.state.is_final()))
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
                    gone = attempt.view.wait_for(gone) => return gone.map(drop).map_err(|error| error.to_string()),
                    () = sleep(left) => return Err("the queue still shows it".to_owned()),
                    () = stop.asked_now(), if !hard => { hard = true; continue }
                    () = hurry => {}
                }
            }
            Err(complaint) => why = complaint,
        }
        if Instant::now() > deadline || hard {
            return Err(why);
        }
        tokio::select! {
            () = sleep(PAUSE) => {}
            () = stop.asked_now() => hard = true,
        }
    }
}

/// Ends jobs that earlier runs left and nobody can go on with. What cannot be ended stays for the next run. What was done, for
/// people.
pub async fn end_abandoned(folders: Vec<JobFolder>) -> Vec<String> {
    let env = environment(std::env::vars_os(), None);
    let mut told = Vec::new();
    for folder in folders {
        let Some(spec) = folder.read::<Spec>() else {
            // A run that died while it wrote it: nothing was submitted.
            let _ = folder.forget();
            continue;
        };
        let _ = folder.cancel();
        match cancel(Cancel::Name(&spec.name), &env).await {
            Ok(()) => {
                let _ = folder.forget();
                told.push(format!(
                    "cancelled the job {} of {}, which an earlier run left behind",
                    spec.name, spec.task.id
                ));
            }
            Err(why) => told.push(format!("the job {} of an earlier run could not be cancelled: {why}", spec.name)),
        }
    }
    told
}
