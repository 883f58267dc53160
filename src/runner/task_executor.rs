//! The interface between the runner, which decides *when*, and the stages, which know *what*.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::{oneshot, watch};

use super::store::{FinishedOutput, PathError, TaskKey, TaskRecord};
use crate::UpstreamProvenance;
use base::event::{
    Done, Endpoint, Event, Failure, GpuId, LiveMeasurement, MovingSource, ReducedSetting, RunId, Stop, TaskId,
};
use base::files::Digest;
use plan::{Lifetime, SharedTask, Task};

/// What performs tasks. One implementation in the product (`stages::StageExecutor`), fakes in tests.
pub trait TaskExecutor: Send + Sync + 'static {
    /// Does the task. A step fills `lease.out` and returns; a service reports `lease.ready`, lives until
    /// `lease.stop` is requested, and returns `Ok` only if it ended because of that.
    fn perform(&self, lease: Lease) -> impl Future<Output = Result<Done, Failure>> + Send;

    /// What a task's output depends on beside the manifest: the version of the stage's own code, facts of the machine.
    /// Part of the key; quick, unless the task has a container: then its image is looked up.
    fn facts(&self, _task: &Task) -> BTreeMap<String, String> {
        BTreeMap::new()
    }

    /// Which of the facts `facts` leaves out, because only a run may start or query what a manifest names.
    fn open_facts(&self, _task: &Task) -> Vec<OpenFact> {
        Vec::new()
    }

    /// The files and links of an output that hold paths of this machine, each with the digest of what it holds without
    /// them. These stand in the output's digest for those of the bytes, so that it is the same at every place.
    /// `places`: folders, and what stands for each.
    ///
    /// # Errors
    /// One of them cannot be read.
    fn portable_digests(
        &self,
        _task: &Task,
        _folder: &Path,
        _places: &dyn Fn() -> Vec<(PathBuf, String)>,
    ) -> Result<BTreeMap<PathBuf, Digest>, PathError> {
        Ok(BTreeMap::new())
    }

    /// What a user should know of the source of a stage's cached output, which can be another by now. Where sources may
    /// be queried, this blocks for a few seconds at most.
    fn source_notice(&self, _stage: &str, _source: &MovingSource) -> Option<String> {
        None
    }

    /// Why an output is of no use any more although every file of it is there: what it names has gone from the machine.
    fn unusable_reason(&self, _task: &Task, _folder: &Path) -> Option<String> {
        None
    }
}

/// Facts of a key that are not known before a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenFact {
    /// What their names begin with.
    pub names: String,
    /// When a kept output stays valid, after "if": `x:1 is still the same image, which only a run looks up`.
    pub condition: String,
}

/// All that a stage gets from the runner. If a stage needs more, change the interface.
pub struct Lease {
    pub task: SharedTask,
    /// 1 for the first attempt.
    pub attempt: u32,
    /// The task's action (JSON) with all references replaced by real paths and endpoints.
    pub assignment: ResolvedTask,
    /// The folder to fill: empty, or with what an earlier attempt left if `task.resume`.
    pub out: PathBuf,
    /// Where the output of its processes goes. The folder exists, the file does not.
    pub log: PathBuf,
    /// The project folder: what relative paths in manifests are relative to.
    pub project: PathBuf,
    /// GPUs leased to it.
    pub gpus: Vec<GpuId>,
    /// The number that its retry rule has lowered.
    pub lowered: Option<ReducedSetting>,
    /// Its place among the tasks of its stage that were started in the same moment, if there are any.
    pub batch_slot: Option<BatchSlot>,
    pub stop: Stop,
    /// Services report their endpoints here, once, when they are ready.
    pub ready: Option<oneshot::Sender<Vec<Endpoint>>>,
    /// Facts and chatter.
    pub emit: Arc<dyn Fn(Event) + Send + Sync>,
    /// What the task was made from, all the way down.
    pub origins: Arc<dyn Fn() -> UpstreamProvenance + Send + Sync>,
}

