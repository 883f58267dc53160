//! Output folders in which later attempts go on: which of them earlier attempts left.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;

use super::durable::{PathError, items_in};
use super::output_cache::{OutputCache, Resumes};
use super::state_folder::RESUMED;
use base::event::TaskId;
use base::files::Digest;

/// The names of those that no record names. `None`: nothing has asked for one yet.
#[derive(Debug, Default)]
pub(super) struct ResumedFolders(Mutex<Option<BTreeSet<String>>>);

impl ResumedFolders {
    pub(super) fn insert(&self, folder: &Path) {
        if let (Some(known), Some(name)) = (&mut *self.0.lock(), folder.file_name().and_then(|name| name.to_str())) {
            known.insert(name.to_owned());
        }
    }

    pub(super) fn remove(&self, name: &str) {
        if let Some(known) = &mut *self.0.lock() {
            known.remove(name);
        }
    }
}

/// How the names of the folders begin in which attempts of this key go on for this task.
pub(super) fn start_of_resumed(task: &TaskId, key: &Digest) -> String {
    format!("{}-{}-", key.short(), task_part(task))
}

/// Whether attempts of this task go on in a folder of that name, of whatever key.
pub(super) fn is_resumed_by(folder: &str, task: &TaskId) -> bool {
    folder.ends_with(RESUMED) && folder.split('-').nth(1) == Some(task_part(task).as_str())
}

fn task_part(task: &TaskId) -> String {
    Digest::hash(task.as_str().as_bytes()).short()
}

impl OutputCache {
    /// The folder with such a name that earlier attempts left. One that was ever accepted is the output of a run: the
    /// list of its files exists next to it, even if no record names it any more.
    pub(super) fn left_to_resume(
        &self,
        start: &str,
        end: &str,
        resumes: Resumes,
    ) -> Result<Option<PathBuf>, PathError> {
        let names: Vec<String> = {
            let mut guard = self.resumed.0.lock();
            let resumed = match &mut *guard {
                Some(names) => names,
                none => none.insert(self.unrecorded_resumed()?),
            };
            let of_start = resumed.range(start.to_owned()..).take_while(|name| name.starts_with(start));
            of_start.filter(|name| name.ends_with(end)).cloned().collect()
        };
        let is_accepted = |name: &String| self.home().output_files(name).exists();
        let folders = names.iter().filter(|name| !is_accepted(name)).map(|name| self.home().output(name));
        Ok(folders.filter(|folder| folder.is_dir()).find(|folder| resumes(folder)))
    }

    fn unrecorded_resumed(&self) -> Result<BTreeSet<String>, PathError> {
        let recorded = self.recorded_folders();
        let name = |path: PathBuf| path.file_name().and_then(|name| name.to_str()).map(str::to_owned);
        let names = items_in(&self.home().outputs())?.into_iter().filter_map(name);
        Ok(names.filter(|name| name.ends_with(RESUMED) && !recorded.contains(name)).collect())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::store::output_cache::tests::{accept, begun, key};

    #[test]
    fn a_folder_is_resumed_until_it_is_accepted_or_gone() {
        let folder = tempfile::tempdir().unwrap();
        let (task, other, key) = (TaskId::new("a"), TaskId::new("b"), key(0));
        let digest = key.digest();
        let new = |task: &TaskId| begun(folder.path()).new_folder(task, &digest, Some(|_| true)).unwrap();
        let (left, of_other) = (new(&task), new(&other));
        assert_ne!(left, of_other);
        assert!(is_resumed_by(left.file_name().unwrap().to_str().unwrap(), &task));
        let cache = begun(folder.path());
        let next = || cache.new_folder(&task, &digest, Some(|_| true)).unwrap();
        assert_eq!(next(), left);
        accept(&cache, &task, &key, left.clone());
        let second = next();
        assert_ne!(second, left);
        assert_eq!(next(), second, "it was made after the folders were listed");
        fs::remove_dir(&second).unwrap();
        assert_ne!(next(), second);
        assert_eq!(cache.new_folder(&other, &digest, Some(|_| true)).unwrap(), of_other);
    }
}
