//! The share of a closed loop's window in which all users were busy, and tokens per second in the middle of a run. The
//! whole window also includes the server filling and draining.

use std::cmp::Reverse;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::measure::load_conditions::in_flight_changes;
use crate::measure::reasons::VerdictReasons;
use crate::spool::Spool;
use crate::{BenchSpec, LoadLevel, LoadPattern, Pause, ReasonSeverity, RequestRecords, VerdictCheck};

/// Of the users, that must be in flight to count as all.
const ALL: f64 = 0.9;
/// Of the window, that all users must be busy. Three rounds of equal requests reach it, two do not.
pub(crate) const BUSY: f64 = 0.65;

/// Of a closed loop with a fixed number of users.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Occupancy {
    pub users: u64,
    /// Issued, of all users together.
    pub requests: u64,
    /// Share of the time from the first issue to the last end in which at least 90 % of the users had a request in
    /// flight. Null with
    /// `think_time` or `turn_delay`, where users are idle on purpose.
    pub full_share: Option<f64>,
}

impl Occupancy {
    pub(super) fn from_records(spec: &BenchSpec, records: &RequestRecords) -> Option<Self> {
        let LoadPattern::Concurrency { users: LoadLevel::Fixed(users) } = &spec.scenario else { return None };
        let is_busy = spec.pace.think == Pause::default() && spec.content.turn_delay().is_none();
        Some(Self {
            users: *users as u64,
            requests: records.len() as u64,
            full_share: is_busy.then(|| full_share(records, ALL * users)).flatten(),
        })
    }

    pub(super) fn findings(&self, found: &mut VerdictReasons) {
        let Self { users, requests, full_share } = *self;
        if requests < users {
            let text = format!(
                "{users} users were requested and only {requests} requests were sent, so the load was never {users} at \
                 once: {} to several times the number of users",
                VerdictCheck::Concurrency.cure()
            );
            found.add(VerdictCheck::Concurrency, ReasonSeverity::InvalidClient, text);
        } else if let Some(share) = full_share.filter(|share| *share < BUSY) {
            let text = format!(
                "all {users} users were busy for {:.0} % of the window only, with {:.1} requests for each user; the \
                 rest is the end of the run: raise `stop.requests` or `stop.duration`",
                share * 100.0,
                requests as f64 / users.max(1) as f64
            );
            found.warn(VerdictCheck::Concurrency, text);
        }
    }
}

fn full_share(records: &RequestRecords, enough: f64) -> Option<f64> {
    let (issues, ends) = (records.sorted_stamps(|record| record.t_issue), records.sorted_stamps(|record| record.t_end));
    let mut changes = in_flight_changes(&issues, &ends).peekable();
    let first = changes.peek()?.0;
    let (mut now, mut since, mut full, mut last) = (0i64, first, 0u64, first);
    for (at, change) in changes {
        last = at;
        if now as f64 >= enough {
            full += at - since;
        }
        now += change;
        since = at;
    }
    (last > first).then(|| full as f64 / (last - first) as f64)
}

/// Below this share of the sustained rate the headline shows filling and draining more than the server.
pub(crate) const FULL_SHARE: f64 = 0.9;
/// With fewer requests, the middle of the run is too short to evaluate.
const LEAST_REQUESTS: usize = 20;
/// Tokens of the middle: from a quarter to three quarters of all.
const MIDDLE: (f64, f64) = (0.25, 0.75);

/// Output tokens per second of successful requests. A request's tokens are spread evenly from its first to its last
/// one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sustained {
    /// Schedule start to the end of the last request.
    pub full: f64,
    /// From the time at which a quarter of the tokens had come to the time at which three quarters had.
    pub middle: f64,
}

impl Sustained {
    pub(super) fn from_records(records: &RequestRecords) -> Option<Self> {
        let (mut total, mut end, mut requests) = (0.0, 0, 0);
        let changes = records.ok().filter_map(|record| {
            let (first, last) = (record.t_first?, record.t_last?);
            let last = last.max(first + 1);
            let per_ns = f64::from(record.tokens) / (last - first) as f64;
            total += f64::from(record.tokens);
            end = end.max(record.t_end);
            requests += 1;
            Some([(first, per_ns), (last, -per_ns)])
        });
        let changes = records.collected(changes.flatten());
        if requests < LEAST_REQUESTS || total <= 0.0 {
            return None;
        }
        // What begins comes before what ends at the same time.
        let changes = changes.sorted_by_key(|(at, per_ns)| (*at, Reverse(total_order(*per_ns))));
        let from = reached(&changes, MIDDLE.0 * total)?;
        let to = reached(&changes, MIDDLE.1 * total)?;
        let seconds = (to - from) / 1e9;
        (seconds > 0.0)
            .then(|| Self { full: total / (end as f64 / 1e9), middle: (MIDDLE.1 - MIDDLE.0) * total / seconds })
    }

    pub(super) fn text(&self) -> String {
        format!(
            "{:.0} tok/s include filling and draining the server once; the middle half of the tokens came at {:.0} \
             tok/s. Neither is the sustained rate; {}",
            self.full,
            self.middle,
            VerdictCheck::Ramp.cure()
        )
    }
}

/// A number whose order is that of [`f64::total_cmp`].
const fn total_order(number: f64) -> i64 {
    let bits = number.to_bits().cast_signed();
    bits ^ ((bits >> 63).cast_unsigned() >> 1).cast_signed()
}

/// The time, ns, at which this many tokens had come.
fn reached(changes: &Spool<(u64, f64)>, tokens: f64) -> Option<f64> {
    let (mut sum, mut per_ns, mut since) = (0.0, 0.0, changes.iter().next()?.0);
    for (at, change) in changes.iter() {
        let more = per_ns * (at - since) as f64;
        if sum + more >= tokens && per_ns > 0.0 {
            return Some(since as f64 + (tokens - sum) / per_ns);
        }
        sum += more;
        per_ns += change;
        since = at;
    }
    Some(since as f64)
}
