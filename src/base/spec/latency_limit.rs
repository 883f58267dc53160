//! A limit of one number of one latency.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One number of one metric may be at most this many ms.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LatencyLimit {
    pub metric: LimitedMetric,
    pub statistic: Statistic,
    pub ms: f64,
}

/// A metric of `latency` in the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LimitedMetric {
    Ttft,
    Tpot,
    /// Inter-token latency: `itl_token`.
    Itl,
    /// Inter-chunk latency.
    Icl,
    E2e,
    MaxStall,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Statistic {
    Mean,
    P50,
    P75,
    P90,
    P95,
    P99,
    Max,
}

impl LatencyLimit {
    /// `e2e_p95`: a metric and a statistic.
    pub(super) fn of(key: &str, limit: Duration) -> Option<Self> {
        let (metric, statistic) = key.rsplit_once('_')?;
        let metric = LimitedMetric::ALL.into_iter().find(|one| one.key() == metric)?;
        let statistic = Statistic::ALL.into_iter().find(|one| one.key() == statistic)?;
        Some(Self { metric, statistic, ms: limit.as_secs_f64() * 1e3 })
    }

    /// Of the two that most runs have: the 99th percentiles of TTFT and TPOT.
    pub fn is_usual(&self) -> bool {
        matches!(self.metric, LimitedMetric::Ttft | LimitedMetric::Tpot) && self.statistic == Statistic::P99
    }

    pub fn key(&self) -> String {
        format!("{}_{}", self.metric.key(), self.statistic.key())
    }

    /// `TTFT p99`
    pub fn name(&self) -> String {
        format!("{} {}", self.metric.key().to_uppercase().replace('_', " "), self.statistic.key())
    }
}

impl LimitedMetric {
    const ALL: [Self; 6] = [Self::Ttft, Self::Tpot, Self::Itl, Self::Icl, Self::E2e, Self::MaxStall];

    const fn key(self) -> &'static str {
        match self {
            Self::Ttft => "ttft",
            Self::Tpot => "tpot",
            Self::Itl => "itl",
            Self::Icl => "icl",
            Self::E2e => "e2e",
            Self::MaxStall => "max_stall",
        }
    }
}

impl Statistic {
    const ALL: [Self; 7] = [Self::Mean, Self::P50, Self::P75, Self::P90, Self::P95, Self::P99, Self::Max];

    const fn key(self) -> &'static str {
        match self {
            Self::Mean => "mean",
            Self::P50 => "p50",
            Self::P75 => "p75",
            Self::P90 => "p90",
            Self::P95 => "p95",
            Self::P99 => "p99",
            Self::Max => "max",
        }
    }

    /// The share of values at or below it; none of a mean.
    pub const fn quantile(self) -> Option<f64> {
        match self {
            Self::Mean => None,
            Self::P50 => Some(0.5),
            Self::P75 => Some(0.75),
            Self::P90 => Some(0.9),
            Self::P95 => Some(0.95),
            Self::P99 => Some(0.99),
            Self::Max => Some(1.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_a_metric_and_a_statistic() {
        let limit = LatencyLimit::of("max_stall_p90", Duration::from_millis(1500)).unwrap();
        assert_eq!((limit.metric, limit.statistic), (LimitedMetric::MaxStall, Statistic::P90));
        assert_eq!((limit.key(), limit.name()), ("max_stall_p90".to_owned(), "MAX STALL p90".to_owned()));
        assert!((limit.ms - 1500.0).abs() < 1e-9);
        for wrong in ["ttft", "ttft_p98", "latency_p99", "_p99", ""] {
            assert_eq!(LatencyLimit::of(wrong, Duration::ZERO), None, "{wrong}");
        }
    }
}
