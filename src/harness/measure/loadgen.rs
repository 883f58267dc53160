//! What MLPerf's LoadGen reported for a run that it drove, next to our own records of the same requests.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// `loadgen` in `result.json`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct LoadgenResult {
    /// The version of `mlcommons-loadgen`, and the revision it was made from.
    pub version: String,
    pub revision: String,
    pub round: String,
    pub benchmark: String,
    /// As the rules write it.
    pub scenario: String,
    pub mode: String,
    /// With shortened durations: cannot be submitted.
    pub rehearsal: bool,
    /// `VALID`, `INVALID`; null where it gives no result, as in accuracy mode.
    pub result: Option<String>,
    /// What it reports of an INVALID result.
    pub why: Vec<String>,
    pub errors: u64,
    /// The first of them, as it logged them.
    pub first_errors: Vec<String>,
    /// What it is judged by.
    pub headline: String,
    /// Its numbers and ours.
    pub metrics: Vec<LoadgenComparison>,
    pub reporting: ReportingDelay,
}

/// One of LoadGen's numbers, and ours by its definition from our own stamps.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct LoadgenComparison {
    /// LoadGen's key, as its detail log has it.
    pub metric: String,
    pub unit: String,
    pub loadgen: f64,
    pub ours: Option<f64>,
    /// Ours less LoadGen's, of LoadGen's.
    pub difference_percent: Option<f64>,
    /// Ours, but with the times of the calls to LoadGen in place of those at which tokens were read: from `ours` to
    /// here is our way from the socket, from here to `loadgen` is LoadGen's own, from its schedule to its call.
    #[serde(default, skip_serializing_if = "Option::is_none", alias = "as_told")]
    pub as_reported: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none", alias = "as_told_difference_percent")]
    pub as_reported_difference_percent: Option<f64>,
}

/// The way of a token from the socket to LoadGen, µs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ReportingDelay {
    /// From the socket read that brought a first token to LoadGen's call.
    pub first_token_p50_us: Option<f64>,
    pub first_token_p99_us: Option<f64>,
    /// From the socket read that brought the last token of an answer to LoadGen's call.
    pub completion_p50_us: Option<f64>,
    pub completion_p99_us: Option<f64>,
    /// Inside LoadGen's call, per sample, on average.
    pub first_token_call_us: Option<f64>,
    pub completion_call_us: Option<f64>,
    /// Answers of fewer than two tokens: LoadGen divides by their number less one, and counts each as an error.
    pub too_short: u64,
    /// Requests that failed: completed without a token, so that LoadGen counts each as an error.
    pub failed: u64,
}

impl LoadgenResult {
    /// Whether it is judged by its speed: neither an accuracy run nor an audit.
    pub fn is_performance(&self) -> bool {
        self.mode == "performance"
    }

    pub fn is_accuracy(&self) -> bool {
        self.mode == "accuracy"
    }

    /// Whether it reports that a latency is over its limit, by the advice that it gives then.
    pub fn is_over_latency_limit(&self) -> bool {
        self.why.iter().any(|why| why.contains("Reduce target QPS to improve latency"))
    }

    /// Whether one of these latencies is TPOT.
    pub fn is_over_tpot_limit(&self) -> bool {
        self.why.iter().any(|why| why.contains("TPOT constrain not met"))
    }
}

impl LoadgenComparison {
    /// With the difference.
    pub fn new(metric: &str, unit: &str, loadgen: f64, ours: Option<f64>, as_reported: Option<f64>) -> Self {
        let percent =
            |other: Option<f64>| other.filter(|_| loadgen != 0.0).map(|other| (other - loadgen) / loadgen * 100.0);
        Self {
            metric: metric.to_owned(),
            unit: unit.to_owned(),
            loadgen,
            ours,
            difference_percent: percent(ours),
            as_reported,
            as_reported_difference_percent: percent(as_reported),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_shares_of_loadgens_number() {
        assert_eq!(LoadgenComparison::new("a", "ms", 200.0, Some(199.0), None).difference_percent, Some(-0.5));
        assert_eq!(LoadgenComparison::new("a", "ms", 0.0, Some(1.0), None).difference_percent, None);
        assert_eq!(LoadgenComparison::new("a", "ms", 1.0, None, Some(1.5)).difference_percent, None);
        assert_eq!(LoadgenComparison::new("a", "ms", 1.0, None, Some(1.5)).as_reported_difference_percent, Some(50.0));
    }
}
