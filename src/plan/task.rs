//! The frozen graph: tasks in an order in which they could run one after the other.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::event::TaskId;
use crate::manifest::model::HostOn;

/// Everything a run needs to know of a manifest. Serialisable without loss (postcard), so that a fast no-op need not parse YAML.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The manifest's name.
    pub name: String,
    /// The parameters as they were understood, for people: name → text.
    pub params: BTreeMap<String, String>,
    /// Topological: `needs` point to earlier tasks only.
    pub tasks: Vec<Task>,
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Task {
    pub id: TaskId,
    /// The stage it came from.
    pub stage: String,
    pub about: Option<String>,
    pub lifetime: Lifetime,
    /// Set when its `when` is false, or something it cannot do without is skipped: why.
    pub skipped: Option<String>,
    pub kind: ActionKind,
    /// Canonical JSON of `manifest::model::Action` with [`super::Reference`] tokens in it.
    pub action: String,
    pub needs: Vec<Need>,
    /// Name → paths or globs, as written: relative ones are relative to the project folder. May hold `⟦out:…⟧` tokens.
    pub inputs: BTreeMap<String, Vec<String>>,
    /// Files that must be in the output folder at the end.
    pub outputs: Vec<String>,
    pub env: BTreeMap<String, String>,
    pub secrets: Vec<String>,
    /// Where it runs when that is not here: JSON of `manifest::model::HostOn`. No part of the key.
    pub host: Option<String>,
    pub gpus: u32,
    /// `-j` slots; `None` takes all of them.
    pub cpus: Option<u32>,
    pub timeout: Option<Duration>,
    pub retry: Option<RetryRule>,
    /// false: never taken from the store.
    pub cache: bool,
    pub resume: bool,
}

impl Task {
    /// How often it is submitted again when it has lost its machine.
    pub fn resubmit(&self) -> u32 {
        let host = self.host.as_deref().and_then(|host| serde_json::from_str::<HostOn>(host).ok());
        host.map_or(0, |HostOn::Slurm(slurm)| slurm.resubmit)
    }
}

/// An edge to an earlier task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Need {
    /// Index in [`Plan::tasks`].
    pub task: u32,
    /// false for `needs:` (order only): then its output is no part of the key.
    pub data: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Lifetime {
    /// Runs to its end and leaves an output folder.
    Step,
    /// Is kept up while a dependent runs.
    Service,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ActionKind {
    Shell,
    Git,
    Template,
    Engine,
    Repository,
    Serve,
    Bench,
    Mlperf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RetryRule {
    pub times: u32,
    pub delay: Duration,
}
