//! Whether the run measured one state of the server all the time, which a mean over the window would hide. Pure.
//!
//! | finding | load | when |
//! |---|---|---|
//! | `overload` | open loops at a constant rate | more arrives than is served (`Growth`, `LatencyTrend`) |
//! | `filling` | open loops at a constant rate | arrivals end before the server has filled (`LatencyTrend`) |
//! | `cold_start` | open and closed loops | 90 % of the first requests are slower than the median of the rest |
//! | `freeze` | all | no answer began, went on or ended for at least half a second while several requests waited |
//! | `concurrency` | closed loops | fewer requests than users, or most users idle for much of the window |
//! | `endpoint` | all, with several servers | one of them is far slower than the others |
//! | `ramp` | Offline, closed loops | tokens per second of the whole window are far below those of its middle |
//!
//! Rates of false alarms are given with each bound; `tests/bench/verdicts.rs` measures those of queues.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::measure::latency::ttft;
use crate::measure::load_conditions::Before;
use crate::measure::metric::percentile;
use crate::measure::occupancy::{Occupancy, Sustained};
use crate::measure::reasons::VerdictReasons;
use crate::measure::steady::{self, answered_in_order};
use crate::measure::subsets::SlowServer;
use crate::{BenchSpec, LoadLevel, LoadPattern, ReasonSeverity, RequestRecord, RequestRecords, VerdictCheck};
use base::stats::{Growth, LatencyTrend, VisitsInOrder};

/// What was seen of changes within the run. Null: it does not apply to the scenario, or there are too few requests.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Stability {
    /// Arrivals against completions, while requests arrived at a constant rate. Its population is all issued requests.
    pub growth: Option<Growth>,
    /// How much longer late requests took than early ones, where the run is too short for `growth`.
    #[serde(alias = "lag")]
    pub latency_trend: Option<LatencyTrend>,
    pub cold_start: Option<ColdStart>,
    pub freeze: Option<ServerFreeze>,
    pub occupancy: Option<Occupancy>,
    pub sustained: Option<Sustained>,
    /// One of several servers that was slower than the others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slow_server: Option<SlowServer>,
}

impl Stability {
    /// `records` by index.
    pub(crate) fn from_records(spec: &BenchSpec, records: &RequestRecords) -> Self {
        let is_constant = matches!(spec.scenario, LoadPattern::Server { rate: LoadLevel::Fixed(_) });
        // Later turns arrive when answers end, so that their number grows until as many end as begin.
        let is_plain = spec.content.sessions.is_none();
        let is_at_once = matches!(spec.scenario, LoadPattern::Offline);
        let is_closed = matches!(spec.scenario, LoadPattern::Concurrency { .. });
        let freeze = ServerFreeze::from_records(records);
        let (growth, latency_trend) =
            if is_constant && is_plain { growth_or_trend(spec, records) } else { (None, None) };
        Self {
            growth,
            latency_trend,
            cold_start: (!is_at_once)
                .then(|| ColdStart::from_records(&answered_in_order(records), freeze.as_ref()))
                .flatten(),
            freeze,
            occupancy: Occupancy::from_records(spec, records),
            sustained: (is_at_once || is_closed).then(|| Sustained::from_records(records)).flatten(),
            slow_server: SlowServer::from_records(spec, records),
        }
    }

    /// More arrived than was served, likely or for certain.
    pub(crate) fn is_overloaded(&self) -> bool {
        self.growth.is_some_and(|growth| growth.is_likely())
            || self.latency_trend.is_some_and(|trend| trend.is_likely())
    }

    /// Of many probes near what a server does some are called overloaded by chance: a search counts fewer.
    pub(crate) fn is_certainly_overloaded(&self) -> bool {
        self.growth.is_some_and(|growth| growth.is_certain())
            || self.latency_trend.is_some_and(|trend| trend.is_certain())
    }

    /// The run was over before the server had filled.
    pub(crate) fn shows_only_filling(&self) -> bool {
        self.latency_trend.is_some_and(|trend| trend.shows_only_filling())
    }

