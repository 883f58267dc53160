//! The input of a plan: servers, their models, GPUs and ports, and how they are started.

use std::fmt;

use serde::Serialize;

use crate::SpecProblem;
use base::event::{Endpoint, GpuId};
use base::spec::{Launcher, ServerMode, TritonServer};
use exec::container::ContainerSpec;

/// Servers to be, on one host unless a launcher spreads them.
#[derive(Clone, Debug, PartialEq)]
pub struct LaunchSpec {
    /// How they are started. Paths are as the servers see them.
    pub settings: TritonServer,
    pub servers: Vec<ServerSpec>,
    /// Leased, as the machine counts them; shared evenly by the servers in contiguous blocks.
    pub gpus: Vec<GpuId>,
    pub container: Option<ContainerSpec>,
    /// Names of variables that the stage sets; a container or another host must be given them by name.
    pub stage_env: Vec<String>,
}

/// One repository, one server.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServerSpec {
    pub repository: String,
    /// Those that run an engine.
    pub models: Vec<LaunchModel>,
    pub ports: Ports,
    /// What its model configurations and options name beyond that: files and folders that a container must have.
    pub reads: Vec<String>,
    /// Where `mpirun` writes each rank's output when there are several: a folder. Empty: nowhere, because it writes
    /// past whatever takes secrets out of the log.
    pub rank_logs: String,
}

impl ServerSpec {
    /// Ranks of all copies of its models; one that is not known counts as one.
    pub(super) fn workers(&self) -> u64 {
        let ranks =
            |model: &LaunchModel| u64::from(model.ranks().unwrap_or(1)).saturating_mul(u64::from(model.copies.max(1)));
        self.models.iter().map(ranks).fold(0, u64::saturating_add)
    }
}

/// A model with the backend `tensorrtllm`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LaunchModel {
    pub name: String,
    /// The engine's folder.
    pub engine: Option<String>,
    /// (tp, pp) of the engine, if it could be read.
    pub parallelism: Option<(u32, u32)>,
    /// Copies of the model: its instances.
    pub copies: u32,
    /// Devices of each copy, counted inside the server's; empty: not given.
    pub gpu_device_ids: Vec<Vec<u32>>,
    /// Ranks of each copy's workers; empty: not given.
    pub participant_ids: Vec<Vec<u32>>,
}

impl LaunchModel {
    /// GPUs of one copy: tp × pp.
    pub fn ranks(&self) -> Option<u32> {
        self.parallelism.map(|(tp, pp)| tp.saturating_mul(pp))
    }
}

/// A port; one that is not chosen yet is only planned with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Port {
    Known(u16),
    #[default]
    Free,
    /// The server has no such port.
    Absent,
}

impl fmt::Display for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Known(port) => write!(f, "{port}"),
            Self::Free => f.write_str("<free>"),
            Self::Absent => f.write_str("none"),
        }
    }
}

impl Serialize for Port {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Known(port) => serializer.serialize_u16(*port),
            Self::Free | Self::Absent => serializer.serialize_none(),
        }
    }
}

/// The three ports of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Ports {
    pub grpc: Port,
    pub http: Port,
    pub metrics: Port,
}

impl Ports {
    pub const fn all(&self) -> [(&'static str, Port); 3] {
        [("grpc", self.grpc), ("http", self.http), ("metrics", self.metrics)]
    }
}

// Ports: counted up from a base, and no two the same.

/// The ports of this many servers. A port that was not given becomes `Port::Free`.
pub fn ports(settings: &TritonServer, servers: usize) -> Result<Vec<Ports>, SpecProblem> {
    // A command line that is written out has Triton's own ports where it names none.
    let is_written = !settings.words.is_empty();
    let counted = |name: &str, base: Option<u16>, usual: u16, index: usize| match base.or(is_written.then_some(usual)) {
        None => Ok(Port::Free),
        Some(base) => {
            let port = u16::try_from(index).ok().and_then(|index| base.checked_add(index));
            port.map(Port::Known).ok_or_else(|| {
                let room = format!("{name}_port {base} leaves no room for {servers} servers: the last port is 65535");
                SpecProblem::new(room, "choose a smaller one")
            })
        }
    };
    (0..servers)
        .map(|index| {
            Ok(Ports {
                grpc: counted("grpc", settings.grpc_port, 8001, index)?,
                http: counted("http", settings.http_port, 8000, index)?,
                metrics: counted("metrics", settings.metrics_port, 8002, index)?,
            })
        })
        .collect()
}

/// No port twice.
pub(super) fn check(spec: &LaunchSpec, problems: &mut Vec<SpecProblem>) {
    let mut seen: Vec<(u16, String)> = Vec::new();
    for (index, server) in spec.servers.iter().enumerate() {
        for (name, port) in server.ports.all() {
            let Port::Known(port) = port else { continue };
            let user = format!("{name} of server {index}");
            match seen.iter().find(|(other, _)| *other == port) {
                Some((_, first)) => {
                    let apart = spec.servers.len();
                    let hint = format!(
                        "ports count up by one for each server: keep the bases {apart} apart, for example \
                         grpc_port 8001, http_port {}, metrics_port {}",
                        8001 + apart.max(100),
                        8001 + 2 * apart.max(100)
                    );
                    problems.push(SpecProblem::new(format!("port {port} would be {first} and {user}"), &hint));
                }
                None => seen.push((port, user)),
            }
        }
    }
}

// What [`plan`](super::plan) returns: every process of every server, with its command.

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
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
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
    /// `mpirun` with this many ranks below it, each a process group of its own.
    Mpi { ranks: u32 },
    /// A container, which outlives the program that started it: `PROGRAM stop NAME`.
    Container { program: String, name: String },
    /// A step of this many ranks in a Slurm allocation. TERM to `srun` kills them; `scancel --signal=TERM JOB.STEP`
    /// stops them gracefully.
    Slurm { ranks: u32 },
}

impl LaunchedServer {
    /// The command as it is started.
    pub fn argv(&self) -> Vec<String> {
        self.command.concat()
    }
}

/// What one `serve` task will start, before anything is started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServePreview {
    pub task: String,
    pub launch: LaunchPreview,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LaunchPreview {
    Start(LaunchPlan),
    /// Nothing is started: these are there already.
    Attach {
        endpoints: Vec<Endpoint>,
        models: Vec<String>,
    },
    /// It cannot be started.
    Impossible {
        problems: Vec<SpecProblem>,
        /// What it is made from contradicts itself, whatever an earlier stage or another machine adds.
        is_certain: bool,
    },
}

/// All reasons why the servers cannot be started.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", problems.iter().map(SpecProblem::line).collect::<Vec<_>>().join("; "))]
pub struct LaunchError {
    pub problems: Vec<SpecProblem>,
}
