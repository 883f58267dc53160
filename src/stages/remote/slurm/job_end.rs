//! How an attempt ends: by its own record, or by the queue's state where that is more precise.

use std::ffi::OsStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep};

use super::cancel_jobs;
use super::commands::{JobState, QueueEntry};
use super::job_files::{FolderSize, JobEnd};
use super::queue_interpreter::{QueueInterpreter, pick};
use super::run_attempt::{FOLDER_POLL_INTERVAL, JobAttempt, submission_command};
use base::event::{Done, Failure, FailureKind};
use exec::process;
use plan::Lifetime;
use runner::store::{JobFolder, PathError, WithPath as _};

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
        let is_service = self.spec.work.task.lifetime == Lifetime::Service;
        let mut deadline = begun + if is_service { WHY_OF_SERVICE } else { WHY };
        let claimant = self.folder.claimant().ok().flatten();
        let (requeued, job) = loop {
            let view = self.view.borrow_and_update().clone();
            let job = pick(view.entries(&self.spec.job()), claimant.as_deref()).cloned();
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

    /// Waits for a node's files: on a network filesystem they may appear here only after a while.
    async fn await_files(&self, there: FolderSize) -> Result<(), Failure> {
        let deadline = Instant::now() + FILES;
        loop {
            let here = FolderSize::measure(&self.spec.work.out);
            if here == there {
                return Ok(());
            }
            if Instant::now() > deadline {
                let message = format!(
                    "its output has {} files and {} bytes here, and had {} files and {} bytes on its node",
                    here.files, here.bytes, there.files, there.bytes
                );
                return Err(Failure::system(message).hint(
                    "is the project folder on a filesystem that all nodes share? Was it written to after the \
                        job's end?",
                ));
            }
            self.lease.report_progress("waits for the files of its output", 0, None);
            sleep(FOLDER_POLL_INTERVAL).await;
        }
    }

    /// The queue has decided. Whatever of the job is left is ended.
    pub async fn give_up(&self, mut failure: Failure) -> Failure {
        let _ = self.folder.cancel();
        let _ = cancel_jobs::ask_to_end(self, false).await;
        failure.tail = process::tail(&self.spec.work.log, TAIL);
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

// What a job writes into its folder, read again and again. An error of the filesystem says nothing about the job: on a
// network filesystem it passes.

/// How long a folder may be unreadable until the run gives the job up.
const UNREADABLE_TIMEOUT: Duration = Duration::from_mins(5);

/// What a job has written so far.
pub struct JobProgress {
    pub ended: Option<JobEnd>,
    /// Events since the last look.
    pub lines: Vec<String>,
    pub claimant: Option<String>,
    pub heartbeat: Option<String>,
}

/// A look at the folder.
pub enum FolderLook {
    Progress(Box<JobProgress>),
    /// It cannot be read now; with a message for the user, sent once.
    Unreadable(Option<String>),
}

/// Reads one job's folder.
pub struct ProgressReader {
    folder: JobFolder,
    /// Where the next events begin.
    offset: u64,
    unreadable_since: Option<Instant>,
    is_reported: bool,
}

impl ProgressReader {
    pub const fn new(folder: JobFolder) -> Self {
        Self { folder, offset: 0, unreadable_since: None, is_reported: false }
    }

    /// # Errors
    /// The record of the job's end is damaged, or the folder could not be read for too long.
    pub async fn look(&mut self) -> Result<FolderLook, PathError> {
        let (folder, from) = (self.folder.clone(), self.offset);
        // A shared filesystem may be slow, and the run has other tasks.
        let read = spawn_blocking(move || read(&folder, from)).await;
        self.judge(read.at("read", self.folder.path()).flatten(), Instant::now())
    }

    fn judge(&mut self, read: Result<(JobProgress, u64), PathError>, now: Instant) -> Result<FolderLook, PathError> {
        match read {
            Ok((progress, offset)) => {
                self.offset = offset;
                self.unreadable_since = None;
                Ok(FolderLook::Progress(Box::new(progress)))
            }
            Err(error) if error.is_of_system() => {
                let since = *self.unreadable_since.get_or_insert(now);
                if now.saturating_duration_since(since) >= UNREADABLE_TIMEOUT {
                    return Err(error);
                }
                let is_first = !std::mem::replace(&mut self.is_reported, true);
                let text = || format!("{error}; its job continues, and the run tries to read it again");
                Ok(FolderLook::Unreadable(is_first.then(text)))
            }
            Err(error) => Err(error),
        }
    }
}

fn read(folder: &JobFolder, from: u64) -> Result<(JobProgress, u64), PathError> {
    // A job that waits costs a shared filesystem one listing.
    let names = folder.list()?;
    let has = |name: &str| names.contains(OsStr::new(name));
    // Its end before its events: they were written first, so none comes after these.
    let ended = if has("ended.json") { folder.ended()? } else { None };
    let (lines, offset) = if has("events") { folder.read_event_lines(from)? } else { (Vec::new(), from) };
    let claimant = if has("claim") { folder.claimant()? } else { None };
    let heartbeat = if has("alive") { folder.heartbeat() } else { None };
    Ok((JobProgress { ended, lines, claimant, heartbeat }, offset))
}

// How much of a job's time is left when Slurm signals that its limit is near.

/// Slurm may send the signal earlier than it was told to, by so many seconds.
const SIGNAL_RESOLUTION_S: u64 = 60;

/// `85 s`, where the job's environment has the time of its end, which older versions of Slurm do not set; else the
/// range that the signal stands for. `warn_s`: seconds before the limit at which the signal was requested.
pub fn time_left(warn_s: u64) -> String {
    let end = std::env::var("SLURM_JOB_END_TIME").ok();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    left_until(end.as_deref(), now, warn_s)
}

fn left_until(end: Option<&str>, now: u64, warn_s: u64) -> String {
    match end.and_then(|end| end.parse::<u64>().ok()).and_then(|end| end.checked_sub(now)) {
        Some(left) => format!("{left} s"),
        None => format!("{warn_s} to {} s", warn_s + SIGNAL_RESOLUTION_S),
    }
}

#[cfg(test)]
mod tests {
    use super::super::job_files::FolderSize;
    use super::super::stand_in::StandIn;
    use super::*;
    use plan::manifest::model::Slurm;

    /// The end of an attempt that was stopped, after which the queue shows its job in these states, each from a time
    /// on.
    async fn end_of_stopped(lifetime: Lifetime, states: &[(Duration, &str)]) -> (Failure, StandIn) {
        let slurm = StandIn::new(&[]);
        let lease = slurm.lease(lifetime);
        let mut attempt = slurm.attempt(&lease, Slurm::default()).await;
        let folder = attempt.folder.clone();
        let job = async {
            folder.claim("7").unwrap();
            sleep(Duration::from_secs(5)).await;
            let how = Err(Failure::interrupted("stopped"));
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

    fn outcome(look: &Result<FolderLook, PathError>) -> &'static str {
        match look {
            Ok(FolderLook::Progress(_)) => "progress",
            Ok(FolderLook::Unreadable(Some(_))) => "message",
            Ok(FolderLook::Unreadable(None)) => "silence",
            Err(_) => "error",
        }
    }

    #[test]
    fn events_and_a_claim_that_cannot_be_read_are_not_absent() {
        let folder = tempfile::tempdir().unwrap();
        let job = JobFolder::at(folder.path());
        let mut reader = ProgressReader::new(job.clone());
        let now = Instant::now();
        for name in ["events", "claim"] {
            let path = folder.path().join(name);
            // It is there, and cannot be followed, not even by root.
            std::os::unix::fs::symlink(name, &path).unwrap();
            // Its end is concluded only after its events were read.
            let end = JobEnd {
                number: "7".to_owned(),
                node: "n1".to_owned(),
                how: Ok(base::event::Done::default()),
                extent: crate::remote::slurm::job_files::FolderSize::default(),
            };
            job.end(&end).unwrap();
            reader.is_reported = false;
            assert_eq!(outcome(&reader.judge(read(&job, 0), now)), "message", "{name}");
            std::fs::remove_file(&path).unwrap();
            std::fs::remove_file(folder.path().join("ended.json")).unwrap();
        }
        assert_eq!(outcome(&reader.judge(read(&job, 0), now)), "progress");
    }

    #[test]
    fn an_error_of_the_filesystem_is_waited_out_and_reported_once() {
        let folder = tempfile::tempdir().unwrap();
        let job = JobFolder::at(folder.path());
        let end = folder.path().join("ended.json");
        let mut reader = ProgressReader::new(job.clone());
        let begun = Instant::now();
        let mut look = |at: u64| outcome(&reader.judge(read(&job, 0), begun + Duration::from_secs(at)));
        assert_eq!(look(0), "progress");
        // It is there, and cannot be followed, not even by root.
        std::os::unix::fs::symlink("ended.json", &end).unwrap();
        assert_eq!([look(1), look(300)], ["message", "silence"]);
        std::fs::remove_file(&end).unwrap();
        assert_eq!(look(301), "progress");
        std::os::unix::fs::symlink("ended.json", &end).unwrap();
        assert_eq!([look(302), look(601), look(602)], ["silence", "silence", "error"]);
        std::fs::remove_file(&end).unwrap();
        std::fs::write(&end, "{").unwrap();
        assert_eq!(look(603), "error", "it was read, and is damaged");
    }

    #[test]
    fn the_time_that_is_left_is_no_more_exact_than_it_is_known() {
        assert_eq!(left_until(Some("1085"), 1000, 30), "85 s");
        assert_eq!(left_until(None, 1000, 30), "30 to 90 s");
        assert_eq!(left_until(Some("900"), 1000, 30), "30 to 90 s", "the limit was changed meanwhile");
    }
}
