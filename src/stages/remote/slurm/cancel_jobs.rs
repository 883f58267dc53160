//! Ending jobs, and being certain of it.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fmt::Display;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::{Instant, sleep, timeout};

use super::commands::{Environment, JobsToEnd, QueueEntry, QueueView, at_clusters, cancel, clusters_of, environment};
use super::job_files::{JobEnd, JobSpec};
use super::run_attempt::JobAttempt;
use super::submission::{SUBMISSION_DELAY, SlurmContext};
use base::diag::ErrorText;
use base::units::shell_word;
use runner::store::JobFolder;

/// How long a server may take to drain.
const DRAIN: Duration = Duration::from_mins(1);
/// How long a cancelled job may take to end: Slurm's `KillWait` is 30 s by default.
const GONE: Duration = Duration::from_secs(90);
const FOLDER_POLL_INTERVAL: Duration = Duration::from_millis(200);
/// Interval between queue queries for a caller that needs a single view.
const LONGEST: Duration = Duration::from_mins(1);
/// How long the queue is asked, after a `scancel` that failed, whether its job is gone.
const LOOK_AFTER_ERROR: Duration = Duration::from_secs(5);
/// Between tries to reach the controller.
const CANCEL_RETRY_INTERVAL: Duration = Duration::from_secs(2);

/// Waits until a service that was requested to stop has recorded its end; `None` if it did not, or if the user forces
/// the stop.
pub async fn wait_for_drain(attempt: &JobAttempt<'_>) -> Option<JobEnd> {
    let deadline = Instant::now() + DRAIN;
    if matches!(attempt.folder.claimant(), Ok(None)) {
        return None;
    }
    while Instant::now() < deadline && !attempt.lease.stop.is_hard_requested() {
        let _ = attempt.folder.list();
        // A broken file is reported by what follows the attempt.
        if let Ok(Some(ended)) = attempt.folder.ended() {
            return Some(ended);
        }
        sleep(FOLDER_POLL_INTERVAL).await;
    }
    None
}

/// Cancels it: by its name, or an element of an array by the number that the queue shows. `hard`: KILL at once.
pub async fn ask_to_end(attempt: &JobAttempt<'_>, hard: bool) -> Result<Vec<String>, ErrorText> {
    let name = &attempt.spec.name;
    if attempt.spec.element.is_none() {
        return cancel(JobsToEnd::Name(name), hard, &attempt.env).await.map(|()| Vec::new());
    }
    let numbers = unfinished_numbers(attempt.view.borrow().entries(&attempt.spec.job()));
    attempt.cluster.cancel_batcher.cancel(&numbers, hard, &attempt.env).await.map(|()| numbers)
}

/// Cancels, and waits until the queue shows no unfinished job of it: twice, where a submission may just be on its way
/// there. The error is the reason why that is not certain.
pub async fn for_certain(attempt: &mut JobAttempt<'_>, enqueued: Enqueued) -> Result<(), ErrorText> {
    until_absent(attempt).await?;
    match enqueued {
        Enqueued::InQueue | Enqueued::Stopped => Ok(()),
        Enqueued::Unanswered => {
            sleep(SUBMISSION_DELAY).await;
            until_absent(attempt).await
        }
        Enqueued::UnderWay => Err(ErrorText::new("`sbatch` has not answered yet")),
    }
}

/// Cancels, and waits until a view of the queue shows no unfinished job of it.
async fn until_absent(attempt: &mut JobAttempt<'_>) -> Result<(), ErrorText> {
    let job = attempt.spec.job();
    let stop = attempt.lease.stop.clone();
    let deadline = Instant::now() + GONE;
    let mut hard = false;
    loop {
        let instant = Instant::now();
        let error = match ask_to_end(attempt, hard).await {
            Ok(numbers) => {
                attempt.cluster.queue.poll_soon();
                // Elements that were not known yet have to be named first.
                let news = |view: &QueueView| {
                    let left = unfinished_numbers(view.entries(&job));
                    let by_number = job.element.is_some() && left.iter().any(|number| !numbers.contains(number));
                    view.at.is_some_and(|at| at >= instant) && (left.is_empty() || by_number)
                };
                let left = deadline.saturating_duration_since(Instant::now());
                let queue = attempt.cluster.queue.clone();
                let hurry = async {
                    loop {
                        sleep(CANCEL_RETRY_INTERVAL).await;
                        queue.poll_soon();
                    }
                };
                tokio::select! {
                    seen = attempt.view.wait_for(news) => match seen {
                        Ok(view) if unfinished_numbers(view.entries(&job)).is_empty() => return Ok(()),
                        Ok(_) => continue,
                        Err(closed) => return Err(ErrorText::new(closed)),
                    },
                    () = sleep(left) => return Err(ErrorText::new("the queue still shows it")),
                    () = stop.hard_requested(), if !hard => { hard = true; continue }
                    () = hurry => continue,
                }
            }
            // What is gone cannot be cancelled once more: the queue decides.
            Err(_) if is_gone(attempt, instant).await => return Ok(()),
            Err(error) => error,
        };
        if Instant::now() > deadline || hard {
            return Err(error);
        }
        tokio::select! {
            () = sleep(CANCEL_RETRY_INTERVAL) => {}
            () = stop.hard_requested() => hard = true,
        }
    }
}

