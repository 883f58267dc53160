//! Members of arrays that are not submitted yet.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::{oneshot, watch};

use super::commands::{QueueView, SlurmJob, Submission};
use super::job_existence::{Enqueued, JobExistence};
use base::event::{Event, Failure, Stop, TaskId};
use base::spec::TimeSpan;
use runner::store::JobFolder;

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
