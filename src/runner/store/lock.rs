//! One writer for each project.
//!
//! `flock` on one file. The kernel lets go of it when the last process that holds the open file ends; the run's watchdog
//! holds it too, so after a `kill -9` of the runner the next run starts only when the orphans are gone. On a cluster
//! filesystem without locks (`EOPNOTSUPP`, `ENOLCK`) the run goes on with a notice instead of blocking for ever.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read as _, Seek as _, Write as _};

use serde::{Deserialize, Serialize};

use super::StateFolder;
use super::durable::{PathError, WithPath as _, create_folder};
use crate::event::RunId;

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

/// What became of a try.
#[derive(Debug)]
pub enum LockAttempt {
    Acquired(ProjectLock),
    /// Another process has it; which one, if it could be read.
    No(Option<LockHolder>),
}

impl ProjectLock {
    /// Never waits. `name` is called only when the lock has been taken, so that names of runs follow the order of runs.
    pub fn try_take(home: &StateFolder, name: impl FnOnce() -> RunId) -> Result<LockAttempt, PathError> {
        let path = home.lock();
        create_folder(home.state())?;
        let mut file =
            OpenOptions::new().create(true).read(true).write(true).truncate(false).open(&path).at("open", &path)?;
        let unprotected = match file.try_lock() {
            Ok(()) => false,
            Err(TryLockError::WouldBlock) => {
                let mut text = String::new();
                let _ = file.read_to_string(&mut text);
                return Ok(LockAttempt::No(serde_json::from_str(&text).ok()));
            }
            Err(TryLockError::Error(e)) if e.kind() == std::io::ErrorKind::Unsupported => true,
            Err(TryLockError::Error(e)) => return Err(e).at("lock", &path),
        };
        let run = name();
        let lock = Self { file, unprotected, run };
        lock.write_holder(false).at("write", &path)?;
        Ok(LockAttempt::Acquired(lock))
    }

    fn write_holder(&self, serving: bool) -> std::io::Result<()> {
        let holder = LockHolder { run: self.run.to_string(), pid: std::process::id(), serving };
        let mut file = &self.file;
        file.set_len(0)?;
        file.rewind()?;
        file.write_all(&serde_json::to_vec(&holder).unwrap_or_default())
    }

    /// Shows other commands that this run keeps its servers up.
    pub fn show_serving(&self) -> std::io::Result<()> {
        self.write_holder(true)
    }

    /// The current holder of the lock, if there is one. Takes it for an instant if it is free.
    pub fn holder(home: &StateFolder) -> Option<LockHolder> {
        let mut file = File::open(home.lock()).ok()?;
        match file.try_lock_shared() {
            Err(TryLockError::WouldBlock) => {
                let mut text = String::new();
                file.read_to_string(&mut text).ok()?;
                serde_json::from_str(&text).ok()
            }
            _ => None,
        }
    }

    /// A second handle on the same open file: its owner holds the lock too.
    pub fn share(&self) -> std::io::Result<File> {
        self.file.try_clone()
    }
}
