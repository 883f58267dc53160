//! From this project into the store: files first, the record last. A reader that finds a record finds every file that
//! it names.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read as _;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use memchr::memmem::Finder;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::task::{JoinSet, spawn_blocking};
use walkdir::WalkDir;

use super::bucket::{self, PART, SharedStoreError, blob};
use super::pull;
use super::record::{SharedOutput, name};
use super::store::{Shareability, StoreState, UploadOutcome};
use crate::store::{PortableItem, TaskRecord, link_escape};
use base::files::{Digest, open_regular, shared_pool};

/// Why a file is not sent.
enum PushBlocker {
    NotShareable(String),
    Error(SharedStoreError),
}

impl<T: Into<SharedStoreError>> From<T> for PushBlocker {
    fn from(error: T) -> Self {
        Self::Error(error.into())
    }
}

/// Puts an output there. `again`: also where its record is there already, to mend what is wrong or gone.
pub(super) async fn push(
    inner: &Arc<StoreState>,
    record: &Arc<TaskRecord>,
    again: bool,
) -> Result<UploadOutcome, SharedStoreError> {
    let Some(Shareability::Shareable { machine, needles }) = inner.tasks.get(&record.task) else {
        return Ok(UploadOutcome::NotShareable("its stage is not shared".to_owned()));
    };
    if inner.signatures.is_read_only() {
        return Ok(UploadOutcome::NotShareable(
            "this store requires signed records; pass `--sign-key FILE`".to_owned(),
        ));
    }
    // This key would vouch for it as for what was made here.
    if let (Some(origin), false, Some(_)) = (&record.from, record.is_signed, inner.signatures.signer()) {
        return Ok(UploadOutcome::NotShareable(format!("it came from {origin}, where no trusted key had signed it")));
    }
    let name = name(&record.key, machine);
    let object = bucket::record(&name);
    let is_damaged = inner.is_damaged(&object);
    let is_there = !is_damaged && inner.bucket.size(&object).await?.is_some();
    let mends = again || (is_there && lacks_signature(inner, &name).await?);
    if is_there && !mends {
        return Ok(UploadOutcome::AlreadyPresent);
    }
    let is_newer = async || matches!(pull::read(inner, &name).await, Err(SharedStoreError::Newer { .. }));
    if (is_there || is_damaged) && is_newer().await {
        return Ok(UploadOutcome::AlreadyPresent);
    }
    let (output_cache, of) = (Arc::clone(&inner.cache), Arc::clone(record));
    let items = spawn_blocking(move || output_cache.items(&of)).await??;
    let folder = inner.cache.folder(record);
    if let Some(why) = unfit_for_others(&folder, &items) {
        return Ok(UploadOutcome::NotShareable(why));
    }
    let Ok(fields) = record.parsed_key() else {
        return Ok(UploadOutcome::NotShareable("its local record cannot be read".to_owned()));
    };
    let shared = SharedOutput::new(record, fields, machine.clone(), items);
    let bytes = shared.seal(inner.signatures.signer()).map_err(|error| SharedStoreError::Local(error.to_string()))?;
    let files = unique(&shared.items);
    let mut there: Vec<(String, Digest)> = Vec::new();
    let sent = match send_files(inner, &folder, &files, needles, again, &mut there).await {
        Ok(sent) => sent,
        Err(PushBlocker::NotShareable(why)) => return Ok(UploadOutcome::NotShareable(why)),
        Err(PushBlocker::Error(error)) => return Err(error),
    };
    let created = if is_damaged || (is_there && mends) {
        inner.bucket.put(&object, bytes).await?;
        true
    } else {
        inner.bucket.create(&object, bytes).await?
    };
    inner.damaged.lock().remove(&object);
    // A garbage collection may have removed unreferenced files while this record was on its way.
    for (object, digest) in there {
        if inner.bucket.size(&object).await?.is_none()
            && let Some((path, size)) = files.get(&digest)
        {
            let _turn = large_turn(inner, *size).await?;
            let sent = send_file(inner, &folder.join(path), digest, *size, needles).await;
            if let Err(PushBlocker::Error(error)) = sent {
                return Err(error);
            }
        }
    }
    Ok(if created { UploadOutcome::New(sent) } else { UploadOutcome::AlreadyPresent })
}

