//! What is in an output, as another machine can make use of it: no times, no inodes, no place.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _, symlink};
use std::path::{Component, Path, PathBuf};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use walkdir::WalkDir;

use super::durable::{PathError, WithPath as _, discard};
use super::folder_digest::{self, EntryKind, FileStamp, HashedFolder, any_bytes, hash_file, list_folder};
use super::{OutputCache, StateFolder, TaskRecord};
use base::files::{Digest, open_regular, read_text};
use base::units::{MOST_FILES_BYTES, first_beyond_limit};

/// One thing in an output folder. The folder itself is the first one, with an empty path.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PortableItem {
    /// Relative to the output folder.
    #[serde(with = "any_bytes")]
    pub path: PathBuf,
    pub kind: EntryKind,
    /// Bytes of a file, 0 for the rest.
    #[serde(default)]
    pub size: u64,
    /// Of a file's bytes or a link's target; absent for folders.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<Digest>,
    /// Where a link leads; empty for the rest.
    #[serde(default, with = "any_bytes", skip_serializing_if = "is_empty")]
    pub target: PathBuf,
}

fn is_empty(path: &Path) -> bool {
    path.as_os_str().is_empty()
}

impl PortableItem {
    pub fn is_file(&self) -> bool {
        matches!(self.kind, EntryKind::File | EntryKind::Program)
    }
}

impl OutputCache {
    /// What is in a record's folder, according to the record.
    pub fn items(&self, record: &TaskRecord) -> Result<Vec<PortableItem>, PathError> {
        let folder = self.folder(record);
        let item = |entry: &folder_digest::OutputEntry| {
            let target = match entry.stamp.kind {
                EntryKind::Link => {
                    let path = folder.join(&entry.path);
                    fs::read_link(&path).at("read", &path)?
                }
                _ => PathBuf::new(),
            };
            let size = if entry.stamp.is_file() { entry.stamp.size } else { 0 };
            Ok(PortableItem { path: entry.path.clone(), kind: entry.stamp.kind, size, digest: entry.digest, target })
        };
        record.entries(self.home())?.iter().map(item).collect()
    }
}

/// The digest that a folder with these things has: the same as [`super::HashedFolder`]'s.
pub fn digest_of(items: &[PortableItem]) -> Digest {
    folder_digest::digest_of(items.iter().map(|item| (&*item.path, item.kind, item.digest)))
}

/// Why a list from elsewhere must not be laid out here: a path that leads out of the folder, a file below a link, and
/// the like.
pub fn unfit(items: &[PortableItem]) -> Option<String> {
    let mut folders: HashSet<&Path> = HashSet::new();
    let mut seen: HashSet<&Path> = HashSet::new();
    for (at, item) in items.iter().enumerate() {
        let path = item.path.as_path();
        let name = path.display();
        if !seen.insert(path) {
            return Some(format!("{name} is given twice"));
        }
        let is_root = is_empty(path);
        if is_root != (at == 0) || !path.components().all(|part| matches!(part, Component::Normal(_))) {
            return Some(format!("`{name}` is not a path in an output"));
        }
        if !is_root && !path.parent().is_some_and(|above| folders.contains(above)) {
            return Some(format!("{name} is in no folder of the output"));
        }
        let digest_is_right = match item.kind {
            EntryKind::Folder => {
                folders.insert(path);
                item.digest.is_none()
            }
            EntryKind::File | EntryKind::Program => item.digest.is_some(),
            EntryKind::Link => item.digest == Some(Digest::hash(item.target.as_os_str().as_bytes())),
            EntryKind::Other => false,
        };
        if !digest_is_right || is_root && item.kind != EntryKind::Folder {
            return Some(format!("the entries of `{name}` contradict each other"));
        }
    }
    if let Some(PortableItem { path, size, .. }) = first_beyond_limit(items, |item| item.size) {
        return Some(format!(
            "with {} ({size} bytes) it exceeds the limit of {MOST_FILES_BYTES} bytes",
            path.display()
        ));
    }
    if items.is_empty() { Some("it is empty".to_owned()) } else { link_escape(items) }
}

