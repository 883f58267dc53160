//! What one server reports about itself.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use base::files::Digest;

/// One server as it describes itself. What it does not report is absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServerIdentity {
    /// `host:port` at which it was queried.
    pub address: String,
    /// Name of its machine: the host name where it is this machine, else the name or address that the manifest gives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// `triton`, `vllm`, `sglang`, `trtllm-serve`, `regatta-simulator`, … from ServerMetadata or `owned_by` of `/v1/models`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// From ServerMetadata, `/version` or `/server_info`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The `server:` header of its HTTP answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http_server: Option<String>,
    /// Present when it is the built-in simulator: no GPU was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub simulation: Option<Simulation>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Versions of the model that Triton serves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub model_versions: Vec<String>,
    /// Where the server loaded the model from: a path or a name in a model hub.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_source: Option<String>,
    /// Triton's backend of the model, or its platform (`ensemble`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend: Option<String>,
    /// Requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_batch_size: Option<i64>,
    /// Tokens of prompt and answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_model_len: Option<u64>,
    /// Settings that decide performance, by the server's own names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: BTreeMap<String, String>,
    /// BLAKE3 of the model's metadata and configuration as the server reports them, without what changes between two
    /// answers (creation times, permission ids).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata_digest: Option<String>,
    /// The engine folder on the server's machine (`gpt_model_path` of Triton's model configuration).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine_path: Option<String>,
    /// `process_start_time_seconds` of its `/metrics`: seconds since 1970, UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_time_seconds: Option<f64>,
    /// Of a server with OpenAI's interfaces: why its `/metrics`, beside them, are not in the result. Absent where they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
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

    /// Whether servers of its kind have numbers of the engine in their `/metrics`.
    pub fn has_usual_metrics(&self) -> bool {
        matches!(self.kind.as_deref(), Some("vllm" | "sglang"))
    }

    pub const fn is_simulated(&self) -> bool {
        self.simulation.is_some()
    }

    /// BLAKE3 of all that it reports, for cache keys; without its address, the name of its machine, and whether its metrics were read.
    pub fn digest(&self) -> Digest {
        let own = Self { address: String::new(), host: None, metrics_not_read: None, ..self.clone() };
        // A struct of texts and numbers always serializes.
        Digest::hash(&serde_json::to_vec(&own).unwrap_or_default())
    }
}
