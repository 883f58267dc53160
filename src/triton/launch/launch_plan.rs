//! What [`plan`](super::plan) returns: every process of every server, with its command.

use serde::Serialize;

use super::spec::Ports;
use crate::SpecProblem;
use base::event::GpuId;
use base::spec::{Launcher, ServerMode};

/// Every process of every server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LaunchPlan {
    pub servers: Vec<LaunchedServer>,
    /// Notes for the user; none of them prevents a start.
    pub notes: Vec<String>,
}

/// One server: one endpoint for clients.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LaunchedServer {
    /// `server 0`
    pub name: String,
    pub mode: ServerMode,
    pub launcher: Launcher,
    /// tp × pp of its model where it has one.
    pub parallelism: Option<String>,
    pub world_size: u32,
    /// Where clients find it.
    pub host: String,
    pub ports: Ports,
    /// As the machine counts them; empty: none is leased, all are seen.
    pub gpus: Vec<GpuId>,
    pub ranks: Vec<Rank>,
    /// The command, in pieces that read well one below the other; joined they are the command.
    pub command: Vec<Vec<String>>,
    /// Variables that its environment has in addition to ours.
    pub env: Vec<(String, String)>,
    /// Variables of our environment that it must not have; `*` at the end matches anything.
    pub unset: Vec<String>,
    pub world: LaunchWorld,
    /// Files and folders that it makes beside the task's own log.
    pub logs: Vec<String>,
}

/// One process of a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Rank {
    pub rank: u32,
    /// `leader, opens the ports`
    pub role: String,
    pub opens_ports: bool,
    /// The GPU that it works on, as the machine counts them, where that is known.
    pub gpu: Option<GpuId>,
    /// Empty: all models of the repository.
    pub loads: Vec<String>,
    /// How the shared memory of its Python models begins.
    pub shm_prefix: String,
    pub log: Option<String>,
}

/// What to stop.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LaunchWorld {
    /// One process group.
    Process,
    /// A launcher with this many ranks below it.
    Mpi { ranks: u32 },
    /// `PROGRAM stop NAME`.
    Container { program: String, name: String },
    /// A step with this many tasks.
    Slurm { ranks: u32 },
}

impl LaunchedServer {
    /// The command as it is started.
    pub fn argv(&self) -> Vec<String> {
        self.command.concat()
    }
}

/// All reasons why the servers cannot be started.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", problems.iter().map(SpecProblem::line).collect::<Vec<_>>().join("; "))]
pub struct LaunchError {
    pub problems: Vec<SpecProblem>,
}