/// Its record is there, and other machines with this key would refuse it.
async fn lacks_signature(inner: &StoreState, name: &Digest) -> Result<bool, SharedStoreError> {
    if inner.signatures.signer().is_none() {
        return Ok(false);
    }
    match pull::read(inner, name).await {
        Ok(_) | Err(SharedStoreError::Newer { .. }) => Ok(false),
        Err(SharedStoreError::Untrusted { .. } | SharedStoreError::Damaged { .. }) => Ok(true),
        Err(error) => Err(error),
    }
}

fn unfit_for_others(folder: &Path, items: &[PortableItem]) -> Option<String> {
    if let Some(why) = link_escape(items) {
        return Some(why);
    }
    // An output's digest does not cover `.git`, so its completeness could not be checked.
    let git = WalkDir::new(folder).into_iter().flatten().find(|item| item.file_name() == ".git")?;
    let path = git.path().strip_prefix(folder).unwrap_or(git.path());
    Some(format!("{} is in it, and is not part of what is compared", path.display()))
}

/// Each content once: digest → path and size.
fn unique(items: &[PortableItem]) -> BTreeMap<Digest, (PathBuf, u64)> {
    let files = items.iter().filter(|item| item.is_file());
    files.filter_map(|item| Some((item.digest?, (item.path.clone(), item.size)))).collect()
}

/// Sends what is not there. Small ones first: they are what holds paths.
async fn send_files(
    inner: &Arc<StoreState>,
    folder: &Path,
    files: &BTreeMap<Digest, (PathBuf, u64)>,
    needles: &Arc<ScanPatterns>,
    again: bool,
    there: &mut Vec<(String, Digest)>,
) -> Result<u64, PushBlocker> {
    let order: BTreeSet<(u64, Digest)> = files.iter().map(|(digest, (_, size))| (*size, *digest)).collect();
    let mut sending: JoinSet<Result<(Digest, Option<u64>), PushBlocker>> = JoinSet::new();
    let mut sent = 0;
    let mut settle = |done: Result<Result<(Digest, Option<u64>), PushBlocker>, tokio::task::JoinError>| {
        match done?? {
            (_, Some(bytes)) => sent += bytes,
            (digest, None) => there.push((blob(&digest), digest)),
        }
        Ok::<(), PushBlocker>(())
    };
    for (size, digest) in order {
        // First: a file that waits for it must not hold one of the transfers, which outputs that are fetched need, too.
        let turn = large_turn(inner, size).await?;
        let permit = Arc::clone(&inner.transfer_permits).acquire_owned().await?;
        let (inner, needles, path) = (Arc::clone(inner), Arc::clone(needles), folder.join(&files[&digest].0));
        sending.spawn(async move {
            let bytes = if is_good(&inner, digest, size, again).await? {
                None
            } else {
                send_file(&inner, &path, digest, size, &needles).await?;
                Some(size)
            };
            drop((permit, turn));
            Ok((digest, bytes))
        });
        while let Some(done) = sending.try_join_next() {
            settle(done)?;
        }
    }
    while let Some(done) = sending.join_next().await {
        settle(done)?;
    }
    Ok(sent)
}

/// Whether a blob is there as it must be; `examine` reads it.
async fn is_good(inner: &StoreState, digest: Digest, size: u64, examine: bool) -> Result<bool, SharedStoreError> {
    let object = blob(&digest);
    let stored_size = match inner.bucket.size(&object).await {
        Err(SharedStoreError::Damaged { .. }) => return Ok(false),
        found => found?,
    };
    if inner.is_damaged(&object) || stored_size != Some(size) {
        return Ok(false);
    }
    Ok(!examine || examined(inner, &object, digest, size).await?)
}

