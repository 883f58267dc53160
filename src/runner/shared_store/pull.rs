//! From the store into a folder of this project: what is here already is not fetched, and nothing is believed before it
//! was hashed.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::task::{JoinSet, spawn_blocking};

use super::bucket::{self, PART, SharedStoreError, blob};
use super::record::{self, RecordError, SharedOutput};
use super::store::StoreState;
use crate::OutputRequest;
use crate::store::{FinishedOutput, HashedFolder, IncomingOutput, PortableItem, free_bytes};
use base::event::Event;
use base::files::Digest;
use base::units::size;

/// The output of a key; `None`: it is not there.
pub(super) async fn pull(
    inner: &Arc<StoreState>,
    wanted: &OutputRequest,
    name: &Digest,
) -> Result<Option<FinishedOutput>, SharedStoreError> {
    let Some(shared) = read(inner, name).await? else { return Ok(None) };
    if shared.key != wanted.digest || record::name(&shared.key, &shared.machine) != *name {
        let damage = SharedStoreError::damaged(bucket::record(name), "is the record of another key or machine");
        inner.note_damage(&damage);
        return Err(damage);
    }
    has_room(inner, &shared)?;
    let incoming = Arc::new(inner.cache.incoming(&wanted.digest)?);
    let items: Arc<[PortableItem]> = shared.items.clone().into();
    let sealed = match fill(inner, wanted, &shared, &incoming, &items).await {
        Ok(sealed) => sealed,
        Err(error) => {
            inner.note_damage(&error);
            if matches!(error, SharedStoreError::Damaged { .. }) {
                // What is made here may have other bytes: a new record names its own files.
                inner.damaged.lock().insert(bucket::record(name));
            }
            // What has come is of use to the next run only if the rest can come, too.
            if !error.is_of_the_store() {
                let _ = incoming.discard();
            }
            return Err(error);
        }
    };
    Ok(Some(FinishedOutput {
        folder: incoming.folder().to_owned(),
        sealed,
        done: shared.done,
        seconds: shared.seconds,
        from: Some(inner.address.clone()),
        is_signed: inner.signatures.trusted().is_some(),
    }))
}

/// A record of the store. One that is damaged, or not signed as it must be, is an error, and will be replaced by a run
/// that has the output. One of a newer program is an error, and stays.
pub(super) async fn read(inner: &StoreState, name: &Digest) -> Result<Option<SharedOutput>, SharedStoreError> {
    let object = bucket::record(name);
    let got = inner.bucket.get(&object).await.inspect_err(|error| inner.note_damage(error))?;
    let Some(bytes) = got else { return Ok(None) };
    let error = match SharedOutput::open(&bytes, inner.signatures.trusted()) {
        Ok(shared) => return Ok(Some(shared)),
        Err(RecordError::Newer) => SharedStoreError::Newer { object },
        Err(RecordError::Signature(why)) => SharedStoreError::Untrusted { object, why },
        Err(error) => SharedStoreError::damaged(object, error.to_string()),
    };
    inner.note_damage(&error);
    Err(error)
}

fn has_room(inner: &StoreState, shared: &SharedOutput) -> Result<(), SharedStoreError> {
    let free = free_bytes(inner.cache.home()).unwrap_or(u64::MAX);
    if shared.bytes() < free {
        return Ok(());
    }
    Err(SharedStoreError::Local(format!(
        "its output is in the shared store but was not fetched: it needs {}, but only {} are free",
        size(shared.bytes()),
        size(free)
    )))
}

/// Fetches what is missing; what turns out to be wrong, once more.
async fn fill(
    inner: &Arc<StoreState>,
    wanted: &OutputRequest,
    shared: &SharedOutput,
    incoming: &Arc<IncomingOutput>,
    items: &Arc<[PortableItem]>,
) -> Result<HashedFolder, SharedStoreError> {
    let (folder, list) = (Arc::clone(incoming), Arc::clone(items));
    let mut missing = spawn_blocking(move || folder.lay_out(&list)).await??;
    let output_cache = Arc::clone(&inner.cache);
    let mut twins = if missing.is_empty() {
        HashMap::new()
    } else {
        spawn_blocking(move || output_cache.files_by_digest()).await?
    };
    let total: u64 = missing.iter().map(|at| items[*at].size).sum();
    (inner.emit)(Event::TaskFetching { task: wanted.task.clone(), from: inner.address.clone(), bytes: total });
    let fetch = Arc::new(Fetch {
        inner: Arc::clone(inner),
        wanted: wanted.clone(),
        incoming: Arc::clone(incoming),
        total,
        done: AtomicU64::new(0),
        reported_hundredths: AtomicU64::new(0),
    });
    for round in 0..2 {
        fetch_all(&fetch, items, &missing, &twins).await?;
        let folder = Arc::clone(incoming);
        let sealed = spawn_blocking(move || folder.seal()).await??;
        if sealed.digest == shared.digest {
            return Ok(sealed);
        }
        missing = mismatched_files(items, &sealed);
        for at in &missing {
            incoming.drop_file(&items[*at])?;
        }
        // Not from here again, either.
        twins.clear();
        if round > 0 || missing.is_empty() {
            break;
        }
    }
    Err(match missing.first().and_then(|at| items[*at].digest.map(|digest| (at, digest))) {
        Some((at, digest)) => {
            let place = format!("{} in the output of {}", items[*at].path.display(), wanted.task);
            SharedStoreError::damaged(blob(&digest), format!("does not match the digest in its name ({place})"))
        }
        None => SharedStoreError::Local("what was fetched was changed while it was written".to_owned()),
    })
}

