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
use crate::measure::load_conditions::{FULL_SHARE, Occupancy, Sustained};
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
    pub fn from_records(spec: &BenchSpec, records: &RequestRecords) -> Self {
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
            freeze: ServerFreeze::from_records(spec, records),
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
        let of_growth = self.growth.filter(Growth::is_likely);
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
            "{:.2}/s arrived for {:.2} s and about {:.2}/s were completed; the median latency rose from {:.2} s in the \
             first third to {:.2} s in the last",
            trend.arrivals_per_s,
            trend.window_s,
            trend.served_per_s(),
            trend.first_third_s,
            trend.last_third_s
        );
        overload_finding(&seen, found);
    } else if trend.shows_only_filling() {
        // So early, an overload of a server with many slots and a server that slows down as it fills look alike.
        let (first, last, served) = (trend.first_third_s, trend.last_third_s, trend.served_per_s());
        let rise = || {
            format!(
                " ({first:.2} s in the first third and {last:.2} s in the last, medians: either it completes about \
                 {served:.2}/s and no more, or it slows down as it fills)"
            )
        };
        let rise = trend.is_rising().then(rise).unwrap_or_default();
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

    use super::*;
    use crate::RequestEnd;
    use crate::measure::collector::Collector;
    use crate::verdict::metric_vector_tests::{ended, spec};
    use crate::verdict::verdict_table_tests::courses::{CourseTally, LAWS, table};

    /// `FALSE_ALARMS=FILE cargo test -p harness --lib draws_false_alarms`: without a release build.
    #[test]
    fn draws_false_alarms_where_a_file_is_named() {
        if let Some(path) = std::env::var_os("FALSE_ALARMS") {
            std::fs::write(path, table(&spec(1), 400)).unwrap();
        }
    }

    /// The worst cells of the table that `cargo bench --bench verdicts -- courses` prints.
    #[test]
    fn all_checks_together_seldom_warn_of_a_server_that_keeps_up() {
        let near_saturation = ["bursts", "M/H2/1", "M/H2/4"].map(|name| (name, 0.9, 300));
        let short = near_saturation.into_iter().flat_map(|cell| [(cell, false), (cell, true)]);
        // Long, and of one slot: where a freeze was often seen.
        // Of a closed loop whose users wait for each other nearly all the time.
        let closed = [false, true].map(|is_streamed| (("32 on H/8", 1.0, 300), is_streamed));
        let long = [(("M/H2/1", 0.7, 3_000), true)];
        for ((name, load, requests), is_streamed) in short.chain(closed).chain(long) {
            let law = LAWS.into_iter().find(|law| law.name == name).unwrap();
            let tally = CourseTally::of_law(&spec(1), law, load, requests, is_streamed, 1_000..1_200);
            assert!(tally.percent("any") <= 5.0, "{name} at {load}, streamed: {is_streamed}: {tally:?}");
        }
    }

    /// Where services differ tenfold, ten counts of departures may look even by chance.
    #[test]
    fn overload_is_found_and_a_stable_run_near_saturation_is_not_overload() {
        let law = LAWS.into_iter().find(|law| law.name == "M/H2/1").unwrap();
        let overload = |load| CourseTally::of_law(&spec(1), law, load, 3_000, false, 1_000..1_100).percent("overload");
        let (held, grown) = (overload(0.9), overload(1.05));
        assert!(held <= 2.0 && grown >= 40.0, "{held} and {grown} %");
    }

    /// A search starts its next rate from this capacity, so only overloaded runs have one.
    #[test]
    fn the_capacity_is_that_of_an_overload() {
        let capacity = |service: u64| {
            let (mut collector, mut free) = (Collector::new(), 0);
            for index in 0..600 {
                let at = index * 10;
                free = free.max(at) + service;
                ended(&mut collector, index, (at, at, free), 1, &[(free, 1)], RequestEnd::Ok);
            }
            Stability::from_records(&spec(600), &collector.records.end()).capacity_per_s()
        };
        assert_eq!(capacity(9), None);
        assert!(capacity(13).is_some_and(|per_s| (per_s - 1e3 / 13.0).abs() < 1.0), "{:?}", capacity(13));
    }

    /// Pauses are no evidence that the server is uneven, however many of its gaps they are.
    #[test]
    fn pauses_that_come_again_are_all_found_and_one_in_a_short_run_is() {
        const USERS: usize = 4;
        let freeze = |answers: usize, gap: u64, pauses: &[usize], lasts: u64| {
            let (mut collector, mut ends) = (Collector::new(), vec![0; USERS]);
            for index in 0..answers {
                let takes = if pauses.contains(&index) { lasts } else { gap };
                let (issued, end) = (ends[index], ends[index + USERS - 1] + takes);
                ended(&mut collector, index as u64, (issued, issued, end), 1, &[(end, 1)], RequestEnd::Ok);
                ends.push(end);
            }
            let records = collector.records.end();
            Stability::from_records(&spec(answers as u64), &records).freeze.map_or(0, |freeze| freeze.pauses)
        };
        assert_eq!(freeze(800, 50, &[], 0), 0);
        assert_eq!(freeze(800, 50, &(1..=20).map(|number| number * 38).collect::<Vec<_>>(), 1_500), 20);
        assert_eq!(freeze(100, 50, &[30, 50, 70], 2_000), 3);
        assert_eq!(freeze(40, 100, &[20], 5_000), 1);
    }

    /// A closed loop of answers of 11 chunks with these times until the first token and between tokens.
    fn changes(users: usize, answers: u64, ttft: fn(u64) -> u64, gap: fn(u64) -> u64) -> Vec<CourseChange> {
        let (mut collector, mut idle_from) = (Collector::new(), vec![0; users]);
        for index in 0..answers {
            let user = (0..users).min_by_key(|user| idle_from[*user]).unwrap();
            let issued = idle_from[user];
            // As no two answers are equal.
            let ttft = ttft(issued) + index * 7 % 13;
            let chunks: Vec<(u64, u32)> = (0..=10).map(|chunk| (issued + ttft + chunk * gap(issued), 1)).collect();
            idle_from[user] = chunks[10].0;
            ended(&mut collector, index, (issued, issued, chunks[10].0), 11, &chunks, RequestEnd::Ok);
        }
        let spec = BenchSpec { scenario: LoadPattern::Concurrency { users: (users as f64).into() }, ..spec(answers) };
        Stability::from_records(&spec, &collector.records.end()).changes
    }

    #[test]
    fn a_level_that_comes_back_is_a_drift() {
        let is_in_bump = |at: u64| (4_000..6_000).contains(&at);
        let ttft = changes(4, 300, |at| if (4_000..6_000).contains(&at) { 400 } else { 100 }, |_| 5);
        let [change] = &ttft[..] else { panic!("{ttft:?}") };
        assert!(is_in_bump((change.at_s * 1e3) as u64 + 400) && change.change > 2.0, "{change:?}");
        let mut reasons = VerdictReasons::default();
        change.finding(&mut reasons);
        let text = reasons.into_reasons().remove(0).text;
        assert!(text.contains("TTFT changed by +2") && text.contains(" % from ") && text.contains(" to "), "{text}");
        let tpot = changes(4, 300, |_| 100, |at| if (4_000..6_000).contains(&at) { 20 } else { 5 });
        assert!(tpot.len() == 1 && tpot[0].metric == "TPOT" && tpot[0].until_s.is_some(), "{tpot:?}");
        assert_eq!(changes(4, 300, |_| 100, |_| 5), []);
    }

    #[test]
    fn the_first_request_of_each_user_may_be_cold() {
        let cold = changes(8, 300, |at| if at == 0 { 2_400 } else { 120 }, |_| 5);
        assert!(cold.len() == 1 && cold[0].is_beginning && cold[0].requests == 8, "{cold:?}");
        // Users who all send at once to a server of one slot wait for each other.
        assert_eq!(changes(8, 300, |at| if at == 0 { 700 } else { 120 }, |_| 5), []);
    }

    /// Answers of 20 chunks, 40 ms apart after a TTFT of 240 ms, with pauses of these lengths, in which nothing moves.
    fn streamed(users: usize, answers: u64, servers: u32, paused: u32, pauses: &[(u64, u64)]) -> Option<ServerFreeze> {
        let (mut collector, mut served_by) = (Collector::new(), Vec::new());
        let mut idle_from: Vec<u64> = (0..users as u64).map(|user| user * 1_000 / users as u64).collect();
        for index in 0..answers {
            let user = (0..users).min_by_key(|user| idle_from[*user]).unwrap();
            let server = user as u32 % servers;
            let moved = |at: u64| {
                let pause = pauses.iter().find(|(from, to)| server == paused % servers && (*from..*to).contains(&at));
                pause.map_or(at, |(_, to)| *to)
            };
            let issued = idle_from[user] + 3;
            let mut at = moved(issued + 240);
            let mut chunks = vec![(at, 1)];
            for _ in 1..20 {
                at = moved(at + 40);
                chunks.push((at, 1));
            }
            idle_from[user] = at;
            ended(&mut collector, index, (issued, issued, at), 20, &chunks, RequestEnd::Ok);
            served_by.push(server);
        }
        let endpoints = (1..=servers).map(|port| format!("127.0.0.1:{port}").parse().unwrap()).collect();
        let scenario = LoadPattern::Concurrency { users: (users as f64).into() };
        let spec = BenchSpec { endpoints, scenario, ..spec(answers) };
        Stability::from_records(&spec, &with_servers(collector, &served_by)).freeze
    }

    fn with_servers(collector: Collector, served_by: &[u32]) -> RequestRecords {
        collector.records.end().map(|record| {
            let endpoint = served_by[record.index as usize];
            RequestRecord { endpoint, ..record }
        })
    }

    #[test]
    fn streams_are_held_up_by_their_own_pace_and_users_by_their_number() {
        let pauses = |users, from, to| streamed(users, 300, 1, 0, &[(from, to)]).map(|freeze| freeze.held_up);
        // Three times the usual TTFT is 0.72 s, and most of the 20 users read a stream of 40 ms for each token.
        assert_eq!((pauses(20, 4_000, 4_000), pauses(20, 4_000, 4_700)), (None, Some(20)));
        // No more than two can be held up.
        assert_eq!((pauses(2, 20_000, 20_000), pauses(2, 20_000, 26_000)), (None, Some(2)));
        assert_eq!(pauses(1, 20_000, 26_000), None);
    }

    #[test]
    fn one_of_several_servers_that_pauses_is_named() {
        let freeze = streamed(12, 600, 4, 1, &[(5_000, 9_000)]).unwrap();
        assert_eq!((freeze.server.as_deref(), freeze.held_up), (Some("127.0.0.1:2"), 3));
        assert!(freeze.text().starts_with("no answer of 127.0.0.1:2 began"), "{}", freeze.text());
        assert_eq!(streamed(12, 600, 4, 1, &[]), None);
    }

    /// At the end of a closed loop only the requests of a slow server are left.
    #[test]
    fn the_usual_answers_of_a_slow_server_are_no_freeze() {
        let (mut collector, mut served_by) = (Collector::new(), Vec::new());
        let mut answer = |server: u32, issued: u64, takes: u64| {
            let (index, end) = (served_by.len() as u64, issued + takes);
            ended(&mut collector, index, (issued, issued, end), 1, &[(end, 1)], RequestEnd::Ok);
            served_by.push(server);
        };
        (0..400).for_each(|at| answer(0, at * 10, 40));
        (0..20).for_each(|at| answer(1, at * 190, 900));
        (0..4).for_each(|at| answer(1, 3_990 + at, 900));
        let records = with_servers(collector, &served_by);
        assert_eq!(Stability::from_records(&spec(424), &records).freeze, None);
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
}
