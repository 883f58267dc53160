//! What one run knows of a store: its tasks, damaged objects, and whether the store can still be used.

use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};

use tokio::sync::Semaphore;

use super::address::StoreAddress;
use super::bucket::Bucket;
use super::error::SharedStoreError;
use super::scan::ScanPatterns;
use super::signature_policy::SignaturePolicy;
use crate::EventEmitter;
use crate::store::OutputCache;
use base::event::{Event, TaskId};
use base::files::Digest;

/// Transfers that are under way at once; each holds one part of a file in memory.
pub(super) const LANES: usize = 8;

/// Outputs that are sent at once.
pub(super) const SENDERS: usize = 2;

pub(super) struct StoreState {
    pub bucket: Bucket,
    pub cache: Arc<OutputCache>,
    /// The name for the user.
    pub address: String,
    pub transfer_permits: Arc<Semaphore>,
    /// Large files that are sent at once: each has several parts in memory.
    pub large: Arc<Semaphore>,
    pub emit: EventEmitter,
    pub signatures: SignaturePolicy,
    pub(super) tasks: HashMap<TaskId, Shareability>,
    /// Why no more requests are sent.
    pub(super) closed: OnceLock<SharedStoreError>,
    /// Damaged objects: the next task that has the right bytes puts them there.
    pub damaged: Mutex<HashSet<String>>,
    /// Keys that are being fetched: two tasks with one key must not fill one folder.
    pub(super) fetching: Mutex<HashMap<Digest, Arc<tokio::sync::Mutex<()>>>>,
    /// Offered and not settled: outputs, and what they hold.
    pub(super) unsettled: AtomicU64,
    pub(super) unsent: AtomicU64,
    pub sent_bytes: AtomicU64,
}

impl std::fmt::Debug for StoreState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SharedStore").field("address", &self.address).finish_non_exhaustive()
    }
}

/// What is known of a task beforehand.
#[derive(Debug)]
pub(super) enum Shareability {
    /// What kind of machine its output is good for; what must not be in it.
    Shareable { machine: BTreeMap<String, String>, needles: Arc<ScanPatterns> },
    /// Why not, where the user would expect it to be.
    Unknown(String),
}

impl StoreState {
    pub(super) fn new(
        bucket: Bucket,
        address: &StoreAddress,
        cache: Arc<OutputCache>,
        emit: EventEmitter,
        signatures: SignaturePolicy,
        tasks: HashMap<TaskId, Shareability>,
    ) -> Self {
        Self {
            bucket,
            cache,
            address: address.to_string(),
            transfer_permits: Arc::new(Semaphore::new(LANES)),
            large: Arc::new(Semaphore::new(SENDERS)),
            emit,
            signatures,
            tasks,
            closed: OnceLock::new(),
            damaged: Mutex::default(),
            fetching: Mutex::default(),
            unsettled: AtomicU64::new(0),
            unsent: AtomicU64::new(0),
            sent_bytes: AtomicU64::new(0),
        }
    }

    pub(super) fn of(&self, task: &TaskId) -> Option<&Shareability> {
        self.tasks.get(task)
    }

    pub(super) fn notice(&self, task: Option<&TaskId>, text: String) {
        (self.emit)(Event::Notice { task: task.cloned(), text });
    }

    /// Once for what is wrong with the store, each time for what is wrong with one output.
    pub(super) fn report_error(&self, task: Option<&TaskId>, error: &SharedStoreError) {
        if !error.is_of_the_store() {
            return self.notice(task, with_hint(&error.to_string(), error));
        }
        if self.closed.set(error.clone()).is_ok() {
            let what =
                format!("the shared store {} cannot be used; the run continues without it: {error}", self.address);
            self.notice(None, with_hint(&what, error));
        }
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.get().is_some()
    }

    pub(super) fn is_damaged(&self, object: &str) -> bool {
        self.damaged.lock().contains(object)
    }

    pub(super) fn note_damage(&self, error: &SharedStoreError) {
        match error {
            SharedStoreError::Damaged { object, .. } => drop(self.damaged.lock().insert(object.clone())),
            // Replaced only by one that is signed.
            SharedStoreError::Untrusted { object, .. } if self.signatures.signer().is_some() => {
                self.damaged.lock().insert(object.clone());
            }
            _ => {}
        }
    }
}

pub(super) fn with_hint(what: &str, error: &SharedStoreError) -> String {
    match error.hint() {
        "" => what.to_owned(),
        hint => format!("{what}; {hint}"),
    }
}
