//! Fetches files of a hub, once it is known how much they take: several at once, each from where it was cut off, its
//! digest worked out on the way.

use std::convert::Infallible;
use std::env;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::{JoinHandle, JoinSet, spawn_blocking};

use super::completeness::{CheckedFiles, FileHasher};
use super::hub::{FetchError, Hub, chain, chosen, read_listing};
use super::index::{HubIndex, WeightsFile, differs};
use crate::task_context::TaskContext;
use base::event::Failure;
use base::files::read_text;
use plan::manifest::model::Weights;
use runner::store::WithPath as _;

/// Files at once.
const AT_ONCE: usize = 4;
/// Tries in a row that bring no new byte.
const TRIES: u32 = 5;
const FIRST_PAUSE: Duration = Duration::from_millis(250);
/// Pieces of a file that have come and are not written yet.
const PIECES: usize = 64;

/// Every wanted file, whole and checked.
pub(super) async fn all(
    context: &TaskContext,
    hub: &Hub,
    index: &HubIndex,
    wanted: &[WeightsFile],
    memory: &mut CheckedFiles,
) -> Result<(), Failure> {
    let (writing, mut written) = mpsc::channel(1);
    let ended = fetch_each(context, hub, index, wanted, memory, writing).await;
    // What goes on from here, as the next attempt, must not meet one that still writes.
    tokio::select! {
        _ = written.recv() => {}
        () = context.lease.stop.hard_requested() => {}
    }
    ended
}

/// `writing` is held until the last file is written, also after a failure.
async fn fetch_each(
    context: &TaskContext,
    hub: &Hub,
    index: &HubIndex,
    wanted: &[WeightsFile],
    memory: &mut CheckedFiles,
    writing: mpsc::Sender<Infallible>,
) -> Result<(), Failure> {
    let total: u64 = wanted.iter().map(|file| file.size).sum();
    let done = Arc::new(AtomicU64::new(0));
    let places = Arc::new(Semaphore::new(AT_ONCE));
    let mut running: JoinSet<Result<WeightsFile, Failure>> = JoinSet::new();
    for one in wanted {
        let path = context.lease.out.join(&one.path);
        if memory.is_unchanged(&one.path, &path) {
            done.fetch_add(one.size, Ordering::Relaxed);
            continue;
        }
        let fetching = Fetching {
            hub: hub.clone(),
            commit: index.commit.clone(),
            one: one.clone(),
            path,
            done: Arc::clone(&done),
            writing: writing.clone(),
        };
        let places = Arc::clone(&places);
        running.spawn(async move {
            let _place = places.acquire_owned().await;
            fetching.fetch_verified().await
        });
    }
    let mut tick = tokio::time::interval(Duration::from_millis(250));
    loop {
        tokio::select! {
            ended = running.join_next() => match ended {
                None => return Ok(()),
                // Dropping the others keeps their bytes: the next attempt goes on from there.
                Some(ended) => {
                    let file = ended.map_err(|error| Failure::system(error.to_string()))??;
                    memory.add(&file.path, &context.lease.out.join(&file.path));
                }
            },
            _ = tick.tick() => {
                context.lease.report_progress("bytes fetched", done.load(Ordering::Relaxed), Some(total));
            }
            () = context.lease.stop.requested() => return Err(Failure::interrupted(STOPPED)),
        }
    }
}

/// One file being fetched.
struct Fetching {
    hub: Hub,
    commit: String,
    one: WeightsFile,
    path: PathBuf,
    /// Bytes that have arrived, of all files.
    done: Arc<AtomicU64>,
    writing: mpsc::Sender<Infallible>,
}

impl Fetching {
    /// Until its digest is right. Damaged once, it is fetched once more.
    async fn fetch_verified(self) -> Result<WeightsFile, Failure> {
        let mut is_second = false;
        loop {
            let digest = self.to_the_end().await?.finish();
            if digest == self.one.sum {
                return Ok(self.one);
            }
            let _ = fs::remove_file(&self.path);
            self.done.fetch_sub(self.one.size, Ordering::Relaxed);
            if is_second {
                return Err(differs(&self.one, &digest));
            }
            is_second = true;
        }
    }

