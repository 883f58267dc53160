//! A folder's digest and the list of what is in it.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use memchr::memmem::Finder;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RawDir, Stat};
use serde::{Deserialize, Serialize};

use super::durable::{PathError, WithPath as _};
use base::files::{Digest, Hasher, is_absence, is_whole_json, open_regular, read_bytes_up_to};

/// One thing in an output folder. The folder itself is the entry with an empty path.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OutputEntry {
    /// Relative to the output folder.
    #[serde(with = "any_bytes")]
    pub path: PathBuf,
    pub stamp: FileStamp,
    /// Of a file's bytes or a link's target; absent for folders.
    pub digest: Option<Digest>,
}

/// A path as a text, whatever its bytes: `\\` for a backslash, `\xff` for a byte that is not UTF-8.
pub(super) mod any_bytes {
    use std::ffi::OsString;
    use std::fmt::Write as _;
    use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
    use std::path::{Path, PathBuf};

    use serde::{Deserialize as _, Deserializer, Serializer};

    pub(in crate::store) fn serialize<S: Serializer>(path: &Path, to: S) -> Result<S::Ok, S::Error> {
        match path.to_str() {
            Some(text) if !text.contains('\\') => to.serialize_str(text),
            _ => to.serialize_str(&escaped(path)),
        }
    }

    fn escaped(path: &Path) -> String {
        let mut text = String::new();
        for chunk in path.as_os_str().as_bytes().utf8_chunks() {
            text.push_str(&chunk.valid().replace('\\', "\\\\"));
            for byte in chunk.invalid() {
                let _ = write!(text, "\\x{byte:02x}");
            }
        }
        text
    }

    pub(in crate::store) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<PathBuf, D::Error> {
        let text = String::deserialize(from)?;
        if !text.contains('\\') {
            return Ok(text.into());
        }
        let mut bytes = Vec::with_capacity(text.len());
        let mut parts = text.split('\\');
        bytes.extend(parts.next().unwrap_or_default().bytes());
        while let Some(part) = parts.next() {
            let byte = part.strip_prefix('x').and_then(|rest| rest.get(..2));
            if let Some(byte) = byte.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
                bytes.push(byte);
                bytes.extend(&part.as_bytes()[3..]);
            } else {
                // Two backslashes are one, and what follows them is plain.
                bytes.push(b'\\');
                bytes.extend(parts.next().unwrap_or_default().bytes());
            }
        }
        Ok(OsString::from_vec(bytes).into())
    }
}

/// A folder as it was when it was hashed.
#[derive(Clone, Debug, PartialEq)]
pub struct HashedFolder {
    /// Over names, kinds and contents in sorted order; not over times, nor over paths of this machine where they are
    /// known.
    pub digest: Digest,
    pub entries: Vec<OutputEntry>,
    /// The project's folder, where it was looked for in the files and found.
    pub place: Option<String>,
}

/// What is in a folder, not yet hashed.
#[derive(Debug)]
pub struct ListedFolder {
    folder: PathBuf,
    entries: Vec<OutputEntry>,
}

/// Lists everything in `folder`. Links are taken as they are, not followed. `.git` is left out: two clones of one
/// revision hold the same files and different indexes, logs and packs, and `git status` rewrites the index.
pub fn list_folder(folder: &Path) -> Result<ListedFolder, PathError> {
    let mut entries = Vec::new();
    list(folder, Path::new(""), &mut entries)?;
    Ok(ListedFolder { folder: folder.to_owned(), entries })
}

impl ListedFolder {
    /// Hashing it takes so long that it should not be done on the way.
    pub fn is_large(&self) -> bool {
        let bytes: u64 = self.entries.iter().map(|entry| entry.stamp.size).sum();
        bytes > 4 << 20 || self.entries.len() > 256
    }

    /// Where it is.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Each link in it, relative to it, and where it leads, as written.
    pub fn links(&self) -> Result<Vec<(PathBuf, PathBuf)>, PathError> {
        let links = self.entries.iter().filter(|entry| entry.stamp.kind == EntryKind::Link);
        let target = |entry: &OutputEntry| {
            let path = self.folder.join(&entry.path);
            Ok((entry.path.clone(), fs::read_link(&path).at("read", &path)?))
        };
        links.map(target).collect()
    }

