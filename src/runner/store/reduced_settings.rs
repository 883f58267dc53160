//! What retries lowered because memory ran out, by the key of the task as the manifest has it: the next run begins there
//! instead of running out of memory again. Part of the task's real key, so nothing that was made with less is taken for more.

use std::fs;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::durable::{PathError, create_folder};
use super::sealed_json::{read_sealed_json, replace_sealed_json};
use super::{OutputCache, StateFolder};
use base::event::{ReducedSetting, TaskId};
use base::files::Digest;

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
    /// Its file is there and cannot be read. Without the number the task would run out of memory again, under another key.
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

    #[test]
    fn a_broken_file_is_an_error_and_a_missing_one_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let home = StateFolder::new(folder.path().to_owned(), folder.path().join(".regatta"));
        let cache = OutputCache::open(&home).unwrap();
        let key = Digest::of(b"key");
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
}
