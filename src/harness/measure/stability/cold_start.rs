//! A slow beginning that is part of the headline: caches that fill, kernels that are compiled, clocks that rise.
//!
//! A queue starts empty, so the first requests of a run are its quickest. A beginning of which nine of ten requests are slower than
//! the median of all later ones is the server's.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::metric::percentile;
use super::super::request_times::ttft;
use super::super::steady;
use super::ServerFreeze;
use crate::RequestRecords;

/// Fewer slow requests are an accident.
const LEAST_SLOW: usize = 10;
/// Of the beginning, that must be slower than the median of the rest.
const SLOW_SHARE: f64 = 0.9;
/// How much the headline must be above the steady part, as mean or as p99, for it to matter.
const MEAN_ABOVE: f64 = 1.1;
const P99_ABOVE: f64 = 1.2;

/// TTFT with and without the beginning, ms, of successful requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ColdStart {
    /// Requests of the beginning, and when the rest begins, s from the schedule's start.
    pub requests: u64,
    pub until_s: f64,
    pub mean_ms: f64,
    pub steady_mean_ms: f64,
    pub p99_ms: f64,
    pub steady_p99_ms: f64,
}

impl ColdStart {
    /// `answered`: in the order of intended arrivals.
    pub(super) fn of(answered: &RequestRecords, freeze: Option<&ServerFreeze>) -> Option<Self> {
        let cut = steady::cut(answered, freeze)?;
        let sorted = |from: usize, to: usize| {
            let part = answered.iter().skip(from).take(to - from);
            let mut values: Vec<f64> = part.filter_map(|record| ttft(&record)).map(|ns| ns / 1e6).collect();
            values.sort_unstable_by(f64::total_cmp);
            values
        };
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len().max(1) as f64;
        // One after the other: of a long run each is as large as memory is to hold.
        let beginning = percentile(&sorted(0, cut), 1.0 - SLOW_SHARE).filter(|_| cut >= LEAST_SLOW);
        let rest = sorted(cut, answered.len());
        let (steady_mean_ms, steady_p99_ms) = (mean(&rest), percentile(&rest, 0.99)?);
        let is_slow = beginning.zip(percentile(&rest, 0.5)).is_some_and(|(beginning, usual)| beginning > usual);
        drop(rest);
        let all = sorted(0, answered.len());
        let cold = Self {
            requests: cut as u64,
            until_s: answered.iter().nth(cut)?.t_sched as f64 / 1e9,
            mean_ms: mean(&all),
            steady_mean_ms,
            p99_ms: percentile(&all, 0.99)?,
            steady_p99_ms,
        };
        let matters = cold.mean_ms > MEAN_ABOVE * cold.steady_mean_ms || cold.p99_ms > P99_ABOVE * cold.steady_p99_ms;
        (is_slow && matters).then_some(cold)
    }

    pub(super) fn text(&self) -> String {
        format!(
            "the first {} requests, until {:.1} s, were slower than the rest: TTFT mean {:.1} ms with them and {:.1} ms without, p99 {:.1} \
             and {:.1} ms; warm up longer (`warmup`, `warmup_time`)",
            self.requests, self.until_s, self.mean_ms, self.steady_mean_ms, self.p99_ms, self.steady_p99_ms
        )
    }
}
