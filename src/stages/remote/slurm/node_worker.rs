//! The job's side: claims the attempt, does the stage as it would be done here, and writes down how it ended.

use std::cell::OnceCell;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep};

use super::job_end::time_left;
use super::job_files::{FolderSize, JobEnd, JobEvent, JobEventWriter, JobSpec};
use crate::StageExecutor;
use base::event::{Done, Event, Failure, FailureKind, GpuId, RunId, Stop};
use exec::process::{self, Leftover};
use plan::Lifetime;
use plan::manifest::model::Slurm;
use runner::store::{JobFolder, PathError, is_full};
use runner::{isolate_panics, note_full_disk, usable_secret_values, within};

/// How often the job looks whether it is to end.
const STOP_POLL_INTERVAL: Duration = Duration::from_secs(1);
/// A server that no run has needed for this long has lost its run.
const ORPHANED_SERVER_TIMEOUT: Duration = Duration::from_mins(2);
/// How long the record of a job's end may be refused by its filesystem.
const END_RECORD_TIMEOUT: Duration = Duration::from_mins(10);

/// How long what a stage has left running may take to end before it is killed.
const SWEEP_GRACE: Duration = Duration::from_secs(1);

/// Why a job did nothing. Not a failure of the stage: another job runs it, or it is not needed any more.
#[derive(Debug, thiserror::Error)]
pub enum NodeWorkerError {
    #[error("{0}: no run waits for this job any more")]
    NoRunWaiting(String),
    #[error("job {0} is already working on this attempt")]
    AlreadyClaimed(String),
    #[error(transparent)]
    Path(#[from] PathError),
    #[error("signals cannot be heard: {0}")]
    SignalHandler(#[from] std::io::Error),
}

/// The whole of a job. The result of the stage itself is in `ended.json`: a failed stage is not an error here.
pub async fn work(folder: &JobFolder, claim: &AttemptClaim) -> Result<(), NodeWorkerError> {
    let signals = Signals::new()?;
    let stop = Stop::new();
    let cause = OnceCell::new();
    let how = tokio::select! {
        how = perform(folder, claim, &stop) => how,
        never = watch(folder, &claim.spec, signals, &stop, &cause, &claim.event_writer) => match never {},
    };
    let how = match cause.get() {
        Some(cause) if claim.spec.work.task.lifetime == Lifetime::Service => Err(cause.failure(how)),
        _ => how,
    };
    // Now, and not when the run reads of it: the record is written once there is room again.
    let how = how.map_err(|mut failure| {
        if is_full(folder.path()) && !matches!(failure.kind, FailureKind::Invalid(_)) {
            note_full_disk(&mut failure, false);
        }
        failure
    });
    // They might still write to the output, whose size is part of the end.
    for Leftover { pid, command } in process::sweep(SWEEP_GRACE).await {
        let secrets: Vec<String> = usable_secret_values(&claim.spec.work.task.secrets).collect();
        let command = process::redacted(&command, &secrets);
        let text = format!("it left a background process running, which has been ended: {command} ({pid})");
        claim.event_writer.event(Event::Notice { task: Some(claim.spec.work.task.id.clone()), text });
    }
    claim.end(folder, how).await
}

/// Why a server ended, although its run had not requested that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UnwantedStop {
    /// Slurm, or a user, sent the job a signal: the run looks into the queue for the reason.
    Signal,
    /// No run has shown for minutes that it needs the server.
    Orphaned,
}

impl UnwantedStop {
    /// Draining well does not count as success: the server may have been needed. Slurm signals the server's own
    /// processes, too, which may be the first to end.
    fn failure(self, how: Result<Done, Failure>) -> Failure {
        match self {
            Self::Signal => {
                let failure = how.err().unwrap_or_else(|| Failure::interrupted("stopped"));
                Failure { kind: FailureKind::Interrupted, ..failure }
            }
            Self::Orphaned => {
                let minutes = ORPHANED_SERVER_TIMEOUT.as_secs() / 60;
                let message = format!("its job stopped it: its run did not respond for {minutes} minutes");
                Failure::service(message)
                    .hint("was the run suspended, or could it not write to the project's filesystem?")
            }
        }
    }
}

/// The right to work on an attempt: one job has it, once.
pub struct AttemptClaim {
    spec: JobSpec,
    number: String,
    node: String,
    event_writer: Arc<JobEventWriter>,
}

impl AttemptClaim {
    /// Takes it, if it is unclaimed and the work is still wanted.
    pub fn take(folder: &JobFolder) -> Result<Self, NodeWorkerError> {
        let gone = || NodeWorkerError::NoRunWaiting(folder.path().display().to_string());
        let spec: JobSpec = folder.read()?.ok_or_else(gone)?;
        if folder.is_cancelled() {
            return Err(gone());
        }
        let number = number(spec.element.is_some()).unwrap_or_else(|| std::process::id().to_string());
        if !folder.claim(&number)? {
            return Err(NodeWorkerError::AlreadyClaimed(folder.claimant()?.unwrap_or_default()));
        }
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let node = variable("SLURMD_NODENAME").unwrap_or_else(|| host.clone());
        let event_writer = Arc::new(JobEventWriter::new(folder.open_events_file()?));
        event_writer.write_event(&JobEvent::Began { number: number.clone(), node: node.clone(), host });
        Ok(Self { spec, number, node, event_writer })
    }

