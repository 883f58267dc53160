//! Digests of inputs, cached: a file that is unchanged according to `stat` is not read again. And stamps of the folders
//! and links on the way to what a stage reads: one that is renamed away and back leaves no trace in the files that were
//! read through it, and nothing but its own time of change shows it.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};

use globset::{GlobBuilder, GlobSetBuilder};
use parking_lot::Mutex;
use rustix::fs::{AtFlags, CWD, FileType, Stat, statat};
use serde::{Deserialize, Serialize};
use walkdir::WalkDir;

use super::durable::{PathError, WithPath as _, is_there};
use super::folder_digest::{ContentChange, EntryKind, FileStamp, hash_file};
use super::{StateFolder, sealed};
use base::files::{Digest, Hasher, is_absence, open_regular, read_text_up_to};

/// Files and folders of one input: the largest data sets have some million, and each is kept in memory.
const MOST_ENTRIES: usize = 10_000_000;

/// How a pointer of Git LFS begins, and its length at most, by the specification.
const POINTER: &str = "version https://git-lfs.github.com/spec/";
const LARGEST_POINTER: u64 = 1024;

/// Files that were not used lately are looked for only where there are more of them.
const MOST_UNUSED: usize = 10_000;

/// path → what it was when it was hashed. Kept in `.regatta/stats`; losing it costs a rehash, nothing else.
#[derive(Debug, Default)]
pub struct Digests {
    known: Mutex<HashMap<PathBuf, KnownDigest>>,
    fresh: Mutex<bool>,
}

#[derive(Debug, Serialize, Deserialize)]
struct KnownDigest {
    stamp: FileStamp,
    digest: Digest,
    /// This run asked for it.
    #[serde(skip)]
    is_used: bool,
}

/// An input as it was when it was digested.
#[derive(Clone, Debug, PartialEq)]
pub struct InputState {
    pub digest: Digest,
    /// The paths that the patterns named, absolute and sorted.
    pub paths: Vec<PathBuf>,
    /// Everything that was looked at: files, and folders with a relevant listing.
    pub seen: Vec<(PathBuf, FileStamp)>,
}

impl InputState {
    /// The files in its folders that are pointers of Git LFS, among those of a pointer's usual length: a data set may
    /// have millions of small files.
    pub fn lfs_pointers(&self) -> Vec<&Path> {
        const USUAL: std::ops::Range<u64> = 100..200;
        let candidates = self.seen.iter().filter(|(_, stamp)| stamp.is_file() && USUAL.contains(&stamp.size));
        candidates.filter(|(path, stamp)| is_lfs_pointer(path, stamp)).map(|(path, _)| path.as_path()).collect()
    }
}

fn is_lfs_pointer(path: &Path, stamp: &FileStamp) -> bool {
    stamp.size <= LARGEST_POINTER && read_text_up_to(path, LARGEST_POINTER).is_ok_and(|text| text.starts_with(POINTER))
}

#[derive(Debug, thiserror::Error)]
pub enum InputError {
    #[error("{} does not exist", .0.display())]
    Missing(PathBuf),
    #[error("{} is a link to {}, which does not exist", link.display(), target.display())]
    Dangling { link: PathBuf, target: PathBuf },
    #[error("{} is a link to {}, and the input is inside that", link.display(), target.display())]
    Encloses { link: PathBuf, target: PathBuf },
    #[error("{} has more than {most} files and folders", folder.display())]
    TooMany { folder: PathBuf, most: usize },
    #[error("{} is a Git LFS pointer; the file itself has not been fetched", .0.display())]
    LfsPointer(PathBuf),
    #[error("no file matches {0}")]
    NoMatch(String),
    #[error("{0} is not a pattern: {1}")]
    Pattern(String, globset::Error),
    #[error(transparent)]
    Path(#[from] PathError),
}

impl Digests {
    /// What earlier runs remembered; empty if that cannot be read.
    pub fn load(home: &StateFolder) -> Self {
        let digests = sealed::read(&home.stats()).unwrap_or_default();
        Self { known: Mutex::new(digests), fresh: Mutex::new(false) }
    }

