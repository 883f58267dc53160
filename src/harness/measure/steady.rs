//! The steady part of a run: without its beginning, when queues and caches fill, and without its end, when no new
//! requests arrive. The full window stays the headline; this shows whether the steady part agrees with it.
//!
//! The beginning is cut by MSER-5 (White 1997): of all cuts in the first half, the one after which the mean of the
//! series of TTFTs, in batches of five, is known best. Requests that a freeze delayed do not decide it: a freeze in the
//! middle is not a beginning. The end is the last intended arrival.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::measure::latency::{E2E, LatencyMetric, TPOT, TTFT, e2e, tpot, ttft};
use crate::measure::load_conditions::Before;
use crate::{Metric, RequestEnd, RequestRecord, RequestRecords, ServerFreeze};
use base::stats::{LevelChange, Observation, separated_floors};

const BATCH: usize = 5;
/// Fewer batches say nothing about a beginning.
const LEAST_BATCHES: usize = 10;
const WINDOW: &str = "steady: intended arrivals after the cut of MSER-5, to the last one";
/// Half against half: differences within this many standard errors are noise. Of
/// stationary queues at ρ = 0.9 at most 3.4 % exceed it (M/M/4, 300 requests).
const DRIFT_Z: f64 = 4.0;
/// … and below this share of the mean they do not matter.
const DRIFT_SHARE: f64 = 0.2;

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
    /// Whether the second half of the whole run was like the first.
    pub drift: TtftDrift,
}

/// Mean time from issue to first token in the first and in the second half of all requests, those of the beginning
/// included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct TtftDrift {
    pub first_half_ms: f64,
    pub second_half_ms: f64,
    /// Second half − first half as a share of the first, among requests that found equally many others in flight, so
    /// that a busier half is no slower server. Null where the halves had no load in common.
    pub at_equal_load: Option<f64>,
    /// That difference in its standard errors, from the spread of batch means; 0 where there is none.
    pub standard_errors: f64,
    /// Change of the quickest tenth, as a share, where in each eighth of the second half it is beyond all eighths of
    /// the first. A queue has quick answers again and again, a slower server has not.
    pub floor: Option<f64>,
}

impl TtftDrift {
    /// The server got slower or faster at the same load while it was measured: clocks that fall, caches that fill.
    pub fn is_significant(&self) -> bool {
        self.share().is_some()
    }

    /// `at equal load 1.2 standard errors apart`, or that nothing could be compared.
    pub fn at_equal_load_text(&self) -> String {
        match self.at_equal_load {
            Some(_) => format!("at equal load {:.1} standard errors apart", self.standard_errors),
            None => "no load occurred in both, so they say nothing about the server".to_owned(),
        }
    }

    /// How much slower it got, as a share; below 0 faster.
    pub(crate) fn share(&self) -> Option<f64> {
        let at_equal_load = self.at_equal_load.filter(|_| self.standard_errors.abs() > DRIFT_Z);
        at_equal_load.filter(|share| share.abs() > DRIFT_SHARE).or(self.floor.filter(|share| share.abs() > DRIFT_SHARE))
    }
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
        let (from, to) = (answered.iter().nth(cut)?.t_sched, answered.iter().last()?.t_sched);
        if to <= from {
            return None;
        }
        let inside = answered.len() - cut;
        // One vector for all of them, which does not grow: the values of ten million records take 80 MB.
        let mut values = Vec::with_capacity(inside);
        let mut metric = |row: &LatencyMetric, value: fn(&RequestRecord) -> Option<f64>| {
            values.clear();
            values.extend(answered.iter().skip(cut).filter_map(|record| value(&record)));
            let excluded = (inside - values.len()) as u64;
            Metric::exact(&row.label(zero, WINDOW, token_source), &mut values, excluded)
        };
        let seconds = (to - from) as f64 / 1e9;
        let ended = answered.iter().filter(|record| (from..to).contains(&record.t_end)).count();
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
            drift: drift(&answered, records)?,
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
        let free = answered.iter().enumerate().filter(|(_, record)| is_free(record));
        free.filter_map(|(place, record)| Some((place, ttft(&record)?)))
    };
    match mser5(series().map(|(_, ttft)| ttft))? {
        0 => Some(0),
        cut => series().nth(cut).map(|(place, _)| place),
    }
}

/// `answered`: in the order of intended arrivals; `records`: all, whose flights are the load.
fn drift(answered: &RequestRecords, records: &RequestRecords) -> Option<TtftDrift> {
    let issues = records.sorted_stamps(|record| record.t_issue);
    let ends = records.sorted_stamps(|record| record.t_end);
    // The load is counted in the order of issues, which is not that of intended arrivals.
    let by_issue = answered.sorted_by_key(|record| record.t_issue);
    let (mut issued, mut ended) = (Before::new(&issues), Before::new(&ends));
    let observed = by_issue.iter().filter_map(|record| {
        let at = record.t_issue;
        let load = issued.count(at).saturating_sub(ended.count(at + 1));
        Some((record.t_sched, record.index, record.t_first?.saturating_sub(at), load as u64))
    });
    let observed = records.collected(observed).sorted_by_key(|(due, index, ..)| (*due, *index));
    let series = || observed.iter().map(|(_, _, value, load)| Observation { value: value as f64, load });
    let half = observed.len() / 2;
    if half == 0 {
        return None;
    }
    let mean_ms = |part: &mut dyn Iterator<Item = Observation>, count: usize| {
        part.map(|one| one.value).sum::<f64>() / count as f64 / 1e6
    };
    let change = LevelChange::of_many(observed.len(), series);
    Some(TtftDrift {
        first_half_ms: mean_ms(&mut series().take(half), half),
        second_half_ms: mean_ms(&mut series().skip(half), observed.len() - half),
        at_equal_load: change.map(|change| change.relative()),
        standard_errors: change.map_or(0.0, |change| change.standard_errors()),
        floor: separated_floors(observed.len(), series().map(|one| one.value)),
    })
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
