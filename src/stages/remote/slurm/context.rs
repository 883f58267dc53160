//! What all jobs of a run share.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use tokio::sync::{OnceCell, Semaphore};

use super::cancel_batch::CancelBatcher;
use super::commands::JobQueue;
use super::pending_members::PendingArrayMembers;

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
