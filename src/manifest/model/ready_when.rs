//! When a server counts as ready.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// When a server counts as ready.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReadyWhen {
    /// Give up after this long.
    #[serde(default = "half_an_hour")]
    pub timeout: String,
    /// For `command`: `kserve` calls ServerReady over gRPC, `port` only connects, `health` sends `GET /health`; then benchmarks use HTTP, too.
    #[serde(default = "kserve")]
    pub by: String,
}

impl Default for ReadyWhen {
    fn default() -> Self {
        Self { timeout: half_an_hour(), by: kserve() }
    }
}

pub(super) fn half_an_hour() -> String {
    "30m".to_owned()
}

pub(super) fn kserve() -> String {
    "kserve".to_owned()
}