/// As text, the first link that leads out of the output that it is in: on another machine it would lead elsewhere, or
/// nowhere.
pub fn link_escape(items: &[PortableItem]) -> Option<String> {
    let links = || items.iter().filter(|item| item.kind == EntryKind::Link);
    let by_path = links().map(|item| (item.path.as_path(), item.target.as_path())).collect();
    let item = links().find(|item| leads_out(&item.path, &item.target, &by_path))?;
    Some(format!("{} is a link that leads out of it, to {}", item.path.display(), item.target.display()))
}

/// Parts that one target is followed through, those of links in it included. Real ones have some dozens; links may lead
/// to each other for ever.
const MOST_PARTS: usize = 1000;

/// Whether a link leads out of the folder that it is in. `links`: all of the folder's, by path; a part of a target may
/// be one itself, and `..` behind it is above where it leads. One that cannot be followed to its end leads out.
pub fn leads_out(path: &Path, target: &Path, links: &BTreeMap<&Path, &Path>) -> bool {
    let mut at = path.parent().unwrap_or(path).to_owned();
    // Parts that are still to go, the next one last.
    let mut left: Vec<Component<'_>> = target.components().rev().collect();
    let mut parts = 0;
    while let Some(part) = left.pop() {
        parts += 1;
        match part {
            _ if parts > MOST_PARTS => return true,
            Component::RootDir | Component::Prefix(_) => return true,
            Component::CurDir => {}
            Component::ParentDir => {
                if !at.pop() {
                    return true;
                }
            }
            Component::Normal(name) => {
                at.push(name);
                // Where the last part leads is its own affair: it is in the list, too.
                if !left.is_empty()
                    && let Some(target) = links.get(at.as_path())
                {
                    at.pop();
                    left.extend(target.components().rev());
                }
            }
        }
    }
    false
}

// An output that comes from elsewhere: a folder that is filled file by file, and goes on where it was cut off.
//
// Its name ends in `-resume`, so that clearing up after a crash leaves it. It is accepted like any other: when a record
// names it.

/// Records which parts of a large file are there. Removed before the folder is sealed.
const PARTS: &str = ".regatta-parts-";

/// A folder under way.
#[derive(Debug)]
pub struct IncomingOutput {
    folder: PathBuf,
}

/// A large file that is written in parts, in any order.
#[derive(Debug)]
pub struct PartialFile {
    file: File,
    path: PathBuf,
    /// One line for each part that is there: its offset.
    list: Mutex<File>,
    present: HashSet<u64>,
}

impl OutputCache {
    /// The folder for what another machine made: the one that an earlier, cut-off attempt left, or a new one.
    pub fn incoming(&self, key: &Digest) -> Result<IncomingOutput, PathError> {
        let (start, end) = (format!("{}-", key.short()), "-from-resume");
        if let Some(folder) = self.left_to_resume(&start, end, |_| true)? {
            return Ok(IncomingOutput { folder });
        }
        for n in 0_u32.. {
            let folder = self.home().output(&format!("{start}{n}{end}"));
            match fs::create_dir(&folder) {
                Ok(()) => {
                    self.resumed.insert(&folder);
                    return Ok(IncomingOutput { folder });
                }
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
                Err(e) => return Err(e).at("create", &folder),
            }
        }
        Err(io::Error::other("every name is taken")).at("create", &self.home().outputs())
    }

    /// Larger files of all outputs here, by their content: what need not come from elsewhere.
    pub fn files_by_digest(&self) -> HashMap<Digest, PathBuf> {
        /// Looking for smaller ones takes longer than fetching them.
        const LEAST: u64 = 64 << 10;
        let mut digests_found = HashMap::new();
        for record in self.records() {
            let folder = self.folder(&record);
            let Ok(entries) = record.entries(self.home()) else { continue };
            for entry in entries.iter().filter(|entry| entry.stamp.is_file() && entry.stamp.size >= LEAST) {
                if let Some(digest) = entry.digest {
                    digests_found.entry(digest).or_insert_with(|| folder.join(&entry.path));
                }
            }
        }
        digests_found
    }
}

