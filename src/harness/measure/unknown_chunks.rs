//! Which figures are left out because it is not known how many tokens each chunk has, or because chunks came in one read, so that the time
//! between them was not measured.
//!
//! A server may put several tokens into a chunk (speculative decoding, stream intervals) and report only the total.
//! Answers that happen to have one token in each chunk are not a fair sample of the others, so they do not represent all.

use super::metric::{Metric, MetricLabel, POOL_RULE, RULE};
use super::result::TokenCounts;
use crate::harness::{RequestRecords, TokenSource};

/// Above this share of the answers a figure of the rest is one of a selection.
const NEGLIGIBLE: f64 = 0.01;
/// Above this share of chunks the median gap reads 0.
pub(in crate::harness) const COALESCED: f64 = 0.5;

pub(in crate::harness) struct UnknownChunks {
    /// Of answers with at least two chunks.
    share: f64,
    /// The same, of those that have a total.
    share_with_total: f64,
    coalesced: f64,
    /// Of answers with at least two chunks: all of them came in one read.
    one_read: f64,
}

impl UnknownChunks {
    pub fn of(records: &RequestRecords, tokens: &TokenCounts) -> Self {
        let (mut several, mut unknown, mut with_total, mut one_read) = (0_u64, 0_u64, 0_u64, 0_u64);
        for record in records.ok().filter(|record| record.chunks > 1) {
            several += 1;
            one_read += u64::from(record.is_one_read());
            if record.chunk_tokens_unknown {
                unknown += 1;
                with_total += u64::from(record.token_source == TokenSource::Usage);
            }
        }
        let of_all = |count: u64| count as f64 / several.max(1) as f64;
        Self {
            share: of_all(unknown),
            share_with_total: of_all(with_total),
            coalesced: tokens.coalesced_share.unwrap_or(0.0),
            one_read: of_all(one_read),
        }
    }

    /// Inter-token latency.
    pub fn unless_per_token(&self, label: &MetricLabel<'_>, requests: u64, metric: impl FnOnce() -> Metric) -> Metric {
        if self.share > NEGLIGIBLE {
            let why = "it is not known how many tokens each chunk has; see inter-chunk latency (icl)".to_owned();
            return Metric::absent(label, POOL_RULE, requests, why);
        }
        self.unless_coalesced(label, requests, metric)
    }

    /// Inter-chunk latency.
    pub fn unless_coalesced(&self, label: &MetricLabel<'_>, requests: u64, metric: impl FnOnce() -> Metric) -> Metric {
        if self.coalesced <= COALESCED {
            return metric();
        }
        let why = format!(
            "{:.0} % of the chunks came in one read with the chunk before, so most gaps were not measured",
            self.coalesced * 100.0
        );
        Metric::absent(label, POOL_RULE, requests, why)
    }

    /// Time per output token.
    pub fn unless_without_first_chunk(
        &self,
        label: &MetricLabel<'_>,
        requests: u64,
        metric: impl FnOnce() -> Metric,
    ) -> Metric {
        if self.share_with_total > NEGLIGIBLE {
            let why = "it is not known how many tokens the first chunk has; see inter-chunk latency (icl)".to_owned();
            return Metric::absent(label, RULE, requests, why);
        }
        self.unless_in_one_read(label, requests, metric)
    }

    /// The longest gap of each answer.
    pub fn unless_in_one_read(
        &self,
        label: &MetricLabel<'_>,
        requests: u64,
        metric: impl FnOnce() -> Metric,
    ) -> Metric {
        if self.one_read <= NEGLIGIBLE {
            return metric();
        }
        let why = format!(
            "{:.0} % of the answers with several chunks came in one read, and the time between their tokens was not measured",
            self.one_read * 100.0
        );
        Metric::absent(label, RULE, requests, why)
    }
}