    /// Hashes names, kinds and contents. `project`, the folder of the project, is looked for in links and in files that
    /// are not large.
    pub fn seal(self, project: Option<&Path>) -> Result<HashedFolder, PathError> {
        /// Bytes. What holds paths is small.
        const LARGEST: u64 = 4 << 20;
        let Self { folder, mut entries } = self;
        let finder = project.map(|project| Finder::new(project.as_os_str().as_bytes()));
        let mut names_it = false;
        let mut look_in = |bytes: &[u8]| names_it |= finder.as_ref().is_some_and(|name| name.find(bytes).is_some());
        for entry in &mut entries {
            let path = folder.join(&entry.path);
            entry.digest = match entry.stamp.kind {
                EntryKind::Folder => None,
                EntryKind::Link => {
                    let target = fs::read_link(&path).at("read", &path)?;
                    look_in(target.as_os_str().as_bytes());
                    Some(Digest::hash(target.as_os_str().as_bytes()))
                }
                // Read once for both.
                _ if project.is_some() && entry.stamp.size <= LARGEST => {
                    let bytes = read_bytes_up_to(&path, 2 * LARGEST).at("read", &path)?;
                    look_in(&bytes);
                    Some(Digest::hash(&bytes))
                }
                _ => Some(hash_file(&path)?),
            };
        }
        entries.shrink_to_fit();
        let place = project.filter(|_| names_it).map(|project| project.to_string_lossy().into_owned());
        let digest = digest_of(entries.iter().map(|entry| (&*entry.path, entry.stamp.kind, entry.digest)));
        Ok(HashedFolder { digest, entries, place })
    }
}

impl HashedFolder {
    /// With these digests in its own, in place of those of the bytes of these files and links. The entries keep the
    /// latter.
    #[must_use]
    pub fn with_digests(self, other: &BTreeMap<PathBuf, Digest>) -> Self {
        if other.is_empty() {
            return self;
        }
        let content = |entry: &OutputEntry| other.get(&entry.path).copied().or(entry.digest);
        let digest = digest_of(self.entries.iter().map(|entry| (&*entry.path, entry.stamp.kind, content(entry))));
        Self { digest, ..self }
    }
}

/// The digest of a folder with these things, of which some have content.
pub(super) fn digest_of<'a>(things: impl Iterator<Item = (&'a Path, EntryKind, Option<Digest>)>) -> Digest {
    let mut h = Hasher::new();
    for (path, kind, content) in things {
        h.field(path.as_os_str().as_bytes()).field(&[kind as u8]);
        h.field(content.as_ref().map_or(&[][..], |digest| digest.bytes()));
    }
    h.finish()
}

/// Whether two folders have the same bytes at the same paths.
pub(super) fn have_same_bytes(one: &[OutputEntry], other: &[OutputEntry]) -> bool {
    let content = |entry: &OutputEntry| (entry.stamp.kind, entry.digest);
    one.len() == other.len()
        && one.iter().zip(other).all(|(one, other)| one.path == other.path && content(one) == content(other))
}

/// Everything below `root/at`, sorted by name at each level; a folder comes before what is in it.
fn list(root: &Path, at: &Path, into: &mut Vec<OutputEntry>) -> Result<(), PathError> {
    let folder = root.join(at);
    into.push(OutputEntry {
        path: at.to_owned(),
        stamp: FileStamp::of_path(&folder).at("look at", &folder)?,
        digest: None,
    });
    for name in names_in(&folder).map_err(std::io::Error::from).at("list", &folder)? {
        let relative = at.join(&name);
        let path = root.join(&relative);
        let stamp = FileStamp::of_path(&path).at("look at", &path)?;
        match stamp.kind {
            EntryKind::Folder => list(root, &relative, into)?,
            EntryKind::Other => {
                return Err(std::io::Error::other("it is a socket, a pipe or a device")).at("keep", &path);
            }
            _ => into.push(OutputEntry { path: relative, stamp, digest: None }),
        }
    }
    Ok(())
}

/// The names in a folder, sorted, without `.git`. The buffer is on the stack, because most folders have few names; not
/// inlined, because the caller is recursive.
#[inline(never)]
fn names_in(folder: &Path) -> rustix::io::Result<Vec<OsString>> {
    /// Bytes.
    const ROOM: usize = 4096;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = rustix::fs::open(folder, flags, Mode::empty())?;
    let mut room = [MaybeUninit::uninit(); ROOM];
    let mut items = RawDir::new(opened, &mut room);
    let mut names = Vec::new();
    while let Some(item) = items.next() {
        let item = item?;
        let name = item.file_name().to_bytes();
        if !matches!(name, b"." | b".." | b".git") {
            names.push(OsStr::from_bytes(name).to_owned());
        }
    }
    names.sort_unstable();
    Ok(names)
}