    /// Writes what is remembered, if anything is new.
    pub fn save(&self, home: &StateFolder) -> Result<(), PathError> {
        if !*self.fresh.lock() {
            return Ok(());
        }
        self.forget_absent(MOST_UNUSED);
        sealed::write(&home.stats(), &*self.known.lock())
    }

    /// Where there are more than `most` files that this run did not use: forgets those of them that are gone.
    fn forget_absent(&self, most: usize) {
        let mut cached = self.known.lock();
        if cached.values().filter(|cached| !cached.is_used).count() > most {
            cached.retain(|path, cached| cached.is_used || is_there(path).unwrap_or(true));
        }
    }

    /// The digest of one file's content; follows links.
    pub fn file(&self, path: &Path) -> Result<(Digest, FileStamp), PathError> {
        let stamp = FileStamp::through_links(path).at("look at", path)?;
        if let Some(known) = self.known.lock().get_mut(path)
            && known.stamp == stamp
        {
            known.is_used = true;
            return Ok((known.digest, stamp));
        }
        let digest = hash_file(path)?;
        // A file written in the same tick of the clock could change again without its stamp changing.
        if !stamp.is_racy() {
            self.known.lock().insert(path.to_owned(), KnownDigest { stamp, digest, is_used: true });
            *self.fresh.lock() = true;
        }
        Ok((digest, stamp))
    }

    /// Whether digesting this takes no longer than delegating it: small files, or files that are known.
    pub fn is_quick(&self, base: &Path, patterns: &[String]) -> bool {
        const SMALL: u64 = 256 * 1024;
        patterns.iter().all(|pattern| {
            let path = base.join(pattern);
            !is_glob(pattern)
                && FileStamp::through_links(&path).is_ok_and(|stamp| {
                    let is_cached = || self.known.lock().get(&path).is_some_and(|known| known.stamp == stamp);
                    stamp.is_file() && (stamp.size <= SMALL || is_cached())
                })
        })
    }

    /// The digest of what `patterns` name, relative to `base`: one path alone by its content, several paths and what
    /// globs match by names and contents. A folder's content is the names and contents in it.
    pub fn input(&self, base: &Path, patterns: &[String]) -> Result<InputState, InputError> {
        let mut seen = Vec::new();
        let mut paths = Vec::new();
        for pattern in patterns {
            if is_glob(pattern) {
                let before = paths.len();
                glob(base, pattern, &mut paths, &mut seen)?;
                if paths.len() == before {
                    return Err(InputError::NoMatch(pattern.clone()));
                }
            } else {
                paths.push(base.join(pattern));
            }
        }
        paths.sort();
        paths.dedup();
        // Which file a glob matches is not in the manifest, and a stage sees its name.
        let alone = paths.len() == 1 && !patterns.iter().any(|pattern| is_glob(pattern));
        let mut h = Hasher::new();
        let mut digest = None;
        for path in &paths {
            let state = self.path(path, &mut seen, MOST_ENTRIES)?;
            digest = Some(state);
            h.field(path.strip_prefix(base).unwrap_or(path).as_os_str().as_bytes()).field(state.bytes());
        }
        let digest = if alone { digest.unwrap_or_else(|| h.finish()) } else { h.finish() };
        Ok(InputState { digest, paths, seen })
    }