impl IncomingOutput {
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Makes folders and links, removes what is not on the list, and returns which files are to come: indices into
    /// `items`. Reads what an earlier attempt left. The list must be fit ([`super::unfit`]).
    pub fn lay_out(&self, items: &[PortableItem]) -> Result<Vec<usize>, PathError> {
        let wanted: BTreeMap<&Path, &PortableItem> = items.iter().map(|item| (item.path.as_path(), item)).collect();
        let is_large = |name: &str| items.iter().any(|item| item.digest.is_some_and(|d| name == parts_name(&d)));
        let left = WalkDir::new(&self.folder).min_depth(1).contents_first(true);
        for item in left.into_iter().flatten() {
            let relative = item.path().strip_prefix(&self.folder).unwrap_or(item.path());
            let kind = FileStamp::of_path(item.path()).at("look at", item.path())?.kind;
            let keeps = wanted.get(relative).is_some_and(|wanted| wanted.kind == kind && kind != EntryKind::Link)
                || relative.to_str().is_some_and(is_large);
            if !keeps {
                discard(item.path())?;
            }
        }
        let mut missing = Vec::new();
        for (at, item) in items.iter().enumerate().skip(1) {
            let path = self.folder.join(&item.path);
            match item.kind {
                EntryKind::Folder => fs::create_dir_all(&path).at("create", &path)?,
                EntryKind::Link => symlink(&item.target, &path).at("link", &path)?,
                _ => {
                    let begun = item.digest.is_some_and(|digest| self.folder.join(parts_name(&digest)).exists());
                    let is_there =
                        !begun && path.exists() && hash_file(&path)? == item.digest.unwrap_or(Digest::hash(b""));
                    if !is_there {
                        if !begun {
                            discard(&path)?;
                        }
                        missing.push(at);
                    }
                }
            }
        }
        Ok(missing)
    }

    /// A file with these bytes.
    pub fn put(&self, item: &PortableItem, bytes: &[u8]) -> Result<(), PathError> {
        let path = self.folder.join(&item.path);
        create(&path, item.kind)?.write_all(bytes).at("write", &path)
    }

    /// A file that another output has already. The copy shares its blocks where the filesystem can.
    pub fn copy(&self, item: &PortableItem, from: &Path) -> Result<(), PathError> {
        let path = self.folder.join(&item.path);
        let (mut source, _) = open_regular(from).at("open", from)?;
        let mut file = create(&path, item.kind)?;
        io::copy(&mut source, &mut file).at("write", &path).map(drop)
    }

    /// A large file, as far as it is there.
    pub fn parts(&self, item: &PortableItem) -> Result<PartialFile, PathError> {
        let path = self.folder.join(&item.path);
        let list = self.folder.join(parts_name(&item.digest.unwrap_or(Digest::hash(b""))));
        let text = if path.exists() { read_text(&list).unwrap_or_default() } else { String::new() };
        // A line without its end may be half a number.
        let there = text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')?.parse().ok()).collect();
        let file = if path.exists() {
            OpenOptions::new().write(true).open(&path).at("open", &path)?
        } else {
            create(&path, item.kind)?
        };
        file.set_len(item.size).at("write", &path)?;
        let list_file = OpenOptions::new().create(true).append(true).open(&list).at("open", &list)?;
        if text.is_empty() {
            list_file.set_len(0).at("write", &list)?;
        }
        Ok(PartialFile { file, path, list: Mutex::new(list_file), present: there })
    }

    /// The list of parts of a file that is whole, or that has to come again from its beginning, goes.
    pub fn forget_parts(&self, item: &PortableItem) -> Result<(), PathError> {
        discard(&self.folder.join(parts_name(&item.digest.unwrap_or(Digest::hash(b"")))))
    }

    /// Takes one file away again.
    pub fn drop_file(&self, item: &PortableItem) -> Result<(), PathError> {
        self.forget_parts(item)?;
        discard(&self.folder.join(&item.path))
    }

    /// Reads all of it, once every file is there.
    pub fn seal(&self) -> Result<HashedFolder, PathError> {
        list_folder(&self.folder)?.seal(None)
    }

    pub fn discard(&self) -> Result<(), PathError> {
        discard(&self.folder)
    }
}

impl PartialFile {
    pub fn has(&self, offset: u64) -> bool {
        self.present.contains(&offset)
    }

    /// Writes one part, and then records it. After a power cut the record may list too much: sealing the folder detects
    /// that by the digest.
    pub fn put(&self, offset: u64, bytes: &[u8]) -> Result<(), PathError> {
        self.file.write_all_at(bytes, offset).at("write", &self.path)?;
        let mut list = self.list.lock();
        list.write_all(format!("{offset}\n").as_bytes()).at("write", &self.path)
    }
}

