//! When a server counts as ready.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use base::spec::TimeSpan;

/// When a server counts as ready.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReadyWhen {
    /// Give up after this long [default: 30m; for servers that run already 2m].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<TimeSpan>,
    /// For `command`: `kserve` calls ServerReady over gRPC, `port` only connects, `health` sends `GET /health`; then benchmarks use HTTP, too.
    #[serde(default = "kserve")]
    pub by: String,
}

impl Default for ReadyWhen {
    fn default() -> Self {
        Self { timeout: None, by: kserve() }
    }
}

impl ReadyWhen {
    /// The time limit of a server that this run starts. Loading weights and building CUDA graphs is slow.
    pub fn limit(&self) -> Duration {
        self.timeout.as_ref().map_or(Duration::from_mins(30), TimeSpan::time)
    }

    /// That of a server that runs already: it is there, or it is not.
    pub fn limit_attached(&self) -> Duration {
        self.timeout.as_ref().map_or(Duration::from_mins(2), TimeSpan::time)
    }
}

pub(super) fn kserve() -> String {
    "kserve".to_owned()
}
