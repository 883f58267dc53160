//! Loads of several turns: how many sessions and turns there were, and the time to first token of first and of later turns.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::metric::MetricLabel;
use super::request_times::{FULL, ttft};
use crate::{Metric, RequestRecords};

/// Later turns wait for answers, so a slow server slows their arrivals down: they are counted separately.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SessionsSummary {
    /// With at least one request issued.
    pub count: u64,
    pub turns_mean: f64,
    pub turns_max: u32,
    /// Of first turns.
    pub ttft_first: Metric,
    /// Of later turns, from the time at which each was due.
    pub ttft_later: Metric,
}

impl SessionsSummary {
    /// `first`: from when first turns count.
    pub(super) fn of(records: &RequestRecords, first: &'static str, token_source: &str) -> Self {
        let of = |is_later: bool, population, zero_point| {
            let chosen = || records.ok().filter(|record| (record.turn > 0) == is_later);
            let mut ns: Vec<f64> = chosen().filter_map(|record| ttft(&record)).collect();
            let excluded = chosen().count() as u64 - ns.len() as u64;
            Metric::exact(&MetricLabel { population, zero_point, window: FULL, token_source }, &mut ns, excluded)
        };
        let mut turns: Vec<u64> = records.iter().map(|record| record.session).collect();
        turns.sort_unstable();
        turns.dedup();
        let count = turns.len() as u64;
        Self {
            count,
            turns_mean: records.len() as f64 / count.max(1) as f64,
            turns_max: records.iter().map(|record| record.turn + 1).max().unwrap_or(0),
            ttft_first: of(false, "successful first turns", first),
            ttft_later: of(true, "successful later turns", "end_of_turn_and_pause"),
        }
    }
}