/// An action ready to be done.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ResolvedTask {
    /// JSON of `manifest::model::Action`.
    pub action: String,
    /// JSON of `manifest::model::Container`.
    pub container: Option<String>,
    /// Input name → absolute paths (globs expanded, sorted).
    pub inputs: BTreeMap<String, Vec<PathBuf>>,
    /// Output folders of the earlier tasks whose data it uses.
    #[serde(default)]
    pub outputs: Vec<PathBuf>,
    /// The task's declared environment, references replaced.
    pub env: BTreeMap<String, String>,
    /// Where the services that it needs listen, with all their ports.
    pub endpoints: Vec<Endpoint>,
    /// GPU indices leased to these services.
    pub gpus: Vec<GpuId>,
    /// Where it runs when that is not here: JSON of `manifest::model::HostOn`, references replaced.
    pub host: Option<String>,
    /// What was lowered for these services because memory ran out.
    pub lowered: Vec<ReducedSetting>,
}

impl Lease {
    pub fn report_progress(&self, text: impl Into<String>, done: u64, total: Option<u64>) {
        self.report_measuring(text, done, total, None);
    }

    /// With what a benchmark has measured so far.
    pub fn report_measuring(
        &self,
        text: impl Into<String>,
        done: u64,
        total: Option<u64>,
        live: Option<LiveMeasurement>,
    ) {
        (self.emit)(Event::Progress { task: self.task.id.clone(), text: text.into(), done, total, live });
    }

    pub fn notice(&self, text: impl Into<String>) {
        (self.emit)(Event::Notice { task: Some(self.task.id.clone()), text: text.into() });
    }
}

// A check outside of the stage that can refuse an output, made or cached, before anything is built on it.

type Ask = dyn Fn(&Task, &Path, &Digest) -> Result<Vec<String>, Failure> + Send + Sync;

/// Called once for each output. Without a check all outputs are accepted.
#[derive(Clone, Default)]
pub struct OutputCheck(Option<Arc<Ask>>);

impl OutputCheck {
    /// `check` gets the task, its output folder and the digest of that, and returns messages for the user, or why the
    /// run must not go on with it. The output stays accepted: it is the requested one, only not the expected one.
    pub fn new(check: impl Fn(&Task, &Path, &Digest) -> Result<Vec<String>, Failure> + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(check)))
    }

    /// It checks nothing.
    pub(super) const fn is_open(&self) -> bool {
        self.0.is_none()
    }

    pub(super) fn check(&self, task: &Task, folder: &Path, output: &Digest) -> Result<Vec<String>, Failure> {
        self.0.as_ref().map_or(Ok(Vec::new()), |check| check(task, folder, output))
    }
}

impl fmt::Debug for OutputCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "OutputCheck(checks)" } else { "OutputCheck(open)" })
    }
}

// The runner's interface to the shared store: it is queried for an output that is not here, and notified of one that
// was made here.

/// A shared store. One implementation in the product (`shared_store::SharedStore`); runs without one have none.
pub trait OutputSource: std::fmt::Debug + Send + Sync + 'static {
    /// Brings the output of a key into a new folder of this project. `None`: it is not there, it was made on
    /// hardware that does not match this machine's, or the store is unreachable; then it is made here. Never fails the
    /// run.
    fn fetch(&self, wanted: OutputRequest) -> PendingFetch;

    /// Reports that an output was made here. Returns at once; the store sends it in the background.
    fn push(&self, task: &TaskId, record: Arc<TaskRecord>);
}

/// An answer under way.
pub type PendingFetch = Pin<Box<dyn Future<Output = Option<FinishedOutput>> + Send>>;

/// The requested output.
#[derive(Clone, Debug)]
pub struct OutputRequest {
    pub task: TaskId,
    pub key: TaskKey,
    pub digest: Digest,
}

// Services that a run keeps up for its caller, beside or instead of its steps.

