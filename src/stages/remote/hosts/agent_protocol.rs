//! The protocol between run and agent, a JSON line each.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use base::event::{Done, Endpoint, Event, Failure, ReducedSetting};
use plan::Task;
use runner::{ResolvedTask, UpstreamProvenance};

/// The second line that an agent reads: everything that it needs. The first is its environment.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AgentOrders {
    /// `<run>.<task>.<attempt>.<host>`: nothing else has this name, and all its processes carry it.
    pub name: String,
    pub task: Task,
    pub attempt: u32,
    pub assignment: ResolvedTask,
    /// The number that its retry rule has lowered.
    pub lowered: Option<ReducedSetting>,
    /// Of this host alone; made by the run, so that to find it is to share the project folder.
    pub out: PathBuf,
    /// Of this host alone.
    pub log: PathBuf,
    pub project: PathBuf,
    /// What the task was made from; of stages that write it down.
    #[serde(default)]
    pub origins: UpstreamProvenance,
    /// Programs that must be found there.
    pub programs: Vec<String>,
}

/// A line of an agent's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentMessage {
    /// It is there; what keeps it from starting anything.
    Hello(Vec<HostProblem>),
    /// It is still there.
    Beat,
    #[serde(alias = "told")]
    Event(Event),
    /// Its servers are up. Names of its machine are those that it has for itself.
    Ready(Vec<Endpoint>),
    /// All has finished there, and nothing runs any more.
    Ended(Box<Result<Done, Failure>>),
}

/// Something wrong with a host, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostProblem {
    pub what: String,
    pub hint: Option<String>,
}

impl HostProblem {
    pub fn new(what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { what: what.into(), hint: Some(hint.into()) }
    }
}

/// The run's messages after the orders, each a line.
pub const GO: &str = "go";
pub const BEAT: &str = "beat";
pub const STOP: &str = "stop";
pub const KILL: &str = "kill";
