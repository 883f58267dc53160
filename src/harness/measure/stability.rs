//! Whether the run measured one state of the server all the time, which a mean over the window would hide. Pure.
//!
//! | finding | load | when |
//! |---|---|---|
//! | `overload` | open loops at a constant rate | more arrives than is served (`Growth`, `LatencyTrend`) |
//! | `filling` | open loops at a constant rate | arrivals end before the server has filled (`LatencyTrend`) |
//! | `cold_start`, `drift` | open and closed loops | a latency changed, not by chance or load (`CourseChange`) |
//! | `freeze` | all | no answer began, went on or ended for a while in which several requests waited (`ServerFreeze`) |
//! | `concurrency` | closed loops | fewer requests than users, or most users idle for much of the window |
//! | `endpoint` | all, with several servers | one of them is far slower than the others |
//! | `ramp` | Offline, closed loops | tokens per second of the whole window are far below those of its middle |
//!
//! Rates of false alarms are given with each bound; `tests/bench/verdicts.rs` measures those of queues.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::measure::course::CourseChange;
use crate::measure::freeze::ServerFreeze;
use crate::measure::occupancy::{FULL_SHARE, Occupancy, Sustained};
use crate::measure::reasons::VerdictReasons;
use crate::measure::subsets::SlowServer;
use crate::{BenchSpec, LoadLevel, LoadPattern, ReasonSeverity, RequestRecord, RequestRecords, VerdictCheck};
use base::stats::{Growth, LatencyTrend, VisitsInOrder};

/// What was seen of changes within the run. Null: it does not apply to the scenario, or there are too few requests.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Stability {
    /// Arrivals against completions, while requests arrived at a constant rate. Its population is all issued requests.
    pub growth: Option<Growth>,
    /// How much longer late requests took than early ones, for runs too short to estimate `growth`.
    #[serde(alias = "lag")]
    pub latency_trend: Option<LatencyTrend>,
    /// Of TTFT, TPOT and the longest stall of each answer; none of an overload, or of a server that still fills.
    pub changes: Vec<CourseChange>,
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
        let is_at_once = matches!(spec.scenario, LoadPattern::Offline);
        let is_closed = matches!(spec.scenario, LoadPattern::Concurrency { .. });
        let mut changes = CourseChange::all(spec, records);
        // If the level rose once and then stayed constant, the queue is not growing.
        let is_settled = changes.iter().any(|change| change.is_settled && change.change > 0.0);
        // Later turns arrive when answers end, so that their number grows until as many end as begin.
        let is_plain = spec.content.sessions.is_none();
        let (growth, latency_trend) = match spec.scenario {
            LoadPattern::Server { rate: LoadLevel::Fixed(rate) } if is_plain && !is_settled => {
                growth_or_trend(spec, rate, records)
            }
            _ => (None, None),
        };
        let is_likely = growth.is_some_and(|growth| growth.is_likely());
        // Growing waits and a filling server also make answers slower, and are reported as what they are.
        if is_likely || latency_trend.is_some_and(|trend| trend.is_likely() || trend.shows_only_filling()) {
            changes.clear();
        }
        Self {
            growth,
            latency_trend,
            changes,
            freeze: ServerFreeze::from_records(records),
            occupancy: Occupancy::from_records(spec, records),
            sustained: (is_at_once || is_closed).then(|| Sustained::from_records(records)).flatten(),
            slow_server: SlowServer::from_records(spec, records),
        }
    }

    /// Of many probes near what a server does some are called overloaded by chance: a search counts fewer.
    pub(crate) fn is_certainly_overloaded(&self) -> bool {
        self.growth.is_some_and(|growth| growth.is_certain())
            || self.latency_trend.is_some_and(|trend| trend.is_certain())
    }

    /// What the server completed per second in an overload.
    pub(crate) fn capacity_per_s(&self) -> Option<f64> {
        let of_growth = self.growth.filter(|growth| growth.departures_per_s < 0.95 * growth.arrivals_per_s);
        let of_trend = || self.latency_trend.filter(LatencyTrend::is_likely).map(|trend| trend.served_per_s());
        of_growth.map(|growth| growth.capacity_per_s).or_else(of_trend)
    }

    pub(crate) fn findings(&self, found: &mut VerdictReasons) {
        if let Some(growth) = self.growth.filter(Growth::is_likely) {
            let seen = format!(
                "{:.2}/s arrived and {:.2}/s were completed meanwhile, and requests in flight rose from {:.0} to {:.0}",
                growth.arrivals_per_s, growth.departures_per_s, growth.early, growth.late
            );
            overload_finding(&seen, found);
        }
        if let Some(trend) = &self.latency_trend {
            trend_findings(trend, found);
        }
        self.changes.iter().for_each(|change| change.finding(found));
        if let Some(freeze) = &self.freeze {
            found.warn(VerdictCheck::Freeze, freeze.text());
        }
        if let Some(occupancy) = &self.occupancy {
            occupancy.findings(found);
        }
        let is_far_above = |sustained: &&Sustained| sustained.full < FULL_SHARE * sustained.middle;
        if let Some(sustained) = self.sustained.as_ref().filter(is_far_above) {
            found.warn(VerdictCheck::Ramp, sustained.text());
        }
        if let Some(slow) = &self.slow_server {
            found.warn(VerdictCheck::Endpoint, slow.text());
        }
    }
}

