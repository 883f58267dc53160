//! What a job writes into its folder, read again and again. An error of the filesystem is no news of the job: a network's passes.

use std::ffi::OsStr;
use std::time::Duration;

use tokio::task::spawn_blocking;
use tokio::time::Instant;

use super::job_protocol::JobEnd;
use runner::store::{JobFolder, PathError, WithPath as _};

/// How long a folder may be unreadable until the run gives the job up.
const UNREADABLE_TIMEOUT: Duration = Duration::from_mins(5);

/// What a job has written so far.
pub struct JobProgress {
    pub ended: Option<JobEnd>,
    /// Events since the last look.
    pub lines: Vec<String>,
    pub claimant: Option<String>,
    pub heartbeat: Option<String>,
}

/// A look at the folder.
pub enum FolderLook {
    Progress(Box<JobProgress>),
    /// It cannot be read now; with a message for the user, sent once.
    Unreadable(Option<String>),
}

/// Reads one job's folder.
pub struct ProgressReader {
    folder: JobFolder,
    /// Where the next events begin.
    offset: u64,
    unreadable_since: Option<Instant>,
    is_reported: bool,
}

impl ProgressReader {
    pub const fn new(folder: JobFolder) -> Self {
        Self { folder, offset: 0, unreadable_since: None, is_reported: false }
    }

    /// # Errors
    /// The record of the job's end is damaged, or the folder could not be read for too long.
    pub async fn look(&mut self) -> Result<FolderLook, PathError> {
        let (folder, from) = (self.folder.clone(), self.offset);
        // A shared filesystem may be slow, and the run has other tasks.
        let read = spawn_blocking(move || read(&folder, from)).await;
        self.judge(read.at("read", self.folder.path()).flatten(), Instant::now())
    }

    fn judge(&mut self, read: Result<(JobProgress, u64), PathError>, now: Instant) -> Result<FolderLook, PathError> {
        match read {
            Ok((progress, offset)) => {
                self.offset = offset;
                self.unreadable_since = None;
                Ok(FolderLook::Progress(Box::new(progress)))
            }
            Err(error) if error.is_of_system() => {
                let since = *self.unreadable_since.get_or_insert(now);
                if now.saturating_duration_since(since) >= UNREADABLE_TIMEOUT {
                    return Err(error);
                }
                let is_first = !std::mem::replace(&mut self.is_reported, true);
                let text = || format!("{error}; its job continues, and the run tries to read it again");
                Ok(FolderLook::Unreadable(is_first.then(text)))
            }
            Err(error) => Err(error),
        }
    }
}

fn read(folder: &JobFolder, from: u64) -> Result<(JobProgress, u64), PathError> {
    // A job that waits costs a shared filesystem one listing.
    let names = folder.list()?;
    let has = |name: &str| names.contains(OsStr::new(name));
    // Its end before its events: they were written first, so none comes after these.
    let ended = if has("ended.json") { folder.ended()? } else { None };
    let (lines, offset) = if has("events") { folder.read_event_lines(from)? } else { (Vec::new(), from) };
    let claimant = if has("claim") { folder.claimant()? } else { None };
    let heartbeat = if has("alive") { folder.heartbeat() } else { None };
    Ok((JobProgress { ended, lines, claimant, heartbeat }, offset))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(look: &Result<FolderLook, PathError>) -> &'static str {
        match look {
            Ok(FolderLook::Progress(_)) => "progress",
            Ok(FolderLook::Unreadable(Some(_))) => "message",
            Ok(FolderLook::Unreadable(None)) => "silence",
            Err(_) => "error",
        }
    }

    #[test]
    fn events_and_a_claim_that_cannot_be_read_are_not_absent() {
        let folder = tempfile::tempdir().unwrap();
        let job = JobFolder::at(folder.path());
        let mut reader = ProgressReader::new(job.clone());
        let now = Instant::now();
        for name in ["events", "claim"] {
            let path = folder.path().join(name);
            // It is there, and cannot be followed, not even by root.
            std::os::unix::fs::symlink(name, &path).unwrap();
            // Its end is concluded only after its events were read.
            let end = JobEnd {
                number: "7".to_owned(),
                node: "n1".to_owned(),
                how: Ok(base::event::Done::default()),
                extent: crate::remote::slurm::job_protocol::FolderSize::default(),
            };
            job.end(&end).unwrap();
            reader.is_reported = false;
            assert_eq!(outcome(&reader.judge(read(&job, 0), now)), "message", "{name}");
            std::fs::remove_file(&path).unwrap();
            std::fs::remove_file(folder.path().join("ended.json")).unwrap();
        }
        assert_eq!(outcome(&reader.judge(read(&job, 0), now)), "progress");
    }

    #[test]
    fn an_error_of_the_filesystem_is_waited_out_and_reported_once() {
        let folder = tempfile::tempdir().unwrap();
        let job = JobFolder::at(folder.path());
        let end = folder.path().join("ended.json");
        let mut reader = ProgressReader::new(job.clone());
        let begun = Instant::now();
        let mut look = |at: u64| outcome(&reader.judge(read(&job, 0), begun + Duration::from_secs(at)));
        assert_eq!(look(0), "progress");
        // It is there, and cannot be followed, not even by root.
        std::os::unix::fs::symlink("ended.json", &end).unwrap();
        assert_eq!([look(1), look(300)], ["message", "silence"]);
        std::fs::remove_file(&end).unwrap();
        assert_eq!(look(301), "progress");
        std::os::unix::fs::symlink("ended.json", &end).unwrap();
        assert_eq!([look(302), look(601), look(602)], ["silence", "silence", "error"]);
        std::fs::remove_file(&end).unwrap();
        std::fs::write(&end, "{").unwrap();
        assert_eq!(look(603), "error", "it was read, and is damaged");
    }
}
