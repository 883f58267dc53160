//! Temp, write, sync, rename: the one way a file is replaced. And errors that name the path.
//!
//! After a power cut a file is the old or the new one, whole. The new name itself lasts once the filesystem has written
//! the folder, at the latest with the flush at the end of a run (`OutputCache::sync`): to sync the folder each time
//! would take as long again.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, OFlags, linkat};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::journal::{seal, unseal};
use base::event::{Failure, FailureKind};
use base::files::{is_absence, metadata_if_there, read_bytes};

/// An I/O error with its path and the operation.
#[derive(Debug, thiserror::Error)]
#[error("cannot {doing} {}: {source}", path.display())]
pub struct PathError {
    pub doing: &'static str,
    pub path: PathBuf,
    pub source: io::Error,
}

impl PathError {
    /// The disk, or the user's part of it, is full.
    pub(super) fn is_full_disk(&self) -> bool {
        matches!(self.source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
    }

    /// The system could not read what may be there. Not so: it is absent, or it was read and is not what it should be.
    pub fn is_of_system(&self) -> bool {
        self.source.raw_os_error().is_some() && !is_absence(&self.source)
    }
}

/// How a task fails by it.
impl From<PathError> for Failure {
    fn from(error: PathError) -> Self {
        let failure = Self::new(FailureKind::System, error.to_string());
        if !error.is_full_disk() {
            return failure;
        }
        failure.cause("the disk is full").hint("`regatta gc` lists what can be removed; finished outputs are kept")
    }
}

/// Names the path that an operation was about.
pub trait WithPath<T> {
    /// `doing`: what could not be done, as in "cannot list".
    ///
    /// # Errors
    /// The error itself, with the path.
    fn at(self, doing: &'static str, path: &Path) -> Result<T, PathError>;
}

impl<T, E: Into<io::Error>> WithPath<T> for Result<T, E> {
    fn at(self, doing: &'static str, path: &Path) -> Result<T, PathError> {
        self.map_err(|e| PathError { doing, path: path.to_owned(), source: e.into() })
    }
}

/// Whether something is there; links are followed.
///
/// # Errors
/// It cannot be known.
pub fn is_there(path: &Path) -> Result<bool, PathError> {
    metadata_if_there(path).map(|found| found.is_some()).at("look at", path)
}

/// What is in a folder, sorted; empty where the folder does not exist.
pub fn items_in(folder: &Path) -> Result<Vec<PathBuf>, PathError> {
    let read =
        || -> io::Result<Vec<PathBuf>> { fs::read_dir(folder)?.map(|item| item.map(|item| item.path())).collect() };
    match read() {
        Ok(mut items) => {
            items.sort();
            Ok(items)
        }
        Err(error) if is_absence(&error) => Ok(Vec::new()),
        Err(error) => Err(error).at("list", folder),
    }
}

/// The bytes of a file; `None` where it does not exist.
pub(super) fn bytes_if_there(path: &Path) -> Result<Option<Vec<u8>>, PathError> {
    match read_bytes(path) {
        Err(error) if is_absence(&error) => Ok(None),
        read => read.map(Some).at("read", path),
    }
}

/// The same of a text. Bytes that are not UTF-8 are replaced.
pub(super) fn text_if_there(path: &Path) -> Result<Option<String>, PathError> {
    Ok(bytes_if_there(path)?.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
}

pub(super) fn create_folder(path: &Path) -> Result<(), PathError> {
    fs::create_dir_all(path).at("create", path)
}

/// Replaces a file so that a reader sees the old or the new one, never a part.
pub fn replace(path: &Path, bytes: &[u8]) -> Result<(), PathError> {
    replace_with(path, |file| file.write_all(bytes))
}

/// Like `replace`, with what is written into it. The new file has no name until it is whole, where the filesystem has
/// such files: a process that is killed meanwhile leaves nothing.
#[expect(clippy::disallowed_methods, reason = "this is the one place that renames")]
pub(super) fn replace_with(path: &Path, fill: impl FnOnce(&mut File) -> io::Result<()>) -> Result<(), PathError> {
    let temp = path.with_extension(format!("tmp{}", std::process::id()));
    let written = (|| {
        let nameless = create_nameless(path);
        let has_name = nameless.is_none();
        let mut file = nameless.map_or_else(|| File::create(&temp).at("create", &temp), Ok)?;
        fill(&mut file).at("write", &temp)?;
        file.sync_data().at("sync", &temp)?;
        if !has_name {
            match give_name(&file, path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                named => return named.at("publish", path),
            }
            discard(&temp)?;
            give_name(&file, &temp).at("create", &temp)?;
        }
        fs::rename(&temp, path).at("publish", path)
    })();
    if written.is_err() {
        let _ = fs::remove_file(&temp);
    }
    written
}

/// A file without a name, in the folder of `path`; `None`: the filesystem has none.
fn create_nameless(path: &Path) -> Option<File> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    OpenOptions::new().write(true).custom_flags(OFlags::TMPFILE.bits().cast_signed()).open(folder).ok()
}

fn give_name(file: &File, path: &Path) -> io::Result<()> {
    let open = format!("/proc/self/fd/{}", file.as_raw_fd());
    Ok(linkat(CWD, open, CWD, path, AtFlags::SYMLINK_FOLLOW)?)
}

/// Like `replace`, for a file that is only a cache: not synced, because it is checked when it is read.
#[expect(clippy::disallowed_methods, reason = "this is the one place that renames")]
pub(super) fn replace_cache(path: &Path, bytes: &[u8]) -> Result<(), PathError> {
    let temp = path.with_extension(format!("tmp{}", std::process::id()));
    let written = fs::write(&temp, bytes).at("write", &temp).and_then(|()| fs::rename(&temp, path).at("publish", path));
    if written.is_err() {
        let _ = fs::remove_file(&temp);
    }
    written
}

/// Moves what is in a folder into another one of the same filesystem.
#[expect(clippy::disallowed_methods, reason = "this is the one place that renames")]
pub fn move_items(from: &Path, to: &Path) -> Result<(), PathError> {
    for item in items_in(from)? {
        let target = to.join(item.file_name().unwrap_or_default());
        fs::rename(&item, &target).at("publish", &target)?;
    }
    Ok(())
}

/// Points a symbolic link at `target`, atomically; does nothing if it already does.
#[expect(clippy::disallowed_methods, reason = "this is the one place that renames")]
pub fn point(link: &Path, target: &Path) -> Result<(), PathError> {
    match fs::read_link(link) {
        Ok(now) if now == target => return Ok(()),
        Ok(_) => {}
        Err(e) if e.kind() == io::ErrorKind::NotFound => match symlink(target, link) {
            Ok(()) => return Ok(()),
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                if let Some(parent) = link.parent() {
                    create_folder(parent)?;
                }
            }
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            Err(e) => return Err(e).at("link", link),
        },
        Err(_) => {
            return Err(io::Error::other("something other than a link of Regatta's is in the way")).at("replace", link);
        }
    }
    let temp = link.with_extension(format!("tmp{}", std::process::id()));
    let _ = fs::remove_file(&temp);
    symlink(target, &temp).at("link", &temp)?;
    fs::rename(&temp, link).at("publish", link)
}

/// What a crash between the two steps of a replacement leaves has `tmp<process id>` for its extension, in the place of
/// the file's own: which process that was.
pub(super) fn half_written_by(path: &Path) -> Option<u32> {
    path.extension()?.to_str()?.strip_prefix("tmp")?.parse().ok()
}

/// Removes a file, a link (not what it leads to) or a folder with all that is in it, also where folders in it are
/// read-only, as those of Go's module cache are. It may be gone already.
pub fn discard(path: &Path) -> Result<(), PathError> {
    let removed = match fs::symlink_metadata(path) {
        Ok(meta) if meta.is_dir() => remove_tree(path),
        Ok(_) => fs::remove_file(path),
        Err(e) => Err(e),
    };
    match removed {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e).at("remove", path),
        _ => Ok(()),
    }
}

