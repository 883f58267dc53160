//! Changes of a latency within the run that neither chance nor the load explains: a beginning that was slower than the
//! rest, a step, a level that came back, or a rise over all of it. A mean over the window would hide them. Pure.
//!
//! TTFT, TPOT and the longest stall of each answer are looked at in the order of arrivals: [`LatencyShift`] finds steps
//! and rises, and ranks find a beginning of a few requests. A queue starts empty, so the first requests of a run are
//! its quickest; a beginning that is slower than all but a twentieth of what comes later is caused by the server.
//!
//! The longest stall stands for inter-token latency: a few long gaps among many tokens move the tail of ITL, and hardly
//! TPOT, which is their mean. Where TPOT changes its stalls change, too, so only the change of TPOT is reported.

use std::ops::Range;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::measure::latency::{MAX_STALL, max_stall, tpot, ttft};
use crate::measure::load_conditions::Before;
use crate::measure::metric::percentile;
use crate::measure::reasons::VerdictReasons;
use crate::measure::steady::answered_in_order;
use crate::{BenchSpec, RequestRecord, RequestRecords, VerdictCheck};
use base::stats::{LatencyShift, Observation};
use base::units::counted;

/// Fewer slow requests at the beginning are an accident.
pub(crate) const LEAST_SLOW: usize = 3;
/// Unless each took this many times the longest of all later ones: then one is enough, in a run of at least
/// [`LEAST_OF_RUN`] requests.
pub(crate) const FAR_SLOWER: f64 = 3.0;
/// Users who all send at once make a beginning as many times as slow as they are, and this is beyond that.
const SLOWER_OF_USERS: f64 = 1.2;
pub(crate) const LEAST_OF_RUN: usize = 20;
/// In a closed loop, whose users all send at once at the beginning, unless more of them are slow than there are users.
const LEAST_SLOW_OF_USERS: usize = 10;
/// Of the beginning, that must be slower than 95 % of the second half.
const SLOW_SHARE: f64 = 0.9;
/// A longer one is not a beginning.
const MOST_OF_RUN: f64 = 0.4;
/// How much the headline must be above the rest, as mean or as p99, for a beginning to matter.
pub(crate) const MEAN_ABOVE: f64 = 1.1;
pub(crate) const P99_ABOVE: f64 = 1.2;
/// By how much the mean of the longest stalls must change, ms: shorter ones come and go with the processes of the
/// client's machine, and no reader sees them.
pub(crate) const STALL_MS: f64 = 50.0;
/// Within less time a level changes as this machine's processes take turns.
const LEAST_NS: u64 = 1_000_000_000;
/// A longer series is thinned to this many values.
const MOST_VALUES: usize = 20_000;

/// One latency before and after a change, of successful requests.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CourseChange {
    /// `TTFT`, `TPOT` or `longest stall`.
    pub metric: String,
    /// The part before it is a beginning: short, and slower than the rest.
    pub is_beginning: bool,
    /// Requests before it, and when the rest begins, s from the schedule's start; of a change that went on over the
    /// whole run half of them.
    pub requests: u64,
    pub at_s: f64,
    /// When the level came back, s; absent where it did not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until_s: Option<f64>,
    /// It went on over the whole run.
    pub is_gradual: bool,
    /// Means, ms: before and after it; of a level that came back, outside and within it.
    pub before_ms: f64,
    pub after_ms: f64,
    /// p99, ms: of all requests, and of those after it.
    pub p99_ms: f64,
    pub after_p99_ms: f64,
    /// Later over earlier level at equal load, less 1; over the whole run where it is gradual.
    pub change: f64,
    /// A step between two parts that show no trend of their own: requests in flight rose with it and no further.
    pub is_settled: bool,
}

/// A latency of one request, ns.
type Latency = fn(&RequestRecord) -> Option<f64>;

