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
pub use crate::actions::{
    bench::*, compare::*, engine::*, git::*, host::*, image::*, load::*, mlperf::*, openai_servers::*, repository::*,
    serve::*, shell::*, stage::*, template::*, trtllm_bench::*, weights::*,
};
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
