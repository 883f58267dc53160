//! What `stat` reports about a file: enough to know that its content did not change.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::{AtFlags, CWD, FileType, Mode, Stat};
use serde::{Deserialize, Serialize};

/// Size, times and inode. ctime is in it because a change can keep size and mtime (`touch -r`, `cp -p`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(from = "PackedStamp", into = "PackedStamp")]
pub struct FileStamp {
    pub size: u64,
    /// Nanoseconds since the epoch.
    pub mtime: i64,
    /// 0 for folders: renaming or linking them changes ctime and nothing that matters here.
    pub ctime: i64,
    pub inode: u64,
    pub kind: EntryKind,
}

/// On disk: an array, because there are many of them.
type PackedStamp = (u64, i64, i64, u64, EntryKind);

impl From<PackedStamp> for FileStamp {
    fn from((size, mtime, ctime, inode, kind): PackedStamp) -> Self {
        Self { size, mtime, ctime, inode, kind }
    }
}

impl From<FileStamp> for PackedStamp {
    fn from(s: FileStamp) -> Self {
        (s.size, s.mtime, s.ctime, s.inode, s.kind)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EntryKind {
    File,
    /// A file that its owner may execute.
    Program,
    Folder,
    Link,
    Other,
}

impl FileStamp {
    /// Of the path itself: a link is not followed.
    pub fn of(path: &Path) -> std::io::Result<Self> {
        Ok(Self::read(&rustix::fs::statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW)?))
    }

    /// Of what the path leads to.
    pub fn through_links(path: &Path) -> std::io::Result<Self> {
        Ok(Self::read(&rustix::fs::stat(path)?))
    }

    /// Of a regular file.
    pub(super) fn of_regular(m: &fs::Metadata) -> Self {
        let kind = if m.mode() & 0o100 == 0 { EntryKind::File } else { EntryKind::Program };
        Self {
            size: m.size(),
            mtime: m.mtime() * 1_000_000_000 + m.mtime_nsec(),
            ctime: m.ctime() * 1_000_000_000 + m.ctime_nsec(),
            inode: m.ino(),
            kind,
        }
    }

    #[expect(clippy::unnecessary_cast, reason = "the fields differ between platforms")]
    fn read(s: &Stat) -> Self {
        let kind = match FileType::from_raw_mode(s.st_mode) {
            FileType::RegularFile if Mode::from_raw_mode(s.st_mode).contains(Mode::XUSR) => EntryKind::Program,
            FileType::RegularFile => EntryKind::File,
            FileType::Directory => EntryKind::Folder,
            FileType::Symlink => EntryKind::Link,
            _ => EntryKind::Other,
        };
        let folder = kind == EntryKind::Folder;
        Self {
            size: if folder { 0 } else { s.st_size as u64 },
            mtime: s.st_mtime as i64 * 1_000_000_000 + s.st_mtime_nsec as i64,
            ctime: if folder { 0 } else { s.st_ctime as i64 * 1_000_000_000 + s.st_ctime_nsec as i64 },
            inode: s.st_ino as u64,
            kind,
        }
    }

    /// It changed so lately that a further change could leave the same stamp (kernels tick coarsely).
    pub fn is_racy(&self) -> bool {
        const TICK: i64 = 20_000_000;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as i64);
        now - self.mtime.max(self.ctime) < TICK
    }

    pub fn is_folder(&self) -> bool {
        self.kind == EntryKind::Folder
    }

    pub(super) fn is_link(&self) -> bool {
        self.kind == EntryKind::Link
    }

    pub(super) fn is_file(&self) -> bool {
        matches!(self.kind, EntryKind::File | EntryKind::Program)
    }
}