/// The digest of a file's bytes. A stamp that belongs to it is from before they are read: if the file changes
/// meanwhile, its stamp is another one from then on.
pub(super) fn hash_file(path: &Path) -> Result<Digest, PathError> {
    let (file, metadata) = open_regular(path).at("read", path)?;
    Digest::of_file(&file, metadata.len()).at("read", path)
}

/// What happened to a folder since it was sealed.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum FolderChange {
    Same,
    /// Same content, other times: the entries as they are now.
    TimesChanged(Vec<OutputEntry>),
    /// As text, with the file.
    Changed(String),
}

/// What happened to what a stage reads, while it ran.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ContentChange {
    Same,
    /// It holds what it held, and something was written to this path meanwhile: the stage may have read anything.
    Restored(PathBuf),
    /// As text, after its name.
    Changed(String),
}

/// Compares a folder with what was recorded: by stamps, and by content where a stamp differs or `distrust` is set.
///
/// # Errors
/// It cannot be read at all, so whether it changed is not known.
pub(super) fn compare(folder: &Path, entries: &[OutputEntry], distrust: bool) -> Result<FolderChange, PathError> {
    let mut suspicious = distrust;
    for entry in entries {
        let path = folder.join(&entry.path);
        match FileStamp::of_path(&path) {
            Ok(stamp) if stamp == entry.stamp => {}
            Ok(_) => {
                suspicious = true;
                break;
            }
            Err(error) if !is_absence(&error) => return Err(error).at("look at", &path),
            Err(_) if entry.path.as_os_str().is_empty() => {
                return Ok(FolderChange::Changed("its output is missing".to_owned()));
            }
            Err(_) => return Ok(FolderChange::Changed(format!("{} is missing in its output", entry.path.display()))),
        }
    }
    if !suspicious {
        return Ok(FolderChange::Same);
    }
    let now = match list_folder(folder).and_then(|listed| listed.seal(None)) {
        Ok(now) => now.entries,
        Err(e) if e.is_of_system() => return Err(e),
        Err(e) => return Ok(FolderChange::Changed(format!("its output cannot be read: {e}"))),
    };
    Ok(differences(entries, now))
}

/// Compares what was recorded with what is there.
fn differences(entries: &[OutputEntry], now: Vec<OutputEntry>) -> FolderChange {
    for (old, new) in entries.iter().zip(&now) {
        if old.path != new.path {
            let (name, what) =
                if old.path < new.path { (&old.path, "is gone from") } else { (&new.path, "was added to") };
            return FolderChange::Changed(format!("{} {what} its output", name.display()));
        }
        if old.digest != new.digest || old.stamp.kind != new.stamp.kind {
            return FolderChange::Changed(format!(
                "{} in its output was changed after it was made",
                old.path.display()
            ));
        }
    }
    match (entries.get(now.len()), now.get(entries.len())) {
        (Some(old), _) => FolderChange::Changed(format!("{} is missing in its output", old.path.display())),
        (_, Some(new)) => FolderChange::Changed(format!("{} was added to its output", new.path.display())),
        (None, None) => FolderChange::TimesChanged(now),
    }
}

