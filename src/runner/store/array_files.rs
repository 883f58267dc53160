//! What a job array has beside the folders of its elements: one script, and for each element a file for what the batch
//! system prints. They lie together in one folder that stays: a job whose output file cannot be made fails without a
//! message.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use super::durable::{PathError, WithPath as _, create_folder, replace};

/// Files of the arrays of a project. Making this touches nothing on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArrayFiles {
    folder: PathBuf,
}

impl ArrayFiles {
    /// `state` is the project's state folder.
    pub fn new(state: &Path) -> Self {
        Self { folder: state.join("arrays") }
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    pub fn script(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.script"))
    }

    /// As Slurm writes it: `%a` is an element's index.
    pub fn pattern(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}-%a.output"))
    }

    /// What the batch system and the script print for one element.
    pub fn output(&self, name: &str, element: u32) -> PathBuf {
        self.folder.join(format!("{name}-{element}.output"))
    }

    /// Everything that a submission needs. What the elements printed before stays.
    pub fn write(&self, name: &str, script: &str, elements: &[u32]) -> Result<(), PathError> {
        create_folder(&self.folder)?;
        for element in elements {
            let path = self.output(name, *element);
            File::options().create(true).append(true).open(&path).at("create", &path)?;
        }
        replace(&self.script(name), script.as_bytes())
    }

    /// The batch system has a copy of it.
    pub fn forget_script(&self, name: &str) {
        let _ = fs::remove_file(self.script(name));
    }

    /// An element has been judged.
    pub fn forget(&self, name: &str, element: u32) {
        let _ = fs::remove_file(self.output(name, element));
    }
}
