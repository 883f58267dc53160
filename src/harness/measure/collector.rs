//! Gathers ended requests of one worker: exact records, histograms for token pools, tokens per second.

use hdrhistogram::Histogram;

use super::retokenize::AnswerText;
use crate::harness::record::{RequestEnd, RequestRecord};
use crate::harness::tokens::{CountedTokens, TokenSource, Violations};
use crate::harness::transport::kserve::extra_outputs::OutputTallies;

const SECOND: u64 = 1_000_000_000;
const HOUR: u64 = 3_600 * SECOND;
const DIGITS: u8 = 3;

/// Many values of one kind: mean, min and max exact, percentiles to 3 digits.
#[derive(Clone, Debug)]
pub(in crate::harness) struct ValueHistogram {
    histogram: Histogram<u64>,
    /// Weighted sum, ns.
    sum: f64,
    count: u64,
    min: u64,
    max: u64,
}

impl ValueHistogram {
    pub fn new() -> Self {
        let histogram = Histogram::new_with_bounds(1, HOUR, DIGITS).unwrap_or_else(|_| unreachable!("fixed bounds"));
        Self { histogram, sum: 0.0, count: 0, min: u64::MAX, max: 0 }
    }

    /// `ns`, counted `times` times.
    pub fn add(&mut self, ns: f64, times: u64) {
        let whole = ns.round() as u64;
        self.histogram.saturating_record_n(whole, times);
        self.sum += ns * times as f64;
        self.count += times;
        self.min = self.min.min(whole);
        self.max = self.max.max(whole);
    }

    pub fn merge(&mut self, other: &Self) {
        // Equal bounds, so it cannot be out of range.
        let _ = self.histogram.add(&other.histogram);
        self.sum += other.sum;
        self.count += other.count;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Weighted, ns.
    pub const fn sum(&self) -> f64 {
        self.sum
    }

    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum / self.count as f64)
    }

    pub fn range(&self) -> Option<(u64, u64)> {
        (self.count > 0).then_some((self.min, self.max))
    }

    /// The sorted element floor(N·p), to 3 digits, clamped to [min, max], since a bucket may extend beyond them.
    pub fn percentile(&self, p: f64) -> Option<u64> {
        let rank = ((self.count as f64 * p).floor() as u64).min(self.count.checked_sub(1)?);
        // The histogram's rank is a count from 1; the half keeps rounding from falling to either side.
        let value = self.histogram.value_at_quantile((rank as f64 + 0.5) / self.count as f64);
        Some(value.clamp(self.min, self.max))
    }
}

/// The final results of one worker.
#[derive(Debug)]
pub(in crate::harness) struct Collector {
    pub records: Vec<RequestRecord>,
    /// Each gap over the tokens of the later chunk, that many times; successful requests.
    pub itl_token: ValueHistogram,
    /// Gaps between chunks; successful requests.
    pub icl: ValueHistogram,
    /// Time from the socket read to its processing.
    pub backlog: ValueHistogram,
    /// Tokens of all requests by the second they came in.
    pub tokens_by_second: Vec<u64>,
    /// Chunks that shared a socket read with the one before them.
    pub coalesced: u64,
    pub chunks: u64,
    /// Outputs besides tokens.
    pub more: OutputTallies,
    pub keeps_timelines: bool,
    /// Texts of successful requests, to be counted after the run.
    pub spoken: Vec<(u64, AnswerText)>,
    /// The server reports how many tokens an answer has: its texts need not be kept.
    pub has_usage: bool,
    /// Of all answers, with examples.
    pub violations: Violations,
    /// Tokens of all chunks of all requests.
    pub chunk_tokens: u64,
}

/// Gaps of one length before chunks of one size.
#[derive(Default)]
struct Gaps {
    /// ns
    gap: u64,
    tokens: u32,
    times: u64,
}

impl Collector {
    pub fn new() -> Self {
        Self {
            records: Vec::new(),
            itl_token: ValueHistogram::new(),
            icl: ValueHistogram::new(),
            backlog: ValueHistogram::new(),
            tokens_by_second: Vec::new(),
            coalesced: 0,
            chunks: 0,
            more: OutputTallies::new(),
            keeps_timelines: false,
            spoken: Vec::new(),
            has_usage: false,
            violations: Violations::default(),
            chunk_tokens: 0,
        }
    }

