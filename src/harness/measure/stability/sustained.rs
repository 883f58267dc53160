//! Tokens per second in the middle of a run, beside those of the whole window, which has the filling and the draining of the server
//! in it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use std::cmp::{Ordering, Reverse};

use crate::RequestRecords;
use crate::spool::Spool;

/// Below this share of the sustained rate the headline shows filling and draining more than the server.
const FULL_SHARE: f64 = 0.9;
/// Fewer requests have no middle.
const LEAST_REQUESTS: usize = 20;
/// Tokens of the middle: from a quarter to three quarters of all.
const MIDDLE: (f64, f64) = (0.25, 0.75);

/// Output tokens per second of successful requests. A request's tokens are spread evenly from its first to its last one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sustained {
    /// Schedule start to the end of the last request.
    pub full: f64,
    /// From the time at which a quarter of the tokens had come to the time at which three quarters had.
    pub middle: f64,
}

impl Sustained {
    pub(super) fn of(records: &RequestRecords) -> Option<Self> {
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
        let changes = changes.sorted_by_key(|(at, per_ns)| (*at, Reverse(TotalOrder(*per_ns))));
        let from = reached(&changes, MIDDLE.0 * total)?;
        let to = reached(&changes, MIDDLE.1 * total)?;
        let seconds = (to - from) / 1e9;
        (seconds > 0.0)
            .then(|| Self { full: total / (end as f64 / 1e9), middle: (MIDDLE.1 - MIDDLE.0) * total / seconds })
    }

    pub(super) fn is_far_above(&self) -> bool {
        self.full < FULL_SHARE * self.middle
    }

    pub(super) fn text(&self) -> String {
        format!(
            "{:.0} tok/s are of filling and draining the server once, and the middle half of the tokens came at {:.0} tok/s: \
             neither is the rate that it sustains; raise `stop`",
            self.full, self.middle
        )
    }
}

/// Numbers in their total order.
struct TotalOrder(f64);

impl Ord for TotalOrder {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl PartialOrd for TotalOrder {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for TotalOrder {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for TotalOrder {}

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
