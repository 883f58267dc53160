//! The limits of a run beside the two that most runs have, as its result repeats them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use base::spec::{GoodputLimit, LatencyLimit, Limits};

/// Those beside the 99th percentiles of TTFT and TPOT.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FurtherLimits {
    pub latency: Vec<LatencyLimit>,
    /// Failed requests as a share of issued ones. Null: none may fail.
    pub failures: Option<f64>,
    pub goodput: Option<MinGoodput>,
}

/// At least this much goodput, by `slo`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MinGoodput {
    /// Of the scheduled requests, a share.
    Share(f64),
    /// Requests per second.
    PerSecond(f64),
}

impl FurtherLimits {
    pub(super) fn of(limits: &Limits) -> Self {
        Self {
            latency: limits.latencies().filter(|limit| !limit.is_usual()).collect(),
            failures: limits.failure_budget(),
            goodput: limits.goodput.map(|least| match least {
                GoodputLimit::Share(percent) => MinGoodput::Share(percent.share()),
                GoodputLimit::PerSecond(rate) => MinGoodput::PerSecond(rate),
            }),
        }
    }

    pub const fn is_empty(&self) -> bool {
        self.latency.is_empty() && self.failures.is_none() && self.goodput.is_none()
    }
}
