//! Makes room in a store while others use it.
//!
//! Records go by age; then files that no record names. Files come before their record, so a young file without a record
//! may belong to a record that is on its way: it has a time of grace. A writer that skipped an upload because an old
//! copy existed checks again after writing its record. A reader that finds a file missing builds the output and uploads
//! it again.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

use super::bucket::{
    BLOBS, Bucket, ListedObject, RECORDS, SharedStoreError, StoreAddress, TEMPORARY, blob, bytes_of,
    is_of_newer_program,
};
use super::record::{RecordError, SharedOutput};

/// What stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetentionPolicy {
    /// Keep only records younger than this; `None`: no limit of age.
    pub younger_than: Option<Duration>,
    /// Keep the newest records until their files exceed this many bytes; `None`: no limit of size.
    pub max_bytes: Option<u64>,
    /// Files without a record are kept until they are this old.
    pub grace: Duration,
}

/// What went, or would go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreGcReport {
    pub records: u64,
    pub blobs: u64,
    pub bytes: u64,
    /// What is left.
    pub records_left: u64,
    pub bytes_left: u64,
    /// Unreadable records; they are among those that went.
    pub damaged: u64,
}

/// Ages are whole seconds by the clocks of two machines.
const SLACK: Duration = Duration::from_secs(5);

/// Reports what would be removed; with `really`, removes it. If a record cannot be fetched, a newer program wrote it,
/// or one that came meanwhile is damaged, the files that it names are not known: returns the error before any file is
/// deleted.
pub async fn collect(
    address: &StoreAddress,
    keep: RetentionPolicy,
    really: bool,
) -> Result<StoreGcReport, SharedStoreError> {
    collect_from(&Bucket::open(address)?, keep, really).await
}

pub(super) async fn collect_from(
    bucket: &Bucket,
    keep: RetentionPolicy,
    really: bool,
) -> Result<StoreGcReport, SharedStoreError> {
    let mut records = bucket.list(RECORDS).await?;
    records.sort_by(|a, b| (a.age, &a.name).cmp(&(b.age, &b.name)));
    let mut removed = StoreGcReport::default();
    let mut named: HashMap<String, u64> = HashMap::new();
    let (mut kept, begun) = (HashMap::new(), Instant::now());
    let mut held = 0_u64;
    let mut full = false;
    let mut doomed = Vec::new();
    for record in &records {
        let Some(bytes) = bucket.get(&record.name).await? else { continue };
        let Some(shared) = read(&record.name, &bytes)? else {
            // Also a good record whose response was damaged: its stage runs again.
            removed.damaged += 1;
            doomed.push(record);
            continue;
        };
        let is_old = keep.younger_than.is_some_and(|limit| record.age >= limit);
        let more: u64 = files(&shared).filter(|(name, _)| !named.contains_key(name)).map(|(_, size)| size).sum();
        // Nothing older stays once one did not fit: what is left is the youngest.
        full |= keep.max_bytes.is_some_and(|limit| held.saturating_add(more) > limit);
        if is_old || full {
            doomed.push(record);
            continue;
        }
        held = held.saturating_add(more);
        named.extend(files(&shared));
        kept.insert(record.name.clone(), record.age);
    }
    (removed.records, removed.records_left) = (doomed.len() as u64, kept.len() as u64);
    let blobs = bucket.list(BLOBS).await?;
    if really {
        for record in &doomed {
            bucket.delete(&record.name).await?;
        }
        // Records that have come or were replaced since the first look, also in the place of one that was removed.
        let is_younger = |age: &Duration, now: Duration| *age < SLACK || now + SLACK < *age + begun.elapsed();
        let is_new = |seen: &&ListedObject| kept.get(&seen.name).is_none_or(|age| is_younger(age, seen.age));
        for record in bucket.list(RECORDS).await?.iter().filter(is_new) {
            let Some(bytes) = bucket.get(&record.name).await? else { continue };
            // The answer may have been damaged, and not the record: which files it names is not known.
            let Some(shared) = read(&record.name, &bytes)? else {
                return Err(SharedStoreError::Unread { object: record.name.clone() });
            };
            named.extend(files(&shared));
        }
    }
    let is_idle = |seen: &&ListedObject| !named.contains_key(&seen.name) && seen.age >= keep.grace;
    for idle in blobs.iter().filter(is_idle) {
        removed.blobs += 1;
        removed.bytes = removed.bytes.saturating_add(idle.size);
        if really {
            bucket.delete(&idle.name).await?;
        }
    }
    removed.bytes_left = bytes_of(&blobs) - removed.bytes;
    // Temporary files that killed writers left behind.
    for left in bucket.list(TEMPORARY).await?.iter().filter(|seen| seen.age >= keep.grace) {
        removed.bytes = removed.bytes.saturating_add(left.size);
        if really {
            bucket.delete(&left.name).await?;
        }
    }
    Ok(removed)
}

/// `None`: it is damaged. A damaged one of a newer program is left alone, too.
fn read(object: &str, bytes: &[u8]) -> Result<Option<SharedOutput>, SharedStoreError> {
    match SharedOutput::open(bytes, None) {
        Ok(shared) => Ok(Some(shared)),
        Err(error) if is_of_newer_program(object) || matches!(error, RecordError::Newer) => {
            Err(SharedStoreError::Newer { object: object.to_owned() })
        }
        Err(_) => Ok(None),
    }
}

/// Object and size of every file, each content once.
fn files(shared: &SharedOutput) -> impl Iterator<Item = (String, u64)> {
    let files = shared.items.iter().filter(|item| item.is_file());
    let each: HashMap<String, u64> = files.filter_map(|item| Some((blob(&item.digest?), item.size))).collect();
    each.into_iter()
}
