//! `bench.stop:` — when the schedule ends.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::counts::MOST_REQUESTS;

use super::time_span::TimeSpan;

/// When the schedule ends: after N requests, or after the arrivals of this time; with both, whichever is later. One of them is required.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct StopAfter {
    /// At least N requests; with `duration`, the longer of the two decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MOST_REQUESTS))]
    pub requests: Option<u64>,
    /// Arrivals for this long: `60s`, `10m`. With `requests`, the longer of the two decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration: Option<TimeSpan>,
}

impl StopAfter {
    pub fn time(&self) -> Option<Duration> {
        self.duration.as_ref().map(TimeSpan::time)
    }

    pub const fn is_open(&self) -> bool {
        self.requests.is_none() && self.duration.is_none()
    }
}
