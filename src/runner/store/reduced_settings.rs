//! What retries lowered because memory ran out, by the key of the task as the manifest has it: the next run begins there
//! instead of running out of memory again. Part of the task's real key, so nothing that was made with less is taken for more.

use std::fs;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::durable::{PathError, create_folder, replace};
use super::{OutputCache, StateFolder};
use crate::event::{Digest, ReducedSetting, TaskId};

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
    pub fn reduced_setting(&self, key: &Digest) -> Option<ReducedSetting> {
        let text = fs::read(path(self.home(), key)).ok()?;
        serde_json::from_slice::<Note>(&text).ok().map(|note| note.lowered)
    }

    pub fn record_reduced_setting(
        &self,
        key: &Digest,
        task: &TaskId,
        lowered: &ReducedSetting,
    ) -> Result<(), PathError> {
        create_folder(&self.home().lowered())?;
        // Plain texts and numbers: serialising cannot fail.
        let text = serde_json::to_vec(&Note { task: task.clone(), lowered: lowered.clone() }).unwrap_or_default();
        replace(&path(self.home(), key), &text)
    }

    /// The next run begins with the manifest's value.
    pub fn forget_lowered(&self, key: &Digest) {
        let _ = fs::remove_file(path(self.home(), key));
    }
}
