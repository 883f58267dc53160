//! Submits jobs, and repeats that until they are in the queue. Tasks of one stage that start together are one job
//! array: gathered, brought into the queue by one submission, and from then on each on its own.
//!
//! The members are known without a clock: the run loop gives a `BatchSlot` to each task that it starts at the same
//! moment, and each reports whether it takes part ([`runner::BatchSlot`]). An element has a name (the array's) and an
//! index; an attempt that is submitted again later is a job of its own, or an element of another array.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{OnceCell, Semaphore, oneshot, watch};
use tokio::time::{Instant, sleep};

use super::batch_script;
use super::cancel_jobs::{CancelBatcher, Enqueued, JobExistence};
use super::commands::{JobQueue, QueueView, SlurmJob, Submission, SubmitOutcome, ranges, submit};
use super::run_attempt::{JobAttempt, submission_command};
use base::event::{Event, Failure, FailureKind, Stop, TaskId};
use base::spec::TimeSpan;
use runner::store::{JobFolder, PathError, WithPath as _};
use runner::{BatchSlot, EventEmitter};

/// From one try to the next, while the controller takes nothing; doubled each time.
const FIRST_RETRY_DELAY: Duration = Duration::from_secs(2);

const LONGEST_RETRY_DELAY: Duration = Duration::from_mins(1);

/// A submission without an answer may still be on its way into the queue when the queue is searched for it.
pub const SUBMISSION_DELAY: Duration = Duration::from_secs(3);

/// Submits a job until it is in the queue; an element of an array together with the others of its batch.
pub async fn until_submitted(
    attempt: &JobAttempt<'_>,
    batch_slot: Option<BatchSlot>,
    known: JobExistence,
) -> EnqueueResult {
    let (reply, receiver) = oneshot::channel();
    let member = PendingJob::new(attempt, known, reply)?;
    let cluster = attempt.cluster;
    let progress = if known == JobExistence::Unknown { "is looked for in the queue" } else { "is submitted" };
    attempt.lease.report_progress(progress, 0, None);
    let ready = match batch_slot.filter(|_| member.job.element.is_some()) {
        Some(batch_slot) => {
            let batch = batch_slot.name().to_owned();
            cluster.pending_members.join(&batch, member);
            batch_slot.all_decided().await;
            cluster.pending_members.take(&batch)
        }
        None => vec![member],
    };
    // Jobs that earlier runs submitted under another name form a separate array.
    let mut submissions: BTreeMap<String, Vec<PendingJob>> = BTreeMap::new();
    for member in ready {
        submissions.entry(member.job.name.clone()).or_default().push(member);
    }
    for members in submissions.into_values() {
        // Of its own, so that it ends with none of them.
        tokio::spawn(PendingSubmission::new(cluster.clone(), members).submit());
    }
    let enqueued = tokio::select! {
        biased;
        enqueued = receiver => {
            enqueued.unwrap_or_else(|_| Err(Failure::system("its submission was given up")))
        }
        // A hard stop does not wait: a submission may be under way.
        () = attempt.lease.stop.hard_requested() => Ok(Enqueued::UnderWay),
    };
    if matches!(enqueued, Err(_) | Ok(Enqueued::Stopped)) {
        // Nothing was submitted: nothing stays.
        attempt.mark_ended();
    }
    enqueued
}

impl PendingJob {
    fn new(
        attempt: &JobAttempt<'_>,
        known: JobExistence,
        reply: oneshot::Sender<EnqueueResult>,
    ) -> Result<Self, PathError> {
        let spec = &attempt.spec;
        let program = batch_script::program(&spec.slurm, &spec.work.project).at("find", Path::new("this program"))?;
        Ok(Self {
            job: spec.job(),
            task: spec.work.task.id.clone(),
            folder: attempt.folder.clone(),
            program,
            comment: format!("{} of {}", spec.work.task.stage, spec.work.project.display()),
            at_once: spec.slurm.at_once,
            queue_timeout: spec.slurm.queue_timeout.clone(),
            submission: attempt.submission(),
            view: attempt.view.clone(),
            known,
            stop: attempt.lease.stop.clone(),
            emit: Arc::clone(&attempt.lease.emit),
            reply,
        })
    }

    fn element(&self) -> u32 {
        self.job.element.unwrap_or_default()
    }

    fn reply(self, enqueued: EnqueueResult) {
        // The receiver is gone when its attempt did not wait.
        let _ = self.reply.send(enqueued);
    }
}

/// One job, or elements of one array by index, that are not in the queue yet.
struct PendingSubmission {
    cluster: SlurmContext,
    pending_members: Vec<PendingJob>,
    /// As many as one submission may have: fewer than there are if the user's job limit is lower.
    piece: usize,
    /// When Slurm first had too many jobs of the user to take another one: waiting for that is a queue, too.
    full_since: Option<Instant>,
    last_message: String,
}

impl PendingSubmission {
    fn new(cluster: SlurmContext, mut members: Vec<PendingJob>) -> Self {
        members.sort_by_key(PendingJob::element);
        Self { cluster, pending_members: members, piece: usize::MAX, full_since: None, last_message: String::new() }
    }