/// Whether a fresh query of the queue shows no unfinished job of this attempt. Without an answer the job counts as
/// unfinished.
async fn is_gone(attempt: &mut JobAttempt<'_>, since: Instant) -> bool {
    let job = attempt.spec.job();
    attempt.cluster.queue.poll_soon();
    let seen = timeout(LOOK_AFTER_ERROR, attempt.view.wait_for(|view| view.at.is_some_and(|at| at >= since))).await;
    matches!(seen, Ok(Ok(view)) if unfinished_numbers(view.entries(&job)).is_empty())
}

/// Ends jobs of earlier runs that no run can resume. Jobs that cannot be ended stay for the next run. Returns messages
/// for the user.
pub async fn end_abandoned(folders: Vec<JobFolder>) -> Vec<String> {
    end_abandoned_by(folders, &SlurmContext::default()).await
}

/// Like `end_abandoned`, by a run that queries the queue already.
pub async fn end_abandoned_by(folders: Vec<JobFolder>, cluster: &SlurmContext) -> Vec<String> {
    let own_environment = environment(std::env::vars_os(), None);
    let mut lines = Vec::new();
    let mut elements = Vec::new();
    for folder in folders {
        let spec = match folder.read::<JobSpec>() {
            Ok(Some(spec)) if spec.is_made_for(&folder) => spec,
            Ok(Some(spec)) => {
                lines.push(foreign_job_message(&folder, &spec));
                continue;
            }
            // A run that died before it wrote it: nothing was submitted.
            Ok(None) => {
                let _ = folder.remove();
                continue;
            }
            // Of another version, or damaged: without its name the job cannot be cancelled from here.
            Err(error) => {
                let number = folder.claimant().ok().flatten().or_else(|| folder.number());
                lines.push(unusable_job_message(&folder, number, &error));
                continue;
            }
        };
        let _ = folder.cancel();
        if spec.element.is_some() {
            elements.push((folder, spec));
            continue;
        }
        let env = at_clusters(own_environment.clone(), &spec.slurm.args);
        // A name may stand for nothing in the queue: then `scancel` has nothing to do.
        let ended = cancel(JobsToEnd::Name(&spec.name), false, &env).await.map(|()| AbandonedEnd::Cancelled);
        lines.extend(end_message(&folder, &spec, ended));
    }
    let mut clusters: BTreeMap<Environment, Vec<(JobFolder, JobSpec)>> = BTreeMap::new();
    for (folder, spec) in elements {
        clusters.entry(at_clusters(own_environment.clone(), &spec.slurm.args)).or_default().push((folder, spec));
    }
    for (env, elements) in clusters {
        match end_elements(&elements, cluster, &env).await {
            Ok(ends) => {
                let ended = elements.iter().zip(ends);
                lines.extend(ended.filter_map(|((folder, spec), end)| end_message(folder, spec, Ok(end))));
            }
            Err(why) => {
                lines.extend(elements.iter().filter_map(|(folder, spec)| end_message(folder, spec, Err(why.clone()))));
            }
        }
    }
    lines
}

/// What became of a job that an earlier run left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AbandonedEnd {
    Cancelled,
    /// The queue did not show it any more.
    Gone,
}

/// Of a folder that was not made for this job: it may have come with an archive.
pub fn foreign_job_message(folder: &JobFolder, spec: &JobSpec) -> String {
    let reason = "its job was made in another place, or by an older program";
    unusable_job_message(folder, Some(format!("--name={}", shell_word(&spec.name))), &reason)
}