    /// Until all bytes are there, over as many connections as it takes.
    async fn to_the_end(&self) -> Result<FileHasher, Failure> {
        let (file, mut have) = self.open().at("open", &self.path)?;
        let mut sum = self.one.sum.begin(self.one.size);
        if have > 0 {
            let path = self.path.clone();
            sum = spawn_blocking(move || {
                sum.read(&path, have)?;
                Ok::<_, io::Error>(sum)
            })
            .await
            .map_err(|error| Failure::system(error.to_string()))?
            .at("read", &self.path)?;
        }
        self.done.fetch_add(have, Ordering::Relaxed);
        let mut writer = FileWriter::start(file, sum, self.writing.clone());
        let mut vain = 0;
        while have < self.one.size {
            let before = have;
            match self.some(&mut writer, &mut have).await {
                Ok(()) => {}
                Err(FetchError::Final(failure)) => return Err(*failure),
                Err(FetchError::Broken(why)) => {
                    vain = if have > before { 0 } else { vain + 1 };
                    if vain >= TRIES {
                        let message = format!(
                            "{} does not come: {why} ({have} of {} bytes are there)",
                            self.one.path, self.one.size
                        );
                        return Err(
                            Failure::system(message).hint("downloaded parts are kept; run it again to continue")
                        );
                    }
                    tokio::time::sleep(FIRST_PAUSE * 2_u32.pow(vain)).await;
                }
            }
        }
        Ok(writer.finish().await.at("write", &self.path)?)
    }

    /// The file with what an earlier attempt left of it.
    fn open(&self) -> io::Result<(File, u64)> {
        if let Some(parent) = self.path.parent() {
            fs::create_dir_all(parent)?;
        }
        let file = OpenOptions::new().create(true).append(true).open(&self.path)?;
        let have = file.metadata()?.len();
        if have > self.one.size {
            file.set_len(0)?;
            return Ok((file, 0));
        }
        Ok((file, have))
    }

    /// What one connection brings.
    async fn some(&self, writer: &mut FileWriter, have: &mut u64) -> Result<(), FetchError> {
        let (mut response, is_rest) = self.hub.file(&self.commit, &self.one, *have).await?;
        if *have > 0 && !is_rest {
            // A server without support for ranges begins again.
            let anew = FilePiece::Anew(self.one.sum.begin(self.one.size));
            writer.take(anew).await.at("write", &self.path)?;
            self.done.fetch_sub(*have, Ordering::Relaxed);
            *have = 0;
        }
        while let Some(bytes) = response.chunk().await.map_err(|error| FetchError::Broken(chain(&error)))? {
            let room = (self.one.size - *have) as usize;
            if bytes.len() > room {
                let message =
                    format!("{} is longer than the {} bytes that the hub reports", self.one.path, self.one.size);
                return Err(FetchError::Final(Box::new(Failure::files(message))));
            }
            let length = bytes.len() as u64;
            writer.take(FilePiece::Bytes(bytes)).await.at("write", &self.path)?;
            *have += length;
            self.done.fetch_add(length, Ordering::Relaxed);
        }
        if *have < self.one.size {
            return Err(FetchError::Broken("the connection ended early".to_owned()));
        }
        Ok(())
    }
}

/// Writes a file, and its digest's hasher takes it in, on a thread of its own: a disk may be slow, and hashing takes a
/// core.
struct FileWriter {
    pieces: mpsc::Sender<FilePiece>,
    written: JoinHandle<io::Result<(File, FileHasher)>>,
}

enum FilePiece {
    Bytes(Bytes),
    /// The file begins again.
    Anew(FileHasher),
}

impl FileWriter {
    /// `sum` has taken in what is in the file. `writing` is held to the end.
    fn start(mut file: File, mut sum: FileHasher, writing: mpsc::Sender<Infallible>) -> Self {
        let (pieces, mut taken) = mpsc::channel(PIECES);
        let written = spawn_blocking(move || {
            let _writing = writing;
            while let Some(piece) = taken.blocking_recv() {
                match piece {
                    FilePiece::Bytes(bytes) => {
                        file.write_all(&bytes)?;
                        sum.update(&bytes);
                    }
                    FilePiece::Anew(begun) => {
                        file.set_len(0)?;
                        sum = begun;
                    }
                }
            }
            Ok((file, sum))
        });
        Self { pieces, written }
    }

