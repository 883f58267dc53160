//! `replaced`: the names of outputs that newer ones replaced, for when `records` has forgotten their lines. They were
//! the outputs of runs, so they must survive a crash.

use std::collections::BTreeSet;

use super::StateFolder;
use super::durable::{PathError, replace, text_if_there};
use super::state_folder::RESUMED;

#[derive(Debug, Default)]
pub(super) struct ReplacedOutputs(BTreeSet<String>);

impl ReplacedOutputs {
    pub(super) fn read(home: &StateFolder) -> Result<Self, PathError> {
        let text = text_if_there(&home.replaced())?.unwrap_or_default();
        Ok(Self(text.lines().map(str::to_owned).collect()))
    }

    pub(super) fn folders(&self) -> impl Iterator<Item = &String> {
        self.0.iter()
    }

    /// Adds folders, forgets those that have gone, and writes the rest. Nothing removes a `-resume` folder after a
    /// crash: those are left out.
    pub(super) fn add<'a>(
        &mut self,
        home: &StateFolder,
        folders: impl Iterator<Item = &'a String>,
    ) -> Result<(), PathError> {
        let before = self.0.clone();
        self.0.extend(folders.filter(|folder| !folder.ends_with(RESUMED)).cloned());
        self.0.retain(|folder| home.output(folder).is_dir());
        if self.0 == before {
            return Ok(());
        }
        let lines: String = self.0.iter().flat_map(|folder| [folder, "\n"]).collect();
        replace(&home.replaced(), lines.as_bytes())
    }
}