fn unusable_job_message(folder: &JobFolder, job: Option<String>, reason: &dyn Display) -> String {
    let end = match job {
        Some(job) => format!("if it is yours, end the job with `scancel {job}`"),
        None => "no job is known for it".to_owned(),
    };
    format!("{reason}; {end}, and remove {}", folder.path().display())
}

/// Elements of arrays: the queue knows their numbers, and the array's name is that of others, too. Returns the end of
/// each.
async fn end_elements(
    elements: &[(JobFolder, JobSpec)],
    cluster: &SlurmContext,
    env: &Environment,
) -> Result<Vec<AbandonedEnd>, ErrorText> {
    let instant = Instant::now();
    let mut view = cluster.queue.subscribe(env, LONGEST);
    cluster.queue.poll_soon();
    let seen = timeout(GONE, view.wait_for(|view| view.at.is_some_and(|at| at >= instant))).await;
    let Ok(Ok(seen)) = seen.map(|seen| seen.map(|view| view.clone())) else {
        return Err(ErrorText::new("the queue could not be queried"));
    };
    let left: Vec<Vec<String>> =
        elements.iter().map(|(_, spec)| unfinished_numbers(seen.entries(&spec.job()))).collect();
    cluster.cancel_batcher.cancel(&left.concat(), false, env).await?;
    let end = |left: &Vec<String>| if left.is_empty() { AbandonedEnd::Gone } else { AbandonedEnd::Cancelled };
    Ok(left.iter().map(end).collect())
}

/// `None`: another part of the run has seen its end, and reports it.
fn end_message(folder: &JobFolder, spec: &JobSpec, ended: Result<AbandonedEnd, ErrorText>) -> Option<String> {
    let (job, task) = (spec.job(), &spec.work.task.id);
    let end = match ended {
        Ok(end) => end,
        Err(why) => return Some(format!("the job {job} of an earlier run could not be cancelled: {why}")),
    };
    if let Some(element) = spec.element {
        folder.arrays().forget(&spec.name, element);
    }
    let is_ours = folder.remove().unwrap_or(true);
    is_ours.then(|| match end {
        AbandonedEnd::Cancelled => format!("cancelled the job {job} of {task}, which an earlier run left behind"),
        AbandonedEnd::Gone => format!("the job {job} of {task}, which an earlier run left behind, is already gone"),
    })
}

// Cancels elements of arrays by number, since all share one name, and all concurrent requests with one `scancel`.

/// Collects the elements to be cancelled. A request that arrives while `scancel` runs is in the next one.
#[derive(Debug, Default)]
pub struct CancelBatcher {
    /// By the clusters that they are on.
    wanted: Mutex<BTreeMap<Option<OsString>, CancelRequest>>,
    /// The result of the last query, by the same.
    turn: tokio::sync::Mutex<BTreeMap<Option<OsString>, ErrorText>>,
}

#[derive(Debug, Default)]
struct CancelRequest {
    numbers: BTreeSet<String>,
    hard: bool,
}

impl CancelBatcher {
    /// `Ok` when the controller has received it. `hard`: KILL at once.
    pub async fn cancel(&self, numbers: &[String], hard: bool, env: &Environment) -> Result<(), ErrorText> {
        if numbers.is_empty() {
            return Ok(());
        }
        let clusters = clusters_of(env).map(OsString::from);
        {
            let mut wanted = self.wanted.lock();
            let wanted = wanted.entry(clusters.clone()).or_default();
            wanted.numbers.extend(numbers.iter().cloned());
            wanted.hard |= hard;
        }
        // Others see the same view of the queue in this moment.
        tokio::task::yield_now().await;
        let mut failed = self.turn.lock().await;
        let request = self.wanted.lock().remove(&clusters).unwrap_or_default();
        if !request.numbers.is_empty() {
            let list: Vec<String> = request.numbers.into_iter().collect();
            match cancel(JobsToEnd::Numbers(&list), request.hard, env).await {
                Ok(()) => failed.remove(&clusters),
                Err(error) => failed.insert(clusters.clone(), error),
            };
        }
        // Empty: another caller has cancelled ours with its own.
        failed.get(&clusters).cloned().map_or(Ok(()), Err)
    }
}

/// Numbers of what is not over.
pub fn unfinished_numbers(entries: &[QueueEntry]) -> Vec<String> {
    entries.iter().filter(|job| !job.state.is_final()).map(|job| job.number.clone()).collect()
}