    /// What the server completed per second in an overload.
    pub(crate) fn capacity_per_s(&self) -> Option<f64> {
        let of_growth = self.growth.filter(|growth| growth.departures_per_s < 0.95 * growth.arrivals_per_s);
        let of_trend = || self.latency_trend.filter(LatencyTrend::is_likely).map(|trend| trend.served_per_s());
        of_growth.map(|growth| growth.capacity_per_s).or_else(of_trend)
    }

    pub(crate) fn findings(&self, found: &mut VerdictReasons) {
        if let Some(growth) = self.growth.filter(Growth::is_likely) {
            let text = format!(
                "more requests arrived than were served: {:.2}/s arrived and {:.2}/s were completed meanwhile, and \
                 requests in flight rose from {:.0} to {:.0}; latencies grow with the length of such a run: {}",
                growth.arrivals_per_s,
                growth.departures_per_s,
                growth.early,
                growth.late,
                VerdictCheck::Overload.cure()
            );
            found.add(VerdictCheck::Overload, ReasonSeverity::Overloaded, text);
        }
        if let Some(trend) = &self.latency_trend {
            trend_findings(trend, found);
        }
        if let Some(cold) = &self.cold_start {
            found.warn(VerdictCheck::ColdStart, cold.text());
        }
        if let Some(freeze) = &self.freeze {
            found.warn(VerdictCheck::Freeze, freeze.text());
        }
        if let Some(occupancy) = &self.occupancy {
            occupancy.findings(found);
        }
        if let Some(sustained) = self.sustained.as_ref().filter(|sustained| sustained.is_far_above()) {
            found.warn(VerdictCheck::Ramp, sustained.text());
        }
        if let Some(slow) = &self.slow_server {
            found.warn(VerdictCheck::Endpoint, slow.text());
        }
    }
}

fn trend_findings(trend: &LatencyTrend, found: &mut VerdictReasons) {
    if trend.is_likely() {
        let text = format!(
            "more requests arrived than were served: {:.2}/s arrived for {:.2} s and about {:.2}/s were completed, as \
             a request of the last third took {:.2} s and one of the first third {:.2} s (medians); latencies grow \
             with the length of such a run: {}",
            trend.arrivals_per_s,
            trend.window_s,
            trend.served_per_s(),
            trend.last_third_s,
            trend.first_third_s,
            VerdictCheck::Overload.cure()
        );
        found.add(VerdictCheck::Overload, ReasonSeverity::Overloaded, text);
    } else if trend.shows_only_filling() {
        let text = format!(
            "whether the server holds this rate was not seen: requests arrived for {:.2} s, and one took {:.2} s (mean \
             of the first third), so that the server was still filling; let them arrive for longer",
            trend.window_s, trend.usual_s
        );
        found.warn(VerdictCheck::Filling, text);
    }
}

/// A request that failed was in the system, too. Where `max_in_flight` holds requests back, the client's queue is part
/// of it; a client that is late for other reasons is not.
fn growth_or_trend(spec: &BenchSpec, records: &RequestRecords) -> (Option<Growth>, Option<LatencyTrend>) {
    let is_held_back = spec.pace.max_in_flight.is_some();
    let arrival = |record: &RequestRecord| if is_held_back { record.t_sched } else { record.t_issue };
    let visits = records.column(|record| Some((arrival(record), record.t_end))).sorted_by_key(|(arrival, _)| *arrival);
    let ends = visits.mapped(|(_, end)| end).sorted();
    let seconds = |ns: u64| ns as f64 / 1e9;
    let visits = VisitsInOrder {
        count: visits.len(),
        visits: &|| Box::new(visits.iter().map(|(arrival, end)| (seconds(arrival), seconds(end)))),
        ends: &|| Box::new(ends.iter().map(seconds)),
    };
    let growth = Growth::of_many(&visits);
    let trend = if growth.is_none() { LatencyTrend::estimate(&visits) } else { None };
    (growth, trend)
}