/// Whether an object's bytes are those of its digest.
pub(super) async fn examined(
    inner: &StoreState,
    object: &str,
    digest: Digest,
    size: u64,
) -> Result<bool, SharedStoreError> {
    let mut hasher = blake3::Hasher::new();
    let mut offset = 0;
    while offset < size {
        let end = (offset + PART).min(size);
        let bytes = inner.bucket.get_range(object, offset..end).await?;
        if bytes.len() as u64 != end - offset {
            return Ok(false);
        }
        hasher.update(&bytes);
        offset = end;
    }
    Ok(hasher.finalize().as_bytes() == digest.bytes())
}

/// The turn of a file that is sent in parts.
async fn large_turn(inner: &StoreState, size: u64) -> Result<Option<OwnedSemaphorePermit>, SharedStoreError> {
    if size <= PART {
        return Ok(None);
    }
    Ok(Some(Arc::clone(&inner.large).acquire_owned().await?))
}

/// A large one has its turn.
async fn send_file(
    inner: &StoreState,
    path: &Path,
    digest: Digest,
    size: u64,
    needles: &Arc<ScanPatterns>,
) -> Result<(), PushBlocker> {
    let object = blob(&digest);
    let mut pieces = read(path.to_owned(), digest, Arc::clone(needles));
    if size <= PART {
        // Of a small file nothing is sent before all of it was looked at.
        let bytes = match (pieces.recv().await, pieces.recv().await) {
            (Some(Piece::Bytes(bytes)), Some(Piece::End)) => bytes,
            (Some(Piece::End), _) => Bytes::new(),
            (Some(Piece::Held(held)), _) | (_, Some(Piece::Held(held))) => return Err(held),
            _ => return Err(changed(path)),
        };
        inner.sent_bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        inner.bucket.put(&object, bytes).await?;
    } else {
        let mut upload = inner.bucket.upload(&object).await?;
        loop {
            let held = match pieces.recv().await {
                Some(Piece::Bytes(bytes)) => {
                    let size = bytes.len() as u64;
                    match upload.part(bytes).await {
                        Ok(()) => {
                            inner.sent_bytes.fetch_add(size, Ordering::Relaxed);
                            continue;
                        }
                        Err(error) => PushBlocker::Error(error),
                    }
                }
                Some(Piece::End) => break,
                Some(Piece::Held(held)) => held,
                None => changed(path),
            };
            upload.abort().await;
            return Err(held);
        }
        upload.finish().await?;
    }
    inner.damaged.lock().remove(&object);
    Ok(())
}

fn changed(path: &Path) -> PushBlocker {
    PushBlocker::Error(SharedStoreError::Local(format!(
        "{} was changed after it was made; it is not shared",
        path.display()
    )))
}

enum Piece {
    Bytes(Bytes),
    /// All of it was read, and matches its digest.
    End,
    Held(PushBlocker),
}

/// Reads a file on a thread of its own, ahead of the sender; hashes it, and looks for what must not leave.
fn read(path: PathBuf, digest: Digest, needles: Arc<ScanPatterns>) -> mpsc::Receiver<Piece> {
    let (send, receive) = mpsc::channel(2);
    spawn_blocking(move || {
        let ended = match read_through(&path, &digest, &needles, &send) {
            Ok(Some(found)) => {
                let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                Piece::Held(PushBlocker::NotShareable(format!("{name} {}", found.why())))
            }
            Ok(None) => Piece::End,
            Err(held) => Piece::Held(held),
        };
        let _ = send.blocking_send(ended);
    });
    receive
}

