//! Which figures are left out because it is not known how many tokens each chunk has, or because chunks came in one read, so that the time
//! between them was not measured, or because they are those of several answers to one prompt.
//!
//! A server may put several tokens into a chunk (speculative decoding, stream intervals) and report only the total.
//! Answers that happen to have one token in each chunk are not a fair sample of the others, so they do not represent all.

use super::metric::{Metric, MetricLabel, POOL_RULE, RULE};
use super::result::TokenCounts;
use crate::harness::{RequestRecords, TokenSource};

/// Above this share of the answers a figure of the rest is one of a selection.
pub(in crate::harness) const NEGLIGIBLE: f64 = 0.01;
/// Above this share of chunks the median gap reads 0, and above this share of gaps in answers of one read a figure of the rest is one of
/// few.
pub(in crate::harness) const COALESCED: f64 = 0.5;

pub(in crate::harness) struct UnknownChunks {
    /// Of answers with at least two chunks.
    share: f64,
    /// The same, of those that have a total.
    share_with_total: f64,
    coalesced: f64,
    /// Of the gaps between chunks of one answer: all of the answer came in one read. Such answers have no TPOT, and are rather the quick
    /// ones: a figure of the others is too long, if anything.
    one_read: f64,
    /// Likewise: they are those of several answers to one prompt.
    interleaved: f64,
}

impl UnknownChunks {
    pub fn of(records: &RequestRecords, tokens: &TokenCounts) -> Self {
        let (mut several, mut unknown, mut with_total) = (0_u64, 0_u64, 0_u64);
        let mut interleaved = 0_u64;
        for record in records.ok().filter(|record| record.chunks > 1) {
            several += 1;
            interleaved += u64::from(record.interleaved);
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
            one_read: tokens.one_read_share.unwrap_or(0.0),
            interleaved: of_all(interleaved),
        }
    }

    /// Why no time between tokens is known, whatever their number.
    fn interleaving(&self) -> Option<String> {
        let why = "a request has several answers, whose tokens come between each other";
        (self.interleaved > NEGLIGIBLE).then(|| why.to_owned())
    }

    /// Inter-token latency.
    pub fn unless_per_token(&self, label: &MetricLabel<'_>, requests: u64, metric: impl FnOnce() -> Metric) -> Metric {
        let uncounted = || {
            let why = "it is not known how many tokens each chunk has; see inter-chunk latency (icl)";
            (self.share > NEGLIGIBLE).then(|| why.to_owned())
        };
        let why = self.interleaving().or_else(uncounted).or_else(|| self.coalescing());
        why.map_or_else(metric, |why| Metric::absent(label, POOL_RULE, requests, why))
    }

    /// Inter-chunk latency.
    pub fn unless_coalesced(&self, label: &MetricLabel<'_>, requests: u64, metric: impl FnOnce() -> Metric) -> Metric {
        let why = self.interleaving().or_else(|| self.coalescing());
        why.map_or_else(metric, |why| Metric::absent(label, POOL_RULE, requests, why))
    }

    fn coalescing(&self) -> Option<String> {
        let share = self.coalesced * 100.0;
        let why = || {
            format!("{share:.0} % of the chunks came in one read with the chunk before, so most gaps were not measured")
        };
        (self.coalesced > COALESCED).then(why)
    }

    /// Time per output token.
    pub fn unless_without_first_chunk(
        &self,
        label: &MetricLabel<'_>,
        requests: u64,
        metric: impl FnOnce() -> Metric,
    ) -> Metric {
        let uncounted = || {
            let why = "it is not known how many tokens the first chunk has; see inter-chunk latency (icl)";
            (self.share_with_total > NEGLIGIBLE).then(|| why.to_owned())
        };
        let why = self.interleaving().or_else(uncounted).or_else(|| self.merging());
        why.map_or_else(metric, |why| Metric::absent(label, RULE, requests, why))
    }

    /// The longest gap of each answer.
    pub fn unless_in_one_read(
        &self,
        label: &MetricLabel<'_>,
        requests: u64,
        metric: impl FnOnce() -> Metric,
    ) -> Metric {
        let why = self.interleaving().or_else(|| self.merging());
        why.map_or_else(metric, |why| Metric::absent(label, RULE, requests, why))
    }

    fn merging(&self) -> Option<String> {
        let why = || format!("{}, so most times between tokens were not measured", in_one_read(self.one_read));
        (self.one_read > COALESCED).then(why)
    }
}

/// Of the gaps between chunks, those of answers in one read. A short answer weighs as little as it has.
pub(super) fn one_read_share(records: &RequestRecords) -> Option<f64> {
    let (mut all, mut one_read) = (0_u64, 0_u64);
    for record in records.ok() {
        let gaps = u64::from(record.chunks.saturating_sub(1));
        all += gaps;
        one_read += if record.is_one_read() { gaps } else { 0 };
    }
    (one_read > 0).then(|| one_read as f64 / all as f64)
}

/// That share, in words.
pub(in crate::harness) fn in_one_read(share: f64) -> String {
    format!("{:.0} % of the gaps between chunks are in answers that came in one read", share * 100.0)
}
