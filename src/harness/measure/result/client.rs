//! The load generator itself: its workers, its connections, the seconds of the run.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use base::spec::StreamMode;

/// The terms of Little's law: requests in flight (a running gauge), rate and time (the records). All of them come from the client's own
/// stamps, so that they agree by construction and are no check of the measurement.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct LittlesLaw {
    pub in_flight_mean: f64,
    pub rate: f64,
    pub time_s: f64,
    pub relative_error: Option<f64>,
}

/// The load generator itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ClientUsage {
    pub workers: u64,
    pub cores: u64,
    /// `stream` or `unary`.
    pub call: String,
    pub pacing: String,
    /// Busiest worker's share of one core.
    pub cpu_share_max: f64,
    /// CPU of all workers per 1,000 chunks, ms.
    pub cpu_ms_per_1000_chunks: Option<f64>,
    /// Largest share of time that a worker was runnable and had no core.
    pub core_wait_share_max: Option<f64>,
    /// From socket read to our hands, p99, ms.
    pub backlog_p99_ms: Option<f64>,
    /// Largest distance of the real gaps from the law they were drawn from; null for equal gaps, traces and closed loops.
    pub ks_distance: Option<f64>,
    pub ks_critical: Option<f64>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Connections {
    pub count: u64,
    /// The smallest limit on concurrent streams that a server announced; null without one.
    pub max_streams: Option<u64>,
    /// How often the next request in line waited because every connection was full.
    pub waited_for_stream: u64,
    pub reconnects: u64,
    /// Kept HTTP connections that the server closed while they were idle, as every server may; no loss.
    #[serde(default, skip_serializing_if = "super::is_usual")]
    pub idle_closed: u64,
    /// Requests sent again over a new connection, because the server closed a kept one when they were sent, before any byte of an answer.
    #[serde(default, skip_serializing_if = "super::is_usual")]
    pub resent: u64,
    /// Of streaming calls over gRPC: whether requests had a stream each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<StreamMode>,
    /// Shared streams that were opened, with those of warm-up; more than connections means that some ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared_streams: Option<u64>,
}

/// One second of the run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct TimeSlice {
    pub second: u64,
    /// Output tokens that came in it, from all requests; as `tokens.chunk_source` counts them, where that is there.
    pub tokens: u64,
    /// In flight when it began.
    pub in_flight: u64,
    /// The most in flight at once during it. Absent in files of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_flight_max: Option<u64>,
    /// First tokens that came in it.
    pub first_tokens: u64,
    /// Their mean TTFT.
    pub ttft_ms: Option<f64>,
}
