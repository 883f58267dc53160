//! What is in a store, of all projects and of one plan.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::address::StoreAddress;
use super::bucket::{self, BLOBS, Bucket, RECORDS, blob, bytes_of};
use super::error::SharedStoreError;
use super::machine::name;
use super::pull;
use super::push::{examined, push};
use super::store::{Shareability, SharedStore};
use crate::signing::SignatureError;
use crate::store::{FinishedOutput, TaskKey, TaskRecord};
use crate::{OutputRequest, OutputSource as _};
use base::event::TaskId;
use base::files::Digest;

/// All of a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Inventory {
    /// Outputs, of all projects.
    pub records: u64,
    /// Files of different content.
    pub blobs: u64,
    pub bytes: u64,
}

/// One task's output, in the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Presence {
    Present {
        /// Of the output.
        digest: Digest,
        bytes: u64,
    },
    Missing,
    /// It is not shared, and why, where the user would expect it to be.
    NotShared(Option<String>),
    /// Its record is not signed as it must be, and why.
    Untrusted(SignatureError),
    /// A newer Regatta wrote its record.
    Newer,
    /// These objects are not what they must be.
    Damaged(Vec<String>),
}

/// What putting an output there came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UploadOutcome {
    /// Bytes that were sent.
    New(u64),
    AlreadyPresent,
    NotShareable(String),
}

/// Reads a store. Nothing is written.
///
/// # Errors
/// The store cannot be used.
pub async fn inventory(address: &StoreAddress) -> Result<Inventory, SharedStoreError> {
    let bucket = Bucket::open(address)?;
    let (records, blobs) = (bucket.list(RECORDS).await?, bucket.list(BLOBS).await?);
    Ok(Inventory { records: records.len() as u64, blobs: blobs.len() as u64, bytes: bytes_of(&blobs) })
}

impl SharedStore {
    /// Whether a key's output is there; `examine`: reads every file of it.
    pub async fn presence(&self, task: &TaskId, key: &Digest, examine: bool) -> Result<Presence, SharedStoreError> {
        let inner = &self.inner;
        let machine = match inner.tasks.get(task) {
            None => return Ok(Presence::NotShared(None)),
            Some(Shareability::Unknown(why)) => return Ok(Presence::NotShared(Some(why.clone()))),
            Some(Shareability::Shareable { machine, .. }) => machine,
        };
        let shared = match pull::read(inner, &name(key, machine)).await {
            Ok(None) => return Ok(Presence::Missing),
            Ok(Some(shared)) => shared,
            Err(SharedStoreError::Damaged { object, .. }) => return Ok(Presence::Damaged(vec![object])),
            Err(SharedStoreError::Newer { .. }) => return Ok(Presence::Newer),
            Err(SharedStoreError::Untrusted { why, .. }) => return Ok(Presence::Untrusted(why)),
            Err(error) => return Err(error),
        };
        let mut damaged = BTreeSet::new();
        for item in shared.items.iter().filter(|item| item.is_file()) {
            let Some(digest) = item.digest else { continue };
            let object = blob(&digest);
            let whole = inner.bucket.size(&object).await? == Some(item.size)
                && (!examine || examined(inner, &object, digest, item.size).await?);
            if !whole {
                inner.damaged.lock().insert(object.clone());
                damaged.insert(object);
            }
        }
        if damaged.is_empty() {
            return Ok(Presence::Present { digest: shared.digest, bytes: shared.bytes() });
        }
        Ok(Presence::Damaged(damaged.into_iter().collect()))
    }

    /// Puts an output there now. `again`: where it is already, every file of it is examined, and mended.
    pub async fn put(&self, record: &Arc<TaskRecord>, again: bool) -> Result<UploadOutcome, SharedStoreError> {
        push(&self.inner, record, again).await
    }

    /// Brings an output here, not yet accepted. Problems have been reported.
    pub async fn get(&self, task: &TaskId, key: &TaskKey, digest: &Digest) -> Option<FinishedOutput> {
        self.fetch(OutputRequest { task: task.clone(), key: key.clone(), digest: *digest }).await
    }

    /// The object of a key's record, for inspection by the user.
    pub fn object(&self, task: &TaskId, key: &Digest) -> Option<String> {
        match self.inner.tasks.get(task)? {
            Shareability::Shareable { machine, .. } => Some(bucket::record(&name(key, machine))),
            Shareability::Unknown(_) => None,
        }
    }
}
