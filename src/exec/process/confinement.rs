//! Confines a command to the files that it may read and write, with Landlock.
//!
//! A thread that restricts itself cannot undo it, and what it starts inherits the restriction. So a short-lived thread
//! restricts itself and starts the command: no code runs between `fork` and `exec`, and the rest of this program stays free.

use std::io;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access as _, AccessFs, CompatLevel, Compatible as _, PathBeneath, PathFd, Ruleset, RulesetAttr as _,
    RulesetCreatedAttr as _, RulesetError, RulesetStatus,
};

/// Folders of the system: programs, libraries, settings, devices. What is in them is not seen as an input.
pub const SYSTEM_FOLDERS: [&str; 14] = [
    "/bin", "/dev", "/etc", "/gnu", "/lib", "/lib32", "/lib64", "/nix", "/opt", "/proc", "/run", "/sbin", "/sys",
    "/usr",
];
/// The one of them where programs write, too: `/dev/null`, GPUs, shared memory.
const DEVICES: &str = "/dev";

/// The files of a command, beside [`SYSTEM_FOLDERS`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Confinement {
    /// Files, and folders with all that is in them. A link stands for what it leads to.
    pub read: Vec<PathBuf>,
    /// Folders in which it may do everything.
    pub write: Vec<PathBuf>,
}

/// Why a command cannot be confined.
#[derive(Debug, thiserror::Error)]
pub enum ConfinementError {
    #[error(
        "this kernel has no Landlock, or it is not switched on (Linux 5.13 or newer, with `landlock` among its `lsm=`)"
    )]
    NoLandlock,
    #[error("{}: {source}", path.display())]
    Path { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Ruleset(#[from] RulesetError),
    #[error("a thread for it cannot be started: {0}")]
    Thread(#[source] io::Error),
}

impl Confinement {
    /// Whether the command may read this file.
    pub fn allows_reading(&self, path: &Path) -> bool {
        let system = SYSTEM_FOLDERS.iter().map(Path::new);
        let own = self.read.iter().chain(&self.write).map(PathBuf::as_path);
        system.chain(own).any(|folder| path.starts_with(folder))
    }

    /// Runs `start` on a thread that is confined. Only processes that it starts stay confined afterwards.
    pub(super) fn run_in<T: Send>(&self, start: impl FnOnce() -> T + Send) -> Result<T, ConfinementError> {
        std::thread::scope(|scope| {
            let confined = std::thread::Builder::new().name("confined start".to_owned()).spawn_scoped(scope, || {
                self.enter()?;
                Ok(start())
            });
            let ended = confined.map_err(ConfinementError::Thread)?.join();
            ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Restricts the calling thread, for good.
    fn enter(&self) -> Result<(), ConfinementError> {
        // Rights that Linux 5.13 knows are needed; those of later kernels (truncating, moving between folders, devices'
        // commands) are taken where they are.
        let ruleset = Ruleset::default()
            .set_compatibility(CompatLevel::HardRequirement)
            .handle_access(AccessFs::from_all(ABI::V1))
            .map_err(|_| ConfinementError::NoLandlock)?
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(AccessFs::from_all(ABI::V5))?;
        let mut ruleset = ruleset.create()?;
        let (all, read) = (AccessFs::from_all(ABI::V5), AccessFs::from_read(ABI::V5));
        // A device's commands (ioctl) are how GPUs are used.
        let use_devices = read
            | AccessFs::WriteFile
            | AccessFs::MakeReg
            | AccessFs::RemoveFile
            | AccessFs::Truncate
            | AccessFs::IoctlDev;
        for folder in SYSTEM_FOLDERS {
            let Ok(opened) = PathFd::new(folder) else { continue };
            let rights = if folder == DEVICES { use_devices } else { read };
            ruleset = ruleset.add_rule(PathBeneath::new(opened, rights))?;
        }
        for (paths, rights) in [(&self.read, read), (&self.write, all)] {
            for path in paths {
                let wrong = |source| ConfinementError::Path { path: path.clone(), source };
                // Rights to a folder's entries mean nothing of a file.
                let rights = if path.metadata().map_err(wrong)?.is_dir() {
                    rights
                } else {
                    rights & AccessFs::from_file(ABI::V5)
                };
                let opened = PathFd::new(path).map_err(|error| wrong(io::Error::other(error)))?;
                ruleset = ruleset.add_rule(PathBeneath::new(opened, rights))?;
            }
        }
        match ruleset.restrict_self()?.ruleset {
            RulesetStatus::NotEnforced => Err(ConfinementError::NoLandlock),
            RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced => Ok(()),
        }
    }
}
