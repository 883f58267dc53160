//! The run checks its own arithmetic: sums that are computed in different ways must agree. Pure.
//!
//! | one way | the other way |
//! |---|---|
//! | values of ITL | tokens − tokens of the first read, over requests |
//! | sum of ITL | TPOT × these tokens, over requests |
//! | values of ICL, and chunks that shared a read | chunks − 1, over requests |
//! | sum of ICL | last − first chunk, over requests |
//! | tokens of chunks | tokens of each second of the run |
//! | tokens of chunks of a request | its tokens |
//! | records | issued requests |

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::measure::collector::Collector;
use crate::measure::latency::{later_tokens, tpot};
use crate::{Counts, RequestRecord, RequestRecords};

/// Sums of gaps are of floating point.
const ROUNDING: f64 = 1e-6;

/// Whether sums that were made on different ways agree.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SelfCheck {
    /// Comparisons that were made.
    pub checks: u64,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mismatches: Vec<Mismatch>,
}

/// Two numbers that should be equal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Mismatch {
    /// What was compared, in the order of the two numbers.
    pub what: String,
    pub found: f64,
    pub expected: f64,
}

impl SelfCheck {
    fn equal(&mut self, what: &str, found: f64, expected: f64) {
        self.checks += 1;
        if (found - expected).abs() > ROUNDING * expected.abs().max(1.0) {
            self.mismatches.push(Mismatch { what: what.to_owned(), found, expected });
        }
    }
}

/// Compares what the collector counted on the way with what its records say.
pub(crate) fn check(all: &Collector<RequestRecords>, counts: &Counts) -> SelfCheck {
    let mut checked = SelfCheck::default();
    let per_token = |record: &RequestRecord| !record.chunk_tokens_unknown && !record.retokenized;
    let (mut tokens_after_first, mut times_of_tokens, mut later_chunks, mut spans) = (0, 0.0, 0, 0);
    let mut is_per_token = true;
    for record in all.records.ok() {
        spans += record.t_last.zip(record.t_first).map_or(0, |(last, first)| last.saturating_sub(first));
        later_chunks += u64::from(record.chunks.saturating_sub(1));
        if per_token(&record) {
            let later = later_tokens(&record);
            tokens_after_first += u64::from(later);
            times_of_tokens += tpot(&record).map_or(0.0, |tpot| tpot * f64::from(later));
        }
        // Tokens that are retokenized after the run counted as chunks during the run; tokens of several answers have no
        // TPOT.
        is_per_token &= !record.retokenized && !record.interleaved;
    }
    if is_per_token {
        let values = all.itl_token.count() as f64;
        checked.equal("values of ITL / tokens after the first reads", values, tokens_after_first as f64);
        checked.equal("sum of ITL / TPOT × tokens after the first reads, ns", all.itl_token.sum(), times_of_tokens);
    }
    let gaps = (all.icl.count() + all.coalesced) as f64;
    checked.equal(
        "values of ICL and chunks that shared a read / chunks after the first ones",
        gaps,
        later_chunks as f64,
    );
    checked.equal("sum of ICL / last − first chunk, ns", all.icl.sum(), spans as f64);
    let by_second = all.tokens_by_second.iter().sum::<u64>() as f64;
    checked.equal("tokens by second / tokens of chunks", by_second, all.chunk_tokens as f64);
    let issued = counts.issued as f64;
    checked.equal("records / issued requests", all.records.len() as f64, issued);
    for record in all.records.ok().filter(|record| !record.timeline.is_empty() && per_token(record)) {
        let tokens: u64 = record.timeline.iter().map(|(_, tokens)| u64::from(*tokens)).sum();
        let sums = format!("tokens of the chunks of request {} / its tokens", record.index);
        checked.equal(&sums, tokens as f64, f64::from(record.tokens));
    }
    checked
}
