//! What earlier attempts of a task left: a link to the output folder of the last one that failed, folders in which
//! later attempts go on, settings that were lowered.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::StateFolder;
use super::durable::{PathError, create_folder, discard, items_in, point, read_sealed_json, replace_sealed_json};
use super::folder_digest::has_result;
use super::output_cache::{OutputCache, Resumes};
use super::state_folder::{RESUMED, is_output_name, is_resumed};
use base::event::{ReducedSetting, TaskId};
use base::files::Digest;

impl OutputCache {
    /// Keeps what a failed attempt left, for inspection; the attempt before it is removed, unless later ones go on in
    /// it or it is a result. `None` if there was nothing in it.
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

    /// Forgets what a failed attempt left, once the task is done under a key. What attempts of another key go on in
    /// stays: another manifest has a task of that name, or this one with other parameters.
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

    /// What a failed attempt left, and may be removed. `None` where the link leads to an output that a record names, or
    /// out of the outputs, as a damaged one does, or to a result, which is that of its run whatever its verdict.
    fn failed_folder(&self, link: &Path) -> Option<PathBuf> {
        let folder = fs::read_link(link).ok()?;
        let name = folder.file_name()?.to_str()?;
        let is_removable = folder.parent() == Some(&self.home().outputs())
            && is_output_name(name)
            && !self.recorded_folders().contains(name)
            && !has_result(&folder);
        is_removable.then_some(folder)
    }
}

/// The names of folders in which later attempts go on, and that no record names. `None`: none was asked for yet.
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

// What retries lowered because memory ran out, by the key of the task as the manifest has it: the next run begins there
// instead of running out of memory again. Part of the task's real key, so nothing that was made with less is taken for
// more.

#[derive(Serialize, Deserialize)]
struct Note {
    /// For display.
    task: TaskId,
    lowered: ReducedSetting,
}

fn path(home: &StateFolder, key: &Digest) -> PathBuf {
    home.lowered().join(format!("{key}.json"))
}

impl OutputCache {
    /// The number that has to be lower than in this key, if one was ever found.
    ///
    /// # Errors
    /// Its file is there and cannot be read. Without the number the task would run out of memory again, under another
    /// key.
    pub fn reduced_setting(&self, key: &Digest) -> Result<Option<ReducedSetting>, PathError> {
        let path = path(self.home(), key);
        Ok(read_sealed_json::<Note>(&path)?.map(|note| note.lowered))
    }

    pub fn record_reduced_setting(
        &self,
        key: &Digest,
        task: &TaskId,
        lowered: &ReducedSetting,
    ) -> Result<(), PathError> {
        create_folder(&self.home().lowered())?;
        let note = Note { task: task.clone(), lowered: lowered.clone() };
        replace_sealed_json(&path(self.home(), key), &note)
    }

    /// The next run begins with the manifest's value.
    pub fn forget_lowered(&self, key: &Digest) {
        let _ = fs::remove_file(path(self.home(), key));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::output_cache::tests::{accept, begun, key};

    #[test]
    fn the_result_of_a_failed_try_stays_and_its_other_remains_go() {
        let project = tempfile::tempdir().unwrap();
        let cache = begun(project.path());
        let (task, key) = (TaskId::new("measure"), Digest::hash(b"key"));
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

    #[test]
    fn a_folder_in_which_later_tries_go_on_stays_when_another_one_fails() {
        let project = tempfile::tempdir().unwrap();
        let cache = begun(project.path());
        let (task, key) = (TaskId::new("a"), Digest::hash(b"key"));
        let new = |resumes: Option<Resumes>| {
            let folder = cache.new_folder(&task, &key, resumes).unwrap();
            fs::write(folder.join("log"), "").unwrap();
            folder
        };
        let fails = |folder: &Path, resume| drop(cache.set_aside(&task, folder, resume).unwrap());
        let first = new(None);
        fails(&first, false);
        fails(&first, false);
        assert!(first.exists(), "it is the one that failed again");
        fails(&new(None), true);
        assert!(first.exists(), "its task is resumed");
        let resumed = new(Some(|_| true));
        fails(&resumed, true);
        fails(&new(None), false);
        assert!(resumed.exists(), "by its name");
        fails(&resumed, true);
        cache.clear_failed(&task, &Digest::hash(b"other"));
        assert!(resumed.exists(), "it is another key's");
        fails(&resumed, true);
        cache.clear_failed(&task, &key);
        assert!(!resumed.exists());
    }

    #[test]
    fn a_broken_file_is_an_error_and_a_missing_one_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let home = StateFolder::new(folder.path().to_owned(), folder.path().join(".regatta"));
        let cache = OutputCache::open(&home).unwrap();
        let key = Digest::hash(b"key");
        assert_eq!(cache.reduced_setting(&key).unwrap(), None);
        let lowered = ReducedSetting { setting: "max_num_tokens".to_owned(), from: 8192.0, to: 4096.0 };
        cache.record_reduced_setting(&key, &TaskId::new("server"), &lowered).unwrap();
        assert_eq!(cache.reduced_setting(&key).unwrap(), Some(lowered));
        let path = path(&home, &key);
        let whole = fs::read(&path).unwrap();
        // Another number would be another measurement, and JSON all the same.
        let other = String::from_utf8(whole.clone()).unwrap().replace("4096", "4097");
        for bytes in [&whole[..0], &whole[..20], &whole[..whole.len() - 1], other.as_bytes()] {
            fs::write(&path, bytes).unwrap();
            let error = cache.reduced_setting(&key).unwrap_err().to_string();
            assert_eq!(error, format!("cannot read {}: it was cut off or altered", path.display()));
        }
        cache.forget_lowered(&key);
        assert_eq!(cache.reduced_setting(&key).unwrap(), None);
    }

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
