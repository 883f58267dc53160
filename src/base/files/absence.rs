//! Whether a file is there, absent, or cannot be looked at.

use std::fs::{self, Metadata};
use std::io;
use std::path::Path;

/// Whether nothing is there. Any other error leaves open whether there is: a filesystem of the network that does not answer, a disk
/// that fails, a folder that may not be read. What cannot be looked at must not be taken for absent.
pub fn is_absence(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory | io::ErrorKind::InvalidFilename)
}

/// What is at a path, links followed; `None` where nothing is.
///
/// # Errors
/// It cannot be known: see [`is_absence`].
pub fn metadata_if_there(path: &Path) -> io::Result<Option<Metadata>> {
    match fs::metadata(path) {
        Ok(found) => Ok(Some(found)),
        Err(error) if is_absence(&error) => Ok(None),
        Err(error) => Err(error),
    }
}