impl CourseChange {
    /// At most one change of each metric, in the order TTFT, TPOT, longest stall.
    pub(super) fn all(spec: &BenchSpec, records: &RequestRecords) -> Vec<Self> {
        // Later turns have longer prompts and a part of them cached.
        let is_over_time = spec.scenario.is_open_loop() || spec.scenario.users() > 0;
        if spec.content.sessions.is_some() || !is_over_time {
            return Vec::new();
        }
        let (users, is_constant) = (spec.scenario.users(), spec.scenario.is_constant());
        let answered = answered_in_order(records);
        let from_issue: Latency = |record| Some(record.t_first?.saturating_sub(record.t_issue) as f64);
        let metrics: [(&str, Latency, Latency); 3] =
            [("TTFT", from_issue, ttft), ("TPOT", tpot, tpot), (MAX_STALL.title, max_stall, max_stall)];
        let loads = loads(&answered, records);
        let change = |(name, value, shown)| {
            Course { answered: &answered, loads: &loads, users, is_constant, value, shown }.change(name)
        };
        let mut changes: Vec<Self> = metrics.into_iter().filter_map(change).collect();
        let has_tpot = changes.iter().any(|change| change.metric == "TPOT");
        // Users that all send at once stall each other at the beginning, which is their load.
        let matters =
            |stalls: &Self| !has_tpot && !stalls.is_beginning && (stalls.after_ms - stalls.before_ms).abs() >= STALL_MS;
        changes.retain(|change| change.metric != MAX_STALL.title || matters(change));
        changes
    }

    pub(super) fn finding(&self, found: &mut VerdictReasons) {
        let Self { metric, requests, at_s, before_ms, after_ms, p99_ms, after_p99_ms, .. } = self;
        if self.is_beginning {
            let text = format!(
                "the beginning ({}, until {at_s:.2} s) was slower than the rest: {metric} mean \
                 {before_ms:.1} ms, then {after_ms:.1} ms; p99 {p99_ms:.1} ms with them and {after_p99_ms:.1} ms \
                 without; {}",
                counted(*requests, "request"),
                VerdictCheck::ColdStart.cure()
            );
            return found.warn(VerdictCheck::ColdStart, text);
        }
        let how = if self.change > 0.0 { "slower" } else { "faster" };
        let when = match self.until_s {
            Some(until_s) => format!("from {at_s:.1} to {until_s:.1} s"),
            None if self.is_gradual => "over the run".to_owned(),
            None => format!("from {at_s:.1} s on"),
        };
        let text = format!(
            "the server got {how} while it was measured: {metric} changed by {:+.0} % {when} (means {before_ms:.1} and \
             {after_ms:.1} ms), which the load does not explain; {}",
            self.change * 100.0,
            VerdictCheck::Drift.cure()
        );
        found.warn(VerdictCheck::Drift, text);
    }
}

/// Requests in flight at each issue, in the order of `answered`.
fn loads(answered: &RequestRecords, records: &RequestRecords) -> Vec<u64> {
    let issues = records.sorted_stamps(|record| record.t_issue);
    let ends = records.sorted_stamps(|record| record.t_end);
    let (mut issued, mut ended) = (Before::new(&issues), Before::new(&ends));
    let by_issue =
        answered.collected((0_u64..).zip(answered.borrowed()).map(|(place, record)| (record.t_issue, place))).sorted();
    let mut loads = vec![0; answered.len()];
    for (at, place) in by_issue.iter() {
        loads[place as usize] = issued.count(at).saturating_sub(ended.count(at + 1)) as u64;
    }
    loads
}

/// One latency over time.
struct Course<'r> {
    /// In the order of intended arrivals.
    answered: &'r RequestRecords,
    loads: &'r [u64],
    users: usize,
    is_constant: bool,
    /// What the server is judged by.
    value: Latency,
    /// What the headline has.
    shown: Latency,
}