fn remove_tree(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied && make_writable(folder).is_ok() => {
            fs::remove_dir_all(folder)
        }
        removed => removed,
    }
}

/// A folder, and those in it.
fn make_writable(folder: &Path) -> io::Result<()> {
    const OF_OWNER: u32 = 0o700;
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let mode = fs::symlink_metadata(&folder)?.permissions().mode();
        if mode & OF_OWNER != OF_OWNER {
            fs::set_permissions(&folder, Permissions::from_mode(mode | OF_OWNER))?;
        }
        for item in fs::read_dir(&folder)? {
            let item = item?;
            if item.file_type()?.is_dir() {
                folders.push(item.path());
            }
        }
    }
    Ok(())
}

/// Removes a folder that another process may still write to by its name: it is renamed to `<name>.gone` first.
#[expect(clippy::disallowed_methods, reason = "this is the one place that renames")]
pub(super) fn discard_aside(folder: &Path) -> Result<(), PathError> {
    let aside = folder.with_extension("gone");
    discard(&aside)?;
    match fs::rename(folder, &aside) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e).at("rename", folder),
        _ => discard(&aside),
    }
}

// A file that only grows, by whole lines: what one write left of a line that it could not finish is cut off.

/// Open for appending.
#[derive(Debug)]
pub struct LineFile {
    file: File,
    path: PathBuf,
    /// Up to the end of the last whole line.
    length: u64,
}

