//! How much of a closed loop's window had all its users busy.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::measure::in_flight_changes::in_flight_changes;
use crate::measure::verdict_check::VerdictCheck;
use crate::measure::verdict_reason::{ReasonSeverity, VerdictReasons};
use crate::{BenchSpec, LoadLevel, LoadPattern, Pause, RequestRecords};

/// Of the users, that must be in flight to count as all.
const ALL: f64 = 0.9;
/// Of the window, that all users must be busy. Three rounds of equal requests reach it, two do not.
const BUSY: f64 = 0.65;

/// Of a closed loop with a fixed number of users.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Occupancy {
    pub users: u64,
    /// Issued, of all users together.
    pub requests: u64,
    /// Share of the time from the first issue to the last end in which at least 90 % of the users had a request in flight. Null with
    /// `think_time` or `turn_delay`, where users are idle on purpose.
    pub full_share: Option<f64>,
}

impl Occupancy {
    pub(super) fn of(spec: &BenchSpec, records: &RequestRecords) -> Option<Self> {
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
                "{users} users were requested and only {requests} requests were sent, so the load was never {users} at once: raise \
                 `stop.requests` to several times the number of users"
            );
            found.add(VerdictCheck::Concurrency, ReasonSeverity::InvalidLoad, text);
        } else if let Some(share) = full_share.filter(|share| *share < BUSY) {
            let text = format!(
                "all {users} users were busy for {:.0} % of the window only, with {:.1} requests for each user; the rest is the end of \
                 the run: raise `stop.requests` or `stop.duration`",
                share * 100.0,
                requests as f64 / users.max(1) as f64
            );
            found.add(VerdictCheck::Concurrency, ReasonSeverity::Warning, text);
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