// What `stat` reports about a file: enough to know that its content did not change.

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
    pub fn of_path(path: &Path) -> std::io::Result<Self> {
        Ok(Self::read(&rustix::fs::statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW)?))
    }

    /// Of what the path leads to.
    pub fn through_links(path: &Path) -> std::io::Result<Self> {
        Ok(Self::read(&rustix::fs::stat(path)?))
    }

    pub(super) fn of_open(file: &File) -> std::io::Result<Self> {
        Ok(Self::read(&rustix::fs::fstat(file)?))
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

    /// Whether what is at `path` was written to or replaced since an earlier stamp. A further name changes nothing but
    /// its time of change.
    pub(super) fn is_touched_since(&self, before: &Self, path: &Path) -> bool {
        let has_names = || fs::metadata(path).is_ok_and(|file| file.is_file() && file.nlink() > 1);
        self != before && !(Self { ctime: before.ctime, ..*self } == *before && has_names())
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

// What a measurement leaves in its output folder.

pub const RESULT_FILES: [&str; 2] = ["result.json", "sweep.json"];

/// Whether a folder has a result that was written to its end, whatever its verdict.
pub fn has_result(folder: &Path) -> bool {
    RESULT_FILES.iter().any(|file| is_whole_json(&folder.join(file)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn entry(path: &str, kind: EntryKind, text: &str) -> OutputEntry {
        let stamp = FileStamp { size: text.len() as u64, mtime: 0, ctime: 0, inode: 0, kind };
        OutputEntry { path: path.into(), stamp, digest: Some(Digest::hash(text.as_bytes())) }
    }

    #[test]
    fn a_difference_is_named_with_its_file() {
        let file = |path: &str| entry(path, EntryKind::File, "1");
        let change = |now: &[OutputEntry]| match differences(&[file("b"), file("d")], now.to_vec()) {
            FolderChange::Changed(text) => text,
            other => format!("{other:?}"),
        };
        assert_eq!(change(&[file("d")]), "b is gone from its output");
        assert_eq!(change(&[file("a"), file("b"), file("d")]), "a was added to its output");
        assert_eq!(change(&[file("b")]), "d is missing in its output");
        assert_eq!(change(&[file("b"), file("d"), file("e")]), "e was added to its output");
        let program = entry("d", EntryKind::Program, "1");
        assert_eq!(change(&[file("b"), program]), "d in its output was changed after it was made");
        assert!(change(&[file("b"), file("d")]).starts_with("TimesChanged"));
    }

    #[test]
    fn many_entries_or_many_bytes_are_a_large_folder() {
        let is_large = |count: usize, size: u64| {
            let mut entry = entry("a", EntryKind::File, "");
            entry.stamp.size = size;
            ListedFolder { folder: PathBuf::new(), entries: vec![entry; count] }.is_large()
        };
        assert_eq!(
            [(257, 0), (256, 16 << 10), (1, (4 << 20) + 1)].map(|(n, size)| is_large(n, size)),
            [true, false, true]
        );
    }

    #[test]
    fn the_folder_of_a_project_is_found_in_its_outputs_and_history_is_no_output() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a"), "cd /home/me/p/x").unwrap();
        std::fs::create_dir(folder.path().join(".git")).unwrap();
        let sealed = |project: &str| list_folder(folder.path()).unwrap().seal(Some(Path::new(project))).unwrap();
        assert_eq!(sealed("/home/me/p").place.as_deref(), Some("/home/me/p"));
        let made = sealed("/home/me/q");
        assert_eq!((made.place.clone(), made.entries.len()), (None, 2));
        let digest = made.digest;
        let other = BTreeMap::from([(PathBuf::from("a"), Digest::hash(b"2"))]);
        assert_ne!(made.with_digests(&other).digest, digest);
    }

    #[test]
    fn outputs_have_the_same_bytes_where_paths_kinds_and_contents_are_equal() {
        let (a, b) = (entry("a", EntryKind::File, "1"), entry("b", EntryKind::File, "2"));
        let whole = [a.clone(), b];
        assert!(have_same_bytes(&whole, &whole));
        for last in
            [entry("c", EntryKind::File, "2"), entry("b", EntryKind::Program, "2"), entry("b", EntryKind::File, "3")]
        {
            assert!(!have_same_bytes(&whole, &[a.clone(), last]));
        }
        assert!(!have_same_bytes(&whole, &whole[..1]) && !have_same_bytes(&whole[..1], &whole));
    }

    proptest! {
        #[test]
        fn any_path_is_read_back_as_it_was(
            bytes in prop::collection::vec(prop_oneof![Just(b'\\'), Just(b'x'), Just(b'4'), any::<u8>()], 0..12),
        ) {
            let path = PathBuf::from(OsStr::from_bytes(&bytes));
            let stamp = FileStamp { size: 0, mtime: 0, ctime: 0, inode: 0, kind: EntryKind::File };
            let entry = OutputEntry { path, stamp, digest: None };
            let json = serde_json::to_string(&entry).unwrap();
            prop_assert_eq!(&serde_json::from_str::<OutputEntry>(&json).unwrap(), &entry);
            let packed = postcard::to_stdvec(&entry).unwrap();
            prop_assert_eq!(&postcard::from_bytes::<OutputEntry>(&packed).unwrap(), &entry);
        }
    }
}
