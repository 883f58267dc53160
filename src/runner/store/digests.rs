//! Digests of inputs, cached: a file that is unchanged according to `stat` is not read again.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use globset::{GlobBuilder, GlobSetBuilder};
use walkdir::WalkDir;

use super::durable::PathError;
use super::file_stamp::FileStamp;
use super::outputs::hash_file;
use super::{StateFolder, sealed};
use crate::event::{Digest, Hasher, open_regular};

/// path → what it was when it was hashed. Kept in `.regatta/stats`; losing it costs a rehash, nothing else.
#[derive(Debug, Default)]
pub struct Digests {
    known: Mutex<HashMap<PathBuf, (FileStamp, Digest)>>,
    fresh: Mutex<bool>,
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

#[derive(Debug, thiserror::Error)]
pub enum InputError {
    #[error("{} does not exist", .0.display())]
    Missing(PathBuf),
    #[error("{} is a link to {}, which does not exist", link.display(), target.display())]
    Dangling { link: PathBuf, target: PathBuf },
    #[error("{} is a link to {}, and the input is inside that", link.display(), target.display())]
    Encloses { link: PathBuf, target: PathBuf },
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
        let known = sealed::read(&home.stats()).unwrap_or_default();
        Self { known: Mutex::new(known), fresh: Mutex::new(false) }
    }

    /// Writes what is remembered, if anything is new.
    pub fn save(&self, home: &StateFolder) -> Result<(), PathError> {
        if !*self.fresh.lock() {
            return Ok(());
        }
        sealed::write(&home.stats(), &*self.known.lock())
    }

    /// The digest of one file's content; follows links.
    pub fn file(&self, path: &Path) -> Result<(Digest, FileStamp), PathError> {
        use super::durable::WithPath as _;
        let stamp = FileStamp::through_links(path).at("look at", path)?;
        if let Some((known, digest)) = self.known.lock().get(path)
            && *known == stamp
        {
            return Ok((*digest, stamp));
        }
        let (digest, stamp) = hash_file(path)?;
        // A file written in the same tick of the clock could change again without its stamp changing.
        if !stamp.is_racy() {
            self.known.lock().insert(path.to_owned(), (stamp, digest));
            *self.fresh.lock() = true;
        }
        Ok((digest, stamp))
    }

    /// Whether digesting this takes no longer than delegating it: small files, or files that are known.
    pub fn is_quick(&self, base: &Path, patterns: &[String]) -> bool {
        const SMALL: u64 = 256 * 1024;
        patterns.iter().all(|pattern| {
            let path = base.join(pattern);
            !pattern.contains(['*', '?', '[', '{'])
                && FileStamp::through_links(&path).is_ok_and(|stamp| {
                    let known = || self.known.lock().get(&path).is_some_and(|(known, _)| *known == stamp);
                    stamp.is_file() && (stamp.size <= SMALL || known())
                })
        })
    }

    /// The digest of what `patterns` name, relative to `base`: one path alone by its content, several (or a glob, or a
    /// folder) by names and contents.
    pub fn input(&self, base: &Path, patterns: &[String]) -> Result<InputState, InputError> {
        let mut seen = Vec::new();
        let mut paths = Vec::new();
        for pattern in patterns {
            if pattern.contains(['*', '?', '[', '{']) {
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
        let alone = paths.len() == 1;
        let mut h = Hasher::new();
        let mut digest = None;
        for path in &paths {
            let one = self.path(path, &mut seen)?;
            digest = Some(one);
            h.field(path.strip_prefix(base).unwrap_or(path).as_os_str().as_bytes()).field(one.bytes());
        }
        let digest = if alone { digest.unwrap_or_else(|| h.finish()) } else { h.finish() };
        Ok(InputState { digest, paths, seen })
    }

    fn path(&self, path: &Path, seen: &mut Vec<(PathBuf, FileStamp)>) -> Result<Digest, InputError> {
        use super::durable::WithPath as _;
        let Ok(stamp) = FileStamp::through_links(path) else { return Err(InputError::Missing(path.to_owned())) };
        if !stamp.is_folder() {
            let (digest, stamp) = self.file(path)?;
            seen.push((path.to_owned(), stamp));
            return Ok(digest);
        }
        let mut h = Hasher::new();
        for item in WalkDir::new(path).follow_links(true).sort_by_file_name() {
            let item = item.map_err(|e| walk_error(path, e))?;
            if item.path_is_symlink() {
                refuse_enclosing(path, item.path())?;
            }
            let name = item.path().strip_prefix(path).unwrap_or(item.path());
            let stamp =
                FileStamp::through_links(item.path()).map_err(|_| InputError::Missing(item.path().to_owned()))?;
            h.field(name.as_os_str().as_bytes()).field(&[stamp.kind as u8]);
            if stamp.is_file() {
                let (digest, stamp) = self.file(item.path())?;
                h.field(digest.bytes());
                seen.push((item.path().to_owned(), stamp));
            } else if stamp.is_folder() {
                seen.push((item.path().to_owned(), stamp));
            } else {
                open_regular(item.path()).at("read", item.path())?;
            }
        }
        Ok(h.finish())
    }

    /// Whether an input still is what it was: by stamps, and by content where they differ.
    pub fn unchanged(&self, base: &Path, patterns: &[String], then: &InputState) -> bool {
        let same = then.seen.iter().all(|(path, stamp)| FileStamp::through_links(path).is_ok_and(|now| now == *stamp));
        same || self.input(base, patterns).is_ok_and(|now| now.digest == then.digest)
    }
}

fn glob(
    base: &Path,
    pattern: &str,
    into: &mut Vec<PathBuf>,
    seen: &mut Vec<(PathBuf, FileStamp)>,
) -> Result<(), InputError> {
    let bad = |e| InputError::Pattern(pattern.to_owned(), e);
    let full = base.join(pattern);
    let text = full.to_string_lossy().into_owned();
    let glob = GlobBuilder::new(&text).literal_separator(true).build().map_err(bad)?;
    let set = GlobSetBuilder::new().add(glob).build().map_err(bad)?;
    // Walk from the last folder that has no wildcard in its name.
    let fixed: PathBuf =
        full.components().take_while(|c| !c.as_os_str().to_string_lossy().contains(['*', '?', '[', '{'])).collect();
    for item in WalkDir::new(&fixed).sort_by_file_name() {
        let item = item.map_err(|e| walk_error(&fixed, e))?;
        if item.file_type().is_dir() {
            if let Ok(stamp) = FileStamp::through_links(item.path()) {
                seen.push((item.path().to_owned(), stamp));
            }
        } else if set.is_match(item.path()) {
            into.push(item.into_path());
        }
    }
    Ok(())
}

/// A link that leads out of an input and around it: all that is beside the input would be part of it.
fn refuse_enclosing(input: &Path, link: &Path) -> Result<(), InputError> {
    use super::durable::WithPath as _;
    let target = fs::canonicalize(link).at("follow", link)?;
    if fs::canonicalize(input).at("look at", input)?.starts_with(&target) {
        return Err(InputError::Encloses { link: link.to_owned(), target });
    }
    Ok(())
}

fn walk_error(path: &Path, e: walkdir::Error) -> InputError {
    let place = e.path().unwrap_or(path).to_owned();
    if let Ok(target) = fs::read_link(&place)
        && !place.exists()
    {
        return InputError::Dangling { link: place, target };
    }
    let source = e.into_io_error().unwrap_or_else(|| std::io::Error::other("links lead in a circle"));
    InputError::Path(PathError { doing: "list", path: place, source })
}
