//! What is in a store, of all projects and of one plan.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::address::StoreAddress;
use super::bucket::{self, BLOBS, Bucket, RECORDS, SUMMARIES, blob, bytes_of, summary};
use super::error::SharedStoreError;
use super::machine::name;
use super::pull;
use super::push::{examined, push};
use super::record::{SUMMARY_TYPE, SignaturePolicy, check_json, sign_json};
use super::store::{Shareability, SharedStore};
use crate::signing::SignatureError;
use crate::store::{FinishedOutput, TaskKey, TaskRecord};
use crate::{OutputRequest, OutputSource as _};
use base::event::{RunId, TaskId};
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

impl SharedStore {
    pub async fn inventory(&self) -> Result<Inventory, SharedStoreError> {
        let bucket = &self.inner.bucket;
        let blobs = bucket.list(BLOBS).await?;
        Ok(Inventory {
            records: bucket.list(RECORDS).await?.len() as u64,
            blobs: blobs.len() as u64,
            bytes: bytes_of(&blobs),
        })
    }

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

// Summaries of measurements in a store: what one machine measured, for others to look at. They take no part in caching:
// a measurement of another machine never stands for one of this machine. Signed like records, where a key signs these.
//
// ```text
// regatta-1/summaries/<digest of the text>   one for each result, JSON
// ```

/// The version of a summary.
const SCHEMA: u32 = 1;

/// One result, and where it was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ResultSummary {
    pub schema: u32,
    /// The name of the machine whose run it was.
    pub machine: String,
    pub run: RunId,
    pub manifest: String,
    pub task: String,
    /// The result in a sentence.
    pub headline: String,
    /// `result.json` without what it has of each second.
    pub result: Value,
}

impl ResultSummary {
    /// Of this machine. `hidden`: texts that must not leave it, such as secrets and its paths.
    pub fn here(run: RunId, manifest: &str, task: &str, headline: &str, mut result: Value, hidden: &[String]) -> Self {
        if let Some(fields) = result.as_object_mut() {
            for large in ["slices", "curves"] {
                fields.remove(large);
            }
        }
        hide(&mut result, hidden);
        Self {
            schema: SCHEMA,
            machine: rustix::system::uname().nodename().to_string_lossy().into_owned(),
            run,
            manifest: manifest.to_owned(),
            task: task.to_owned(),
            headline: headline.to_owned(),
            result,
        }
    }
}

/// In every text, at any depth.
fn hide(value: &mut Value, hidden: &[String]) {
    match value {
        Value::String(text) => {
            for one in hidden.iter().filter(|one| one.len() > 3) {
                if text.contains(one.as_str()) {
                    *text = text.replace(one.as_str(), "…");
                }
            }
        }
        Value::Array(all) => all.iter_mut().for_each(|one| hide(one, hidden)),
        Value::Object(fields) => fields.values_mut().for_each(|one| hide(one, hidden)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// The summaries of all machines, and how many of them were left out.
#[derive(Debug, Default, PartialEq)]
pub struct SharedSummaries {
    pub all: Vec<ResultSummary>,
    /// Of another version, or damaged.
    pub unreadable: usize,
    /// Not signed by a key that counts.
    pub untrusted: usize,
}

/// Puts summaries into a store, signed where a key signs; those that are there already stay as they are. Where
/// signatures are asked for and none can be made, nothing is sent.
///
/// # Errors
/// The store cannot be used.
pub async fn share_summaries(
    address: &StoreAddress,
    summaries: &[ResultSummary],
    signatures: &SignaturePolicy,
) -> Result<(), SharedStoreError> {
    if signatures.is_read_only() {
        return Ok(());
    }
    let bucket = Bucket::open(address)?;
    for one in summaries {
        let json = serde_json::to_string(one).and_then(|json| sign_json(json, SUMMARY_TYPE, signatures.signer()));
        let Ok(text) = json else { continue };
        bucket.create(&summary(&Digest::hash(text.as_bytes())), Bytes::from(text)).await?;
    }
    Ok(())
}

/// The summaries of all machines whose signatures count. Nothing is written.
///
/// # Errors
/// The store cannot be used.
pub async fn shared_summaries(
    address: &StoreAddress,
    signatures: &SignaturePolicy,
) -> Result<SharedSummaries, SharedStoreError> {
    let bucket = Bucket::open(address)?;
    let mut read = SharedSummaries::default();
    for object in bucket.list(SUMMARIES).await? {
        let Some(bytes) = bucket.get(&object.name).await? else { continue };
        let Ok(text) = std::str::from_utf8(&bytes) else {
            read.unreadable += 1;
            continue;
        };
        let Ok(json) = check_json(text, SUMMARY_TYPE, signatures.trusted()) else {
            read.untrusted += 1;
            continue;
        };
        match serde_json::from_str::<ResultSummary>(&json) {
            Ok(summary) if summary.schema == SCHEMA => read.all.push(summary),
            _ => read.unreadable += 1,
        }
    }
    Ok(read)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::signing::TrustedKeys;
    use crate::signing::tests::example_key;

    #[tokio::test]
    async fn a_summary_is_read_back_without_paths_and_seconds() {
        let folder = tempfile::tempdir().unwrap();
        let address = StoreAddress::parse(&folder.path().display().to_string()).unwrap();
        let result =
            json!({ "verdict": "valid", "slices": [1, 2], "requested": { "data": ["/home/me/project/x.jsonl"] } });
        let summary =
            ResultSummary::here(RunId::new("r1"), "m", "load", "VALID", result, &["/home/me/project".to_owned()]);
        assert_eq!(summary.result, json!({ "verdict": "valid", "requested": { "data": ["…/x.jsonl"] } }));
        let unsigned = SignaturePolicy::default();
        for _ in 0..2 {
            share_summaries(&address, std::slice::from_ref(&summary), &unsigned).await.unwrap();
        }
        let read = SharedSummaries { all: vec![summary.clone()], ..SharedSummaries::default() };
        assert_eq!(shared_summaries(&address, &unsigned).await.unwrap(), read);

        // One that asks for signatures takes what a key signed that it trusts, and sends nothing without a key.
        let signing = SignaturePolicy::new(Some(example_key()), None);
        let reading = SignaturePolicy::new(None, Some(TrustedKeys::only(example_key().public.clone())));
        share_summaries(&address, std::slice::from_ref(&summary), &reading).await.unwrap();
        assert_eq!(
            shared_summaries(&address, &reading).await.unwrap(),
            SharedSummaries { untrusted: 1, ..SharedSummaries::default() }
        );
        share_summaries(&address, std::slice::from_ref(&summary), &signing).await.unwrap();
        assert_eq!(shared_summaries(&address, &reading).await.unwrap(), SharedSummaries { untrusted: 1, ..read });
    }
}
