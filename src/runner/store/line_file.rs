//! A file that only grows, by whole lines: what one write left of a line that it could not finish is cut off.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use super::durable::{PathError, WithPath as _};

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

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

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