impl LineFile {
    /// The last `torn` bytes, of a line without its end, are cut off first.
    pub(super) fn open(path: &Path, torn: u64) -> Result<Self, PathError> {
        let file = OpenOptions::new().create(true).append(true).open(path).at("open", path)?;
        let mut length = file.metadata().at("look at", path)?.len();
        if torn > 0 {
            length -= torn;
            file.set_len(length).at("mend", path)?;
        }
        Ok(Self { file, path: path.to_owned(), length })
    }

    /// By one write.
    pub fn append(&mut self, lines: &[u8]) -> Result<(), PathError> {
        self.append_by(lines, |mut file, lines| file.write_all(lines))
    }

    /// A value as one sealed line.
    pub(super) fn append_sealed(&mut self, value: &impl Serialize) -> Result<(), PathError> {
        self.append(&sealed_json(&self.path, value)?)
    }

    fn append_by(&mut self, lines: &[u8], write: impl FnOnce(&File, &[u8]) -> io::Result<()>) -> Result<(), PathError> {
        if let Err(error) = write(&self.file, lines) {
            // A full disk: leave no half line for the next one to be glued to.
            let _ = self.file.set_len(self.length);
            return Err(error).at("write", &self.path);
        }
        self.length += lines.len() as u64;
        Ok(())
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// To be synced without holding this one.
    pub fn try_clone(&self) -> Result<File, PathError> {
        self.file.try_clone().at("sync", &self.path)
    }
}

// Files of one sealed line of JSON, each a fact that a later run relies on: one that was cut off or altered is an
// error, also where it is JSON still, with another number in it.

/// The file that [`read_sealed_json`] reads.
pub(super) fn sealed_json(path: &Path, value: &impl Serialize) -> Result<Vec<u8>, PathError> {
    seal(value).map_err(io::Error::other).at("write", path)
}

pub(super) fn replace_sealed_json(path: &Path, value: &impl Serialize) -> Result<(), PathError> {
    replace(path, &sealed_json(path, value)?)
}

/// `None` where the file does not exist.
///
/// # Errors
/// It is there and cannot be read, or it is not as it was written.
pub(super) fn read_sealed_json<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, PathError> {
    let Some(bytes) = bytes_if_there(path)? else { return Ok(None) };
    let altered = || io::Error::new(io::ErrorKind::InvalidData, "it was cut off or altered");
    let json = bytes.strip_suffix(b"\n").and_then(unseal).ok_or_else(altered).at("read", path)?;
    serde_json::from_slice(json).map(Some).at("read", path)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_file_that_is_being_written_has_no_name() {
        let folder = tempfile::tempdir().unwrap();
        let names = || -> Vec<String> {
            let items = fs::read_dir(folder.path()).unwrap();
            items.map(|item| item.unwrap().file_name().into_string().unwrap()).collect()
        };
        let path = folder.path().join("page.html");
        for text in ["first", "second"] {
            let before = names();
            let fill = |file: &mut File| {
                file.write_all(text.as_bytes())?;
                assert_eq!(names(), before);
                Ok(())
            };
            replace_with(&path, fill).unwrap();
            assert_eq!((names(), fs::read_to_string(&path).unwrap()), (vec!["page.html".to_owned()], text.to_owned()));
        }
    }

    #[test]
    fn a_tree_with_read_only_folders_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let tree = folder.path().join("tree");
        let inner = tree.join("module/inner");
        let mode = |path: &Path| fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777;
        fs::create_dir_all(&inner).unwrap();
        fs::write(inner.join("file"), "x").unwrap();
        symlink("/", inner.join("link")).unwrap();
        let close = || {
            fs::set_permissions(&inner, Permissions::from_mode(0o500)).unwrap();
            fs::set_permissions(&tree, Permissions::from_mode(0o000)).unwrap();
        };
        close();
        // To root no folder is closed.
        make_writable(&tree).unwrap();
        assert_eq!((mode(&tree), mode(&inner)), (0o700, 0o700));
        close();
        discard(&tree).unwrap();
        assert!(!tree.exists());
    }

    #[test]
    fn half_a_line_is_not_glued_to_the_next_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lines");
        fs::write(&path, "one\nha").unwrap();
        let mut file = LineFile::open(&path, 2).unwrap();
        file.append(b"two\n").unwrap();
        let half = |mut file: &File, lines: &[u8]| {
            file.write_all(&lines[..2])?;
            Err(io::ErrorKind::StorageFull.into())
        };
        file.append_by(b"three\n", half).unwrap_err();
        file.append(b"four\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "one\ntwo\nfour\n");
    }
}
