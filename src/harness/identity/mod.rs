//! What a result was measured on: the servers as they describe themselves, their GPUs and engines, the client, the
//! manifest. Pure data, and the queries that fill in the part about servers.
//!
//! Everything is queried, nothing is assumed: what a server does not report is absent. Answers are bounded in size and
//! time, and keys and credentials are never part of them.

mod client;
mod describe;
mod kserve;
mod query;

pub use describe::{IdentityDifference, changes_of_servers, identity_differences};
pub use query::{query_identities, query_identity, readiness};

pub(super) use describe::{changes as server_changes, entry_differences};

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::gpu::GpuLimits;
use base::files::Digest;

/// One server as it describes itself. What it does not report is absent.
#[base::omit_empty]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServerIdentity {
    /// `host:port` at which it was queried.
    pub address: String,
    /// How results name it: `stage triton` where the run started it, on whichever port; else the address that was
    /// given. Absent where an earlier version measured.
    pub name: Option<String>,
    /// Name of its machine: the host name where it is this machine, else the name or address that the manifest gives.
    pub host: Option<String>,
    /// `triton`, `vllm`, `sglang`, `trtllm-serve`, `regatta-simulator`, … from ServerMetadata or `owned_by` of
    /// `/v1/models`.
    pub kind: Option<String>,
    /// From ServerMetadata, `/version` or `/server_info`.
    pub version: Option<String>,
    /// The `server:` header of its HTTP answers.
    pub http_server: Option<String>,
    /// Present when it is the built-in simulator: no GPU was measured.
    pub simulation: Option<Simulation>,
    pub model: Option<String>,
    /// Versions of the model that Triton serves.
    pub model_versions: Vec<String>,
    /// Where the server loaded the model from: a path or a name in a model hub.
    pub model_source: Option<String>,
    /// Triton's backend of the model, or its platform (`ensemble`).
    pub backend: Option<String>,
    /// Requests.
    pub max_batch_size: Option<i64>,
    /// Tokens of prompt and answer.
    pub max_model_len: Option<u64>,
    /// Settings that decide performance, by the server's own names.
    pub settings: BTreeMap<String, String>,
    /// BLAKE3 of the model's metadata and configuration as the server reports them, without what changes between two
    /// answers (creation times, permission ids).
    pub metadata_digest: Option<String>,
    /// The engine folder on the server's machine (`gpt_model_path` of Triton's model configuration).
    pub engine_path: Option<String>,
    /// `process_start_time_seconds` of its `/metrics`: seconds since 1970, UTC.
    pub start_time_seconds: Option<f64>,
    /// Of a server with OpenAI's interfaces: why its `/metrics`, beside them, are not in the result. Absent where they
    /// are.
    pub metrics_not_read: Option<String>,
}

/// The built-in simulator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Simulation {
    /// Simulated seconds per second of the clock.
    pub speed: f64,
}

impl ServerIdentity {
    /// Whether it answered anything about itself.
    pub fn is_known(&self) -> bool {
        self.kind.is_some() || self.version.is_some() || self.metadata_digest.is_some()
    }

    pub const fn is_simulated(&self) -> bool {
        self.simulation.is_some()
    }

    /// What it is, wherever it is.
    #[must_use]
    pub fn without_place(&self) -> Self {
        Self { address: String::new(), name: None, ..self.clone() }
    }

    /// BLAKE3 of all that it reports, for cache keys; without its address, the name of its machine, and whether its
    /// metrics were read.
    pub fn digest(&self) -> Digest {
        let reported = Self { host: None, metrics_not_read: None, ..self.without_place() };
        // A struct of texts and numbers always serializes.
        Digest::hash(&serde_json::to_vec(&reported).unwrap_or_default())
    }
}

/// What was measured, with what, and from what it was made. What is not known is absent.
#[base::omit_empty(except(servers))]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunIdentity {
    /// Whether a server was the built-in simulator: then no number here is of a GPU or of a real server.
    pub simulated: bool,
    /// The servers in the order of `requested.endpoints`.
    pub servers: Vec<ServerIdentity>,
    /// The engines that the servers run: those that this run built, and those in folders that can be read here.
    pub engines: Vec<EngineIdentity>,
    /// The GPUs of the servers, one entry for each model of GPU.
    pub gpus: Vec<GpuIdentity>,
    /// What the graphics clocks of its GPUs, or of those of a server of this run, were locked to: least and greatest,
    /// MHz.
    pub gpu_clocks: Option<String>,
    pub client: HostIdentity,
    pub manifest: Option<ManifestIdentity>,
    /// The version of this program.
    pub regatta: String,
}

/// An engine of TensorRT-LLM.
#[base::omit_empty]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EngineIdentity {
    /// The stage that built it.
    pub stage: Option<String>,
    /// BLAKE3 of the whole engine folder, where this run built it.
    pub digest: Option<String>,
    /// BLAKE3 of its `config.json`.
    pub config_digest: Option<String>,
    /// Made for the simulator: it has the form of TensorRT-LLM's engines, and nothing that a GPU could run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub simulated: bool,
    /// The version of TensorRT-LLM that built it, or whose form it has.
    pub version: Option<String>,
    /// What it was built with, by the names of `config.json`: `dtype`, `tp_size`, `max_batch_size`, `quant_algo`, …
    pub build: BTreeMap<String, String>,
}

/// GPUs of one model.
#[base::omit_empty]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GpuIdentity {
    pub name: Option<String>,
    pub count: u64,
    /// Version of the driver.
    pub driver: Option<String>,
    /// The highest version of CUDA that the driver supports.
    pub cuda: Option<String>,
    pub memory_total_mib: Option<f64>,
    #[serde(flatten)]
    pub limits: GpuLimits,
    /// Which GPUs these are, and how they were chosen.
    pub population: String,
    /// What reported them.
    pub source: String,
}

/// A machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HostIdentity {
    pub host: String,
    pub os: String,
    pub arch: String,
    /// Cores that this process may use.
    pub cores: u64,
}

/// The manifest that the result comes from.
#[base::omit_empty]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ManifestIdentity {
    pub name: String,
    /// The line of `regatta run` that measures it again, from the project's folder; values of secrets are not in it.
    pub command: Option<String>,
    /// BLAKE3 of the names and texts of all files that it was read from.
    pub digest: Option<String>,
    /// The stage that measured.
    pub task: String,
    /// The value of its parameter `system`, where it has one.
    pub system: Option<String>,
    pub parameters: BTreeMap<String, String>,
    /// The values that a `foreach` gave to the stage that measured, or to those of its servers.
    pub foreach: BTreeMap<String, String>,
    /// The commit that is checked out in the manifest's Git repository.
    pub commit: Option<String>,
    /// Whether tracked files of that repository differ from the commit.
    pub dirty: Option<bool>,
}

impl RunIdentity {
    /// Servers, and whether any is the simulator.
    #[must_use]
    pub fn of_servers(servers: Vec<ServerIdentity>) -> Self {
        Self {
            simulated: servers.iter().any(ServerIdentity::is_simulated),
            servers,
            regatta: env!("CARGO_PKG_VERSION").to_owned(),
            ..Self::default()
        }
    }

    /// Simulated seconds per second, where a simulator's time does not run with the clock.
    pub fn speed(&self) -> Option<f64> {
        let speeds = self.servers.iter().filter_map(|server| Some(server.simulation.as_ref()?.speed));
        speeds.into_iter().find(|speed| (speed - 1.0).abs() > f64::EPSILON)
    }
}
