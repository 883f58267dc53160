//! The latencies of a run, as the client measured them and as the server stamped them, and its rates.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Adjusted, Metric};
use base::spec::{CancelBy, LimitedMetric};

/// Per second.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Rates {
    /// From the schedule's start to the end of the last successful request.
    pub window_s: f64,
    /// (N − 1) / time between first and last intended arrival; null for Offline.
    pub offered: Option<f64>,
    /// (N − 1) / time between first and last issue.
    pub admitted: Option<f64>,
    /// Successful requests / window.
    pub requests_full: Option<f64>,
    /// (ok − 1) / (end of the last-issued successful request − first issue).
    pub requests_loadgen_completed: Option<f64>,
    /// Output tokens of successful requests / window.
    pub output_tokens: Option<f64>,
}

/// The metrics. "From schedule" is the headline; "sent" is what tools without a schedule print.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct LatencyMetrics {
    /// First token − intended arrival.
    pub ttft: Metric,
    /// First token − issue.
    pub ttft_sent: Metric,
    /// (last − first token chunk) / (tokens − tokens of the first read). Absent where a total is known and the tokens of the first
    /// chunk are not.
    pub tpot: Metric,
    /// Gap between reads over tokens of the later one, that many times. Absent where the tokens of single chunks are not known.
    pub itl_token: Metric,
    /// Gap between reads with chunks.
    pub icl: Metric,
    /// Last token − intended arrival.
    pub e2e: Metric,
    /// Last token − issue.
    pub e2e_sent: Metric,
    /// Largest gap within each request.
    pub max_stall: Metric,
    /// TTFT of all scheduled requests, those without an answer as infinitely late.
    pub ttft_adjusted: Adjusted,
    /// Last token − intended arrival of all scheduled requests, those without an answer as infinitely late.
    pub e2e_adjusted: Adjusted,
    /// Issue − intended arrival: the client's own lateness. Of every issued request.
    pub queue_client: Metric,
}

impl LatencyMetrics {
    /// Each metric with its key, in the order of the file. The adjusted ones are statistics of other metrics.
    pub const fn each(&self) -> [(&'static str, &Metric); 9] {
        [
            ("ttft", &self.ttft),
            ("ttft_sent", &self.ttft_sent),
            ("tpot", &self.tpot),
            ("itl_token", &self.itl_token),
            ("icl", &self.icl),
            ("e2e", &self.e2e),
            ("e2e_sent", &self.e2e_sent),
            ("max_stall", &self.max_stall),
            ("queue_client", &self.queue_client),
        ]
    }

    /// The metric that a limit is about.
    pub(crate) const fn of(&self, metric: LimitedMetric) -> &Metric {
        match metric {
            LimitedMetric::Ttft => &self.ttft,
            LimitedMetric::Tpot => &self.tpot,
            LimitedMetric::Itl => &self.itl_token,
            LimitedMetric::Icl => &self.icl,
            LimitedMetric::E2e => &self.e2e,
            LimitedMetric::MaxStall => &self.max_stall,
        }
    }
}

/// What the server stamps of successful requests, beside what we see. Its clock is its own: only differences are used.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ServerSide {
    /// first_scheduled_time_ns − arrival_time_ns.
    pub queue: Metric,
    /// first_token_time_ns − arrival_time_ns.
    pub ttft: Metric,
    /// last_token_time_ns − arrival_time_ns.
    pub e2e: Metric,
    /// Our TTFT from the issue less the server's: network, both protocol stacks, and the front end of the server.
    pub ttft_outside: Metric,
    /// Sums over requests.
    pub kv_cache_alloc_new_blocks: i64,
    pub kv_cache_reused_blocks: i64,
    pub kv_cache_alloc_total_blocks: i64,
    /// Successful requests without stamps.
    pub without: u64,
}

/// Requests that were ended early, as `cancel` sets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cancellations {
    pub by: CancelBy,
    pub after_tokens: u32,
    pub share: f64,
    pub requests: u64,
    /// Tokens that they had in all; more than `after_tokens` each when the server went on for a while.
    pub tokens: u64,
    /// From the cancel to the end of the answer; with `rpc` we hang up and the end is ours.
    pub end_after_cancel: Metric,
}