    fn path(&self, path: &Path, seen: &mut Vec<(PathBuf, FileStamp)>, most: usize) -> Result<Digest, InputError> {
        let stamp = stamp_of_input(path)?;
        if !stamp.is_folder() {
            let (digest, stamp) = self.file(path)?;
            if is_lfs_pointer(path, &stamp) {
                return Err(InputError::LfsPointer(path.to_owned()));
            }
            seen.push((path.to_owned(), stamp));
            // A stage sees whether it may execute the file, as it does of those in a folder.
            let of_program = || Hasher::new().field(&[stamp.kind as u8]).field(digest.bytes()).finish();
            return Ok(if stamp.kind == EntryKind::Program { of_program() } else { digest });
        }
        // Resolved once: the input may itself be a link, and only links in it can lead around it.
        let root = fs::canonicalize(path).at("follow", path)?;
        if root != path {
            seen.push((path.to_owned(), stamp));
        }
        let mut h = Hasher::new();
        // Links can lead to a folder in many ways, and to the next one in it in many again.
        let mut walked: HashMap<(u64, u64), PathBuf> = HashMap::new();
        let mut items = WalkDir::new(&root).follow_links(true).sort_by_file_name().into_iter();
        while let Some(item) = items.next() {
            let item = item.map_err(|e| walk_error(&root, e))?;
            if seen.len() >= most {
                return Err(InputError::TooMany { folder: path.to_owned(), most });
            }
            if item.path_is_symlink() {
                refuse_enclosing(&root, item.path())?;
            }
            let name = item.path().strip_prefix(&root).unwrap_or(item.path());
            let stamp = stamp_of_input(item.path())?;
            h.field(name.as_os_str().as_bytes()).field(&[stamp.kind as u8]);
            if stamp.is_file() {
                let (digest, stamp) = self.file(item.path())?;
                h.field(digest.bytes());
                seen.push((item.path().to_owned(), stamp));
            } else if stamp.is_folder() {
                seen.push((item.path().to_owned(), stamp));
                let metadata = fs::metadata(item.path()).at("look at", item.path())?;
                match walked.entry((metadata.dev(), metadata.ino())) {
                    Entry::Vacant(first) => {
                        first.insert(name.to_owned());
                    }
                    // Its content is in the digest already.
                    Entry::Occupied(first) => {
                        h.field(first.get().as_os_str().as_bytes());
                        items.skip_current_dir();
                    }
                }
            } else {
                open_regular(item.path()).at("read", item.path())?;
            }
        }
        Ok(h.finish())
    }

