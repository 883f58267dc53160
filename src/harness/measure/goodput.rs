//! How many requests met all of their SLO limits, each request judged by itself.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::measure::latency::{e2e, tpot, ttft};
use crate::{RequestEnd, RequestRecord, RequestRecords, Slo};

/// A request that failed does not meet its SLO. Neither does one whose time per output token may be too long, and is
/// not known.
fn is_met(slo: Slo, record: &RequestRecord) -> bool {
    let within = |limit: Option<f64>, ns: Option<f64>| match (limit, ns) {
        (Some(limit), Some(ns)) => ns <= limit * 1e6,
        _ => true,
    };
    is_answered(record)
        && within(slo.ttft_ms, ttft(record))
        && slo.tpot_ms.is_none_or(|limit| is_within_tpot(limit, record).unwrap_or(record.has_token_times()))
        && within(slo.e2e_ms, e2e(record))
}

fn is_answered(record: &RequestRecord) -> bool {
    record.ended == RequestEnd::Ok && record.t_first.is_some()
}

/// Whether the time per output token is within this limit, ms. Of an answer in one read only that it is may be known.
fn is_within_tpot(limit: f64, record: &RequestRecord) -> Option<bool> {
    let is_within = |ns: f64| ns <= limit * 1e6;
    if record.interleaved {
        return None;
    }
    match tpot(record).or_else(|| at_most(record)) {
        Some(ns) => Some(is_within(ns)),
        None => at_most_in_one_read(record).map(is_within).filter(|is_within| *is_within),
    }
}

/// An SLO on the time per output token, although nothing is known of that time in any answer: nothing shows that it is
/// met.
fn lacks_tpot(slo: Slo, records: &RequestRecords) -> bool {
    let Some(limit) = slo.tpot_ms else { return false };
    let mut answers = records.borrowed().filter(|record| is_answered(record)).peekable();
    answers.peek().is_some() && answers.all(|record| is_within_tpot(limit, &record).is_none())
}

/// Time per output token cannot be more where the tokens of chunks are not known: every chunk after the first read has
/// at least one.
fn at_most(record: &RequestRecord) -> Option<f64> {
    let first_read = record.first_read_tokens.max(1);
    let later = record.chunks.checked_sub(first_read).filter(|later| *later > 0 && record.chunk_tokens_unknown)?;
    Some(record.t_last?.saturating_sub(record.t_first?) as f64 / f64::from(later))
}

/// The same where all chunks came in one read: the server made no token before it had the request.
fn at_most_in_one_read(record: &RequestRecord) -> Option<f64> {
    let counted = if record.chunk_tokens_unknown { record.chunks } else { record.tokens };
    let later = counted.checked_sub(1).filter(|later| *later > 0 && record.is_one_read())?;
    Some(record.t_last?.saturating_sub(record.t_issue) as f64 / f64::from(later))
}

/// Requests that met their SLO. Requests that failed or were not sent did not.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Goodput {
    pub slo: Slo,
    pub good: u64,
    /// Everything that was scheduled to be answered.
    pub of: u64,
    /// good / of. Null where the SLO limits the time per output token and no answer has one.
    pub attainment: Option<f64>,
    /// good / the full window, requests per second.
    pub requests: Option<f64>,
    /// Output tokens of the good ones / the full window.
    pub output_tokens: Option<f64>,
}

impl Goodput {
    /// The SLO limits the time per output token, and no answer has one: nothing is known of how many met it.
    pub fn is_unknown(&self) -> bool {
        self.slo.tpot_ms.is_some() && self.attainment.is_none() && self.of > 0
    }

    pub(crate) fn new(slo: Slo, records: &RequestRecords, scheduled: u64, window_s: f64) -> Option<Self> {
        if slo.is_empty() {
            return None;
        }
        if lacks_tpot(slo, records) {
            return Some(Self { slo, of: scheduled, ..Self::default() });
        }
        let (mut good, mut tokens) = (0_u64, 0.0);
        for record in records.borrowed().filter(|record| is_met(slo, record)) {
            good += 1;
            tokens += f64::from(record.tokens);
        }
        let per_window = |count: f64| (window_s > 0.0).then(|| count / window_s);
        Some(Self {
            slo,
            good,
            of: scheduled,
            attainment: (scheduled > 0).then(|| good as f64 / scheduled as f64),
            requests: per_window(good as f64),
            output_tokens: per_window(tokens),
        })
    }
}
