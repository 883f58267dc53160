//! Confines a command to the files that it may read and write, with Landlock.
//!
//! A thread that restricts itself cannot undo it, and what it starts inherits the restriction. So a short-lived thread
//! restricts itself and starts the command: no code runs between `fork` and `exec`, and the rest of this program stays
//! free.

use std::path::{Path, PathBuf};
use std::{fs, io};

use landlock::{
    ABI, Access as _, AccessFs, CompatLevel, Compatible as _, PathBeneath, PathFd, Ruleset, RulesetAttr as _,
    RulesetCreatedAttr as _, RulesetError, RulesetStatus, Scope,
};

use base::files::SYSTEM_FOLDERS;

/// The newest rights that are taken where the kernel has them.
const NEWEST: ABI = ABI::V9;
/// What is in it can be listed; only the devices below are open.
const DEVICES: &str = "/dev";
/// Devices that hold no files of a user, open for writing, too, and folders of such devices. `shm` is the exception:
/// MPI, NCCL and CUDA's tools share memory by files in it. From `accel` on they are GPUs and other accelerators, beside
/// those whose names begin as below; from `hugepages` on networks of a cluster, and what MPI copies between processes
/// with.
const OPEN_DEVICES: [&str; 19] = [
    "null",
    "zero",
    "full",
    "random",
    "urandom",
    "tty",
    "ptmx",
    "pts",
    "shm",
    "accel",
    "dri",
    "dxg",
    "gdrdrv",
    "kfd",
    "hugepages",
    "infiniband",
    "knem",
    "rdma_cm",
    "xpmem",
];
/// How the names of others begin: `nvidia0`, `nvidiactl`, `nvidia-uvm`, `nvidia-caps`; Jetson; Omni-Path and Slingshot.
const OPEN_DEVICE_PREFIXES: [&str; 6] = ["nvidia", "nvgpu", "nvhost", "nvmap", "hfi1", "cxi"];

/// The files of a command, beside [`SYSTEM_FOLDERS`] and devices.
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
    #[error("cannot start a thread for it: {0}")]
    Thread(#[source] io::Error),
}

impl Confinement {
    /// Whether the command may read this file.
    pub fn allows_reading(&self, path: &Path) -> bool {
        let system = SYSTEM_FOLDERS.iter().map(Path::new);
        let named_paths = self.read.iter().chain(&self.write).map(PathBuf::as_path);
        system.chain(named_paths).any(|folder| path.starts_with(folder)) || is_open_device(path)
    }

    /// The system's folder that a folder lies below. Nothing can be confined there: what is in it is open, or can be
    /// listed.
    pub fn system_folder_of(path: &Path) -> Option<&'static str> {
        let real = |path: &Path| fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let path = real(path);
        SYSTEM_FOLDERS.into_iter().chain([DEVICES]).find(|folder| path.starts_with(real(Path::new(folder))))
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
        // commands, signals to and abstract sockets of other processes, sockets in folders) are taken where they are.
        let ruleset = Ruleset::default()
            .set_compatibility(CompatLevel::HardRequirement)
            .handle_access(AccessFs::from_all(ABI::V1))
            .map_err(|_| ConfinementError::NoLandlock)?
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(AccessFs::from_all(NEWEST))?
            .scope(Scope::AbstractUnixSocket | Scope::Signal)?;
        let mut ruleset = ruleset.create()?;
        let (all, read) = (AccessFs::from_all(NEWEST), AccessFs::from_read(NEWEST));
        // A device's commands (ioctl) are how GPUs are used.
        let use_devices = read
            | AccessFs::WriteFile
            | AccessFs::MakeReg
            | AccessFs::RemoveFile
            | AccessFs::Truncate
            | AccessFs::IoctlDev;
        // Rights to a folder's entries mean nothing of a file.
        let rights_of = |is_folder, rights| if is_folder { rights } else { rights & AccessFs::from_file(NEWEST) };
        for folder in SYSTEM_FOLDERS {
            let Ok(opened) = PathFd::new(folder) else { continue };
            ruleset = ruleset.add_rule(PathBeneath::new(opened, read | AccessFs::ResolveUnix))?;
        }
        if let Ok(opened) = PathFd::new(DEVICES) {
            ruleset = ruleset.add_rule(PathBeneath::new(opened, AccessFs::ReadDir))?;
        }
        for path in open_devices() {
            let (Ok(metadata), Ok(opened)) = (path.metadata(), PathFd::new(&path)) else { continue };
            ruleset = ruleset.add_rule(PathBeneath::new(opened, rights_of(metadata.is_dir(), use_devices)))?;
        }
        for (paths, rights) in [(&self.read, read), (&self.write, all)] {
            for path in paths {
                let wrong = |source| ConfinementError::Path { path: path.clone(), source };
                let rights = rights_of(path.metadata().map_err(wrong)?.is_dir(), rights);
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

/// The devices of this machine that a confined command may use.
fn open_devices() -> impl Iterator<Item = PathBuf> {
    let devices = fs::read_dir(DEVICES).into_iter().flatten().flatten();
    devices.map(|entry| entry.path()).filter(|path| is_open_device(path))
}

/// Whether it is one of them, or below one that is a folder.
fn is_open_device(path: &Path) -> bool {
    let Some(name) = path.strip_prefix(DEVICES).ok().and_then(|below| below.iter().next()?.to_str()) else {
        return false;
    };
    OPEN_DEVICES.contains(&name) || OPEN_DEVICE_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_the_devices_those_of_a_user_and_disks_are_not_open() {
        let confinement = Confinement::default();
        for open in
            ["null", "shm/nccl-1", "pts/0", "nvidia0", "nvidiactl", "nvidia-caps/nvidia-cap1", "infiniband/uverbs0"]
        {
            assert!(confinement.allows_reading(&Path::new("/dev").join(open)), "{open}");
        }
        for closed in ["sda", "kmsg", "mem", "vda1", "project/secret", "shmem"] {
            assert!(!confinement.allows_reading(&Path::new("/dev").join(closed)), "{closed}");
        }
    }

    #[test]
    fn a_folder_below_one_of_the_system_is_found_through_links() {
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink("/dev/shm", &link).unwrap();
        assert_eq!(Confinement::system_folder_of(&link), Some("/dev"));
        assert_eq!(Confinement::system_folder_of(Path::new("/usr/share")), Some("/usr"));
        assert_eq!(Confinement::system_folder_of(Path::new("/")), None);
        assert_eq!(Confinement::system_folder_of(Path::new("/srv/devices")), None);
    }
}