    async fn submit(mut self) {
        let mut pause = FIRST_RETRY_DELAY;
        let mut perhaps = self.pending_members.iter().any(|member| member.known == JobExistence::Unknown);
        loop {
            if std::mem::take(&mut perhaps) {
                self.find_in_queue().await;
                // A stop of the first one cuts the search short for all.
                perhaps = self.pending_members.first().is_some_and(|first| first.stop.is_requested());
            }
            self.drop_stopped();
            if perhaps {
                continue;
            }
            let n = self.pending_members.len().min(self.piece);
            if n == 0 {
                return;
            }
            let submission = match self.write_submission(n) {
                Ok(submission) => submission,
                Err(error) => return self.all_fail(&error.into()),
            };
            let stop = self.pending_members[0].stop.clone();
            let submitted = {
                // The semaphore is never closed; if it were, more jobs would be submitted at once.
                let _turn = tokio::select! {
                    biased;
                    () = stop.requested() => continue,
                    turn = self.cluster.submitting.acquire() => turn.ok(),
                };
                // A gentle stop waits for the answer: what is abandoned goes on by itself, and cannot be cancelled
                // before it is there.
                submit(&submission).await
            };
            match submitted {
                SubmitOutcome::Number(number) => {
                    // Slurm has its own copy of it.
                    self.forget_script();
                    for member in self.pending_members.drain(..n) {
                        // For display only: the name finds it too.
                        let _ = member.folder.note_number(&match member.job.element {
                            Some(element) => format!("{number}_{element}"),
                            None => number.clone(),
                        });
                        member.reply(Ok(Enqueued::InQueue));
                    }
                    pause = FIRST_RETRY_DELAY;
                    self.full_since = None;
                    self.piece = self.piece.saturating_mul(2);
                    continue;
                }
                SubmitOutcome::TooMany(why) if n > 1 => {
                    self.notify_once(&format!(
                        "Slurm does not accept {n} jobs at once ({why}); they are submitted in smaller arrays"
                    ));
                    self.piece = n.div_ceil(2);
                    continue;
                }
                SubmitOutcome::Unknown(why) => {
                    self.notify_retry(&why);
                    for member in &mut self.pending_members[..n] {
                        member.known = JobExistence::Unknown;
                    }
                    perhaps = true;
                }
                SubmitOutcome::TooMany(why) => {
                    let since = *self.full_since.get_or_insert_with(Instant::now);
                    let limit = self.pending_members[0].queue_timeout.as_ref();
                    if limit.is_some_and(|limit| since.elapsed() >= limit.time()) {
                        let message = format!("Slurm did not accept its {} within `queue_timeout`: {why}", self.noun());
                        let failure = Failure::new(FailureKind::Timeout, message)
                            .hint("use a longer `queue_timeout`, or cancel other jobs");
                        return self.all_fail(&failure.command(submission_command(&submission)));
                    }
                    self.notify_retry(&why);
                }
                SubmitOutcome::RetryLater(why) => self.notify_retry(&why),
                SubmitOutcome::Refused(why) => {
                    let message = format!("Slurm rejects its {}: {why}", self.noun());
                    let failure =
                        Failure::refused(message).hint("check `host.slurm`, and `SBATCH_*` in the environment");
                    return self.all_fail(&failure.command(submission_command(&submission)));
                }
                SubmitOutcome::Absent(why) => {
                    return self.all_fail(&Failure::new(FailureKind::Spawn, why).hint(
                        "`host: slurm` needs Slurm's own programs: start Regatta on a node of the cluster that can \
                         submit",
                    ));
                }
            }
            tokio::select! {
                () = stop.requested() => {}
                () = sleep(pause) => {}
            }
            pause = (pause * 2).min(LONGEST_RETRY_DELAY);
        }
    }

