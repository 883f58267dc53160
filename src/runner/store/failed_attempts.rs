//! What failed attempts left: a link for each task to the output folder of its last one.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use super::durable::{PathError, discard, items_in, point};
use super::output_cache::OutputCache;
use super::result_files::has_result;
use super::state_folder::{is_output_name, is_resumed};
use base::event::TaskId;
use base::files::Digest;

impl OutputCache {
    /// Keeps what a failed attempt left, for inspection; the attempt before it is removed, unless later ones go on in it or it is a result.
    /// `None` if there was nothing in it.
    ///
    /// # Errors
    /// It cannot be looked at.
    pub fn set_aside(&self, task: &TaskId, folder: &Path, resume: bool) -> Result<Option<PathBuf>, PathError> {
        if items_in(folder)?.is_empty() {
            let _ = fs::remove_dir(folder);
            return Ok(None);
        }
        self.has_failed.store(true, Ordering::Relaxed);
        let link = self.home().failed().join(task.file_name());
        if let Some(before) = self.failed_folder(&link).filter(|left| left != folder && !resume && !is_resumed(left)) {
            let _ = discard(&before);
        }
        Ok(point(&link, folder).is_ok().then(|| folder.to_owned()))
    }

    /// Forgets what a failed attempt left, once the task is done under a key. What attempts of another key go on in stays: another manifest has a
    /// task of that name, or this one with other parameters.
    pub fn clear_failed(&self, task: &TaskId, key: &Digest) {
        if !self.has_failed.load(Ordering::Relaxed) {
            return;
        }
        let link = self.home().failed().join(task.file_name());
        let of_key = self.home().output(&key.short());
        let is_of_key = |folder: &Path| folder.to_string_lossy().starts_with(&*of_key.to_string_lossy());
        let folder = self.failed_folder(&link).filter(|folder| !is_resumed(folder) || is_of_key(folder));
        let _ = fs::remove_file(&link);
        if let Some(folder) = folder {
            let _ = discard(&folder);
        }
    }

    /// What a failed attempt left, and may be removed. `None` where the link leads to an output that a record names, or out of the outputs, as
    /// a damaged one does, or to a result, which is that of its run whatever its verdict.
    fn failed_folder(&self, link: &Path) -> Option<PathBuf> {
        let folder = fs::read_link(link).ok()?;
        let name = folder.file_name()?.to_str()?;
        let is_removable = folder.parent() == Some(&self.home().outputs())
            && is_output_name(name)
            && !self.is_recorded(name)
            && !has_result(&folder);
        is_removable.then_some(folder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::output_cache::tests::begun;

    #[test]
    fn the_result_of_a_failed_try_stays_and_its_other_remains_go() {
        let project = tempfile::tempdir().unwrap();
        let cache = begun(project.path());
        let (task, key) = (TaskId::new("measure"), Digest::of(b"key"));
        for (file, is_result) in [("result.json", true), ("sweep.json", true), ("log", false)] {
            let failed = || {
                let folder = cache.new_folder(&task, &key, None).unwrap();
                fs::write(folder.join(file), "{}").unwrap();
                assert_eq!(cache.set_aside(&task, &folder, false).unwrap().as_ref(), Some(&folder));
                folder
            };
            let [first, second] = [failed(), failed()];
            assert_eq!((first.exists(), second.exists()), (is_result, true), "{file}");
            cache.clear_failed(&task, &key);
            assert_eq!(second.exists(), is_result, "{file}");
            assert!(items_in(&cache.home().failed()).unwrap().is_empty());
        }
    }
}