    /// Takes an ended request. The record's token fields are filled from what was counted.
    pub fn take(&mut self, mut record: RequestRecord, counted: CountedTokens, spoken: Option<AnswerText>) {
        let is_counted = counted.source == TokenSource::Usage;
        self.has_usage |= is_counted;
        if let Some(spoken) = spoken.filter(|_| record.ended == RequestEnd::Ok && !is_counted) {
            self.spoken.push((record.index, spoken));
        }
        let CountedTokens { chunks, tokens, violations, .. } = counted;
        if let (Some(first), Some(last)) = (chunks.first(), chunks.last()) {
            record.first_tokens = first.tokens;
            record.t_first = Some(first.t_read);
            record.t_last = Some(last.t_read);
            record.chunks = chunks.len() as u32;
            record.tokens = tokens;
        }
        record.violations = violations.each().map(|(class, count, _)| (class, count)).collect();
        self.violations.merge(violations);
        for chunk in &chunks {
            self.chunk_tokens += u64::from(chunk.tokens);
            let second = (chunk.t_read / SECOND) as usize;
            if self.tokens_by_second.len() <= second {
                self.tokens_by_second.resize(second + 1, 0);
            }
            self.tokens_by_second[second] += u64::from(chunk.tokens);
        }
        self.chunks += chunks.len() as u64;
        // Chunks of one socket read follow each other without a gap: equal gaps are counted together.
        let mut run = Gaps::default();
        for pair in chunks.windows(2) {
            let gap = pair[1].t_read.saturating_sub(pair[0].t_read);
            record.max_gap = record.max_gap.max(gap);
            self.coalesced += u64::from(gap == 0);
            if (gap, pair[1].tokens) == (run.gap, run.tokens) {
                run.times += 1;
            } else {
                self.add(&run, &record);
                run = Gaps { gap, tokens: pair[1].tokens, times: 1 };
            }
        }
        self.add(&run, &record);
        if self.keeps_timelines {
            record.timeline = chunks.iter().map(|chunk| (chunk.t_read, chunk.tokens)).collect();
        }
        self.records.push(record);
    }

    fn add(&mut self, gaps: &Gaps, record: &RequestRecord) {
        let Gaps { gap, tokens, times } = *gaps;
        if times == 0 || record.ended != RequestEnd::Ok {
            return;
        }
        self.icl.add(gap as f64, times);
        // A gap is spread over tokens only where their number is known.
        if !record.chunk_tokens_unknown {
            self.itl_token.add(gap as f64 / f64::from(tokens), times * u64::from(tokens));
        }
    }

    pub fn merge(&mut self, other: Self) {
        self.records.extend(other.records);
        self.spoken.extend(other.spoken);
        self.itl_token.merge(&other.itl_token);
        self.icl.merge(&other.icl);
        self.backlog.merge(&other.backlog);
        self.violations.merge(other.violations);
        self.chunk_tokens += other.chunk_tokens;
        self.coalesced += other.coalesced;
        self.chunks += other.chunks;
        for (name, tally) in other.more {
            self.more.entry(name).or_default().merge(tally);
        }
        if self.tokens_by_second.len() < other.tokens_by_second.len() {
            self.tokens_by_second.resize(other.tokens_by_second.len(), 0);
        }
        for (sum, more) in self.tokens_by_second.iter_mut().zip(other.tokens_by_second) {
            *sum += more;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_agrees_with_sorted_values_to_three_digits() {
        let mut pool = ValueHistogram::new();
        let mut other = ValueHistogram::new();
        let values: Vec<u64> = (1..=1_000u64).map(|i| i * i * 1_000).collect();
        for (position, value) in values.iter().enumerate() {
            if position.is_multiple_of(2) { pool.add(*value as f64, 1) } else { other.add(*value as f64, 1) }
        }
        pool.merge(&other);
        for p in [0.0, 0.1, 0.5, 0.9, 0.99, 0.999] {
            let exact = values[(1_000.0 * p) as usize] as f64;
            let found = pool.percentile(p).unwrap() as f64;
            assert!((found - exact).abs() <= exact / 1_000.0, "p{p}: {found} is not {exact}");
        }
        assert_eq!(pool.range(), Some((1_000, 1_000_000_000)));
        assert_eq!(pool.count(), 1_000);
        assert_eq!((ValueHistogram::new().percentile(0.5), ValueHistogram::new().mean()), (None, None));
    }

    /// Buckets of three digits end beyond the value: without a bound p99 of 20.00001 ms is 20.004863 ms.
    #[test]
    fn a_percentile_never_leaves_the_range() {
        for value in [0.0, 0.4, 1.0, 2_049.0, 20_000_010.0, 7_300.0 * SECOND as f64] {
            let mut pool = ValueHistogram::new();
            pool.add(value, 150);
            let (min, max) = pool.range().unwrap();
            for p in [0.0, 0.5, 0.99, 1.0] {
                let found = pool.percentile(p).unwrap();
                assert!((min..=max).contains(&found), "p{p} of {value}: {found} is not in {min}..={max}");
            }
        }
    }
}
