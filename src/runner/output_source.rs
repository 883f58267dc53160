//! The runner's interface to the shared store: it is queried for an output that is not here, and notified of one that was made here.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use crate::store::{FinishedOutput, TaskKey, TaskRecord};
use base::event::TaskId;
use base::files::Digest;

/// A shared store. One implementation in the product (`shared_store::SharedStore`); runs without one have none.
pub trait OutputSource: std::fmt::Debug + Send + Sync + 'static {
    /// Brings the output of a key into a new folder of this project. `None`: it is not there, it was made on
    /// hardware that does not match this machine's, or the store is unreachable; then it is made here. Never fails the run.
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
