//! The steady part of a run: without its beginning, when queues and caches fill, and without its end, when no new
//! requests arrive. The full window stays the headline; this shows whether the steady part agrees with it.
//!
//! The beginning is cut by MSER-5 (White 1997): of all cuts in the first half, the one after which the mean of the
//! series of TTFTs, in batches of five, is known best. Requests that a freeze delayed do not decide it: a freeze in the
//! middle is not a beginning. The end is the last intended arrival.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::measure::latency::{E2E, LatencyMetric, TPOT, TTFT, e2e, tpot, ttft};
use crate::{Metric, RequestEnd, RequestRecord, RequestRecords, ServerFreeze};

const BATCH: usize = 5;
/// Fewer batches say nothing about a beginning.
const LEAST_BATCHES: usize = 10;
const WINDOW: &str = "steady: intended arrivals after the cut of MSER-5, to the last one";
/// Null where there are too few requests, or arrivals are not spread over time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Steady {
    /// From the schedule's start, s.
    pub from_s: f64,
    pub to_s: f64,
    /// Successful requests that were to arrive within.
    pub requests: u64,
    /// Answers that ended within, per second.
    pub requests_per_s: f64,
    /// Output tokens of successful requests that came in the whole seconds within, per second; not known where texts
    /// were tokenized again.
    pub output_tokens_per_s: Option<f64>,
    pub ttft: Metric,
    pub tpot: Metric,
    pub e2e: Metric,
}

impl Steady {
    /// `tokens`: of successful requests, by second of the run; `zero`: what their `t_sched` is.
    pub(crate) fn new(
        records: &RequestRecords,
        tokens: &[u64],
        freeze: Option<&ServerFreeze>,
        zero: &'static str,
        token_source: &str,
    ) -> Option<Self> {
        let answered = answered_in_order(records);
        let cut = cut(&answered, freeze)?;
        let (from, to) = (answered.borrowed().nth(cut)?.t_sched, answered.borrowed().last()?.t_sched);
        if to <= from {
            return None;
        }
        let inside = answered.len() - cut;
        // One vector for all of them, which does not grow: the values of ten million records take 80 MB.
        let mut values = Vec::with_capacity(inside);
        let mut metric = |row: &LatencyMetric, value: fn(&RequestRecord) -> Option<f64>| {
            values.clear();
            values.extend(answered.borrowed().skip(cut).filter_map(|record| value(&record)));
            let excluded = (inside - values.len()) as u64;
            Metric::exact(&row.label(zero, WINDOW, token_source), &mut values, excluded)
        };
        let seconds = (to - from) as f64 / 1e9;
        let ended = answered.borrowed().filter(|record| (from..to).contains(&record.t_end)).count();
        let whole = from.div_ceil(1_000_000_000) as usize..(to / 1_000_000_000) as usize;
        let whole_tokens = tokens.get(whole.clone()).filter(|part| !part.is_empty());
        Some(Self {
            from_s: from as f64 / 1e9,
            to_s: to as f64 / 1e9,
            requests: inside as u64,
            requests_per_s: ended as f64 / seconds,
            output_tokens_per_s: whole_tokens.map(|part| part.iter().sum::<u64>() as f64 / part.len() as f64),
            ttft: metric(&TTFT, ttft),
            tpot: metric(&TPOT, tpot),
            e2e: metric(&E2E, e2e),
        })
    }
}

/// Successful requests with a first token, in the order of their intended arrivals.
pub(crate) fn answered_in_order(records: &RequestRecords) -> RequestRecords {
    let answered = records.filtered(|record| record.ended == RequestEnd::Ok && record.t_first.is_some());
    answered.sorted_by_key(|record| (record.t_sched, record.index))
}

/// Where the steady part of a series begins: a multiple of five.
fn mser5(series: impl Iterator<Item = f64>) -> Option<usize> {
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

fn batch_means(mut series: impl Iterator<Item = f64>) -> Vec<f64> {
    let batches = std::iter::from_fn(|| {
        let batch: Vec<f64> = series.by_ref().take(BATCH).collect();
        (batch.len() == BATCH).then(|| batch.iter().sum::<f64>() / BATCH as f64)
    });
    batches.collect()
}

/// Position of the first request of the steady part, among answered requests in the order of their intended arrivals.
pub(crate) fn cut(answered: &RequestRecords, freeze: Option<&ServerFreeze>) -> Option<usize> {
    let is_free = |record: &RequestRecord| freeze.is_none_or(|freeze| !freeze.overlaps(record));
    let series = || {
        let free = answered.borrowed().enumerate().filter(|(_, record)| is_free(record));
        free.filter_map(|(place, record)| Some((place, ttft(&record)?)))
    };
    match mser5(series().map(|(_, ttft)| ttft))? {
        0 => Some(0),
        cut => series().nth(cut).map(|(place, _)| place),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_beginning_is_cut_and_a_steady_series_is_not() {
        let noise = |i: usize| ((i * 7919) % 13) as f64;
        let steady: Vec<f64> = (0..200).map(noise).collect();
        assert!(mser5(steady.iter().copied()).unwrap() <= 25, "{:?}", mser5(steady.iter().copied()));
        let slow: Vec<f64> = (0..200).map(|i| noise(i) + if i < 40 { 500.0 - i as f64 } else { 0.0 }).collect();
        assert!((40..=60).contains(&mser5(slow.iter().copied()).unwrap()), "{:?}", mser5(slow.iter().copied()));
        assert_eq!(mser5(steady[..30].iter().copied()), None, "too few to say");
    }
}
