//! What a trial before the measurement found out about this machine.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Whether this machine could make the load, as it was tried just before the measurement.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct PreflightResult {
    /// Against what, over which protocol.
    pub server: String,
    /// How it ended: `good`, `warning`, `invalid_client`.
    pub outcome: String,
    /// 2: the first one was not good, and the better of the two is reported.
    pub tries: u32,
    pub seconds: f64,
    pub requests: u64,
    /// Arrivals per second, or …
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    /// … users.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub users: Option<f64>,
    pub connections: u64,
    pub tokens_per_answer: u32,
    /// Most requests under way at once.
    pub in_flight_max: u64,
    /// Issue behind schedule, p99 of all issued requests; absent for a closed loop, which has no schedule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lag_p99_ms: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lag_max_ms: Option<f64>,
    /// Above this it is a warning, above the other it is invalid.
    pub lag_bound_ms: f64,
    pub lag_hard_bound_ms: f64,
    /// Busiest worker's share of one core during the trial.
    pub cpu_share_max: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_ms_per_1000_chunks: Option<f64>,
    pub workers: u64,
    /// Output tokens per second that the plan requires at its busiest; not known of a closed loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub planned_tokens_per_s: Option<f64>,
    /// Share of a core that each worker needs for them, from the CPU per chunk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_share_planned: Option<f64>,
    /// How many times the planned load the workers' cores could do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub headroom: Option<f64>,
}
