//! The conditions of the load in the result: from when latencies count, the data that were read, the most requests in
//! flight; and how the number of requests in flight changes over time.
//!
//! The share of a closed loop's window in which all users were busy, and tokens per second in the middle of a run. The
//! whole window also includes the server filling and draining.

use std::cmp::Reverse;
use std::iter::Peekable;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::measure::collector::WorkerOutput;
use crate::measure::reasons::VerdictReasons;
use crate::schedule::plan::PLAN;
use crate::spool::Spool;
use crate::{
    BenchSpec, DataSummary, LoadLevel, LoadPattern, Pause, PromptSource, ReasonSeverity, RequestRecords,
    RequestSchedule, SessionsSummary, Transport, VerdictCheck,
};

/// The load as it was planned and as it could be sent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct LoadConditions {
    /// From when the latencies called "from schedule" count.
    pub zero_point: String,
    /// The plan, beside the result; `data: { plan: … }` sends it again.
    pub plan: String,
    pub content: PromptSource,
    pub data: Option<DataSummary>,
    /// Prompt lengths in tokens, and their source.
    pub input_lengths: String,
    /// Most requests in flight at once, from the records' stamps.
    pub in_flight_max: u64,
    /// Arrivals that waited because `max_in_flight` requests were in flight. Their latency counts the wait.
    pub held_back: u64,
    pub max_in_flight: Option<u32>,
    /// Scheduled requests whose whole prompt is that of an earlier one.
    pub prompts_repeated: u64,
    pub sessions: Option<SessionsSummary>,
}

impl LoadConditions {
    pub(crate) fn new(
        spec: &BenchSpec,
        schedule: &RequestSchedule,
        outputs: &[WorkerOutput],
        records: &RequestRecords,
        token_source: &str,
    ) -> Self {
        const PROMPTS: [&str; 4] = ["messages", "prompt", "text_input", "input_ids"];
        let has_extra = |key: &&str| matches!(&spec.protocol, Transport::Http(http) if http.extra.contains_key(*key));
        let all = schedule.requests.len().max(1) as u64;
        let later = records.borrowed().any(|record| record.turn > 0);
        let first = match &spec.scenario {
            LoadPattern::Offline | LoadPattern::Server { .. } | LoadPattern::Trace { .. } => "the intended arrival",
            LoadPattern::Concurrency { .. } => {
                "when the user became idle after its think time: a closed loop has no schedule, so waiting for a slow \
                 server shows in the rate and not in the latency"
            }
            LoadPattern::External(_) => "when the external driver called",
        };
        let more = if later { "; of later turns, the end of the turn before and the pause" } else { "" };
        Self {
            zero_point: format!("{first}{more}"),
            plan: PLAN.to_owned(),
            content: spec.content.clone(),
            data: schedule.data.clone(),
            input_lengths: if schedule.has_tokenizer() {
                "tokens of the tokenizer given, without the special ones that a server may add".to_owned()
            } else {
                "token ids as sent; of text, words".to_owned()
            },
            in_flight_max: in_flight_max(records),
            held_back: outputs.iter().map(|output| output.deferred).sum(),
            max_in_flight: spec.pace.max_in_flight,
            // A prompt in `extra` is that of every request.
            prompts_repeated: if PROMPTS.iter().any(has_extra) { all - 1 } else { schedule.repeated_prompts() },
            sessions: later.then(|| SessionsSummary::from_records(records, spec.scenario.zero_point(), token_source)),
        }
    }
}

fn in_flight_max(records: &RequestRecords) -> u64 {
    let mut now = 0i64;
    let (issues, ends) = (records.sorted_stamps(|record| record.t_issue), records.sorted_stamps(|record| record.t_end));
    let most = in_flight_changes(&issues, &ends).map(|(_, change)| {
        now += change;
        now
    });
    most.max().unwrap_or(0).max(0) as u64
}

/// Time and change, from stamps in the order of time. An end and an issue at the same instant are one after the other.
pub(crate) fn in_flight_changes(issues: &Spool<u64>, ends: &Spool<u64>) -> impl Iterator<Item = (u64, i64)> {
    let (mut issues, mut ends) = (issues.iter().peekable(), ends.iter().peekable());
    std::iter::from_fn(move || {
        let is_end = match (issues.peek(), ends.peek()) {
            (Some(issue), Some(end)) => end <= issue,
            (issue, _) => issue.is_none(),
        };
        if is_end { Some((ends.next()?, -1)) } else { Some((issues.next()?, 1)) }
    })
}

/// Counts sorted stamps before times that do not go back.
pub(crate) struct Before<'s> {
    rest: Peekable<Box<dyn Iterator<Item = u64> + 's>>,
    count: usize,
}

impl<'s> Before<'s> {
    pub fn new(sorted: &'s Spool<u64>) -> Self {
        let rest: Box<dyn Iterator<Item = u64>> = Box::new(sorted.iter());
        Self { rest: rest.peekable(), count: 0 }
    }

    pub fn count(&mut self, time: u64) -> usize {
        while self.rest.next_if(|at| *at < time).is_some() {
            self.count += 1;
        }
        self.count
    }

    /// The first one that was not counted.
    pub fn next(&mut self) -> Option<u64> {
        self.rest.peek().copied()
    }
}

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
