//! Folders and links on the way to what a stage reads. One that is renamed away and back leaves no trace in the files
//! that were read through it, and nothing but its own time of change shows it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Stat, statat};

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
