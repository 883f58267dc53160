//! Live counts for progress displays. The result does not use them: it is computed from request records.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts of one worker. Only that worker's thread writes, so an addition needs no locked instruction.
#[derive(Debug, Default)]
pub(crate) struct LiveCounts {
    issued: AtomicU64,
    ended: AtomicU64,
    failed: AtomicU64,
    tokens: AtomicU64,
    /// Requests with a first token, and their times to it together, ns.
    begun: AtomicU64,
    ttft_ns: AtomicU64,
    /// Requests with at least two tokens that have ended, and their times per output token together, ns.
    decoded: AtomicU64,
    tpot_ns: AtomicU64,
}

/// The sum over all workers at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LiveTotals {
    pub issued: u64,
    pub ended: u64,
    pub failed: u64,
    pub tokens: u64,
    pub begun: u64,
    pub ttft_ns: u64,
    pub decoded: u64,
    pub tpot_ns: u64,
}

fn add(to: &AtomicU64, more: u64) {
    to.store(to.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
}

impl LiveCounts {
    pub fn issue(&self, requests: u64) {
        add(&self.issued, requests);
    }

    /// `ttft_ns`: this is the first chunk with a token, this long after the request was due.
    pub fn chunk(&self, tokens: u64, ttft_ns: Option<u64>) {
        add(&self.tokens, tokens);
        if let Some(ns) = ttft_ns {
            add(&self.begun, 1);
            add(&self.ttft_ns, ns);
        }
    }

    /// What arrived was counted as `counted` tokens, and is `tokens`: of another source, or of an attempt that is made
    /// again.
    pub fn correct(&self, counted: u64, tokens: u64) {
        add(&self.tokens, tokens.wrapping_sub(counted));
    }

    /// `tpot_ns`: ns per output token after the first.
    pub fn end(&self, has_failed: bool, tpot_ns: Option<u64>) {
        add(&self.ended, 1);
        add(&self.failed, u64::from(has_failed));
        if let Some(ns) = tpot_ns {
            add(&self.decoded, 1);
            add(&self.tpot_ns, ns);
        }
    }

    pub fn add_to(&self, totals: &mut LiveTotals) {
        let pairs = [
            (&mut totals.issued, &self.issued),
            (&mut totals.ended, &self.ended),
            (&mut totals.failed, &self.failed),
            (&mut totals.tokens, &self.tokens),
            (&mut totals.begun, &self.begun),
            (&mut totals.ttft_ns, &self.ttft_ns),
            (&mut totals.decoded, &self.decoded),
            (&mut totals.tpot_ns, &self.tpot_ns),
        ];
        for (total, count) in pairs {
            *total = total.wrapping_add(count.load(Ordering::Relaxed));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_counted_as_they_arrive_and_corrected_at_the_end() {
        let (one, other) = (LiveCounts::default(), LiveCounts::default());
        one.issue(2);
        one.chunk(1, Some(40));
        one.chunk(3, None);
        other.issue(1);
        other.chunk(2, Some(60));
        // Usage counted less than the chunks did.
        other.correct(2, 1);
        other.end(false, Some(9));
        one.end(true, None);
        let mut totals = LiveTotals::default();
        for live in [&one, &other] {
            live.add_to(&mut totals);
        }
        let expected =
            LiveTotals { issued: 3, ended: 2, failed: 1, tokens: 5, begun: 2, ttft_ns: 100, decoded: 1, tpot_ns: 9 };
        assert_eq!(totals, expected);
    }
}
