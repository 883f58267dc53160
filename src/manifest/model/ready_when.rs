//! When a server counts as ready.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::spec::TimeSpan;

/// When a server counts as ready.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReadyWhen {
    /// Give up after this long.
    #[serde(default = "half_an_hour")]
    pub timeout: TimeSpan,
    /// For `command`: `kserve` calls ServerReady over gRPC, `port` only connects, `health` sends `GET /health`; then benchmarks use HTTP, too.
    #[serde(default = "kserve")]
    pub by: String,
}

impl Default for ReadyWhen {
    fn default() -> Self {
        Self { timeout: half_an_hour(), by: kserve() }
    }
}

pub(super) fn half_an_hour() -> TimeSpan {
    TimeSpan::minutes(30)
}

pub(super) fn kserve() -> String {
    "kserve".to_owned()
}