/// Files with other content than the record lists.
fn mismatched_files(items: &[PortableItem], sealed: &HashedFolder) -> Vec<usize> {
    let present: HashMap<&PathBuf, Option<Digest>> =
        sealed.entries.iter().map(|entry| (&entry.path, entry.digest)).collect();
    let differs = |item: &PortableItem| item.is_file() && present.get(&item.path).copied().flatten() != item.digest;
    (0..items.len()).filter(|at| differs(&items[*at])).collect()
}

async fn fetch_all(
    fetch: &Arc<Fetch>,
    items: &[PortableItem],
    missing: &[usize],
    twins: &HashMap<Digest, PathBuf>,
) -> Result<(), SharedStoreError> {
    let mut coming: JoinSet<Result<(), SharedStoreError>> = JoinSet::new();
    for at in missing.iter().copied() {
        let item = items[at].clone();
        let Some(digest) = item.digest else { continue };
        let fetch = Arc::clone(fetch);
        if let Some(twin) = twins.get(&digest).cloned() {
            coming.spawn(async move {
                let (size, incoming) = (item.size, Arc::clone(&fetch.incoming));
                spawn_blocking(move || incoming.copy(&item, &twin)).await??;
                fetch.more(size);
                Ok(())
            });
        } else if item.size <= PART {
            let permit = Arc::clone(&fetch.inner.transfer_permits).acquire_owned().await?;
            coming.spawn(async move {
                small(&fetch, item, digest).await?;
                drop(permit);
                Ok(())
            });
        } else {
            large(&fetch, &item, digest, &mut coming).await?;
        }
        // The first thing that goes wrong ends all of it.
        while let Some(one) = coming.try_join_next() {
            one??;
        }
    }
    while let Some(one) = coming.join_next().await {
        one??;
    }
    for at in missing {
        fetch.incoming.forget_parts(&items[*at])?;
    }
    Ok(())
}

/// One request for all of it. Its bytes are checked when the folder is sealed, like all others.
async fn small(fetch: &Fetch, item: PortableItem, digest: Digest) -> Result<(), SharedStoreError> {
    let object = blob(&digest);
    let bytes = fetch.inner.bucket.get(&object).await?.ok_or_else(|| SharedStoreError::gone(&object))?;
    fetch.more(bytes.len() as u64);
    let incoming = Arc::clone(&fetch.incoming);
    spawn_blocking(move || incoming.put(&item, &bytes)).await??;
    Ok(())
}

/// Parts beside each other, those that are here already left out.
async fn large(
    fetch: &Arc<Fetch>,
    item: &PortableItem,
    digest: Digest,
    coming: &mut JoinSet<Result<(), SharedStoreError>>,
) -> Result<(), SharedStoreError> {
    let parts = Arc::new(fetch.incoming.parts(item)?);
    let object: Arc<str> = blob(&digest).into();
    let mut offset = 0;
    while offset < item.size {
        let range = offset..(offset + PART).min(item.size);
        offset = range.end;
        if parts.has(range.start) {
            fetch.more(range.end - range.start);
            continue;
        }
        let permit = Arc::clone(&fetch.inner.transfer_permits).acquire_owned().await?;
        let (fetch, parts, object) = (Arc::clone(fetch), Arc::clone(&parts), Arc::clone(&object));
        coming.spawn(async move {
            let bytes = fetch.inner.bucket.get_range(&object, range.clone()).await?;
            if bytes.len() as u64 != range.end - range.start {
                return Err(SharedStoreError::damaged(&*object, "is shorter than in its record"));
            }
            fetch.more(bytes.len() as u64);
            spawn_blocking(move || parts.put(range.start, &bytes)).await??;
            drop(permit);
            Ok(())
        });
    }
    Ok(())
}

/// An output that is being fetched, and how much of it has come.
struct Fetch {
    inner: Arc<StoreState>,
    wanted: OutputRequest,
    incoming: Arc<IncomingOutput>,
    total: u64,
    done: AtomicU64,
    /// Hundredths of it that were reported.
    reported_hundredths: AtomicU64,
}

impl Fetch {
    fn more(&self, bytes: u64) {
        let done = self.done.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let hundredths = done * 100 / self.total.max(1);
        if self.reported_hundredths.swap(hundredths, Ordering::Relaxed) == hundredths {
            return;
        }
        (self.inner.emit)(Event::Progress {
            task: self.wanted.task.clone(),
            text: format!("{} from {}", size(done), self.inner.address),
            done,
            total: Some(self.total),
            live: None,
        });
    }
}
