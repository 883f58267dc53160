//! A time in which no answer moved although several requests waited: a pause of the server, or of the network.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::request_times::ttft;
use crate::measure::in_flight_changes::Before;
use crate::{RequestRecord, RequestRecords};

/// Shorter silences are a server's usual work.
const LEAST_NS: u64 = 500_000_000;
/// This many times the mean gap between events of answers while requests were in flight, as of so many as are in flight. Exponential gaps exceed it
/// once in 10¹³.
const TIMES_GAP: f64 = 30.0;
/// This many times the median TTFT of requests that were not in flight during it is a request held up.
const TIMES_TTFT: f64 = 3.0;
/// Requests that it must have held up for this long.
const LEAST_HELD_UP: usize = 3;
/// Of the silence, that a stream in it must show as its own largest gap.
const SHARE_OF_GAP: f64 = 0.9;

/// The longest time without a first token, a last token or an end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServerFreeze {
    /// From the schedule's start, s.
    pub from_s: f64,
    pub to_s: f64,
    /// Requests that were in flight at some time of it.
    pub held_up: u64,
}

impl ServerFreeze {
    pub(super) fn of(records: &RequestRecords) -> Option<Self> {
        let stamps = records.iter().flat_map(|record| [record.t_first, record.t_last, Some(record.t_end)]).flatten();
        let events = records.collected(stamps).sorted();
        let (mut longest, mut longest_in_flight) = ((0, 0), 0);
        // Of gaps, and of gaps times the requests in flight, ns.
        let (mut total, mut total_of_requests, mut gaps) = (0.0, 0.0, 0u32);
        let starts = records.sorted_stamps(|record| record.t_issue);
        let ends = records.sorted_stamps(|record| record.t_end);
        let (mut started, mut ended) = (Before::new(&starts), Before::new(&ends));
        let (mut started_later, mut ended_later) = (Before::new(&starts), Before::new(&ends));
        for (from, to) in events.iter().zip(events.iter().skip(1)) {
            let in_flight = started.count(from + 1) - ended.count(from + 1);
            // A silence with nothing in flight begins when a request waits in it.
            let (from, in_flight) = match started.next() {
                _ if in_flight > 0 => (from, in_flight),
                Some(issue) if issue < to => (issue, 1),
                _ => continue,
            };
            gaps += 1;
            total += (to - from) as f64;
            total_of_requests += (to - from) as f64 * in_flight as f64;
            // At its end, for a server with little to do has few in flight when it begins to pause.
            let held_up = started_later.count(to) - ended_later.count(to);
            if held_up >= LEAST_HELD_UP && to - from > longest.1 - longest.0 {
                (longest, longest_in_flight) = ((from, to), in_flight);
            }
        }
        let (from, to) = longest;
        let silence = to - from;
        // The silence itself is no measure of what is usual.
        let others = f64::from(gaps.saturating_sub(1).max(1));
        let usual_gap = (total - silence as f64) / others;
        // Each of the last few requests of a run may be as quick as one of many, and yet something happens seldom.
        let usual_gap_of_so_many = (total_of_requests / longest_in_flight.max(1) as f64 - silence as f64) / others;
        let usual_gap = f64::max(usual_gap, usual_gap_of_so_many);
        if silence < LEAST_NS || (silence as f64) < TIMES_GAP * usual_gap {
            return None;
        }
        let frozen = Self { from_s: from as f64 / 1e9, to_s: to as f64 / 1e9, held_up: 0 };
        let held = || records.iter().filter(|record| record.t_issue < to && record.t_end >= to);
        let has_moved = held().any(|record| {
            let is_streaming = record.t_first.is_some_and(|first| first <= from);
            is_streaming && (record.max_gap as f64) < SHARE_OF_GAP * silence as f64
        });
        let is_other = |record: &RequestRecord| record.is_ok() && !frozen.overlaps(record);
        let mut others = Vec::new();
        records.values_into(&mut others, |record| if is_other(record) { ttft(record) } else { None });
        others.sort_unstable_by(f64::total_cmp);
        let usual_ttft = others.get(others.len() / 2).copied().unwrap_or(f64::INFINITY);
        let is_late = |record: &RequestRecord| (to - record.t_issue.max(from)) as f64 >= TIMES_TTFT * usual_ttft;
        let is_freeze = !has_moved && held().filter(is_late).count() >= LEAST_HELD_UP;
        let held_up = records.iter().filter(|record| frozen.overlaps(record)).count() as u64;
        is_freeze.then_some(Self { held_up, ..frozen })
    }

    /// It was in flight at some time of the silence.
    pub fn overlaps(&self, record: &RequestRecord) -> bool {
        (record.t_issue as f64) < self.to_s * 1e9 && record.t_end as f64 > self.from_s * 1e9
    }

    pub(super) fn text(&self) -> String {
        format!(
            "no answer began, went on or ended for {:.1} s, from {:.1} s on, which held up {} requests: the server or the network paused; \
             all latencies count it",
            self.to_s - self.from_s,
            self.from_s,
            self.held_up
        )
    }
}