fn read_through(
    path: &Path,
    digest: &Digest,
    needles: &ScanPatterns,
    send: &mpsc::Sender<Piece>,
) -> Result<Option<ScanResult>, PushBlocker> {
    let unreadable = |error: std::io::Error| SharedStoreError::Local(format!("{}: {error}", path.display()));
    let (mut file, metadata) = open_regular(path).map_err(unreadable)?;
    let room = metadata.len().min(PART) as usize;
    let (mut hasher, mut scanner) = (blake3::Hasher::new(), needles.scanner());
    loop {
        let mut bytes = Vec::with_capacity(room);
        std::io::Read::by_ref(&mut file).take(PART).read_to_end(&mut bytes).map_err(unreadable)?;
        if bytes.is_empty() {
            break;
        }
        match shared_pool() {
            Some(pool) => pool.install(|| {
                hasher.update_rayon(&bytes);
            }),
            None => {
                hasher.update(&bytes);
            }
        }
        if let Some(found) = scanner.feed(&bytes) {
            return Ok(Some(found));
        }
        if send.blocking_send(Piece::Bytes(bytes.into())).is_err() {
            return Ok(None);
        }
    }
    if hasher.finalize().as_bytes() == digest.bytes() { Ok(None) } else { Err(changed(path)) }
}

// Looks into bytes on their way out for what must not leave, or would be of no use elsewhere.

/// Shorter ones would be found by chance.
const LEAST: usize = 6;
/// Of a folder: any file has texts like `/` and `/a/`.
const SHORTEST_PLACE: usize = 3;
/// Elsewhere `/src/` is a part of another path.
const BEFORE_A_PATH: &[u8] = b"\"'=:,( \t\n\0";

/// What is looked for.
#[derive(Clone, Debug, Default)]
pub(super) struct ScanPatterns {
    list: Vec<(Vec<u8>, ScanResult)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ScanResult {
    /// The path of this project: on another machine it leads nowhere.
    Place,
    Secret,
}

impl ScanResult {
    pub(super) const fn why(self) -> &'static str {
        match self {
            Self::Place => "holds the path of this project's folder, which leads nowhere on another machine",
            Self::Secret => "holds the value of one of the stage's secrets",
        }
    }
}

/// What names folders with a path that ties a file to this machine. Programs may write a path without the links in it,
/// as `pwd -P` does. A short one is found by chance, too, unless it begins there and a slash follows.
pub(super) fn place_patterns(folders: &[&Path]) -> Vec<Vec<u8>> {
    let spellings = folders.iter().flat_map(|path| [Some(path.to_path_buf()), fs::canonicalize(path).ok()]).flatten();
    let mut patterns: Vec<Vec<u8>> = Vec::new();
    for place in spellings.map(|path| path.into_os_string().into_vec()) {
        if place.len() >= LEAST {
            patterns.push(place);
        } else if place.len() >= SHORTEST_PLACE {
            patterns.extend(BEFORE_A_PATH.iter().map(|before| [&[*before], &place[..], b"/"].concat()));
        }
    }
    patterns.sort_unstable();
    patterns.dedup();
    patterns
}

impl ScanPatterns {
    /// `places`: of [`place_patterns`].
    pub(super) fn new(places: &[Vec<u8>], secrets: &[String]) -> Self {
        let places = places.iter().map(|place| (place.clone(), ScanResult::Place));
        let secrets = secrets.iter().map(|secret| (secret.as_bytes().to_vec(), ScanResult::Secret));
        Self { list: places.chain(secrets.filter(|(secret, _)| secret.len() >= LEAST)).collect() }
    }

    pub(super) fn scanner(&self) -> Scanner<'_> {
        let finders = self.list.iter().map(|(needle, found)| (Finder::new(needle), *found)).collect();
        let overlap = self.list.iter().map(|(needle, _)| needle.len() - 1).max().unwrap_or(0);
        Scanner { finders, overlap, tail: Vec::new() }
    }
}

/// One file, piece by piece.
pub(super) struct Scanner<'n> {
    finders: Vec<(Finder<'n>, ScanResult)>,
    overlap: usize,
    tail: Vec<u8>,
}

