//! What a whole result was measured on.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ServerIdentity;
use crate::gpu::GpuLimits;

/// What was measured, with what, and from what it was made. What is not known is absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunIdentity {
    /// Whether a server was the built-in simulator: then no number here is of a GPU or of a real server.
    pub simulated: bool,
    /// In the order of `requested.endpoints`.
    pub servers: Vec<ServerIdentity>,
    /// The engines that the servers run: those that this run built, and those in folders that can be read here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub engines: Vec<EngineIdentity>,
    /// The GPUs of the servers, one entry for each model of GPU.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpus: Vec<GpuIdentity>,
    /// What the graphics clocks of its GPUs, or of those of a server of this run, were locked to: least and greatest, MHz.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_clocks: Option<String>,
    pub client: HostIdentity,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manifest: Option<ManifestIdentity>,
    /// The version of this program.
    pub regatta: String,
}

/// An engine of TensorRT-LLM.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EngineIdentity {
    /// The stage that built it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage: Option<String>,
    /// BLAKE3 of the whole engine folder, where this run built it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// BLAKE3 of its `config.json`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_digest: Option<String>,
    /// Made for the simulator: it has the form of TensorRT-LLM's engines, and nothing that a GPU could run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub simulated: bool,
    /// The version of TensorRT-LLM that built it, or whose form it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// What it was built with, by the names of `config.json`: `dtype`, `tp_size`, `max_batch_size`, `quant_algo`, …
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub build: BTreeMap<String, String>,
}

/// GPUs of one model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GpuIdentity {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    pub count: u64,
    /// Version of the driver.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// The highest version of CUDA that the driver supports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cuda: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
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
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ManifestIdentity {
    pub name: String,
    /// BLAKE3 of the names and texts of all files that it was read from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// The stage that measured.
    pub task: String,
    /// The value of its parameter `system`, where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub parameters: BTreeMap<String, String>,
    /// The values that a `foreach` gave to the stage that measured, or to those of its servers.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub foreach: BTreeMap<String, String>,
    /// The commit that is checked out in the manifest's Git repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// Whether tracked files of that repository differ from the commit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
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
