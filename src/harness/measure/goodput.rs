//! How many requests met all of their SLO limits, each request judged by itself.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::request_times::{e2e, tpot, ttft};
use crate::harness::{RequestEnd, RequestRecord, RequestRecords, Slo};

/// A request that failed does not meet its SLO.
fn is_met(slo: Slo, record: &RequestRecord) -> bool {
    let within = |limit: Option<f64>, ns: Option<f64>| match (limit, ns) {
        (Some(limit), Some(ns)) => ns <= limit * 1e6,
        _ => true,
    };
    is_answered(record)
        && within(slo.ttft_ms, ttft(record))
        && within(slo.tpot_ms, per_token(record))
        && within(slo.e2e_ms, e2e(record))
}

fn is_answered(record: &RequestRecord) -> bool {
    record.ended == RequestEnd::Ok && record.t_first.is_some()
}

fn per_token(record: &RequestRecord) -> Option<f64> {
    tpot(record).or_else(|| at_most(record))
}

/// An SLO on the time per output token, although no answer has such a time: nothing shows that it is met.
fn lacks_tpot(slo: Slo, records: &RequestRecords) -> bool {
    let mut answers = records.iter().filter(is_answered).peekable();
    slo.tpot_ms.is_some() && answers.peek().is_some() && answers.all(|record| per_token(&record).is_none())
}

/// Time per output token cannot be more where the tokens of chunks are not known: every later chunk has at least one.
fn at_most(record: &RequestRecord) -> Option<f64> {
    let later = record.chunks.checked_sub(1).filter(|later| *later > 0 && record.chunk_tokens_unknown)?;
    Some(record.t_last?.saturating_sub(record.t_first?) as f64 / f64::from(later))
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

    pub(in crate::harness) fn of(slo: Slo, records: &RequestRecords, scheduled: u64, window_s: f64) -> Option<Self> {
        if slo.is_empty() {
            return None;
        }
        if lacks_tpot(slo, records) {
            return Some(Self { slo, of: scheduled, ..Self::default() });
        }
        let (mut good, mut tokens) = (0_u64, 0.0);
        for record in records.iter().filter(|record| is_met(slo, record)) {
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