/// Which services stay up, and until when.
#[derive(Clone, Debug)]
pub struct KeptServices {
    /// For each task of the plan.
    pub tasks: Vec<bool>,
    /// Receives all of them, once, when the last one is ready. A service that ends after that is not started again: its
    /// address is known elsewhere by then.
    pub ready: UnboundedSender<Vec<KeptService>>,
    /// After this request they stop, unless a step needs them.
    pub release: Stop,
}

/// A service that is up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptService {
    pub task: TaskId,
    pub endpoints: Vec<Endpoint>,
}

// Tasks of one stage that are started in the same moment: each has a slot, and the code that would do them as one can
// wait until every other one has reported whether it takes part. No clock is involved: the run loop knows what is
// ready.

/// A place among tasks that are started together. Dropping it, at any point of its task, means that the task runs on
/// its own.
#[derive(Debug)]
pub struct BatchSlot {
    batch: Arc<str>,
    /// Counted from 0.
    pub ix: u32,
    undecided: Arc<watch::Sender<u32>>,
}

impl BatchSlot {
    /// Slots for `n` tasks. `batch`: no other batch has that name, of this run or of another.
    pub fn group(batch: &str, n: u32) -> Vec<Self> {
        let batch: Arc<str> = batch.into();
        let undecided = Arc::new(watch::Sender::new(n));
        (0..n).map(|ix| Self { batch: Arc::clone(&batch), ix, undecided: Arc::clone(&undecided) }).collect()
    }

    pub fn name(&self) -> &str {
        &self.batch
    }

    /// This one takes part. Resolves when all the others have decided, too.
    pub async fn all_decided(self) {
        let mut receiver = self.undecided.subscribe();
        drop(self);
        // Its sender may be gone by now: then the last number is 0.
        let _ = receiver.wait_for(|undecided| *undecided == 0).await;
    }
}

impl Drop for BatchSlot {
    fn drop(&mut self) {
        self.undecided.send_modify(|undecided| *undecided -= 1);
    }
}

/// A slot for each of these tasks that has company: tasks of one stage, elsewhere, with the same settings could be one
/// thing. `count`: of the run's batches so far.
pub(super) fn assign_slots(run: &RunId, count: &mut u32, tasks: &[SharedTask]) -> Vec<Option<BatchSlot>> {
    let mut slots: Vec<Option<BatchSlot>> = tasks.iter().map(|_| None).collect();
    for (ix, task) in tasks.iter().enumerate() {
        if slots[ix].is_some() || !can_batch_together(task, task) {
            continue;
        }
        let alike: Vec<usize> = (ix..tasks.len()).filter(|other| can_batch_together(task, &tasks[*other])).collect();
        if alike.len() < 2 {
            continue;
        }
        *count += 1;
        let name = format!("{run}-{count}");
        for (place, slot) in alike.iter().zip(BatchSlot::group(&name, alike.len() as u32)) {
            slots[*place] = Some(slot);
        }
    }
    slots
}

/// Whether two tasks request the same of another machine. Services are one by one: each is waited for.
fn can_batch_together(one: &Task, other: &Task) -> bool {
    one.host.is_some()
        && one.lifetime == Lifetime::Step
        && (&one.stage, &one.host, one.gpus, one.lifetime) == (&other.stage, &other.host, other.gpus, other.lifetime)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn each_member_waits_until_all_have_decided() {
        let mut slots = BatchSlot::group("p", 3).into_iter();
        let mut next = || slots.next().unwrap();
        let (first, second, third) = (next(), next(), next());
        assert_eq!((first.ix, third.ix, first.name()), (0, 2, "p"));
        let mut waiting = tokio::spawn(first.all_decided());
        drop(second);
        let early = tokio::time::timeout(Duration::from_millis(20), &mut waiting).await;
        assert!(early.is_err(), "the third may still come");
        third.all_decided().await;
        waiting.await.unwrap();
    }
}