    /// What a message calls them.
    fn noun(&self) -> &'static str {
        if self.pending_members.iter().any(|member| member.job.element.is_some()) { "array" } else { "job" }
    }

    fn forget_script(&self) {
        if let Some(first) = self.pending_members.first().filter(|member| member.job.element.is_some()) {
            first.folder.arrays().forget_script(&first.job.name);
        }
    }

    /// Removes the jobs that are no longer needed.
    fn drop_stopped(&mut self) {
        for member in self.pending_members.extract_if(.., |member| member.stop.is_requested()) {
            let enqueued = Enqueued::of_stop(member.known);
            member.reply(Ok(enqueued));
        }
    }

    fn all_fail(&mut self, failure: &Failure) {
        self.forget_script();
        for member in self.pending_members.drain(..) {
            member.reply(Err(failure.clone()));
        }
    }

    /// The submission of the first `n`, its script written: that of a job of its own is in its folder already.
    fn write_submission(&self, n: usize) -> Result<Submission, PathError> {
        let members = &self.pending_members[..n];
        let first = &members[0];
        if first.job.element.is_none() {
            return Ok(first.submission.clone());
        }
        let files = first.folder.arrays();
        let folders: Vec<(u32, &Path)> =
            members.iter().map(|member| (member.element(), member.folder.path())).collect();
        let elements: Vec<u32> = members.iter().map(PendingJob::element).collect();
        let name = first.job.name.clone();
        files.write(&name, &batch_script::array_script(&first.program, &folders, &first.comment), &elements)?;
        Ok(Submission {
            folder: files.folder().to_owned(),
            script: files.script(&name),
            output: files.pattern(&name),
            array: Some((ranges(&elements), first.at_once)),
            env: members.iter().flat_map(|member| member.submission.env.clone()).collect(),
            name,
            ..first.submission.clone()
        })
    }

    /// Looks for them by name until the queue has answered: a job must be missing twice, some time apart.
    async fn find_in_queue(&mut self) {
        for last in [false, true] {
            self.drop_stopped();
            // A job that has begun is there, whatever the queue answers.
            for member in self.pending_members.extract_if(.., |member| member.folder.is_claimed()) {
                member.reply(Ok(Enqueued::InQueue));
            }
            let Some(first) = self.pending_members.first() else { return };
            let (mut view, stop) = (first.view.clone(), first.stop.clone());
            let after = Instant::now();
            self.cluster.queue.poll_soon();
            let seen = tokio::select! {
                biased;
                () = stop.requested() => return,
                seen = view.wait_for(|view| view.at.is_some_and(|at| at >= after)) => match seen {
                    Ok(seen) => seen.clone(),
                    // Its sender lives as long as its listeners.
                    Err(_) => return,
                },
            };
            let is_there = |member: &mut PendingJob| {
                // It may be over already.
                member.folder.is_claimed() || !seen.entries(&member.job).is_empty()
            };
            for member in self.pending_members.extract_if(.., is_there) {
                member.reply(Ok(Enqueued::InQueue));
            }
            if !last && !self.pending_members.is_empty() {
                sleep(SUBMISSION_DELAY).await;
            }
        }
    }

    fn notify_retry(&mut self, why: &str) {
        self.notify_once(&format!("Slurm has not accepted its {} yet: {why}; it is tried again", self.noun()));
    }

    /// One message for the user, in the name of the first: it is one submission.
    fn notify_once(&mut self, text: &str) {
        if self.last_message == text {
            return;
        }
        text.clone_into(&mut self.last_message);
        if let Some(first) = self.pending_members.first() {
            (first.emit)(Event::Notice { task: Some(first.task.clone()), text: text.to_owned() });
        }
    }
}

/// The result for one job.
type EnqueueResult = Result<Enqueued, Failure>;

/// A job, or an element of an array, that is to be submitted.
pub struct PendingJob {
    job: SlurmJob,
    task: TaskId,
    folder: JobFolder,
    program: PathBuf,
    comment: String,
    at_once: Option<u32>,
    queue_timeout: Option<TimeSpan>,
    submission: Submission,
    view: watch::Receiver<QueueView>,
    known: JobExistence,
    stop: Stop,
    emit: EventEmitter,
    reply: oneshot::Sender<EnqueueResult>,
}

/// The members so far: batch → members.
#[derive(Clone, Default)]
pub struct PendingMembers(Arc<Mutex<BTreeMap<String, Vec<PendingJob>>>>);

impl std::fmt::Debug for PendingMembers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PendingMembers")
    }
}

impl PendingMembers {
    fn join(&self, batch: &str, member: PendingJob) {
        self.0.lock().entry(batch.to_owned()).or_default().push(member);
    }

    /// The first caller gets all members; later callers get none.
    fn take(&self, batch: &str) -> Vec<PendingJob> {
        self.0.lock().remove(batch).unwrap_or_default()
    }
}

/// How many submissions go on at once: a controller is busy enough.
const AT_ONCE: usize = 4;

/// What all jobs of a run share.
#[derive(Clone, Debug)]
pub struct SlurmContext {
    /// The name of the manifest that they are of.
    pub(super) manifest: String,
    pub(super) queue: JobQueue,
    pub(super) submitting: Arc<Semaphore>,
    pub(super) pending_members: PendingMembers,
    pub(super) cancel_batcher: Arc<CancelBatcher>,
    /// That the controller does not answer has been reported: it is the same for all jobs.
    pub(super) is_silence_reported: Arc<AtomicBool>,
    /// The cluster's `MaxArraySize`, once it was queried.
    pub(super) max_array_size: Arc<OnceCell<u32>>,
}

impl Default for SlurmContext {
    fn default() -> Self {
        Self {
            manifest: String::new(),
            queue: JobQueue::default(),
            submitting: Arc::new(Semaphore::new(AT_ONCE)),
            pending_members: PendingMembers::default(),
            cancel_batcher: Arc::default(),
            is_silence_reported: Arc::default(),
            max_array_size: Arc::default(),
        }
    }
}

impl SlurmContext {
    pub fn of_manifest(manifest: &str) -> Self {
        Self { manifest: manifest.to_owned(), ..Self::default() }
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
            (FailureKind::Timeout, "Slurm did not accept its job within `queue_timeout`: AssocMaxSubmitJobLimit")
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
