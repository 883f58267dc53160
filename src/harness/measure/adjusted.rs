//! Percentiles that failures cannot improve: a request without an answer counts as waiting for ever.
//!
//! Percentiles of successful requests flatter a server that fails under load, because its worst answers are missing
//! from them. Here every scheduled request counts, and one without an answer counts as infinitely late.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::metric::rank;

/// Percentiles over all scheduled requests, ms. A null one falls among those without an answer: it is infinite.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Adjusted {
    /// All scheduled requests that were to be answered in full.
    pub n: u64,
    /// Those of them without an answer: failed, or never sent.
    pub unanswered: u64,
    pub p50: Option<f64>,
    pub p90: Option<f64>,
    pub p95: Option<f64>,
    pub p99: Option<f64>,
}

impl Adjusted {
    /// `answered`: latencies of the successful ones, ns, the least first.
    pub(crate) fn of(answered: &[f64], unanswered: u64) -> Self {
        let n = answered.len() + unanswered as usize;
        // Those without an answer come after all others.
        let at = |p| answered.get(rank(n, p)?).filter(|ns| ns.is_finite()).map(|ns| ns / 1e6);
        Self { n: n as u64, unanswered, p50: at(0.5), p90: at(0.9), p95: at(0.95), p99: at(0.99) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_move_percentiles_up_and_at_last_to_infinity() {
        let answered = |n: u32| (1..=n).map(|ms| f64::from(ms) * 1e6).collect::<Vec<f64>>();
        assert_eq!(Adjusted::of(&answered(100), 0).p50, Some(51.0));
        let some_failed = Adjusted::of(&answered(90), 10);
        assert_eq!((some_failed.p50, some_failed.p90, some_failed.p99), (Some(51.0), None, None));
        assert_eq!(Adjusted::of(&[], 3).p50, None);
        assert_eq!(Adjusted::of(&[], 0).n, 0);
    }
}