    async fn take(&mut self, piece: FilePiece) -> io::Result<()> {
        if self.pieces.send(piece).await.is_ok() {
            return Ok(());
        }
        // It has ended before all pieces came, so with an error.
        (&mut self.written).await?.and(Err(io::Error::other("it ended early")))
    }

    /// Once all is on the disk.
    async fn finish(self) -> io::Result<FileHasher> {
        drop(self.pieces);
        let (file, sum) = self.written.await??;
        spawn_blocking(move || file.sync_data()).await??;
        Ok(sum)
    }
}

pub(super) const STOPPED: &str = "stopped; downloaded parts are kept, and the next run continues from there";

/// Bytes of the files that are wanted of a repository, from its hub's index; `None` for a folder that is there already,
/// of which the output has links only. Blocks, for at most `limit`; not for use inside of a runtime.
///
/// # Errors
/// The hub does not answer, or not as expected: its message, and what to do about it.
pub fn weights_size(weights: &Weights, limit: Duration) -> Result<Option<u64>, Failure> {
    let Some(name) = &weights.hf else { return Ok(None) };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::refused(format!("the hub cannot be queried: {error}")))?;
    runtime.block_on(async {
        let hub = Hub::new(name, hub_token(&weights.token_env))?;
        let index = tokio::time::timeout(limit, hub.index(&weights.revision)).await;
        let index =
            index.map_err(|_| Failure::refused(format!("the hub has not answered for {} s", limit.as_secs())))??;
        size(&index, weights).map(Some)
    })
}

/// Like `weights_size`, of a hub's answer whose bytes are at hand, without a connection.
///
/// # Errors
/// The answer is not a list of files, or names a file that cannot be in an output folder.
pub fn listed_size(answer: &[u8], weights: &Weights) -> Result<u64, Failure> {
    let index = read_listing(answer, "the hub").map_err(|error| match error {
        FetchError::Broken(why) => Failure::refused(why),
        FetchError::Final(failure) => *failure,
    })?;
    size(&index, weights)
}

fn size(index: &HubIndex, weights: &Weights) -> Result<u64, Failure> {
    Ok(chosen(index, weights)?.iter().map(|file| file.size).sum())
}

// The hub's token: from the environment, or from the file that `hf auth login` writes.

/// A token without surrounding space, if there is one.
pub(super) fn hub_token(variable: &str) -> Option<String> {
    let given = env::var(variable).ok().or_else(|| {
        let files = [env::var_os("HF_TOKEN_PATH").map(PathBuf::from), hub_home().map(|home| home.join("token"))];
        files.into_iter().flatten().find_map(|file| read_text(file).ok())
    });
    given.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
}

fn hub_home() -> Option<PathBuf> {
    let hf_home = env::var_os("HF_HOME").map(PathBuf::from);
    let cache = || env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let usual = || env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    hf_home.or_else(|| Some(cache().or_else(usual)?.join("huggingface")))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::weights::completeness::HubDigest;

    fn writer(path: &Path) -> FileWriter {
        let file = OpenOptions::new().create(true).append(true).open(path).unwrap();
        FileWriter::start(file, begun(), mpsc::channel(1).0)
    }

    fn begun() -> FileHasher {
        HubDigest::GitBlob(String::new()).begin(6)
    }

    fn piece(bytes: &'static str) -> FilePiece {
        FilePiece::Bytes(Bytes::from_static(bytes.as_bytes()))
    }

    #[tokio::test]
    async fn a_file_that_begins_again_has_the_digest_of_what_is_in_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        let mut writer = writer(&path);
        for piece in [piece("other"), FilePiece::Anew(begun()), piece("hel"), piece("lo\n")] {
            writer.take(piece).await.unwrap();
        }
        let sum = writer.finish().await.unwrap().finish();
        assert_eq!(sum.to_string(), "git blob ce013625030ba8dba906f756967f9e9ca394464a");
        assert_eq!(fs::read_to_string(&path).unwrap(), "hello\n");
    }

    #[tokio::test]
    async fn a_full_disk_ends_the_fetch_with_its_error() {
        let mut writer = writer(Path::new("/dev/full"));
        let error = loop {
            if let Err(error) = writer.take(piece("x")).await {
                break error;
            }
        };
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    }
}
