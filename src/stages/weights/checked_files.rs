//! Which files of an unfinished download have been checked, so that the next attempt does not read them again.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use base::files::read_text;

/// In the output folder, until all is done.
pub(super) const FILE: &str = ".regatta-weights";

/// A file's size, time of change in ns, and inode.
type Stamp = (u64, i64, u64);

/// Name → what it was when it was checked.
#[derive(Debug)]
pub(super) struct CheckedFiles {
    place: PathBuf,
    known: HashMap<String, Stamp>,
    file: File,
}

impl CheckedFiles {
    pub(super) fn open(out: &Path) -> io::Result<Self> {
        let place = out.join(FILE);
        let text = read_text(&place).unwrap_or_default();
        // A line that was cut off is skipped.
        let stamps = text.lines().filter_map(|line| serde_json::from_str::<(String, Stamp)>(line).ok()).collect();
        let file = OpenOptions::new().create(true).append(true).open(&place)?;
        Ok(Self { place, known: stamps, file })
    }

    /// Whether this file has been checked, and is what it was.
    pub(super) fn is_unchanged(&self, name: &str, path: &Path) -> bool {
        self.known.get(name).is_some_and(|known| stamp(path).is_some_and(|now| now == *known))
    }

    pub(super) fn add(&mut self, name: &str, path: &Path) {
        if let Some(stamp) = stamp(path)
            && let Ok(line) = serde_json::to_string(&(name, stamp))
        {
            // Forgetting costs one more reading, nothing else.
            let _ = writeln!(self.file, "{line}");
            self.known.insert(name.to_owned(), stamp);
        }
    }

    /// All is done.
    pub(super) fn remove_record(self) {
        let _ = fs::remove_file(self.place);
    }
}

fn stamp(path: &Path) -> Option<Stamp> {
    let now = fs::symlink_metadata(path).ok()?;
    Some((now.size(), now.mtime() * 1_000_000_000 + now.mtime_nsec(), now.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_checked_is_known_until_it_changes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        fs::write(&path, "one").unwrap();
        let mut memory = CheckedFiles::open(folder.path()).unwrap();
        assert!(!memory.is_unchanged("a", &path));
        memory.add("a", &path);
        drop(memory);
        let memory = CheckedFiles::open(folder.path()).unwrap();
        assert!(memory.is_unchanged("a", &path));
        fs::write(&path, "longer").unwrap();
        assert!(!memory.is_unchanged("a", &path));
        memory.remove_record();
        assert!(!folder.path().join(FILE).exists());
    }
}
