//! An error that shows that a file is absent, and one that does not.

use std::io;

/// Whether nothing is there. Any other error leaves open whether there is: a filesystem of the network that does not answer, a disk
/// that fails, a folder that may not be read. What cannot be looked at must not be taken for absent.
pub fn is_absence(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory | io::ErrorKind::InvalidFilename)
}
