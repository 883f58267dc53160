//! Fetches files of a hub: several at once, each from where it was cut off, its digest worked out on the way.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::checked_files::CheckedFiles;
use super::failures::{stopped, system};
use super::hub::{FetchError, Hub, chain};
use super::hub_digest::FileHasher;
use super::index::{ExpectedFile, HubIndex, differs};
use super::list::Checked;
use crate::event::{Failure, FailureKind};
use crate::stages::task_context::TaskContext;

/// Files at once.
const AT_ONCE: usize = 4;
/// Tries in a row that bring no new byte.
const TRIES: u32 = 5;
const FIRST_PAUSE: Duration = Duration::from_millis(250);

/// Every wanted file, whole and checked.
pub(super) async fn all(
    context: &TaskContext,
    hub: &Hub,
    index: &HubIndex,
    wanted: &[ExpectedFile],
    memory: &mut CheckedFiles,
) -> Result<Vec<Checked>, Failure> {
    let total: u64 = wanted.iter().map(|file| file.size).sum();
    let done = Arc::new(AtomicU64::new(0));
    let places = Arc::new(Semaphore::new(AT_ONCE));
    let mut running: JoinSet<Result<ExpectedFile, Failure>> = JoinSet::new();
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
                None => break,
                // Dropping the others keeps their bytes: the next try goes on from there.
                Some(ended) => {
                    let one = ended.map_err(|error| Failure::new(FailureKind::System, error.to_string()))??;
                    memory.add(&one.path, &context.lease.out.join(&one.path));
                }
            },
            _ = tick.tick() => context.lease.report_progress("bytes fetched", done.load(Ordering::Relaxed), Some(total)),
            () = context.lease.stop.requested() => return Err(stopped()),
        }
    }
    Ok(wanted.iter().map(|one| Checked { path: one.path.clone(), size: one.size, sum: one.sum.clone() }).collect())
}

/// One file being fetched.
struct Fetching {
    hub: Hub,
    commit: String,
    one: ExpectedFile,
    path: PathBuf,
    /// Bytes of all files that are there.
    done: Arc<AtomicU64>,
}

impl Fetching {
    /// Until its digest is right. Damaged once, it is fetched once more.
    async fn fetch_verified(self) -> Result<ExpectedFile, Failure> {
        let mut is_second = false;
        loop {
            let found = self.to_the_end().await?.finish();
            if found == self.one.sum {
                return Ok(self.one);
            }
            let _ = fs::remove_file(&self.path);
            self.done.fetch_sub(self.one.size, Ordering::Relaxed);
            if is_second {
                return Err(differs(&self.one, &found));
            }
            is_second = true;
        }
    }

    /// Until all bytes are there, over as many connections as it takes.
    async fn to_the_end(&self) -> Result<FileHasher, Failure> {
        let (mut file, mut have) = self.open().map_err(|error| system(&self.path, &error))?;
        let mut sum = self.one.sum.begin(self.one.size);
        if have > 0 {
            let path = self.path.clone();
            sum = tokio::task::spawn_blocking(move || {
                sum.read(&path, have)?;
                Ok(sum)
            })
            .await
            .map_err(|error| Failure::new(FailureKind::System, error.to_string()))?
            .map_err(|error: io::Error| system(&self.path, &error))?;
        }
        self.done.fetch_add(have, Ordering::Relaxed);
        let mut vain = 0;
        while have < self.one.size {
            let before = have;
            match self.some(&mut file, &mut have, &mut sum).await {
                Ok(()) => {}
                Err(FetchError::Final(failure)) => return Err(*failure),
                Err(FetchError::Broken(why)) => {
                    vain = if have > before { 0 } else { vain + 1 };
                    if vain >= TRIES {
                        let what = format!(
                            "{} does not come: {why} ({have} of {} bytes are there)",
                            self.one.path, self.one.size
                        );
                        return Err(Failure::new(FailureKind::System, what)
                            .hint("downloaded parts are kept; run it again to continue"));
                    }
                    tokio::time::sleep(FIRST_PAUSE * 2_u32.pow(vain)).await;
                }
            }
        }
        file.sync_data().map_err(|error| system(&self.path, &error))?;
        Ok(sum)
    }

    /// The file with what an earlier try left of it.
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
    async fn some(&self, file: &mut File, have: &mut u64, sum: &mut FileHasher) -> Result<(), FetchError> {
        let (mut response, is_rest) = self.hub.file(&self.commit, &self.one, *have).await?;
        if *have > 0 && !is_rest {
            // A server without support for ranges begins again.
            file.set_len(0).map_err(|error| lost(&self.path, &error))?;
            self.done.fetch_sub(*have, Ordering::Relaxed);
            *have = 0;
            *sum = self.one.sum.begin(self.one.size);
        }
        while let Some(bytes) = response.chunk().await.map_err(|error| FetchError::Broken(chain(&error)))? {
            let room = (self.one.size - *have) as usize;
            if bytes.len() > room {
                let what = format!("{} is longer than the {} bytes that the hub reports", self.one.path, self.one.size);
                return Err(FetchError::Final(Box::new(Failure::new(FailureKind::Files, what))));
            }
            file.write_all(&bytes).map_err(|error| lost(&self.path, &error))?;
            sum.update(&bytes);
            *have += bytes.len() as u64;
            self.done.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        }
        if *have < self.one.size {
            return Err(FetchError::Broken("the connection ended early".to_owned()));
        }
        Ok(())
    }
}

/// A disk that does not take it will not take it from another connection.
fn lost(path: &Path, error: &io::Error) -> FetchError {
    FetchError::Final(Box::new(system(path, error)))
}