fn parts_name(digest: &Digest) -> String {
    format!("{PARTS}{}", digest.short())
}

fn create(path: &Path, kind: EntryKind) -> Result<File, PathError> {
    discard(path)?;
    let mode = if kind == EntryKind::Program { 0o777 } else { 0o666 };
    OpenOptions::new().create_new(true).write(true).mode(mode).open(path).at("create", path)
}

/// Free bytes of the disk that outputs are on.
pub fn free_bytes(home: &StateFolder) -> Option<u64> {
    let disk = rustix::fs::statvfs(home.state()).ok()?;
    Some(disk.f_bavail.saturating_mul(disk.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(path: &str, kind: EntryKind) -> PortableItem {
        let digest = matches!(kind, EntryKind::File | EntryKind::Program).then(|| Digest::hash(path.as_bytes()));
        PortableItem { path: path.into(), kind, size: 0, digest, target: PathBuf::new() }
    }

    fn link(path: &str, target: &str) -> PortableItem {
        let digest = Some(Digest::hash(target.as_bytes()));
        PortableItem { target: target.into(), digest, ..item(path, EntryKind::Link) }
    }

    #[test]
    fn nothing_is_laid_out_that_leads_out_of_the_folder() {
        let with = |more: &[PortableItem]| {
            let mut items =
                vec![item("", EntryKind::Folder), item("a", EntryKind::Folder), item("a/b", EntryKind::File)];
            items.extend(more.iter().cloned());
            unfit(&items)
        };
        assert_eq!(with(&[]), None);
        assert_eq!(with(&[link("a/up", "../a/b"), link("here", "a")]), None);
        let assert_refused = |more: &[PortableItem], text: &str| {
            let problem = with(more).unwrap_or_default();
            assert!(problem.contains(text), "{more:?}: {problem:?}");
        };
        assert_refused(&[item("../x", EntryKind::File)], "is not a path in an output");
        assert_refused(&[item("/etc/passwd", EntryKind::File)], "is not a path in an output");
        assert_refused(&[item("a", EntryKind::Folder)], "twice");
        assert_refused(&[item("c/d", EntryKind::File)], "in no folder");
        assert_refused(&[link("l", "a"), item("l/x", EntryKind::File)], "in no folder");
        assert_refused(&[link("l", "/etc")], "is a link that leads out of it");
        assert_refused(&[link("a/l", "../../x")], "is a link that leads out of it");
        assert_refused(&[link("l", "a/../../x")], "is a link that leads out of it");
        // A part of a target may be a link itself: `..` behind it is above where it leads.
        let deep = [item("a/c", EntryKind::Folder), item("a/c/d", EntryKind::Folder), link("a/c/d/up", "../../..")];
        let and = |last: PortableItem| deep.iter().cloned().chain([last]).collect::<Vec<_>>();
        assert_eq!(with(&and(link("q", "a/c/d/up/a/b"))), None);
        assert_refused(&and(link("q", "a/c/d/up/..")), "q is a link that leads out of it, to a/c/d/up/..");
        assert_refused(&and(link("a/q", "./c/d/up/a/../../x")), "is a link that leads out of it");
        assert_refused(&[link("one", "a/../two/x"), link("two", "one/x")], "is a link that leads out of it");
        assert_eq!(with(&[link("self", "self")]), None, "it leads nowhere");
        assert_refused(&[PortableItem { digest: None, ..item("x", EntryKind::File) }], "contradict");
        let large = |path: &str| PortableItem { size: MOST_FILES_BYTES, ..item(path, EntryKind::File) };
        assert_eq!(with(&[large("x")]), None);
        assert_refused(&[large("x"), large("y")], "with y (1152921504606846976 bytes) it exceeds");
        assert_refused(&[PortableItem { digest: Some(Digest::hash(b"other")), ..link("l", "a") }], "contradict");
        assert!(unfit(&[]).is_some());
        let without_root = unfit(&[item("a", EntryKind::Folder)]).unwrap();
        assert!(without_root.contains("is not a path in an output"), "{without_root}");
        assert!(unfit(&[item("", EntryKind::File)]).is_some());
    }
}
