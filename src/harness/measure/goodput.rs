//! How many requests met all of their SLO limits, each request judged by itself.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::harness::{RequestEnd, RequestRecord};

/// The promise for a single request, ms; at least one limit is given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Slo {
    /// First token − intended arrival.
    pub ttft_ms: Option<f64>,
    /// Time per output token after the first chunk. A request without such tokens is judged by the others only.
    pub tpot_ms: Option<f64>,
    /// Last token − intended arrival.
    pub e2e_ms: Option<f64>,
}

impl Slo {
    pub const fn is_empty(&self) -> bool {
        self.ttft_ms.is_none() && self.tpot_ms.is_none() && self.e2e_ms.is_none()
    }

    /// A request that failed keeps no promise.
    pub(in crate::harness) fn is_kept(&self, record: &RequestRecord) -> bool {
        let within = |limit: Option<f64>, ns: Option<f64>| match (limit, ns) {
            (Some(limit), Some(ns)) => ns <= limit * 1e6,
            _ => true,
        };
        record.ended == RequestEnd::Ok
            && record.t_first.is_some()
            && within(self.ttft_ms, super::summary::ttft(record))
            && within(self.tpot_ms, super::summary::tpot(record).or_else(|| at_most(record)))
            && within(self.e2e_ms, super::summary::e2e(record))
    }
}

/// Time per output token cannot be more where the tokens of chunks are not known: every later chunk has at least one.
fn at_most(record: &RequestRecord) -> Option<f64> {
    let later = record.chunks.checked_sub(1).filter(|later| *later > 0 && record.chunk_tokens_unknown)?;
    Some(record.t_last?.saturating_sub(record.t_first?) as f64 / f64::from(later))
}

/// Requests that kept every promise. Failures and arrivals that were never sent broke theirs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Goodput {
    pub slo: Slo,
    pub good: u64,
    /// Everything that was scheduled to be answered.
    pub of: u64,
    /// good / of.
    pub attainment: Option<f64>,
    /// good / the full window, requests per second.
    pub requests: Option<f64>,
    /// Output tokens of the good ones / the full window.
    pub output_tokens: Option<f64>,
}

impl Goodput {
    pub(in crate::harness) fn of(slo: Slo, records: &[RequestRecord], scheduled: u64, window_s: f64) -> Option<Self> {
        if slo.is_empty() {
            return None;
        }
        let good: Vec<&RequestRecord> = records.iter().filter(|record| slo.is_kept(record)).collect();
        let per_window = |count: f64| (window_s > 0.0).then(|| count / window_s);
        Some(Self {
            slo,
            good: good.len() as u64,
            of: scheduled,
            attainment: (scheduled > 0).then(|| good.len() as f64 / scheduled as f64),
            requests: per_window(good.len() as f64),
            output_tokens: per_window(good.iter().map(|record| f64::from(record.tokens)).sum()),
        })
    }
}
