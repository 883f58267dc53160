//! The input of a plan: servers, their models, GPUs and ports, and how they are started.

use std::fmt;

use serde::Serialize;

use base::event::GpuId;
use base::spec::{Launcher, Mpi, ServerMode, Srun};
use exec::container::ContainerSpec;

/// Servers to be, on one host unless a launcher spreads them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LaunchSpec {
    pub servers: Vec<ServerSpec>,
    /// Leased, as the machine counts them; shared evenly by the servers in contiguous blocks.
    pub gpus: Vec<GpuId>,
    pub program: String,
    /// The whole command line, if it is given: then nothing is made from the rest. `{repository}` in it is the server's.
    pub words: Vec<String>,
    /// In front of the whole command, inside its container; under srun in front of each rank's.
    pub prefix: Vec<String>,
    pub args: Vec<String>,
    pub mode: Option<ServerMode>,
    pub world_size: Option<u32>,
    pub spawn_processes: Option<bool>,
    pub launcher: Option<Launcher>,
    pub oversubscribe: bool,
    pub mpi: Mpi,
    pub srun: Srun,
    pub trtllm_llmapi_launch: bool,
    pub container: Option<ContainerSpec>,
    /// Where clients find the servers, if given.
    pub host: Option<String>,
    pub tuning: LaunchTuning,
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
    /// Where `mpirun` writes each rank's output when there are several: a folder. Empty: nowhere, because it writes past whatever takes
    /// secrets out of the log.
    pub rank_logs: String,
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

/// Options of `tritonserver` itself, each as its arguments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LaunchTuning {
    pub http_address: Option<String>,
    pub grpc_address: Option<String>,
    pub metrics_address: Option<String>,
    pub log_verbose: Option<u32>,
    /// `{server}` is the server's number.
    pub log_file: Option<String>,
    pub exit_timeout_secs: Option<u32>,
    pub tensorrt_llm_model_name: Vec<String>,
    pub multimodal_gpu0_cuda_mem_pool_bytes: Option<u64>,
    pub model_control_mode: Option<String>,
    pub load_model: Vec<String>,
    /// `python,key=value`
    pub backend_config: Vec<String>,
    /// Values of `--trace-config`; `{server}` is the server's number.
    pub trace_config: Vec<String>,
    pub rate_limit: Option<String>,
    pub rate_limit_resource: Vec<String>,
    /// Option → values, as on the command line.
    pub options: Vec<(String, String)>,
}