    /// What happened to an input since then: by stamps, and by content where they differ.
    ///
    /// # Errors
    /// It cannot be read at all.
    pub fn change(&self, base: &Path, patterns: &[String], then: &InputState) -> Result<ContentChange, PathError> {
        let stamp_now = |path: &Path| FileStamp::through_links(path).ok();
        if then.seen.iter().all(|(path, stamp)| stamp_now(path) == Some(*stamp)) {
            return Ok(ContentChange::Same);
        }
        match self.input(base, patterns) {
            Ok(now) if now.digest == then.digest => {
                // A run itself writes into the project's folder.
                let is_touched = |(path, stamp): &&(PathBuf, FileStamp)| {
                    path != base && stamp_now(path).is_none_or(|now| now.is_touched_since(stamp, path))
                };
                let touched = then.seen.iter().find(is_touched);
                Ok(touched.map_or(ContentChange::Same, |(path, _)| ContentChange::Restored(path.clone())))
            }
            Err(InputError::Path(error)) if error.is_of_system() => Err(error),
            _ => Ok(ContentChange::Changed("changed while it was read".to_owned())),
        }
    }
}

impl InputError {
    /// For a path that leads to nothing.
    pub fn absent(path: PathBuf) -> Self {
        match fs::read_link(&path) {
            Ok(target) => Self::Dangling { link: path, target },
            Err(_) => Self::Missing(path),
        }
    }
}

fn stamp_of_input(path: &Path) -> Result<FileStamp, InputError> {
    FileStamp::through_links(path).map_err(|source| {
        let path = path.to_owned();
        if is_absence(&source) { InputError::absent(path) } else { PathError { doing: "look at", path, source }.into() }
    })
}

/// Whether a pattern, or a part of one, has wildcards.
fn is_glob(pattern: &str) -> bool {
    pattern.contains(['*', '?', '[', '{'])
}

fn glob(
    base: &Path,
    pattern: &str,
    into: &mut Vec<PathBuf>,
    seen: &mut Vec<(PathBuf, FileStamp)>,
) -> Result<(), InputError> {
    let bad = |e| InputError::Pattern(pattern.to_owned(), e);
    // As the paths of a walk are written: without `./`.
    let pattern_path: PathBuf = Path::new(pattern).components().filter(|c| *c != Component::CurDir).collect();
    // No part of the pattern: a project's own path may have characters that are wildcards in one.
    let base = if pattern_path.is_absolute() { Path::new("") } else { base };
    let text = pattern_path.to_string_lossy();
    let glob = GlobBuilder::new(&text).literal_separator(true).build().map_err(bad)?;
    let set = GlobSetBuilder::new().add(glob).build().map_err(bad)?;
    let mut walked = 0;
    // Walk from the last folder that has no wildcard in its name.
    let names = pattern_path.components().take_while(|c| !is_glob(&c.as_os_str().to_string_lossy()));
    let fixed: PathBuf = base.components().chain(names.clone()).collect();
    // As in a shell, `*` goes through links to folders, and `**` does not: it would leave the project by them.
    let is_deep = text.contains("**");
    let depth = if is_deep { usize::MAX } else { pattern_path.components().count() - names.count() };
    let mut items = WalkDir::new(&fixed).follow_links(!is_deep).max_depth(depth).sort_by_file_name().into_iter();
    while let Some(item) = items.next() {
        walked += 1;
        if walked > MOST_ENTRIES {
            return Err(InputError::TooMany { folder: fixed, most: MOST_ENTRIES });
        }
        let is_match = |path: &Path| set.is_match(path.strip_prefix(base).unwrap_or(path));
        let item = match item {
            Ok(item) => item,
            // A link that leads nowhere or in a circle, and that the pattern does not name.
            Err(e) if e.path().is_some_and(|path| e.depth() > 0 && path.is_symlink() && !is_match(path)) => continue,
            Err(e) => return Err(walk_error(&fixed, e)),
        };
        if item.depth() > 0 && item.path_is_symlink() && is_match(item.path()) {
            if item.file_type().is_dir() {
                items.skip_current_dir();
            }
            into.push(item.into_path());
        } else if item.file_type().is_dir() {
            if let Ok(stamp) = FileStamp::through_links(item.path()) {
                seen.push((item.path().to_owned(), stamp));
            }
        } else if is_match(item.path()) {
            into.push(item.into_path());
        }
    }
    Ok(())
}

/// A link that leads out of an input and around it: all that is beside the input would be part of it. `input` has no
/// link in it.
fn refuse_enclosing(input: &Path, link: &Path) -> Result<(), InputError> {
    let target = fs::canonicalize(link).at("follow", link)?;
    if input.starts_with(&target) {
        return Err(InputError::Encloses { link: link.to_owned(), target });
    }
    Ok(())
}

fn walk_error(path: &Path, e: walkdir::Error) -> InputError {
    let place = e.path().unwrap_or(path).to_owned();
    if let Ok(target) = fs::read_link(&place)
        && is_there(&place).is_ok_and(|there| !there)
    {
        return InputError::Dangling { link: place, target };
    }
    let source = e.into_io_error().unwrap_or_else(|| std::io::Error::other("links form a cycle"));
    InputError::Path(PathError { doing: "list", path: place, source })
}

/// How each of them was.
pub type PathStamps = BTreeMap<PathBuf, Stat>;

/// Of these paths, and of the folders above them in `project`, as they are now.
pub fn path_stamps(paths: impl IntoIterator<Item = PathBuf>, project: &Path) -> PathStamps {
    let mut stamps = BTreeMap::new();
    for path in paths {
        let is_part = |folder: &&Path| *folder == path || *folder != project && folder.starts_with(project);
        for place in path.ancestors().take_while(is_part) {
            // What is above it, too: all outputs are in one folder.
            if stamps.contains_key(place) {
                break;
            }
            if let Some(stat) = look_at(place) {
                stamps.insert(place.to_owned(), stat);
            }
        }
    }
    stamps
}

/// A path that was renamed or replaced since then, even if it is back now. A folder that got another file meanwhile is
/// not reported: other stages write into such folders.
pub fn replaced_path(stamps: &PathStamps) -> Option<&Path> {
    let is_replaced = |before: &Stat, now: &Stat| {
        let has_same_content = (before.st_mtime, before.st_mtime_nsec) == (now.st_mtime, now.st_mtime_nsec);
        let is_changed = (before.st_ctime, before.st_ctime_nsec) != (now.st_ctime, now.st_ctime_nsec);
        before.st_ino != now.st_ino
            || is_changed && (has_same_content || FileType::from_raw_mode(now.st_mode) == FileType::Symlink)
    };
    let mut stamps = stamps.iter();
    stamps.find(|(path, before)| look_at(path).is_none_or(|now| is_replaced(before, &now))).map(|(path, _)| &**path)
}

/// `None` for files, which have stamps of their own, and for what is not there.
fn look_at(path: &Path) -> Option<Stat> {
    let stat = statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    matches!(FileType::from_raw_mode(stat.st_mode), FileType::Symlink | FileType::Directory).then_some(stat)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn an_input_with_too_many_entries_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["a", "b"] {
            fs::write(folder.path().join(name), name).unwrap();
        }
        let digest_of = |most| Digests::default().path(folder.path(), &mut Vec::new(), most);
        assert!(digest_of(3).is_ok());
        let error = digest_of(2).unwrap_err().to_string();
        assert!(error.ends_with("has more than 2 files and folders"), "{error}");
    }

