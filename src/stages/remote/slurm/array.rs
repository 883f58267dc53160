//! Tasks of one stage as one job array: gathered, brought into the queue by one submission, and from then on each on
//! its own.
//!
//! The members are known without a clock: the run loop gives a `BatchSlot` to each task that it starts at the same
//! moment, and each reports whether it takes part ([`runner::BatchSlot`]). An element has a name (the array's) and an
//! index; an attempt that is submitted again later is a job of its own, or an element of another array.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use parking_lot::Mutex;
use tokio::sync::{OnceCell, Semaphore, oneshot, watch};
use tokio::time::{Instant, sleep};

use super::batch_script;
use super::cancel_jobs::{CancelBatcher, Enqueued, JobExistence};
use super::commands::{JobQueue, QueueView, SlurmJob, Submission, SubmitOutcome, ranges, submit};
use super::run_attempt::{JobAttempt, submission_command};
use super::submit_until_queued::{
    FIRST_RETRY_DELAY, FullQueue, LONGEST_RETRY_DELAY, SUBMISSION_DELAY, absent, full_failure, rejection_failure,
};
use base::event::{Event, Failure, FailureKind, Stop, TaskId};
use base::spec::TimeSpan;
use runner::BatchSlot;
use runner::store::{JobFolder, PathError, WithPath as _};

/// Submits an element, together with the others of its batch.
pub async fn until_submitted(
    attempt: &JobAttempt<'_>,
    batch_slot: Option<BatchSlot>,
    known: JobExistence,
) -> EnqueueResult {
    let (reply, receiver) = oneshot::channel();
    let member = ArrayMember::new(attempt, known, reply)?;
    let cluster = attempt.cluster;
    attempt.lease.report_progress("is submitted", 0, None);
    let members_ready = match batch_slot {
        Some(batch_slot) => {
            let batch = batch_slot.name().to_owned();
            cluster.pending_members.join(&batch, member);
            batch_slot.all_decided().await;
            cluster.pending_members.take(&batch)
        }
        None => vec![member],
    };
    // What earlier runs submitted under another name is another array.
    let mut arrays: BTreeMap<String, Vec<ArrayMember>> = BTreeMap::new();
    for member in members_ready {
        arrays.entry(member.job.name.clone()).or_default().push(member);
    }
    for members in arrays.into_values() {
        // Of its own, so that it ends with none of them.
        tokio::spawn(ArraySubmission::new(cluster.clone(), members).submit());
    }
    let enqueued = tokio::select! {
        biased;
        enqueued = receiver => enqueued.unwrap_or_else(|_| Err(Failure::new(FailureKind::System, "its array was given \
            up"))),
        // A hurried stop does not wait for a submission that is under way.
        () = attempt.lease.stop.hard_requested() => Ok(Enqueued::UnderWay),
    };
    if enqueued.is_err() {
        attempt.mark_ended();
    }
    enqueued
}

impl ArrayMember {
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

/// Elements of one array that are not in the queue yet, by index.
struct ArraySubmission {
    cluster: SlurmContext,
    pending_members: Vec<ArrayMember>,
    /// As many as one submission may have: fewer than there are if the user's job limit is lower.
    piece: usize,
    full: FullQueue,
    last_message: String,
}

impl ArraySubmission {
    fn new(cluster: SlurmContext, mut members: Vec<ArrayMember>) -> Self {
        members.sort_by_key(ArrayMember::element);
        Self {
            cluster,
            pending_members: members,
            piece: usize::MAX,
            full: FullQueue::default(),
            last_message: String::new(),
        }
    }