/// Fewer slow requests are an accident.
const LEAST_SLOW: usize = 10;
/// Of the beginning, that must be slower than the median of the rest.
const SLOW_SHARE: f64 = 0.9;
/// How much the headline must be above the steady part, as mean or as p99, for it to matter.
const MEAN_ABOVE: f64 = 1.1;
const P99_ABOVE: f64 = 1.2;

// A slow beginning that is part of the headline: caches that fill, kernels that are compiled, clocks that rise. A queue
// starts empty, so the first requests of a run are its quickest. A beginning of which nine of ten requests are slower
// than the median of all later ones is caused by the server.

/// TTFT with and without the beginning, ms, of successful requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ColdStart {
    /// Requests of the beginning, and when the rest begins, s from the schedule's start.
    pub requests: u64,
    pub until_s: f64,
    pub mean_ms: f64,
    pub steady_mean_ms: f64,
    pub p99_ms: f64,
    pub steady_p99_ms: f64,
}

impl ColdStart {
    /// `answered`: in the order of intended arrivals.
    pub(super) fn from_records(answered: &RequestRecords, freeze: Option<&ServerFreeze>) -> Option<Self> {
        let cut = steady::cut(answered, freeze)?;
        let sorted = |from: usize, to: usize| {
            let part = answered.iter().skip(from).take(to - from);
            let mut values: Vec<f64> = part.filter_map(|record| ttft(&record)).map(|ns| ns / 1e6).collect();
            values.sort_unstable_by(f64::total_cmp);
            values
        };
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len().max(1) as f64;
        // One after the other: of a long run each is as large as memory is to hold.
        let beginning = percentile(&sorted(0, cut), 1.0 - SLOW_SHARE).filter(|_| cut >= LEAST_SLOW);
        let rest = sorted(cut, answered.len());
        let (steady_mean_ms, steady_p99_ms) = (mean(&rest), percentile(&rest, 0.99)?);
        let is_slow = beginning.zip(percentile(&rest, 0.5)).is_some_and(|(beginning, usual)| beginning > usual);
        drop(rest);
        let ttfts = sorted(0, answered.len());
        let cold = Self {
            requests: cut as u64,
            until_s: answered.iter().nth(cut)?.t_sched as f64 / 1e9,
            mean_ms: mean(&ttfts),
            steady_mean_ms,
            p99_ms: percentile(&ttfts, 0.99)?,
            steady_p99_ms,
        };
        let matters = cold.mean_ms > MEAN_ABOVE * cold.steady_mean_ms || cold.p99_ms > P99_ABOVE * cold.steady_p99_ms;
        (is_slow && matters).then_some(cold)
    }

    pub(super) fn text(&self) -> String {
        format!(
            "the first {} requests, until {:.1} s, were slower than the rest: TTFT mean {:.1} ms with them and {:.1} \
             ms without, p99 {:.1} and {:.1} ms; {}",
            self.requests,
            self.until_s,
            self.mean_ms,
            self.steady_mean_ms,
            self.p99_ms,
            self.steady_p99_ms,
            VerdictCheck::ColdStart.cure()
        )
    }
}

/// Shorter silences are a server's usual work.
const LEAST_NS: u64 = 500_000_000;
/// This many times the mean gap between events of answers while requests were in flight, as of so many as are in
/// flight. Exponential gaps exceed it once in 10¹³.
const TIMES_GAP: f64 = 30.0;
/// This many times the median TTFT of requests that were not in flight during it is a request held up.
const TIMES_TTFT: f64 = 3.0;
/// Requests that it must have held up for this long.
const LEAST_HELD_UP: usize = 3;
/// Of the silence, that a stream in it must show as its own largest gap.
const SHARE_OF_GAP: f64 = 0.9;

// A time in which no answer moved although several requests waited: a pause of the server, or of the network.

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
    pub(super) fn from_records(records: &RequestRecords) -> Option<Self> {
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
            "no answer began, went on or ended for {:.1} s, from {:.1} s on, which held up {} requests: the server or \
             the network paused; all latencies count it",
            self.to_s - self.from_s,
            self.from_s,
            self.held_up
        )
    }
}