    /// From now on the run sees that this program is alive. A thread of its own: busy work must not look like silence.
    pub fn keep_alive(&self, folder: &JobFolder) {
        let (folder, every) = (folder.clone(), heartbeat_interval(&self.spec.slurm));
        std::thread::spawn(move || {
            let mut count = 0;
            // No run is left to notify of a missing folder; the filesystem may also return.
            loop {
                count += 1;
                let _ = folder.write_heartbeat(count);
                std::thread::sleep(every);
            }
        });
    }

    /// Of a whole run: its command line.
    pub fn run_args(&self) -> Option<&[String]> {
        self.spec.words.as_deref()
    }

    pub fn project(&self) -> &Path {
        &self.spec.work.project
    }

    /// Seconds before the time limit at which USR2 comes.
    pub fn warn_s(&self) -> u64 {
        self.spec.slurm.warn.time().as_secs()
    }

    /// Writes down how it ended. What keeps a shared filesystem from taking it, as a full disk, may pass: without the
    /// record a finished stage would count as killed.
    ///
    /// # Errors
    /// It was not taken for minutes, or no run waits for it.
    pub async fn end(&self, folder: &JobFolder, how: Result<Done, Failure>) -> Result<(), NodeWorkerError> {
        let extent = FolderSize::measure(&self.spec.work.out);
        let end = JobEnd { number: self.number.clone(), node: self.node.clone(), how, extent };
        let deadline = Instant::now() + END_RECORD_TIMEOUT;
        // The run reads no events that come after the record.
        let write = || self.event_writer.write_pending().and_then(|()| folder.end(&end));
        while let Err(error) = write() {
            if Instant::now() >= deadline || folder.is_cancelled() || folder.is_gone() {
                return Err(error.into());
            }
            sleep(STOP_POLL_INTERVAL).await;
        }
        Ok(())
    }
}

async fn perform(folder: &JobFolder, claim: &AttemptClaim, stop: &Stop) -> Result<Done, Failure> {
    let AttemptClaim { spec, node, event_writer, .. } = claim;
    let (ready, receiver) = oneshot::channel();
    let service = spec.work.task.lifetime == Lifetime::Service;
    let emit = Arc::clone(event_writer);
    let lease = spec.work.lease(stop, service.then_some(ready), Arc::new(move |event| emit.event(event)))?;
    // Its processes are marked with names of their own: a run that cleans up after itself must not take them for its
    // own.
    let stages = StageExecutor::new(folder.path(), RunId::new(spec.name.clone()));
    let writer = Arc::clone(event_writer);
    let named = node.clone();
    tokio::spawn(async move {
        if let Ok(endpoints) = receiver.await {
            writer.write_event(&JobEvent::Ready(endpoints.into_iter().map(|one| one.at_host(&named)).collect()));
        }
    });
    let doing = isolate_panics(async move { stages.run_locally(lease).await });
    within(spec.work.task.timeout, stop, doing).await
}

/// The job's number as the queue shows it: an element's is that of its array, and its index.
fn number(is_element: bool) -> Option<String> {
    let array = variable("SLURM_ARRAY_JOB_ID").zip(variable("SLURM_ARRAY_TASK_ID")).filter(|_| is_element);
    array.map(|(array, element)| format!("{array}_{element}")).or_else(|| variable("SLURM_JOB_ID"))
}

/// The GPUs that Slurm allocated: those it lists, or else the first `wanted` ones.
///
/// # Errors
/// Slurm names a GPU in an unknown form.
pub fn devices(wanted: u32, visible: Option<&str>) -> Result<Vec<GpuId>, Failure> {
    if wanted == 0 {
        return Ok(Vec::new());
    }
    let given = GpuId::visible(visible.unwrap_or_default())
        .map_err(|error| Failure::refused(format!("CUDA_VISIBLE_DEVICES: {error}")))?;
    Ok(if given.is_empty() {
        (0..wanted).map(GpuId::Index).collect()
    } else {
        given.into_iter().take(wanted as usize).collect()
    })
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Everything that may end the work from outside. Never resolves: it pulls `stop`.
async fn watch(
    folder: &JobFolder,
    spec: &JobSpec,
    mut signals: Signals,
    stop: &Stop,
    cause: &OnceCell<UnwantedStop>,
    event_writer: &JobEventWriter,
) -> std::convert::Infallible {
    let on_signal = || {
        // A run that cancels the job has said so in the folder.
        if !stop.is_requested() && !folder.is_cancelled() {
            let _ = cause.set(UnwantedStop::Signal);
        }
    };
    let service = spec.work.task.lifetime == Lifetime::Service;
    let mut beats = (folder.beats(), Instant::now());
    loop {
        tokio::select! {
            _ = signals.near.recv() => {
                let left = time_left(spec.slurm.warn.time().as_secs());
                let text = format!("its job has {left} left until its time limit");
                event_writer.event(Event::Notice { task: Some(spec.work.task.id.clone()), text });
            }
            _ = signals.term.recv() => {
                on_signal();
                if stop.is_requested() { stop.now() } else { stop.request() }
            }
            _ = signals.int.recv() => {
                on_signal();
                stop.request();
            }
            () = sleep(STOP_POLL_INTERVAL) => {
                let _ = event_writer.write_pending();
                // The folder goes when the attempt has been judged without us.
                if folder.is_cancelled() || folder.is_gone() {
                    stop.request();
                }
                if service {
                    let now = folder.beats();
                    if now != beats.0 {
                        beats = (now, Instant::now());
                    } else if beats.1.elapsed() > ORPHANED_SERVER_TIMEOUT {
                        if !stop.is_requested() {
                            let _ = cause.set(UnwantedStop::Orphaned);
                        }
                        stop.request();
                    }
                }
            }
        }
    }
}

struct Signals {
    term: Signal,
    int: Signal,
    near: Signal,
}

impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Self {
            term: signal(SignalKind::terminate())?,
            int: signal(SignalKind::interrupt())?,
            near: signal(SignalKind::user_defined2())?,
        })
    }
}

