//! The manifest's types after rendering: what a stage may contain, and the source of the JSON Schema.
//!
//! Every error a schema can see is found by walking the YAML against the schema of these types, so a value that
//! reaches serde deserializes. Numbers and switches are plain Rust types here; in the YAML each may also be a
//! `{{ expression }}`, which the schema allows beside the type.

mod action;
mod bench;
mod compare;
mod container;
mod data;
mod host;
mod image;
mod lora_config;
mod mlperf;
mod param;
mod ready_when;
mod serve;
mod speculative_config;
mod ssh;
mod stage;
mod triton;
mod tritonserver;
mod trtllm;
mod trtllm_bench;
mod vllm;
mod weights;

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use crate::actions::Action;
pub use action::{CherryPick, Git, ShellScript, Template};
pub use bench::{Bench, Preflight, RateSearch, RepeatRole, Telemetry, USUAL_END_ID};
pub use compare::{CompareResults, PublishedRow, ResultPaths};
pub use container::Container;
pub use data::Data;
pub use host::{Host, HostOn, HostWord, Slurm, SlurmContainer};
pub use image::{Image, ImageBuild};
pub use lora_config::LoraConfig;
pub use mlperf::{
    Loadgen, LoadgenLibrary, Mlperf, MlperfDataset, MlperfEntry, MlperfOutputs, MlperfPackage, MlperfResults,
    MlperfScenarios, MlperfScore, MlperfVerify, Synthetic,
};
pub use param::{ListRule, NoBounds, NumberBounds, PARAM_KINDS, Param, PathNeed};
pub use ready_when::ReadyWhen;
pub use serve::{AttachServer, CommandServer, EndpointPorts, EndpointText, Endpoints, Serve, SimServer};
pub use speculative_config::{DecodingType, DraftSource, SpeculativeConfig, SpeculativeConfigError, SpeculativeMethod};
pub use ssh::{SshHost, SshMachine};
pub use stage::{InputPaths, Retry, RetryAfter, Stage, input_variable};
pub use triton::{Engine, EngineBackend, EngineOnly, ModelShape, Repository, RepositoryLayout, SystemShape};
pub use tritonserver::{ModelControl, RateLimit, Trace, TraceLevel, TraceMode, TritonServer};
pub use trtllm::TrtllmServe;
pub use trtllm_bench::{TrtllmBench, TrtllmBenchBackend};
pub use vllm::Vllm;
pub use weights::{Fetcher, Weights};

/// A Regatta manifest: a pipeline that ends with a benchmark report.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ManifestDocument {
    /// The version of the manifest language. Always 1.
    #[schemars(range(min = 1, max = 1))]
    pub regatta: u32,
    /// A short name; lower case, digits, `-`, `_` and `.`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// A one-line description for `regatta list`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about: Option<String>,
    /// Manifests to start from, merged in order; this file overrides them. Paths are relative to this file.
    #[serde(default)]
    pub include: Vec<String>,
    /// Parameters of the manifest: `regatta run NAME key=value`.
    #[serde(default)]
    pub params: IndexMap<String, Param>,
    /// Free values for expressions; they may use params and each other.
    #[serde(default)]
    pub vars: IndexMap<String, serde_json::Value>,
    /// The stages of the pipeline. A reference `stages.x` in an expression is a dependency.
    #[serde(default)]
    pub stages: IndexMap<String, Stage>,
}
