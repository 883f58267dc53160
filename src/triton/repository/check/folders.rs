//! The folders of a repository.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

pub(super) fn name_of(folder: &Path) -> String {
    folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// The folders in a folder, by name; hidden ones are not models.
pub(super) fn folders(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder)
        .map_err(|error| io::Error::new(error.kind(), format!("cannot read {}: {error}", folder.display())))?;
    let mut folders = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() && !name_of(&path).starts_with('.') {
            folders.push(path);
        }
    }
    folders.sort();
    Ok(folders)
}
