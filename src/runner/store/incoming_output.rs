//! An output that comes from elsewhere: a folder that is filled file by file, and goes on where it was cut off.
//!
//! Its name ends in `-resume`, so that clearing up after a crash leaves it. It is accepted like any other: when a record
//! names it.

use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _, symlink};
use std::path::{Path, PathBuf};

use walkdir::WalkDir;

use super::durable::{PathError, WithPath as _, discard};
use super::file_stamp::{EntryKind, FileStamp};
use super::folder_digest::{HashedFolder, hash_file, list_folder};
use super::portable_output::PortableItem;
use super::{OutputCache, StateFolder};
use base::files::{Digest, read_text};

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
        let mut found = HashMap::new();
        for record in self.records() {
            let folder = self.folder(&record);
            let Ok(entries) = record.entries(self.home()) else { continue };
            for entry in entries.iter().filter(|entry| entry.stamp.is_file() && entry.stamp.size >= LEAST) {
                if let Some(digest) = entry.digest {
                    found.entry(digest).or_insert_with(|| folder.join(&entry.path));
                }
            }
        }
        found
    }
}

impl IncomingOutput {
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Makes folders and links, removes what is not on the list, and returns which files are to come: indices into `items`.
    /// Reads what an earlier attempt left. The list must be fit ([`super::unfit`]).
    pub fn lay_out(&self, items: &[PortableItem]) -> Result<Vec<usize>, PathError> {
        let wanted: BTreeMap<&Path, &PortableItem> = items.iter().map(|item| (item.path.as_path(), item)).collect();
        let is_large = |name: &str| items.iter().any(|item| item.digest.is_some_and(|d| name == parts_name(&d)));
        let left = WalkDir::new(&self.folder).min_depth(1).contents_first(true);
        for item in left.into_iter().flatten() {
            let relative = item.path().strip_prefix(&self.folder).unwrap_or(item.path());
            let kind = FileStamp::of(item.path()).at("look at", item.path())?.kind;
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
                        !begun && path.exists() && hash_file(&path)?.0 == item.digest.unwrap_or(Digest::of(b""));
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
        let mut source = File::open(from).at("open", from)?;
        let mut file = create(&path, item.kind)?;
        io::copy(&mut source, &mut file).at("write", &path).map(drop)
    }

    /// A large file, as far as it is there.
    pub fn parts(&self, item: &PortableItem) -> Result<PartialFile, PathError> {
        let path = self.folder.join(&item.path);
        let list = self.folder.join(parts_name(&item.digest.unwrap_or(Digest::of(b""))));
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
        discard(&self.folder.join(parts_name(&item.digest.unwrap_or(Digest::of(b"")))))
    }

    /// Takes one file away again.
    pub fn drop_file(&self, item: &PortableItem) -> Result<(), PathError> {
        self.forget_parts(item)?;
        discard(&self.folder.join(&item.path))
    }

    /// Reads all of it, once every file is there.
    pub fn seal(&self) -> Result<HashedFolder, PathError> {
        list_folder(&self.folder)?.seal()
    }

    pub fn discard(&self) -> Result<(), PathError> {
        discard(&self.folder)
    }
}

impl PartialFile {
    pub fn has(&self, offset: u64) -> bool {
        self.present.contains(&offset)
    }

    /// Writes one part, and then records it. After a power cut the record may list too much: sealing the folder detects that
    /// by the digest.
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
