//! How requests arrive.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::load_level::LoadLevel;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LoadPattern {
    /// All requests at once; the metric is tokens/s.
    Offline,
    /// Open loop: arrivals at a mean rate, per second.
    Server { rate: LoadLevel },
    /// Open loop: arrivals at the time stamps of the data, this many times as fast.
    Trace { speed: f64 },
    /// Closed loop: this many users, each sending its next request when its last one has ended.
    Concurrency { users: LoadLevel },
    /// An external driver issues the requests during the run: MLPerf's LoadGen.
    #[serde(rename = "outside")]
    External(CallSource),
}

impl LoadPattern {
    /// What `t_sched` is, for metrics.
    pub(crate) const fn zero_point(&self) -> &'static str {
        match self {
            Self::Offline | Self::Server { .. } | Self::Trace { .. } => "schedule",
            Self::Concurrency { .. } => "user_idle",
            Self::External(_) => "external_call",
        }
    }

    /// Arrivals have times that do not depend on answers, and are not all at once.
    pub const fn is_open_loop(&self) -> bool {
        matches!(self, Self::Server { .. } | Self::Trace { .. } | Self::External(CallSource::AtTimes))
    }
}

/// How the calls of an external driver come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CallSource {
    /// All in one call. They wait in the client for streams, as they would wait in the server.
    AllAtOnce,
    /// At times that do not depend on answers.
    AtTimes,
    /// Each after the answer to the one before.
    OneByOne,
}