    async fn submit(mut self) {
        let mut pause = FIRST_RETRY_DELAY;
        let mut perhaps = self.pending_members.iter().any(|member| member.known == JobExistence::Unknown);
        loop {
            if std::mem::take(&mut perhaps) {
                self.find_in_queue().await;
            }
            self.drop_stopped();
            let n = self.pending_members.len().min(self.piece);
            if n == 0 {
                return;
            }
            let submission = match self.write_submission(n) {
                Ok(submission) => submission,
                Err(error) => return self.all_fail(&error.into()),
            };
            let submitted = {
                // A closed semaphore would be our own doing, and only mean more at once.
                let _turn = self.cluster.submitting.clone().acquire_owned().await.ok();
                submit(&submission).await
            };
            match submitted {
                SubmitOutcome::Number(number) => {
                    // Slurm has its own copy of it.
                    self.forget_script();
                    for member in self.pending_members.drain(..n) {
                        // For display only: the name finds it too.
                        let _ = member.folder.note_number(&format!("{number}_{}", member.element()));
                        member.reply(Ok(Enqueued::InQueue));
                    }
                    pause = FIRST_RETRY_DELAY;
                    self.full = FullQueue::default();
                    self.piece = self.piece.saturating_mul(2);
                    continue;
                }
                SubmitOutcome::TooMany(why) if n > 1 => {
                    self.notify_once(&format!(
                        "Slurm does not take {n} jobs at once ({why}); they are submitted in smaller arrays"
                    ));
                    self.piece = n.div_ceil(2);
                    continue;
                }
                SubmitOutcome::Unknown(why) => {
                    self.notify_once(&retry_message(&why));
                    for member in &mut self.pending_members[..n] {
                        member.known = JobExistence::Unknown;
                    }
                    perhaps = true;
                }
                SubmitOutcome::TooMany(why) => {
                    if self.full.is_over(self.pending_members[0].queue_timeout.as_ref()) {
                        self.forget_script();
                        return self.all_fail(&full_failure(&why, "array").command(submission_command(&submission)));
                    }
                    self.notify_once(&retry_message(&why));
                }
                SubmitOutcome::RetryLater(why) => self.notify_once(&retry_message(&why)),
                SubmitOutcome::Refused(why) => {
                    self.forget_script();
                    return self.all_fail(&rejection_failure(&why, "array").command(submission_command(&submission)));
                }
                SubmitOutcome::Absent(why) => {
                    self.forget_script();
                    return self.all_fail(&absent(why));
                }
            }
            let stop = self.pending_members[0].stop.clone();
            tokio::select! {
                () = stop.requested() => {}
                () = sleep(pause) => {}
            }
            pause = (pause * 2).min(LONGEST_RETRY_DELAY);
        }
    }

    fn forget_script(&self) {
        if let Some(first) = self.pending_members.first() {
            first.folder.arrays().forget_script(&first.job.name);
        }
    }

    /// Removes the elements that are no longer needed.
    fn drop_stopped(&mut self) {
        for member in self.pending_members.extract_if(.., |member| member.stop.is_requested()) {
            let enqueued = Enqueued::of_stop(member.known);
            member.reply(Ok(enqueued));
        }
    }

    fn all_fail(&mut self, failure: &Failure) {
        for member in self.pending_members.drain(..) {
            member.reply(Err(failure.clone()));
        }
    }

    /// The submission of the first `n`, its script written.
    fn write_submission(&self, n: usize) -> Result<Submission, PathError> {
        let members = &self.pending_members[..n];
        let first = &members[0];
        let files = first.folder.arrays();
        let folders: Vec<(u32, &Path)> =
            members.iter().map(|member| (member.element(), member.folder.path())).collect();
        let elements: Vec<u32> = members.iter().map(ArrayMember::element).collect();
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

    /// Looks for them by name until the queue has answered: an element must be missing twice, some time apart.
    async fn find_in_queue(&mut self) {
        for last in [false, true] {
            self.drop_stopped();
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
            let is_there = |member: &mut ArrayMember| {
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

fn retry_message(why: &str) -> String {
    format!("Slurm has not taken its array yet: {why}; it is tried again")
}

// Members of arrays that are not submitted yet.

/// The result for an element.
pub(super) type EnqueueResult = Result<Enqueued, Failure>;

/// One element to be.
pub struct ArrayMember {
    pub(super) job: SlurmJob,
    pub(super) task: TaskId,
    pub(super) folder: JobFolder,
    pub(super) program: PathBuf,
    pub(super) comment: String,
    pub(super) at_once: Option<u32>,
    pub(super) queue_timeout: Option<TimeSpan>,
    pub(super) submission: Submission,
    pub(super) view: watch::Receiver<QueueView>,
    pub(super) known: JobExistence,
    pub(super) stop: Stop,
    pub(super) emit: Arc<dyn Fn(Event) + Send + Sync>,
    pub(super) reply: oneshot::Sender<EnqueueResult>,
}

/// The members so far: batch → members.
#[derive(Clone, Default)]
pub struct PendingArrayMembers(Arc<Mutex<BTreeMap<String, Vec<ArrayMember>>>>);

impl std::fmt::Debug for PendingArrayMembers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Gathering")
    }
}

impl PendingArrayMembers {
    pub(super) fn join(&self, batch: &str, member: ArrayMember) {
        self.open().entry(batch.to_owned()).or_default().push(member);
    }

    /// The first caller gets all members; later callers get none.
    pub(super) fn take(&self, batch: &str) -> Vec<ArrayMember> {
        self.open().remove(batch).unwrap_or_default()
    }

    pub(super) fn open(&self) -> parking_lot::MutexGuard<'_, BTreeMap<String, Vec<ArrayMember>>> {
        self.0.lock()
    }
}

// What all jobs of a run share.

/// How many submissions go on at once: a controller is busy enough.
pub(super) const AT_ONCE: usize = 4;

/// What all jobs of a run share.
#[derive(Clone, Debug)]
pub struct SlurmContext {
    /// The name of the manifest that they are of.
    pub(super) manifest: String,
    pub(super) queue: JobQueue,
    pub(super) submitting: Arc<Semaphore>,
    pub(super) pending_members: PendingArrayMembers,
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
            pending_members: PendingArrayMembers::default(),
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
