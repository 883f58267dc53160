//! One writer for each project.
//!
//! `flock` on one file. The kernel lets go of it when the last process that holds the open file ends; the run's
//! watchdog holds it too, so after a `kill -9` of the runner the next run starts only when the orphans are gone. On a
//! cluster filesystem without locks (`EOPNOTSUPP`, `ENOLCK`) the run goes on with a notice instead of blocking for
//! ever.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read as _, Seek as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::StateFolder;
use super::durable::{PathError, WithPath as _, create_folder};
use base::event::RunId;
use base::files::{is_absence, open_regular, read_bytes};

/// How often to look again at what another process is about to change: a reader's lock, or a text that is being
/// written.
const LOOKS: usize = 10;
/// Between two looks. What is waited for takes microseconds, and longer where the other process has to wait for a core.
const PAUSE: Duration = Duration::from_millis(2);

/// The holder of the lock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockHolder {
    pub run: String,
    pub pid: u32,
    /// Its servers are up for other commands, until it is stopped: waiting for it is of no use.
    #[serde(default)]
    pub serving: bool,
}

/// The lock of a project; let go of on drop.
#[derive(Debug)]
pub struct ProjectLock {
    file: File,
    /// The filesystem cannot lock: two runs at once would not see each other.
    pub unprotected: bool,
    /// The current holder.
    pub run: RunId,
}

/// The outcome of trying to take the lock.
#[derive(Debug)]
pub enum LockAttempt {
    Acquired(ProjectLock),
    /// Another process has it; which one, if it could be read.
    No(Option<LockHolder>),
}

impl ProjectLock {
    /// Does not wait for another run. `name` is called only when the lock has been taken, so that names of runs follow
    /// the order of runs.
    pub fn try_take(
        home: &StateFolder,
        name: impl FnOnce() -> Result<RunId, PathError>,
    ) -> Result<LockAttempt, PathError> {
        let path = home.lock();
        create_folder(home.state())?;
        let file =
            OpenOptions::new().create(true).read(true).write(true).truncate(false).open(&path).at("open", &path)?;
        let unprotected = match try_lock_past_readers(&file, pause) {
            Ok(()) => false,
            Err(TryLockError::WouldBlock) => return Ok(LockAttempt::No(LockHolder::read(&file, pause))),
            Err(TryLockError::Error(e)) if has_no_locks(&e) => true,
            Err(TryLockError::Error(e)) => return Err(e).at("lock", &path),
        };
        // To find a name takes a while, in which the holder before this one must not be taken for this one.
        file.set_len(0).at("write", &path)?;
        let run = name()?;
        let lock = Self { file, unprotected, run };
        lock.write_holder(false).at("write", &path)?;
        Ok(LockAttempt::Acquired(lock))
    }

    /// `serving`: this run keeps its servers up.
    fn write_holder(&self, serving: bool) -> std::io::Result<()> {
        let holder = LockHolder { run: self.run.to_string(), pid: std::process::id(), serving };
        self.file.write_all_at(holder.line().as_bytes(), 0)
    }

    /// Shows other commands that this run keeps its servers up.
    pub fn show_serving(&self) -> std::io::Result<()> {
        self.write_holder(true)
    }

    /// The current holder of the lock, if there is one. Takes it for an instant if it is free.
    ///
    /// # Errors
    /// The lock is there, and cannot be looked at.
    pub fn holder(home: &StateFolder) -> Result<Option<LockHolder>, PathError> {
        let path = home.lock();
        let file = match open_regular(&path) {
            Ok((file, _)) => file,
            Err(error) if is_absence(&error) => return Ok(None),
            Err(error) => return Err(error).at("open", &path),
        };
        match file.try_lock_shared() {
            Ok(()) => Ok(None),
            Err(TryLockError::WouldBlock) => Ok(LockHolder::read(&file, pause)),
            Err(TryLockError::Error(error)) if has_no_locks(&error) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error).at("lock", &path),
        }
    }

    /// A second handle on the same open file: its owner holds the lock too.
    pub fn share(&self) -> std::io::Result<File> {
        self.file.try_clone()
    }
}

impl LockHolder {
    /// Padded to one length for both states, so that rewriting it in place leaves no old bytes.
    fn line(&self) -> String {
        let text = serde_json::to_string(self).unwrap_or_default();
        let pad = if self.serving { " " } else { "" };
        format!("{text}{pad}\n")
    }

