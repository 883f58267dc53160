//! The steady part of a run: without its beginning, when queues and caches fill, and without its end, when nothing new
//! comes. The full window stays the headline; this says whether it is the same story.
//!
//! The beginning is cut by MSER-5 (White 1997): of all cuts in the first half, the one after which the mean of the
//! series of TTFTs, in batches of five, is known best. The end is the last intended arrival.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::metric::{Label, Metric};
use super::summary::{e2e, tpot, ttft};
use super::{Ended, Record};

const BATCH: usize = 5;
/// Fewer batches say nothing about a beginning.
const LEAST_BATCHES: usize = 10;
const WINDOW: &str = "steady: intended arrivals after the cut of MSER-5, to the last one";
/// Half against half: differences below this many standard errors are noise.
const DRIFT_Z: f64 = 4.0;
/// … and below this share of the mean they do not matter.
const DRIFT_SHARE: f64 = 0.2;

/// Null where there are too few requests, or arrivals are not spread over time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Steady {
    /// From the schedule's start, s.
    pub from_s: f64,
    pub to_s: f64,
    /// Successful requests that were to arrive within.
    pub requests: u64,
    /// Answers that ended within, per second.
    pub requests_per_s: f64,
    /// Output tokens per second of the whole seconds within, of all requests; not known where texts were tokenised again.
    pub output_tokens_per_s: Option<f64>,
    pub ttft: Metric,
    pub tpot: Metric,
    pub e2e: Metric,
    /// Whether the second half was like the first.
    pub drift: Drift,
}

/// Mean TTFT of the first and of the second half of the steady part.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Drift {
    pub first_half_ms: f64,
    pub second_half_ms: f64,
    /// The difference in standard errors, from the spread of batch means.
    pub standard_errors: f64,
}

impl Drift {
    /// The server got slower while it was measured: a queue that grows, or clocks that fall.
    pub fn is_seen(&self) -> bool {
        self.standard_errors > DRIFT_Z && self.second_half_ms > self.first_half_ms * (1.0 + DRIFT_SHARE)
    }
}

impl Steady {
    /// `tokens`: output tokens by second of the run.
    pub(super) fn of(records: &[Record], tokens: &[u64]) -> Option<Self> {
        let mut answered: Vec<&Record> =
            records.iter().filter(|record| record.ended == Ended::Ok && record.t_first.is_some()).collect();
        answered.sort_by_key(|record| (record.t_sched, record.index));
        let series: Vec<f64> = answered.iter().filter_map(|record| ttft(record)).collect();
        let cut = mser5(&series)?;
        let (from, to) = (answered.get(cut)?.t_sched, answered.last()?.t_sched);
        if to <= from {
            return None;
        }
        let inside = &answered[cut..];
        let metric = |population, zero_point, value: fn(&Record) -> Option<f64>| {
            let mut values: Vec<f64> = inside.iter().filter_map(|record| value(record)).collect();
            let excluded = (inside.len() - values.len()) as u64;
            Metric::exact(&Label { population, zero_point, window: WINDOW }, &mut values, excluded)
        };
        let seconds = (to - from) as f64 / 1e9;
        let ended = answered.iter().filter(|record| (from..to).contains(&record.t_end)).count();
        let whole = from.div_ceil(1_000_000_000) as usize..(to / 1_000_000_000) as usize;
        let whole_tokens = tokens.get(whole.clone()).filter(|part| !part.is_empty());
        Some(Self {
            from_s: from as f64 / 1e9,
            to_s: to as f64 / 1e9,
            requests: inside.len() as u64,
            requests_per_s: ended as f64 / seconds,
            output_tokens_per_s: whole_tokens.map(|part| part.iter().sum::<u64>() as f64 / part.len() as f64),
            ttft: metric("successful requests", "schedule", ttft),
            tpot: metric("successful requests with more tokens than their first chunk has", "first_chunk", tpot),
            e2e: metric("successful requests", "schedule", e2e),
            drift: drift(&series[cut..])?,
        })
    }
}

/// Where the steady part of a series begins: a multiple of five.
fn mser5(series: &[f64]) -> Option<usize> {
    let means = batch_means(series);
    if means.len() < LEAST_BATCHES {
        return None;
    }
    // Walks back from the end with running sums, so that every cut costs the same.
    let (mut sum, mut squares) = (0.0, 0.0);
    let mut best = (f64::INFINITY, 0);
    for cut in (0..means.len()).rev() {
        sum += means[cut];
        squares += means[cut] * means[cut];
        let left = (means.len() - cut) as f64;
        let spread = (squares - sum * sum / left).max(0.0);
        let score = spread / (left * left);
        if cut <= means.len() / 2 && score <= best.0 {
            best = (score, cut);
        }
    }
    Some(best.1 * BATCH)
}

fn batch_means(series: &[f64]) -> Vec<f64> {
    series.chunks_exact(BATCH).map(|batch| batch.iter().sum::<f64>() / BATCH as f64).collect()
}

fn drift(series: &[f64]) -> Option<Drift> {
    let means = batch_means(series);
    let (first, second) = means.split_at(means.len() / 2);
    let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len() as f64;
    let error = |part: &[f64]| {
        let center = mean(part);
        part.iter().map(|value| (value - center).powi(2)).sum::<f64>() / ((part.len() - 1) * part.len()) as f64
    };
    if first.len() < 2 || second.len() < 2 {
        return None;
    }
    let standard_error = (error(first) + error(second)).sqrt();
    let difference = mean(second) - mean(first);
    let standard_errors = if standard_error > 0.0 { difference / standard_error } else { 0.0 };
    Some(Drift { first_half_ms: mean(first) / 1e6, second_half_ms: mean(second) / 1e6, standard_errors })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_beginning_is_cut_and_a_steady_series_is_not() {
        let noise = |i: usize| ((i * 7919) % 13) as f64;
        let steady: Vec<f64> = (0..200).map(noise).collect();
        assert!(mser5(&steady).unwrap() <= 25, "{:?}", mser5(&steady));
        let slow: Vec<f64> = (0..200).map(|i| noise(i) + if i < 40 { 500.0 - i as f64 } else { 0.0 }).collect();
        assert!((40..=60).contains(&mser5(&slow).unwrap()), "{:?}", mser5(&slow));
        assert_eq!(mser5(&steady[..30]), None, "too few to say");
    }

    #[test]
    fn a_queue_that_grows_is_a_drift() {
        let growing: Vec<f64> = (0..200u32).map(|i| f64::from(100 + i * 3 + (i * 7919) % 13) * 1e6).collect();
        assert!(drift(&growing).unwrap().is_seen());
        let level: Vec<f64> = (0..200u32).map(|i| f64::from(100 + (i * 7919) % 13) * 1e6).collect();
        assert!(!drift(&level).unwrap().is_seen(), "{:?}", drift(&level));
    }
}
