//! Whether the client sent so late that its own delays are part of the reported latencies. Pure.
//!
//! A percentile of lateness is not a usable criterion: the p99 of fewer than a hundred requests is the latest one, and
//! a short stall of the machine delays one request. Instead, two checks can each report a finding: the number of late
//! requests against what chance allows, and what lateness adds to TTFT (which counts from the schedule) against TTFT
//! itself.

use std::fmt;

use crate::measure::metric::is_maximum;
use crate::{LateRequests, Metric, RequestRecords, RunResult};
use base::stats::binomial_tail;
use base::units::counted;

/// Of the requests, that may be late.
pub(crate) const LATE_SHARE: f64 = 0.01;
/// How unlikely as many late requests must be if that share is late.
const BY_CHANCE: f64 = 0.01;

/// Beyond which lateness is a warning.
pub(crate) const LAG: LagLimit =
    LagLimit { request: TimeBound { ms: 1.0, share: 0.01 }, mean: TimeBound { ms: 0.2, share: 0.01 } };
/// Beyond which it makes a run INVALID(client).
pub(crate) const LAG_HARD: LagLimit =
    LagLimit { request: TimeBound { ms: 5.0, share: 0.05 }, mean: TimeBound { ms: 1.0, share: 0.05 } };

/// How late a client may be.
pub(crate) struct LagLimit {
    /// Of one request, over TTFT p50; of TTFT p99, what lateness may add.
    pub request: TimeBound,
    /// What lateness may add to the mean of TTFT.
    pub mean: TimeBound,
}

/// A time, or a share of another time if that is longer.
pub(crate) struct TimeBound {
    ms: f64,
    share: f64,
}

impl TimeBound {
    pub fn at(&self, whole_ms: f64) -> f64 {
        self.ms.max(self.share * whole_ms)
    }
}

impl fmt::Display for TimeBound {
    /// `1 ms or 1 %`
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} ms or {:.0} %", self.ms, self.share * 100.0)
    }
}

impl LateRequests {
    /// `ttft_p50`: ms.
    pub(crate) fn count(records: &RequestRecords, ttft_p50: f64) -> Self {
        let beyond = |limit: &LagLimit| {
            let bound_ns = limit.request.at(ttft_p50) * 1e6;
            let lateness = records.borrowed().map(|record| record.t_issue.saturating_sub(record.t_sched) as f64);
            lateness.filter(|ns| *ns > bound_ns).count() as u64
        };
        Self { late: beyond(&LAG), very_late: beyond(&LAG_HARD) }
    }
}

/// The worst that can be said of how a run kept its schedule, and whether it is beyond the second limit.
pub(super) fn lag(result: &RunResult) -> Option<(bool, String)> {
    let latency = &result.latency;
    let (requests, ttft_p50) = (latency.queue_client.n, latency.ttft.p50.unwrap_or(0.0));
    let late = result.client.late;
    [(true, &LAG_HARD, late.very_late), (false, &LAG, late.late)].into_iter().find_map(|(is_hard, limit, late)| {
        let by_count = count_text(late, requests, limit.request.at(ttft_p50));
        let by_share = || share_text(&latency.ttft, &latency.ttft_sent, limit);
        Some((is_hard, by_count.or_else(by_share)?))
    })
}

/// How many requests were late, if they are too many.
pub(super) fn count_text(late: u64, requests: u64, bound_ms: f64) -> Option<String> {
    is_beyond_chance(late, requests).then(|| {
        let requests = counted(requests, "request");
        format!("{late} of {requests} were sent more than {bound_ms:.2} ms late")
    })
}

pub(super) fn is_beyond_chance(late: u64, requests: u64) -> bool {
    binomial_tail(late, requests, LATE_SHARE) < BY_CHANCE
}

/// What lateness adds to a reported TTFT, if it is too much.
fn share_text(ttft: &Metric, sent: &Metric, limit: &LagLimit) -> Option<String> {
    let p99 = ttft.p99.zip(sent.p99).filter(|_| !is_maximum(ttft.n, 0.99));
    let numbers = [("mean", ttft.mean.zip(sent.mean), &limit.mean), ("p99", p99, &limit.request)];
    numbers.into_iter().find_map(|(name, numbers, bound)| {
        let (whole, sent) = numbers?;
        let lag = whole - sent;
        (lag > bound.at(whole)).then(|| {
            let share = lag / whole * 100.0;
            format!("{lag:.2} ms ({share:.0} %) of the TTFT {name} of {whole:.2} ms come from late sending")
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metric(n: u64, mean: f64, p99: f64) -> Metric {
        Metric { n, mean: Some(mean), p99: Some(p99), ..Metric::default() }
    }

    #[test]
    fn one_late_request_of_few_is_chance_and_several_are_not() {
        for (late, requests, is_found) in
            [(1, 1, false), (1, 15, false), (2, 15, true), (4, 100, false), (5, 100, true), (130, 10_000, true)]
        {
            assert_eq!(count_text(late, requests, 5.0).is_some(), is_found, "{late} of {requests}");
        }
    }

    #[test]
    fn lateness_counts_by_its_share_in_what_is_reported() {
        let hard = |ttft, sent| share_text(&ttft, &sent, &LAG_HARD);
        // One of 15 requests, 5 and 500 ms late.
        assert_eq!(hard(metric(15, 30.3, 35.0), metric(15, 30.0, 30.0)), None);
        let text = hard(metric(15, 63.3, 530.0), metric(15, 30.0, 30.0)).unwrap();
        assert_eq!(text, "33.30 ms (53 %) of the TTFT mean of 63.30 ms come from late sending");
        // Two of 150, 60 ms late: not in the mean, but in the p99.
        let text = hard(metric(150, 30.8, 90.0), metric(150, 30.0, 30.0)).unwrap();
        assert!(text.starts_with("60.00 ms (67 %) of the TTFT p99"), "{text}");
        // Of few requests p99 is the latest one.
        assert_eq!(hard(metric(50, 30.8, 90.0), metric(50, 30.0, 30.0)), None);
        assert_eq!(hard(Metric::default(), Metric::default()), None);
    }
}