    /// `None` if it stays unreadable. A text that is being written is read again.
    fn read(mut file: &File, mut pause: impl FnMut()) -> Option<Self> {
        for look in 0..LOOKS {
            if look > 0 {
                pause();
            }
            let mut text = String::new();
            file.rewind().ok()?;
            if file.read_to_string(&mut text).is_ok()
                && let Ok(holder) = serde_json::from_str(&text)
            {
                return Some(holder);
            }
        }
        None
    }
}

/// Whether the text of a file is that of a lock.
pub(super) fn is_lock(path: &Path) -> bool {
    read_bytes(path).is_ok_and(|text| serde_json::from_slice::<LockHolder>(&text).is_ok())
}

/// A command that asks for the holder of a free lock has it for an instant ([`ProjectLock::holder`]). That is not a
/// run, so we wait for it.
fn try_lock_past_readers(file: &File, mut pause: impl FnMut()) -> Result<(), TryLockError> {
    for _ in 1..LOOKS {
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => pause(),
            taken => return taken,
        }
    }
    file.try_lock()
}

/// The filesystem has no locks, or no server that keeps them; the standard library has no kind for the latter.
pub fn has_no_locks(error: &std::io::Error) -> bool {
    error.kind() == std::io::ErrorKind::Unsupported
        || error.raw_os_error() == Some(rustix::io::Errno::NOLCK.raw_os_error())
}

fn pause() {
    thread::sleep(PAUSE);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn home(folder: &tempfile::TempDir) -> StateFolder {
        StateFolder::new(folder.path().to_owned(), folder.path().join(".regatta"))
    }

    fn taken(home: &StateFolder, name: &str) -> ProjectLock {
        match ProjectLock::try_take(home, || Ok(RunId::new(name))).unwrap() {
            LockAttempt::Acquired(lock) => lock,
            LockAttempt::No(holder) => panic!("held by {holder:?}"),
        }
    }

    #[test]
    fn a_lock_that_only_a_reader_has_is_taken_when_the_reader_is_done() {
        let folder = tempfile::tempdir().unwrap();
        let home = home(&folder);
        drop(taken(&home, "r"));
        let mut reader = Some(File::open(home.lock()).unwrap());
        reader.as_ref().unwrap().try_lock_shared().unwrap();
        let file = File::open(home.lock()).unwrap();
        try_lock_past_readers(&file, || drop(reader.take())).unwrap();
    }

    #[test]
    fn a_holder_that_is_being_written_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let home = home(&folder);
        let lock = taken(&home, "r");
        lock.file.set_len(0).unwrap();
        let read = LockHolder::read(&File::open(home.lock()).unwrap(), || lock.write_holder(false).unwrap());
        assert_eq!(read.map(|holder| holder.run), Some("r".to_owned()));
    }

    #[test]
    fn the_holder_before_is_not_shown_while_a_run_gets_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let home = home(&folder);
        let before = taken(&home, "before");
        before.show_serving().unwrap();
        drop(before);
        let mut shown = None;
        let now = ProjectLock::try_take(&home, || {
            shown = ProjectLock::holder(&home)?;
            Ok(RunId::new("now"))
        });
        assert!(matches!(now, Ok(LockAttempt::Acquired(_))));
        assert_eq!(shown, None);
        assert_eq!(
            ProjectLock::holder(&home).unwrap().map(|holder| (holder.run, holder.serving)),
            Some(("now".to_owned(), false))
        );
    }

    #[test]
    fn a_filesystem_without_locks_is_distinguished_from_one_that_fails() {
        let is_without_locks = |errno: rustix::io::Errno| has_no_locks(&errno.into());
        assert!(is_without_locks(rustix::io::Errno::NOLCK) && is_without_locks(rustix::io::Errno::OPNOTSUPP));
        assert!(!is_without_locks(rustix::io::Errno::IO) && !is_without_locks(rustix::io::Errno::STALE));
    }

    #[test]
    fn a_run_that_begins_to_serve_is_the_holder_throughout() {
        let holder_line = |serving| LockHolder { run: "r".to_owned(), pid: 7, serving }.line();
        assert_eq!(holder_line(false).len(), holder_line(true).len());
        let folder = tempfile::tempdir().unwrap();
        let home = home(&folder);
        let lock = taken(&home, "r");
        lock.show_serving().unwrap();
        assert!(ProjectLock::holder(&home).unwrap().is_some_and(|holder| holder.serving && holder.run == "r"));
    }
}
