//! From the store into a folder of this project: what is here already is not fetched, and nothing is believed before it
//! was hashed.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::task::{JoinSet, spawn_blocking};

use super::bucket::{self, PART, blob};
use super::error::SharedStoreError;
use super::machine;
use super::record::{RecordError, SharedOutput};
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
    if shared.key != wanted.digest || machine::name(&shared.key, &shared.machine) != *name {
        let damage = SharedStoreError::Damaged {
            object: bucket::record(name),
            why: "is the record of another key or machine".to_owned(),
        };
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
        Err(error) => SharedStoreError::Damaged { object, why: error.to_string() },
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
        "its output is in the shared store and not fetched: it takes {}, {} are free here",
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
    let progress = Arc::new(Progress {
        inner: Arc::clone(inner),
        wanted: wanted.clone(),
        total,
        done: AtomicU64::new(0),
        reported_hundredths: AtomicU64::new(0),
    });
    for round in 0..2 {
        fetch_all(inner, incoming, items, &missing, &twins, &progress).await?;
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
        Some((at, digest)) => SharedStoreError::Damaged {
            object: blob(&digest),
            why: format!(
                "does not match the digest in its name ({} in the output of {})",
                items[*at].path.display(),
                wanted.task
            ),
        },
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
    inner: &Arc<StoreState>,
    incoming: &Arc<IncomingOutput>,
    items: &Arc<[PortableItem]>,
    missing: &[usize],
    twins: &HashMap<Digest, PathBuf>,
    progress: &Arc<Progress>,
) -> Result<(), SharedStoreError> {
    let mut coming: JoinSet<Result<(), SharedStoreError>> = JoinSet::new();
    for at in missing.iter().copied() {
        let item = items[at].clone();
        let Some(digest) = item.digest else { continue };
        let (incoming, inner, progress) = (Arc::clone(incoming), Arc::clone(inner), Arc::clone(progress));
        if let Some(twin) = twins.get(&digest).cloned() {
            coming.spawn(async move {
                let size = item.size;
                spawn_blocking(move || incoming.copy(&item, &twin)).await??;
                progress.more(size);
                Ok(())
            });
        } else if item.size <= PART {
            let permit = transfer_permit(&inner).await?;
            coming.spawn(async move {
                small(&inner, &incoming, item, digest, &progress).await?;
                drop(permit);
                Ok(())
            });
        } else {
            large(&inner, &incoming, &item, digest, &progress, &mut coming).await?;
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
        incoming.forget_parts(&items[*at])?;
    }
    Ok(())
}

/// One request for all of it. Its bytes are checked when the folder is sealed, like all others.
async fn small(
    inner: &StoreState,
    incoming: &Arc<IncomingOutput>,
    item: PortableItem,
    digest: Digest,
    progress: &Progress,
) -> Result<(), SharedStoreError> {
    let object = blob(&digest);
    let gone = || SharedStoreError::Damaged {
        object: object.clone(),
        why: "is missing, although a record names it".to_owned(),
    };
    let bytes = inner.bucket.get(&object).await?.ok_or_else(gone)?;
    progress.more(bytes.len() as u64);
    let incoming = Arc::clone(incoming);
    spawn_blocking(move || incoming.put(&item, &bytes)).await??;
    Ok(())
}

/// Parts beside each other, those that are here already left out.
async fn large(
    inner: &Arc<StoreState>,
    incoming: &Arc<IncomingOutput>,
    item: &PortableItem,
    digest: Digest,
    progress: &Arc<Progress>,
    coming: &mut JoinSet<Result<(), SharedStoreError>>,
) -> Result<(), SharedStoreError> {
    let parts = Arc::new(incoming.parts(item)?);
    let object: Arc<str> = blob(&digest).into();
    let mut offset = 0;
    while offset < item.size {
        let range = offset..(offset + PART).min(item.size);
        offset = range.end;
        if parts.has(range.start) {
            progress.more(range.end - range.start);
            continue;
        }
        let permit = transfer_permit(inner).await?;
        let (inner, parts, object, progress) =
            (Arc::clone(inner), Arc::clone(&parts), Arc::clone(&object), Arc::clone(progress));
        coming.spawn(async move {
            let bytes = inner.bucket.get_range(&object, range.clone()).await?;
            if bytes.len() as u64 != range.end - range.start {
                let reason = "is shorter than in its record".to_owned();
                return Err(SharedStoreError::Damaged { object: object.to_string(), why: reason });
            }
            progress.more(bytes.len() as u64);
            spawn_blocking(move || parts.put(range.start, &bytes)).await??;
            drop(permit);
            Ok(())
        });
    }
    Ok(())
}

async fn transfer_permit(inner: &StoreState) -> Result<tokio::sync::OwnedSemaphorePermit, SharedStoreError> {
    Arc::clone(&inner.transfer_permits)
        .acquire_owned()
        .await
        .map_err(|error| SharedStoreError::Local(error.to_string()))
}

/// How much of an output has come.
struct Progress {
    inner: Arc<StoreState>,
    wanted: OutputRequest,
    total: u64,
    done: AtomicU64,
    /// Hundredths of it that were reported.
    reported_hundredths: AtomicU64,
}

impl Progress {
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