impl Course<'_> {
    fn change(&self, name: &str) -> Option<CourseChange> {
        let count = self.answered.len();
        let thin = count.div_ceil(MOST_VALUES).max(1);
        let series: Vec<(usize, Observation)> = (0..)
            .zip(self.answered.borrowed())
            .step_by(thin)
            .filter_map(|(at, record)| Some((at, Observation { value: (self.value)(&record)?, load: self.loads[at] })))
            .collect();
        let values: Vec<Observation> = series.iter().map(|(_, observation)| *observation).collect();
        let place = |step: usize| series.get(step).map_or(count, |(at, _)| *at);
        let beginning = slow_beginning(&values, self.users).map(place);
        if let Some(change) = beginning.and_then(|step| self.beginning(name, step)) {
            return Some(change);
        }
        let (first, last) = (self.answered.borrowed().next()?.t_sched, self.answered.borrowed().last()?.t_sched);
        // In an open loop a busy period is a time of longer TTFT, also among requests that found as many in flight.
        let may_return = self.users > 0 || name == "TPOT";
        let is_long = last - first >= LEAST_NS;
        // Users who all send at once find no queue, and the next requests that of all others.
        let round = self.users.div_ceil(thin).min(values.len());
        let shift =
            LatencyShift::find(&values[round..], self.is_constant, self.users, may_return).filter(|_| is_long)?;
        let rest = values.len() - round;
        let part = shift.part.clone().unwrap_or(rest / 2..rest);
        let part = place(round + part.start)..place(round + part.end);
        let is_beginning = shift.part.is_some() && part.end == count && shift.ratio < 1.0;
        if is_beginning && part.start as f64 <= MOST_OF_RUN * count as f64 {
            return (part.start > self.users).then(|| self.beginning(name, part.start)).flatten();
        }
        let parts = self.parts(name, part)?;
        // Longer stalls are no sign that requests stopped queueing up.
        let (is_gradual, is_settled) = (shift.part.is_none(), shift.is_settled && name != MAX_STALL.title);
        Some(CourseChange { is_gradual, change: shift.ratio - 1.0, is_settled, ..parts })
    }

    /// None where it does not matter for the headline.
    fn beginning(&self, name: &str, step: usize) -> Option<CourseChange> {
        let parts = self.parts(name, step..self.answered.len())?;
        let share = step as f64 / self.answered.len() as f64;
        let mean = share * parts.before_ms + (1.0 - share) * parts.after_ms;
        let matters = mean > MEAN_ABOVE * parts.after_ms || parts.p99_ms > P99_ABOVE * parts.after_p99_ms;
        let change = parts.after_ms / parts.before_ms - 1.0;
        matters.then_some(CourseChange { is_beginning: true, change, ..parts })
    }

    /// The values outside and within a part of the answers.
    fn parts(&self, name: &str, part: Range<usize>) -> Option<CourseChange> {
        let sorted = |is_chosen: &dyn Fn(usize) -> bool| {
            let chosen = (0..).zip(self.answered.borrowed()).filter(|(at, _)| is_chosen(*at));
            let mut values: Vec<f64> = chosen.filter_map(|(_, record)| Some((self.shown)(&record)? / 1e6)).collect();
            values.sort_unstable_by(f64::total_cmp);
            values
        };
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len().max(1) as f64;
        let due_s = |at: usize| Some(self.answered.borrowed().nth(at)?.t_sched as f64 / 1e9);
        // One after the other: of a long run each is as large as memory is to hold.
        let before_ms = mean(&sorted(&|at| !part.contains(&at)));
        let within = sorted(&|at| part.contains(&at));
        let (after_ms, after_p99_ms) = (mean(&within), percentile(&within, 0.99)?);
        drop(within);
        Some(CourseChange {
            metric: name.to_owned(),
            requests: part.start as u64,
            at_s: due_s(part.start)?,
            until_s: due_s(part.end),
            before_ms,
            after_ms,
            p99_ms: percentile(&sorted(&|_| true), 0.99)?,
            after_p99_ms,
            ..CourseChange::default()
        })
    }
}

/// How many values at the beginning are slower than the later ones: the longest part of which nine of ten are above
/// 95 % of the second half.
fn slow_beginning(series: &[Observation], users: usize) -> Option<usize> {
    let mut later: Vec<f64> = series.iter().skip(series.len() / 2).map(|observation| observation.value).collect();
    later.sort_unstable_by(f64::total_cmp);
    let bound = percentile(&later, 0.95)?;
    let (mut slow, mut longest) = (0, 0);
    for (before, observation) in series.iter().enumerate().take(series.len() / 2) {
        slow += usize::from(observation.value > bound);
        if observation.value > bound && slow as f64 >= SLOW_SHARE * (before + 1) as f64 {
            longest = before + 1;
        }
    }
    let factor = FAR_SLOWER.max(SLOWER_OF_USERS * users as f64);
    let is_far_slower = |count: &usize| {
        let (first, rest) = series.split_at(*count);
        let longest = rest.iter().map(|observation| observation.value).fold(0.0, f64::max);
        first.iter().all(|observation| observation.value > factor * longest)
    };
    if let few @ Some(_) = (1..LEAST_SLOW).filter(|_| series.len() >= LEAST_OF_RUN).find(is_far_slower) {
        return few;
    }
    let least = if users == 0 { LEAST_SLOW } else { LEAST_SLOW_OF_USERS.min(users + 1).max(LEAST_SLOW) };
    let is_enough = longest >= least || longest >= LEAST_SLOW && is_far_slower(&longest);
    (is_enough && longest as f64 <= MOST_OF_RUN * series.len() as f64).then_some(longest)
}