    #[test]
    fn a_pointer_in_place_of_a_file_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let oid = "4d7a".repeat(16);
        let pointer = format!("version https://git-lfs.github.com/spec/v1\noid sha256:{oid}\nsize 12345\n");
        fs::write(folder.path().join("data.jsonl"), pointer).unwrap();
        for pattern in ["data.jsonl", "*.jsonl"] {
            let error = Digests::default().input(folder.path(), &[pattern.to_owned()]).unwrap_err();
            assert!(matches!(error, InputError::LfsPointer(_)), "{error}");
        }
        // A folder may have pointers to files that no stage reads.
        fs::write(folder.path().join("other.jsonl"), "{}").unwrap();
        let state = Digests::default().input(folder.path(), &[".".to_owned()]).unwrap();
        assert_eq!(state.lfs_pointers(), [fs::canonicalize(folder.path()).unwrap().join("data.jsonl")]);
    }

    #[test]
    fn whether_a_file_may_be_executed_is_part_of_its_digest() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("build.sh");
        fs::write(&path, "true").unwrap();
        let digest_with = |mode| {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            Digests::default().input(folder.path(), &["build.sh".to_owned()]).unwrap().digest
        };
        assert_eq!(digest_with(0o644), digest_with(0o600));
        assert_ne!(digest_with(0o644), digest_with(0o755));
    }

    #[test]
    fn wildcards_in_the_path_of_the_project_are_none() {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().join("a[1]{b,c}*?");
        fs::create_dir_all(base.join("data/deep")).unwrap();
        for file in ["data/x.txt", "data/y.json", "data/deep/z.txt"] {
            fs::write(base.join(file), "x").unwrap();
        }
        let absolute = folder.path().join("a*/data/*.txt").display().to_string();
        for pattern in ["data/*.txt", &absolute] {
            let input = Digests::default().input(&base, &[pattern.to_owned()]).unwrap();
            assert_eq!(input.paths, [base.join("data/x.txt")], "{pattern}");
        }
        // Not from above the project.
        let input = Digests::default().input(&base, &["*/*.json".to_owned()]).unwrap();
        assert_eq!((input.paths, &input.seen[0].0), (vec![base.join("data/y.json")], &base));
    }

    #[test]
    fn what_was_changed_and_restored_meanwhile_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::create_dir(path("data")).unwrap();
        fs::write(path("data/file"), "a").unwrap();
        fs::write(path("other"), "b").unwrap();
        let meanwhile = |pattern: &str, act: &dyn Fn()| {
            let (digests, patterns) = (Digests::default(), [pattern.to_owned()]);
            let then = digests.input(folder.path(), &patterns).unwrap();
            std::thread::sleep(std::time::Duration::from_millis(20));
            act();
            digests.change(folder.path(), &patterns, &then).unwrap()
        };
        let rename = |from: &str, to: &str| rustix::fs::rename(path(from), path(to)).unwrap();
        let restored = |name: &str| ContentChange::Restored(path(name));
        let write = |text: &str| fs::write(path("data/file"), text).unwrap();
        let edited = meanwhile("data/file", &|| ["x", "a"].into_iter().for_each(write));
        assert_eq!(edited, restored("data/file"));
        let swapped = meanwhile("data/file", &|| {
            let steps = [("data/file", "away"), ("other", "data/file"), ("data/file", "other"), ("away", "data/file")];
            for (from, to) in steps {
                rename(from, to);
            }
        });
        assert_eq!(swapped, restored("data/file"));
        for pattern in ["data", "data/*"] {
            let came_and_went = meanwhile(pattern, &|| {
                fs::write(path("data/guest"), "x").unwrap();
                fs::remove_file(path("data/guest")).unwrap();
            });
            assert_eq!(came_and_went, restored("data"), "{pattern}");
        }
        assert_eq!(meanwhile("data", &|| {}), ContentChange::Same);
        // A further name leaves the content as it is.
        assert_eq!(meanwhile("other", &|| fs::hard_link(path("other"), path("linked")).unwrap()), ContentChange::Same);
        let unrelated = meanwhile("*her", &|| fs::write(path("unrelated"), "").unwrap());
        assert_eq!(unrelated, ContentChange::Same);
    }

    #[test]
    fn the_name_of_the_one_file_that_a_glob_matches_counts() {
        let folder = tempfile::tempdir().unwrap();
        let input_of = |name: &str, pattern: &str| {
            let path = folder.path().join(name);
            fs::write(&path, "x").unwrap();
            let input = Digests::default().input(folder.path(), &[pattern.to_owned()]).unwrap();
            fs::remove_file(path).unwrap();
            input.digest
        };
        assert_ne!(input_of("a.txt", "*.txt"), input_of("b.txt", "*.txt"));
        assert_eq!(input_of("a.txt", "*.txt"), input_of("a.txt", "a*"));
        assert_eq!(input_of("a.txt", "a.txt"), input_of("b.txt", "b.txt"), "the manifest has the name");
    }

    #[test]
    fn of_many_files_those_that_are_gone_are_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        let home = StateFolder::new(folder.path().to_owned(), folder.path().to_owned());
        let paths = ["gone", "unused", "used"].map(|name| folder.path().join(name));
        for path in &paths {
            fs::write(path, "x").unwrap();
        }
        while FileStamp::of_path(&paths[2]).unwrap().is_racy() {
            std::thread::yield_now();
        }
        let digests = Digests::default();
        for path in &paths {
            digests.file(path).unwrap();
        }
        digests.save(&home).unwrap();
        fs::remove_file(&paths[0]).unwrap();
        let digests = Digests::load(&home);
        digests.file(&paths[2]).unwrap();
        let cached_count = || digests.known.lock().len();
        digests.forget_absent(2);
        assert_eq!(cached_count(), 3);
        digests.forget_absent(1);
        assert_eq!(cached_count(), 2);
        assert!(!digests.known.lock().contains_key(&paths[0]));
    }

    #[test]
    fn a_folder_to_which_several_links_lead_is_part_of_the_digest() {
        let folder = tempfile::tempdir().unwrap();
        let (input, other) = (folder.path().join("input"), folder.path().join("other"));
        fs::create_dir_all(input.join("1")).unwrap();
        fs::create_dir_all(&other).unwrap();
        for link in ["2", "3"] {
            symlink(&other, input.join(link)).unwrap();
        }
        let write_file = |text: &str| {
            fs::write(other.join("file"), text).unwrap();
            let mut seen = Vec::new();
            let digest = Digests::default().path(&input, &mut seen, MOST_ENTRIES).unwrap();
            (digest, seen.len())
        };
        let (before, entries) = write_file("one");
        assert_eq!(entries, 5, "the folder, those in it, and the file once");
        assert_ne!(write_file("another").0, before);
        fs::remove_file(input.join("3")).unwrap();
        symlink(input.join("1"), input.join("3")).unwrap();
        assert_ne!(write_file("one").0, before, "where a link leads is part of it");
    }
}

#[cfg(test)]
mod path_stamps_tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_folder_or_a_link_that_was_swapped_and_is_back_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::create_dir_all(path("data/deep")).unwrap();
        fs::write(path("data/deep/file"), "a").unwrap();
        symlink("data", path("link")).unwrap();
        let stamps = || path_stamps([path("data/deep/file"), path("link")], folder.path());
        let before = stamps();
        fs::write(path("data/another"), "b").unwrap();
        fs::write(path("unrelated"), "c").unwrap();
        assert_eq!(replaced_path(&before), None);
        let swap_and_back = |name: &str| {
            rustix::fs::rename(path(name), path("away")).unwrap();
            rustix::fs::rename(path("away"), path(name)).unwrap();
        };
        for name in ["data", "data/deep", "link"] {
            let before = stamps();
            std::thread::sleep(std::time::Duration::from_millis(20));
            swap_and_back(name);
            assert_eq!(replaced_path(&before), Some(&*path(name)));
        }
    }
}