fn overload_finding(seen: &str, found: &mut VerdictReasons) {
    let cure = VerdictCheck::Overload.cure();
    let text =
        format!("more requests arrived than were served: {seen}; latencies grow with the length of such a run: {cure}");
    found.add(VerdictCheck::Overload, ReasonSeverity::Overloaded, text);
}

fn trend_findings(trend: &LatencyTrend, found: &mut VerdictReasons) {
    if trend.is_likely() {
        let seen = format!(
            "{:.2}/s arrived for {:.2} s and about {:.2}/s were completed, as a request of the last third took {:.2} s \
             and one of the first third {:.2} s (medians)",
            trend.arrivals_per_s,
            trend.window_s,
            trend.served_per_s(),
            trend.last_third_s,
            trend.first_third_s
        );
        overload_finding(&seen, found);
    } else if trend.shows_only_filling() {
        // So early, an overload of a server with many slots and a server that slows down as it fills look alike.
        let (first, last, served) = (trend.first_third_s, trend.last_third_s, trend.served_per_s());
        let rise = if trend.is_rising() {
            format!(
                " ({first:.2} s in the first third and {last:.2} s in the last, medians: either it completes about \
                 {served:.2}/s and no more, or it slows down as it fills)"
            )
        } else {
            String::new()
        };
        let text = format!(
            "whether the server holds this rate was not seen: requests arrived for {:.2} s, and one took {:.2} s (mean \
             of the first third), so that the server was still filling{rise}; let them arrive for longer",
            trend.window_s, trend.usual_s
        );
        found.warn(VerdictCheck::Filling, text);
    }
}

/// A request that failed was in the system, too. Where `max_in_flight` holds requests back, the client's queue is part
/// of it; a client that is late for other reasons is not.
fn growth_or_trend(
    spec: &BenchSpec,
    scheduled_per_s: f64,
    records: &RequestRecords,
) -> (Option<Growth>, Option<LatencyTrend>) {
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
    let growth = Growth::estimate(&visits, scheduled_per_s);
    let trend = if growth.is_none() { LatencyTrend::estimate(&visits) } else { None };
    (growth, trend)
}

#[cfg(test)]
mod tests {
    //! All that looks at the course of a run, together, on queues with a known truth.

    use std::collections::BTreeMap;
    use std::fmt::Write as _;

    use super::*;
    use crate::RequestEnd;
    use crate::measure::collector::Collector;
    use crate::verdict::metric_vector_tests::{ended, spec};
    use crate::verdict::verdict_table_tests::simulated_queue::{ServiceTime, SimulatedQueue, Visit};
    use crate::verdict::verdict_table_tests::systems::{Kind, System};

