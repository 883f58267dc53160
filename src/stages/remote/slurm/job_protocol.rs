//! What run and job write for each other.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::remote::slurm::commands::SlurmJob;
use base::event::{Done, Endpoint, Event, ExternalResource, Failure, ReducedSetting};
use plan::Task;
use plan::manifest::model::Slurm;
use runner::{ResolvedTask, UpstreamProvenance};

/// `job.json`: everything that the job needs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct JobSpec {
    /// First, because `store` looks for it.
    pub task: Task,
    /// The job's name: nothing else has it.
    pub name: String,
    /// Its index, when it is an element of an array: then all elements have the name.
    #[serde(default)]
    pub element: Option<u32>,
    pub attempt: u32,
    pub assignment: ResolvedTask,
    /// The number that its retry rule has lowered.
    #[serde(default)]
    pub lowered: Option<ReducedSetting>,
    pub out: PathBuf,
    /// Of this attempt alone.
    pub log: PathBuf,
    pub project: PathBuf,
    /// The manifest's name. Empty in files of an older program, and of a whole run.
    #[serde(default)]
    pub manifest: String,
    pub origins: UpstreamProvenance,
    pub slurm: Slurm,
    /// A whole run instead of the one task: the arguments of its command line.
    #[serde(default)]
    pub words: Option<Vec<String>>,
}

impl JobSpec {
    pub fn job(&self) -> SlurmJob {
        SlurmJob { name: self.name.clone(), element: self.element }
    }
}

/// A line of `events`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobEvent {
    /// The job has claimed the attempt.
    Began { number: String, node: String, host: String },
    #[serde(alias = "told")]
    Event(Event),
    /// Something on the node that outlives its processes is about to be there, or is gone.
    #[serde(alias = "outliving")]
    ExternalResource { thing: ExternalResource, there: bool },
    /// A service listens. Names of this machine are those of the node.
    Ready(Vec<Endpoint>),
}

/// `ended.json`: how the attempt ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobEnd {
    pub number: String,
    pub node: String,
    pub how: Result<Done, Failure>,
    /// What is in the output folder, as the node sees it.
    pub extent: FolderSize,
}

/// Files and bytes in a folder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FolderSize {
    pub files: u64,
    pub bytes: u64,
}

impl FolderSize {
    /// Links count as files; what cannot be looked at does not count.
    pub fn of(folder: &std::path::Path) -> Self {
        let items = walkdir::WalkDir::new(folder).into_iter().flatten().filter(|item| !item.file_type().is_dir());
        items
            .filter_map(|item| item.metadata().ok())
            .fold(Self::default(), |sum, meta| Self { files: sum.files + 1, bytes: sum.bytes + meta.len() })
    }
}
