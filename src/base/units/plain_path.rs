//! Paths as text.

use std::path::{Component, Path, PathBuf};

/// A path without `.` and `..`, by its text alone: links are not followed.
pub fn plain_path(path: &Path) -> PathBuf {
    let mut plain = PathBuf::with_capacity(path.as_os_str().len());
    for part in path.components() {
        match part {
            Component::ParentDir => {
                plain.pop();
            }
            Component::CurDir => {}
            part => plain.push(part),
        }
    }
    plain
}