    /// Its name; requests that it serves at once, 1 s each on average; the visits of a run, by load, number of requests
    /// and seed.
    type Law = (&'static str, u32, fn(f64, usize, u64) -> Vec<Visit>);

    fn queue(servers: usize, service: ServiceTime, load: f64, requests: usize, seed: u64) -> Vec<Visit> {
        SimulatedQueue::new(servers, service, load).starting_empty(requests, seed)
    }

    fn system(kind: Kind, load: f64, requests: usize, seed: u64) -> Vec<Visit> {
        System { kind, load }.run(requests, 0, seed)
    }

    const LAWS: [Law; 10] = [
        ("M/M/1", 1, |load, requests, seed| queue(1, ServiceTime::Exponential, load, requests, seed)),
        ("M/M/4", 4, |load, requests, seed| queue(4, ServiceTime::Exponential, load, requests, seed)),
        ("M/D/1", 1, |load, requests, seed| queue(1, ServiceTime::Fixed, load, requests, seed)),
        ("M/D/8", 8, |load, requests, seed| queue(8, ServiceTime::Fixed, load, requests, seed)),
        ("bursts", 4, |load, requests, seed| system(Kind::Bursts, load, requests, seed)),
        ("M/H2/1", 1, |load, requests, seed| system(Kind::TwoKindsAtOnce, load, requests, seed)),
        ("M/H2/4", 4, |load, requests, seed| system(Kind::TwoKinds, load, requests, seed)),
        ("M/G/4", 4, |load, requests, seed| system(Kind::Lognormal, load, requests, seed)),
        ("batches", 16, |load, requests, seed| system(Kind::Batches, load, requests, seed)),
        ("steps", 16, |load, requests, seed| system(Kind::Steps, load, requests, seed)),
    ];

    /// Of answers of 20 tokens a second, each as one piece or as a stream of five.
    fn checks(rate: f64, visits: &[Visit], is_streamed: bool) -> Vec<String> {
        let mut collector = Collector::new();
        for (index, visit) in visits.iter().enumerate() {
            let ms = |at: f64| (at * 1e3).round() as u64;
            let (at, service) = (ms(visit.arrival), visit.end - visit.start);
            let tokens = (service * 4.0).ceil().max(1.0) as u32;
            let chunk = |part: f64| (ms(visit.start + service * part / 5.0), tokens);
            let chunks = if is_streamed {
                [1.0, 2.0, 3.0, 4.0, 5.0].map(chunk).to_vec()
            } else {
                vec![(ms(visit.end), 5 * tokens)]
            };
            ended(&mut collector, index as u64, (at, at, ms(visit.end)), 5 * tokens, &chunks, RequestEnd::Ok);
        }
        let scenario = LoadPattern::Server { rate: rate.into() };
        let spec = BenchSpec { scenario, ..spec(visits.len() as u64) };
        let stability = Stability::from_records(&spec, &collector.records.end());
        let mut reasons = VerdictReasons::default();
        stability.findings(&mut reasons);
        reasons.into_reasons().iter().map(|reason| reason.check.to_string()).collect()
    }

    /// Percent of runs with each finding, and with any of them but `filling`, which says nothing of the server.
    fn percents(law: Law, load: f64, requests: usize, is_streamed: bool, runs: u64) -> BTreeMap<String, f64> {
        let mut percents = BTreeMap::new();
        for seed in 0..runs {
            let mut checks = checks(load * f64::from(law.1), &(law.2)(load, requests, seed), is_streamed);
            checks.dedup();
            if checks.iter().any(|check| check != "filling") {
                checks.push("any".to_owned());
            }
            for check in checks {
                *percents.entry(check).or_default() += 100.0 / runs as f64;
            }
        }
        percents
    }

    /// The worst cells of the table below, at 0.9 of what the servers do. `FALSE_ALARMS=FILE` writes the whole table,
    /// which takes minutes.
    #[test]
    fn all_checks_together_seldom_warn_of_a_server_that_keeps_up() {
        if let Some(file) = std::env::var_os("FALSE_ALARMS") {
            std::fs::write(file, table_of_false_alarms()).unwrap();
        }
        for name in ["bursts", "M/H2/1", "M/H2/4"] {
            let law = LAWS.into_iter().find(|law| law.0 == name).unwrap();
            for is_streamed in [false, true] {
                let percents = percents(law, 0.9, 300, is_streamed, 200);
                let any = percents.get("any").copied().unwrap_or(0.0);
                assert!(any <= 5.0, "{name}, streamed: {is_streamed}: {percents:?}");
            }
        }
    }

    /// One slot and whole answers: nothing moves while it works on a long one, and others wait.
    #[test]
    fn a_long_answer_of_one_slot_is_no_freeze() {
        let freeze = |long_tokens: u32| {
            let (mut collector, mut free) = (Collector::new(), 0);
            for index in 0..600 {
                let (takes, tokens) = if index == 300 { (2_000, long_tokens) } else { (10, 10) };
                let at = index * 40;
                free = free.max(at) + takes;
                ended(&mut collector, index, (at, at, free), tokens, &[(free, tokens)], RequestEnd::Ok);
            }
            Stability::from_records(&spec(600), &collector.records.end()).freeze
        };
        assert_eq!(freeze(2_000), None, "200 times as many tokens");
        assert!(freeze(10).is_some(), "it is as long as the others, so the server paused");
    }

    /// Percent of 200 runs with each finding, for all laws, loads and lengths.
    fn table_of_false_alarms() -> String {
        const RUNS: u64 = 200;
        let cells: Vec<(Law, bool, f64, usize)> = LAWS
            .into_iter()
            .flat_map(|law| [false, true].map(|is_streamed| (law, is_streamed)))
            .flat_map(|(law, is_streamed)| [0.5, 0.7, 0.9, 1.05, 1.3].map(|load| (law, is_streamed, load)))
            .flat_map(|(law, is_streamed, load)| [300, 1_000, 3_000].map(|n| (law, is_streamed, load, n)))
            .collect();
        let next = std::sync::atomic::AtomicUsize::new(0);
        let rows = std::sync::Mutex::new(BTreeMap::new());
        std::thread::scope(|scope| {
            for _ in 0..std::thread::available_parallelism().unwrap().get() {
                scope.spawn(|| {
                    while let at = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed)
                        && let Some((law, is_streamed, load, requests)) = cells.get(at).copied()
                    {
                        let percents = percents(law, load, requests, is_streamed, RUNS);
                        let form = if is_streamed { "streamed" } else { "unary" };
                        let mut row = format!("{:<8} {form:<8} {load:<5} {requests:>5} ", law.0);
                        for check in ["overload", "drift", "cold_start", "freeze", "filling", "any"] {
                            let _ = write!(row, " {check} {:.1} ", percents.get(check).copied().unwrap_or(0.0));
                        }
                        row.push('\n');
                        rows.lock().unwrap().insert(at, row);
                    }
                });
            }
        });
        rows.into_inner().unwrap().into_values().collect()
    }
}
