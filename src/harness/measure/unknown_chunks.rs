//! Metrics that are left out because it is not known how many tokens each chunk has, or because chunks came in one read, so that the time
//! between them was not measured, or because they are those of several answers to one prompt.
//!
//! A server may put several tokens into a chunk (speculative decoding, stream intervals) and report only the total.
//! Answers that happen to have one token in each chunk are not a fair sample of the others, so they do not represent all.

use crate::{RequestRecords, ServerFreeze, TokenSource};

/// Above this share of the answers a figure of the rest is one of a selection.
pub(crate) const NEGLIGIBLE: f64 = 0.01;
/// Above this share of unmeasured times between tokens a figure of the rest is one of few; above this share of chunks that share a read the
/// times between tokens are rather those of a proxy.
pub(crate) const COALESCED: f64 = 0.5;

pub(crate) struct UnknownChunks {
    /// Of answers with at least two chunks.
    share: f64,
    /// The same, of those that have a total.
    share_with_total: f64,
    /// Of tokens after the first chunk: they came in one read with it, so that the time to them is not known. Where that is all of an answer, it
    /// has no TPOT.
    in_first_read: f64,
    /// Of answers with at least two chunks: they are several answers to one prompt.
    interleaved: f64,
}

impl UnknownChunks {
    pub fn of(records: &RequestRecords) -> Self {
        let (mut several, mut unknown, mut with_total, mut interleaved) = (0_u64, 0_u64, 0_u64, 0_u64);
        let (mut later, mut in_first_read) = (0_u64, 0_u64);
        for record in records.ok().filter(|record| record.chunks > 1) {
            several += 1;
            interleaved += u64::from(record.interleaved);
            if record.chunk_tokens_unknown {
                unknown += 1;
                with_total += u64::from(record.token_source == TokenSource::Usage);
            }
            // Chunks stand in for tokens where these are unknown.
            let (tokens, first) =
                if record.chunk_tokens_unknown { (record.chunks, 1) } else { (record.tokens, record.first_tokens) };
            later += u64::from(tokens.saturating_sub(first));
            let of_first_read = if record.is_one_read() { tokens } else { record.first_read_tokens };
            in_first_read += u64::from(of_first_read.saturating_sub(first));
        }
        let of_all = |count: u64| count as f64 / several.max(1) as f64;
        Self {
            share: of_all(unknown),
            share_with_total: of_all(with_total),
            in_first_read: in_first_read as f64 / later.max(1) as f64,
            interleaved: of_all(interleaved),
        }
    }

    /// Why there is no inter-chunk latency and no longest gap.
    pub fn without_gaps(&self) -> Option<String> {
        if self.interleaved > NEGLIGIBLE {
            return Some("a request has several answers, whose tokens come between each other".to_owned());
        }
        let share = self.in_first_read * 100.0;
        (self.in_first_read > COALESCED).then(|| {
            format!(
                "{share:.0} % of the tokens after the first chunk came in one read with it, so most times between tokens were not measured"
            )
        })
    }

    /// Why there is no time per output token.
    pub fn without_first_chunk(&self) -> Option<String> {
        self.uncounted(self.share_with_total, "the first chunk has")
    }

    /// Why there is no inter-token latency.
    pub fn without_tokens(&self) -> Option<String> {
        self.uncounted(self.share, "each chunk has")
    }

    fn uncounted(&self, share: f64, chunk_has: &str) -> Option<String> {
        let why = || format!("it is not known how many tokens {chunk_has}; see inter-chunk latency (icl)");
        let interleaved = self.without_gaps().filter(|_| self.interleaved > NEGLIGIBLE);
        interleaved.or_else(|| (share > NEGLIGIBLE).then(why)).or_else(|| self.without_gaps())
    }
}

/// Of the gaps between chunks, those of answers in one read, except where a freeze of the server explains it. A short answer weighs as little
/// as it has.
pub(super) fn one_read_share(records: &RequestRecords, freeze: Option<&ServerFreeze>) -> Option<f64> {
    let (mut all, mut one_read) = (0_u64, 0_u64);
    for record in records.ok() {
        let gaps = u64::from(record.chunks.saturating_sub(1));
        all += gaps;
        let is_held_up = freeze.is_some_and(|freeze| freeze.overlaps(&record));
        one_read += if record.is_one_read() && !is_held_up { gaps } else { 0 };
    }
    (one_read > 0).then(|| one_read as f64 / all as f64)
}

/// That share, in words.
pub(crate) fn in_one_read(share: f64) -> String {
    format!("{:.0} % of the gaps between chunks are in answers that came in one read", share * 100.0)
}