// Whether a job is in the queue, as far as is known before and after its submission.

/// Whether there is a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobExistence {
    /// Nothing of this name was ever submitted.
    Absent,
    /// Something may have been.
    Unknown,
}

/// What became of it until it was in the queue, or a stop was requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enqueued {
    InQueue,
    /// A stop was requested, and all submissions were answered.
    Stopped,
    /// The same, without the answer to one: its job may be there, or appear yet.
    Unanswered,
    /// The same, while `sbatch` was at it: its job may appear at any time.
    UnderWay,
}

impl Enqueued {
    /// At a stop request between two submissions.
    pub const fn of_stop(known: JobExistence) -> Self {
        match known {
            JobExistence::Absent => Self::Stopped,
            JobExistence::Unknown => Self::Unanswered,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::stand_in::StandIn;
    use super::*;
    use plan::Lifetime;
    use plan::manifest::model::Slurm;

    /// Whether a job in this state can be ended for certain where the stop is forced, and `scancel` fails.
    async fn is_ended_where_scancel_fails(state: Option<&str>) -> bool {
        let slurm = StandIn::new(&[("scancel", r#"echo "Kill job error: Invalid job id specified" >&2; exit 1"#)]);
        let lease = slurm.lease(Lifetime::Step);
        let mut attempt = slurm.attempt(&lease, Slurm::default()).await;
        if let Some(state) = state {
            std::fs::write(slurm.path("job"), state).unwrap();
        }
        slurm.stop.now();
        for_certain(&mut attempt, Enqueued::InQueue).await.is_ok()
    }

    #[tokio::test(start_paused = true)]
    async fn a_job_that_is_gone_needs_no_scancel() {
        assert!(is_ended_where_scancel_fails(None).await);
        assert!(is_ended_where_scancel_fails(Some("CANCELLED")).await);
        assert!(!is_ended_where_scancel_fails(Some("RUNNING")).await);
    }

    #[tokio::test(start_paused = true)]
    async fn the_end_of_an_abandoned_job_is_reported_once_and_as_it_was() {
        let slurm = StandIn::new(&[]);
        let lease = slurm.lease(Lifetime::Step);
        let attempt = slurm.attempt(&lease, Slurm::default()).await;
        let message = |end| end_message(&attempt.folder, &attempt.spec, Ok(end));
        let name = &attempt.spec.name;
        let gone = format!("the job {name} of it, which an earlier run left behind, is already gone");
        assert_eq!(message(AbandonedEnd::Gone), Some(gone));
        assert_eq!(message(AbandonedEnd::Cancelled), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_job_that_came_with_an_archive_is_not_cancelled() {
        let slurm = StandIn::new(&[]);
        let lease = slurm.lease(Lifetime::Step);
        let attempt = slurm.attempt(&lease, Slurm::default()).await;
        assert!(attempt.spec.is_made_for(&attempt.folder));
        let plant = |name: &str, spec: &JobSpec| {
            let folder = JobFolder::at(slurm.path("unpacked/.regatta/jobs").join(name));
            folder.write(spec, None).unwrap();
            folder
        };
        // The file of another project as it is, and files made up for a name.
        let state = slurm.path("unpacked/.regatta/out/0123-0").display().to_string();
        let named = |name: &str, salt: &str| JobSpec { name: name.into(), salt: salt.into(), ..attempt.spec.clone() };
        let digest = base::files::Digest::hash(state.as_bytes()).short();
        let planted = [
            plant("other", &attempt.spec),
            plant("named", &named("train", &state)),
            plant("prefixed", &named("regatta-train-0123456789abcdef", &state)),
            plant("listed", &named(&format!("regatta-a,train,b-{digest}"), &state)),
            plant("unsalted", &named(&attempt.spec.name, "")),
        ];
        let lines = end_abandoned_by(planted.to_vec(), &slurm.cluster).await;
        assert_eq!(lines.len(), planted.len(), "{lines:?}");
        for (line, folder) in lines.iter().zip(&planted) {
            assert!(
                line.contains("was made in another place") && line.contains("end the job with `scancel --name="),
                "{line}"
            );
            assert!(!folder.is_cancelled() && folder.path().exists());
        }
        let ours = plant("ours", &named(&format!("regatta-it-{digest}"), &state));
        assert!(ours.read::<JobSpec>().unwrap().unwrap().is_made_for(&ours));
    }
}
