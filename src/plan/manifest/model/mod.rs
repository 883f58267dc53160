//! The manifest's types after rendering: what a stage may contain, and the source of the JSON Schema.
//!
//! Every error a schema can see is found by walking the YAML against the schema of these types, so a value that
//! reaches serde deserializes. Numbers and switches are plain Rust types here; in the YAML each may also be a
//! `{{ expression }}`, which the schema allows beside the type.

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use super::param::{ListRule, NoBounds, NumberBounds, PARAM_KINDS, Param, PathNeed};
pub use crate::actions::Action;
pub use crate::actions::bench::{Bench, Data, Preflight, RateSearch, RepeatRole, Telemetry, USUAL_END_ID, WhenBusy};
pub use crate::actions::compare::{CompareResults, PublishedRow};
pub use crate::actions::engine::{
    DecodingType, Engine, EngineBackend, EngineOnly, SpeculativeConfig, SpeculativeMethod, SystemShape,
};
pub use crate::actions::git::{CherryPick, Git};
pub use crate::actions::host::{Host, HostOn, HostWord, Slurm, SlurmContainer, SshHost, SshMachine};
pub use crate::actions::image::{Image, ImageBuild};
pub use crate::actions::load::{LevelSetting, Load, LoadFault};
pub use crate::actions::mlperf::{
    Loadgen, LoadgenLibrary, Mlperf, MlperfDataset, MlperfEntry, MlperfPackage, MlperfResults, MlperfScore,
    MlperfVerify, PowerMeter, Synthetic,
};
pub use crate::actions::openai_servers::{TrtllmServe, Vllm};
pub use crate::actions::repository::{Repository, RepositoryLayout};
pub use crate::actions::serve::{
    AttachServer, CommandServer, EndpointPorts, EndpointText, Endpoints, Serve, SimServer,
};
pub use crate::actions::shell::ShellScript;
pub use crate::actions::stage::{OneOrMany, Retry, RetryAfter, Stage, input_variable};
pub use crate::actions::template::Template;
pub use crate::actions::trtllm_bench::{TrtllmBench, TrtllmBenchBackend};
pub use crate::actions::weights::Weights;
pub use base::spec::{
    Container, ModelControl, ModelShape, RateLimit, ReadyWhen, Trace, TraceLevel, TraceMode, TritonServer,
};

/// A Regatta manifest: a pipeline that ends with a benchmark report.
#[base::omit_empty]
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ManifestDocument {
    /// The version of the manifest language. Always 1.
    #[schemars(range(min = 1, max = 1))]
    pub regatta: u32,
    /// A short name; lower case, digits, `-`, `_` and `.`.
    pub name: Option<String>,
    /// A one-line description for `regatta list`.
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