// A job's sign of life: its program on the node counts up in a file. Silence decides nothing, the queue does; but the
// user should know of it before the queue does.

/// How often the job counts up at the most, and at the least.
const EVERY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(10));

/// Interval of a job's heartbeats: several fit into the time after which it counts as silent.
pub fn heartbeat_interval(slurm: &Slurm) -> Duration {
    (slurm.silence.time() / 4).clamp(EVERY.0, EVERY.1)
}

/// The heartbeats of one job.
#[derive(Debug)]
pub struct JobHeartbeat {
    silence: Duration,
    /// What it counted up to last, and when that was seen first.
    last: Option<(String, Instant)>,
    is_silent: bool,
}

impl JobHeartbeat {
    pub fn new(slurm: &Slurm) -> Self {
        Self { silence: slurm.silence.time(), last: None, is_silent: false }
    }

    /// It has counted up within the time after which it is silent.
    pub fn is_alive(&self, now: Instant) -> bool {
        self.last.as_ref().is_some_and(|(_, since)| now.saturating_duration_since(*since) < self.silence)
    }

    /// `life` is the current content of the file; `None` before the job has begun, or with an older program on the
    /// node. Returns a message for the user.
    pub fn update(&mut self, life: Option<String>, now: Instant) -> Option<String> {
        let life = life?;
        match &self.last {
            Some((last, since)) if *last == life => {
                let quiet = now.saturating_duration_since(*since);
                let is_news = quiet >= self.silence && !std::mem::replace(&mut self.is_silent, quiet >= self.silence);
                is_news.then(|| {
                    format!(
                        "no heartbeat from its job for {} s: its node, or the shared filesystem, may be down or hang; \
                            Slurm reports whether the node is lost",
                        quiet.as_secs()
                    )
                })
            }
            last => {
                let quiet = last.as_ref().map(|(_, since)| now.saturating_duration_since(*since));
                self.last = Some((life, now));
                let again = std::mem::take(&mut self.is_silent);
                again.then(|| {
                    format!("heartbeats from its job resumed, after {} s", quiet.unwrap_or_default().as_secs())
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::stand_in::StandIn;
    use super::*;
    use plan::manifest::model::Slurm;

    #[tokio::test(start_paused = true)]
    async fn the_record_of_the_end_is_written_once_the_filesystem_takes_it() {
        let slurm = StandIn::new(&[]);
        let lease = slurm.lease(Lifetime::Step);
        let attempt = slurm.attempt(&lease, Slurm::default()).await;
        let claim = AttemptClaim::take(&attempt.folder).unwrap();
        // A folder in its place, which it cannot replace.
        let record = attempt.folder.path().join("ended.json");
        std::fs::create_dir_all(record.join("full")).unwrap();
        let room = async {
            sleep(Duration::from_mins(5)).await;
            std::fs::remove_dir_all(&record).unwrap();
        };
        let (written, ()) = tokio::join!(claim.end(&attempt.folder, Ok(Done::default())), room);
        written.unwrap();
        assert!(attempt.folder.ended::<JobEnd>().unwrap().is_some_and(|end| end.how.is_ok()));
        // No run waits for it.
        std::fs::remove_file(&record).unwrap();
        std::fs::create_dir_all(record.join("full")).unwrap();
        attempt.folder.cancel().unwrap();
        assert!(claim.end(&attempt.folder, Ok(Done::default())).await.is_err());
    }

    #[test]
    fn a_server_that_a_signal_stopped_has_not_ended_well() {
        let drained = UnwantedStop::Signal.failure(Ok(Done::default()));
        assert_eq!(drained.kind, FailureKind::Interrupted, "the queue has the reason");
        let died = Failure::service("server 0 ended with exit code 143 while it was needed");
        let failure = UnwantedStop::Signal.failure(Err(died.clone()));
        assert_eq!(
            (failure.kind, failure.what),
            (FailureKind::Interrupted, died.what),
            "the signal was also sent to it"
        );
        assert_eq!(UnwantedStop::Orphaned.failure(Ok(Done::default())).kind, FailureKind::Service);
    }

    #[test]
    fn gpus_are_those_that_slurm_gave() {
        const WHOLE: &str = "GPU-8f9b3c5e-2f0a-5b1d-9c3e-1a2b3c4d5e6f";
        let list = |wanted, visible| devices(wanted, visible).map(|gpus| GpuId::list(&gpus));
        assert_eq!(list(2, Some("4,5")).unwrap(), "4,5");
        assert_eq!(list(1, Some(WHOLE)).unwrap(), WHOLE);
        assert_eq!(list(2, None).unwrap(), "0,1");
        assert_eq!(list(0, Some("4,5")).unwrap(), "");
        assert!(list(1, Some("GPU-8f9b")).unwrap_err().what.contains("CUDA_VISIBLE_DEVICES: `GPU-8f9b` is"));
    }

    #[test]
    fn a_missing_heartbeat_is_reported_once_and_so_is_its_return() {
        let slurm = Slurm { silence: Duration::from_secs(30).into(), ..Slurm::default() };
        assert_eq!(heartbeat_interval(&slurm), Duration::from_millis(7500));
        let begun = Instant::now();
        let mut pulse = JobHeartbeat::new(&slurm);
        let mut look =
            |at: u64, life: Option<&str>| pulse.update(life.map(str::to_owned), begun + Duration::from_secs(at));
        assert_eq!(look(100, None), None, "a job that waits is not silent");
        assert_eq!(look(101, Some("1")), None);
        assert_eq!(look(130, Some("1")), None);
        assert!(look(131, Some("1")).is_some_and(|text| text.contains("no heartbeat from its job for 30 s")));
        assert_eq!(look(150, Some("1")), None, "once");
        assert_eq!(look(151, Some("2")).as_deref(), Some("heartbeats from its job resumed, after 50 s"));
        assert_eq!(look(180, Some("2")), None);
        assert!(look(181, Some("2")).is_some());
    }
}