impl Scanner<'_> {
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Option<ScanResult> {
        let find = |text: &[u8]| self.finders.iter().find(|(finder, _)| finder.find(text).is_some()).map(|(_, f)| *f);
        let start = &bytes[..bytes.len().min(self.overlap)];
        self.tail.extend_from_slice(start);
        let position = find(bytes).or_else(|| find(&self.tail));
        if bytes.len() >= self.overlap {
            self.tail.clear();
            self.tail.extend_from_slice(&bytes[bytes.len() - self.overlap..]);
        } else {
            let surplus = self.tail.len().saturating_sub(self.overlap);
            self.tail.drain(..surplus);
        }
        position
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::time::Duration;

    use super::super::bucket::{Bucket, StoreAddress};
    use super::super::record::SignaturePolicy;
    use super::super::store::LANES;
    use super::*;
    use crate::store::{OutputCache, StateFolder};

    #[tokio::test]
    async fn large_files_that_wait_for_their_turn_leave_the_transfers_to_others() {
        let folder = tempfile::tempdir().unwrap();
        let address = StoreAddress::parse(&folder.path().display().to_string()).unwrap();
        let home = StateFolder::new(folder.path().to_owned(), folder.path().join(".regatta"));
        let (bucket, cache) = (Bucket::open(&address).unwrap(), Arc::new(OutputCache::open(&home).unwrap()));
        let (emit, policy, tasks) = (Arc::new(|_| {}), SignaturePolicy::default(), HashMap::new());
        let inner = Arc::new(StoreState::new(bucket, &address, cache, emit, policy, tasks));
        let _turns = inner.large.acquire_many(2).await.unwrap();
        let files: BTreeMap<Digest, (PathBuf, u64)> = (0..LANES as u64)
            .map(|n| (Digest::hash(&n.to_le_bytes()), (PathBuf::from("absent"), PART + n + 1)))
            .collect();
        let (needles, mut there) = (Arc::default(), Vec::new());
        let sending = send_files(&inner, folder.path(), &files, &needles, false, &mut there);
        let waited = tokio::time::timeout(Duration::from_millis(200), sending).await;
        assert!(waited.is_err());
        assert_eq!(inner.transfer_permits.available_permits(), LANES);
    }

    #[test]
    fn a_place_is_found_where_it_has_a_short_path_or_was_named_by_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let (real, link) = (folder.path().join("real"), folder.path().join("link"));
        fs::create_dir(&real).unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        let needles = ScanPatterns::new(&place_patterns(&[&link, Path::new("/srv"), Path::new("/")]), &[]);
        for text in [format!("{}/x", real.display()), format!("{}/x", link.display()), "model=/srv/data.bin".to_owned()]
        {
            assert_eq!(needles.scanner().feed(text.as_bytes()), Some(ScanResult::Place), "{text}");
        }
        assert_eq!(needles.scanner().feed(b"/ /srv2 a/b opt/srv/x https://host/srv/"), None);
    }

    #[test]
    fn a_needle_is_found_wherever_a_piece_ends() {
        let needles = ScanPatterns::new(
            &place_patterns(&[Path::new("/srv/project")]),
            &["s3cr3t-token".to_owned(), "ab".to_owned()],
        );
        let text = b"prefix /srv/projec /srv/project/out ab";
        for size in 1..text.len() {
            let mut scanner = needles.scanner();
            let results: Vec<ScanResult> = text.chunks(size).filter_map(|piece| scanner.feed(piece)).collect();
            assert_eq!(results.first(), Some(&ScanResult::Place), "pieces of {size}");
        }
        let mut scanner = needles.scanner();
        assert_eq!(scanner.feed(b"token=s3cr3t-"), None);
        assert_eq!(scanner.feed(b"token\n"), Some(ScanResult::Secret));
        assert_eq!(needles.scanner().feed(b"ab /srv/projec"), None);
    }
}
