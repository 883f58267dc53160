//! Measurements that would mislead, each with the verdict that it gets, as one table; and how often sound ones get the
//! same findings.
//!
//! Records are made by a simulated queue in virtual time with fixed seeds: no network, no clock.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::measure::collector::Collector;
use crate::transport::request_encoder::CallKind;
use crate::verdict::VerdictReasons;
use crate::verdict::metric_vector_tests::{ended, spec, summarize_to, summarize_with};
use crate::{Stability, *};
use simulated_queue::{ServerPool, ServiceTime, SimulatedQueue, Visit};
use triton::{Scrape, ServerMetric, ServerMetrics};

#[path = "../../base/stats/simulated_queue.rs"]
#[allow(dead_code, reason = "tests of statistics and benchmarks use the rest")]
pub(crate) mod simulated_queue;
#[path = "../../../tests/bench/systems.rs"]
#[allow(dead_code, reason = "benchmarks use the rest")]
pub(crate) mod systems;

#[path = "../../../tests/bench/courses.rs"]
#[allow(dead_code, reason = "the benchmark prints the rest")]
pub(crate) mod courses;

/// A queue with its mean service time in ms.
#[derive(Clone, Copy)]
struct Queue {
    servers: usize,
    service: ServiceTime,
    service_ms: f64,
}

const M_D_8: Queue = Queue { servers: 8, service: ServiceTime::Fixed, service_ms: 80.0 };
const M_D_64: Queue = Queue { servers: 64, service: ServiceTime::Fixed, service_ms: 2_000.0 };
const M_M_4: Queue = Queue { servers: 4, service: ServiceTime::Exponential, service_ms: 40.0 };

/// As good as without a limit: at 0.04 of it 400 requests are in flight, and none waits.
const M_M_10000: Queue = Queue { servers: 10_000, service: ServiceTime::Exponential, service_ms: 2_000.0 };

impl Queue {
    /// Poisson arrivals at a fraction of its capacity; times in ms.
    fn run(self, load: f64, requests: usize, seed: u64) -> Vec<Visit> {
        let ms = |visit: Visit| {
            let [arrival, start, end] = [visit.arrival, visit.start, visit.end].map(|time| time * self.service_ms);
            Visit { arrival, start, end }
        };
        SimulatedQueue::new(self.servers, self.service, load)
            .starting_empty(requests, seed)
            .into_iter()
            .map(ms)
            .collect()
    }
}

/// One token each, at the end of the service.
fn collected(visits: &[Visit]) -> Collector {
    let mut collector = Collector::new();
    for (index, visit) in visits.iter().enumerate() {
        let (at, end) = (visit.arrival.round() as u64, visit.end.round() as u64);
        ended(&mut collector, index as u64, (at, at, end), 1, &[(end, 1)], RequestEnd::Ok);
    }
    collector
}

/// Requests every 10 ms, each answered after the given time.
pub(super) fn answered_after(requests: u64, ms: impl Fn(u64) -> u64) -> Collector {
    let mut collector = Collector::new();
    for index in 0..requests {
        let (at, end) = (index * 10, index * 10 + ms(index));
        ended(&mut collector, index, (at, at, end), 1, &[(end, 1)], RequestEnd::Ok);
    }
    collector
}

/// Requests every 20 ms, the first token of each after 30 ms, the nine others at this distance.
fn with_gaps(requests: u64, gap_ms: impl Fn(u64) -> u64) -> Collector {
    let mut collector = Collector::new();
    for index in 0..requests {
        let (at, gap) = (index * 20, gap_ms(index));
        let chunks: Vec<(u64, u32)> = (0..10).map(|token| (at + 30 + token * gap, 1)).collect();
        ended(&mut collector, index, (at, at, chunks[9].0), 10, &chunks, RequestEnd::Ok);
    }
    collector
}

/// `slots` requests at a time, 100 tokens each at 10 ms a token; the rest wait for a slot, in the server or as idle
/// users.
fn in_slots(requests: u64, slots: u64, is_closed: bool) -> Collector {
    let mut collector = Collector::new();
    for index in 0..requests {
        let start = index / slots * 1_000 + index % slots;
        let at = if is_closed { start } else { 0 };
        let chunks: Vec<(u64, u32)> = (1..=100).map(|token| (start + token * 10, 1)).collect();
        ended(&mut collector, index, (at, at, start + 1_000), 100, &chunks, RequestEnd::Ok);
    }
    collector
}

/// Like `in_slots` with lengths that differ, as those of real answers do: a slot is taken by the next request as soon
/// as it is free.
fn in_slots_of_all_lengths(requests: u64, slots: usize) -> Collector {
    let mut collector = Collector::new();
    let mut free = vec![0u64; slots];
    for index in 0..requests {
        let tokens = 20 + (index * index * 31 + index * 17) % 180;
        let slot = (0..slots).min_by_key(|slot| free[*slot]).unwrap();
        let start = free[slot];
        let chunks: Vec<(u64, u32)> = (1..=tokens).map(|token| (start + token * 10, 1)).collect();
        free[slot] = start + tokens * 10;
        ended(&mut collector, index, (0, 0, free[slot]), tokens as u32, &chunks, RequestEnd::Ok);
    }
    collector
}

/// Requests of four servers in turn, one every 10 ms, of Poisson queues of one request at a time or of fixed times.
fn at_four_servers(visits: &[Visit]) -> UnjudgedRun {
    let spec = BenchSpec {
        endpoints: (1..=4).map(|port| format!("127.0.0.1:{port}").parse().unwrap()).collect(),
        ..spec(visits.len() as u64)
    };
    summarize_to(&spec, collected(visits), |index| (index % 4) as u32, |_| ())
}

pub(super) struct Case {
    name: &'static str,
    result: RunResult,
}

pub(super) fn case(
    name: &'static str,
    requests: u64,
    collector: Collector,
    change: impl FnOnce(&mut BenchSpec),
) -> Case {
    let mut spec = spec(requests);
    change(&mut spec);
    Case { name, result: summarize_with(&spec, collector, |_| ()).judge().result }
}

/// A case with requests that arrive at the rate of `visits`.
fn queue(name: &'static str, visits: &[Visit]) -> Case {
    let rate = (visits.len() - 1) as f64 * 1e3 / (visits[visits.len() - 1].arrival - visits[0].arrival);
    // The harness's own schedule is another one than the simulated arrivals: the checks of the client's rate are not
    // meant here.
    let mut case = case(name, visits.len() as u64, collected(visits), |spec| {
        spec.scenario = LoadPattern::Server { rate: rate.into() }
    });
    let is_meant = |reason: &&Reason| !matches!(reason.check, VerdictCheck::Rate | VerdictCheck::Ks);
    let mut reasons = VerdictReasons::default();
    reasons.extend(case.result.reasons().iter().filter(is_meant).cloned());
    case.result.judged(reasons);
    case
}

fn sound() -> Vec<Case> {
    vec![
        queue("a queue at 0.7 of its capacity", &M_D_8.run(0.7, 3_000, 1)),
        queue("a queue at 0.9 of its capacity", &M_M_4.run(0.9, 3_000, 2)),
        queue("a server without a queue, 400 in flight, answers of all lengths", &M_M_10000.run(0.04, 6_000, 8)),
        case("a server that always takes 30 ms", 1_000, answered_after(1_000, |_| 30), |_| ()),
        case("5,000 requests of all lengths at once on 64 slots", 5_000, in_slots_of_all_lengths(5_000, 64), |spec| {
            spec.scenario = LoadPattern::Offline;
        }),
    ]
}

fn bad() -> Vec<Case> {
    // 1.3 and 0.6 of what it takes at the end, in steps of the run: no queue explains it.
    let drifting =
        |slope: f64| answered_after(1_000, move |index| (60.0 + slope * index as f64) as u64 + index * 7_919 % 7);
    let mut limit = ServerPool::new(1);
    let limited: Vec<Visit> = (0..3_000).map(|index| limit.serve(f64::from(index) * 10.0, 12.5)).collect();
    let slow: Vec<Visit> = (0..300)
        .map(|index| f64::from(index) * 10.0)
        .map(|at| Visit { arrival: at, start: at, end: at + 20_000.0 })
        .collect();
    let users =
        |users: f64| move |spec: &mut BenchSpec| spec.scenario = LoadPattern::Concurrency { users: users.into() };
    let mut cases = vec![
        queue("1.05 times as many arrivals as are served", &M_D_8.run(1.05, 3_000, 3)),
        queue("1.3 times as many", &M_D_8.run(1.3, 1_000, 4)),
        queue("5 times as many", &M_D_8.run(5.0, 600, 5)),
        queue("5 times as many, and few", &M_M_4.run(5.0, 60, 6)),
        queue("50 times as many", &M_M_4.run(50.0, 300, 7)),
        queue("answers that take longer than requests arrive", &slow),
        queue("1.3 times as many on 64 slots, over before the first answers have shown it", &M_D_64.run(1.3, 300, 9)),
        queue("a silent rate limit of 80/s under 100/s", &limited),
        case(
            "the first 20 % cold: 90 ms, then 30 ms",
            1_000,
            answered_after(1_000, |index| if index < 200 { 90 } else { 30 }),
            |_| (),
        ),
        case(
            "a freeze of 2 s in the middle",
            1_000,
            answered_after(1_000, |index| if (400..600).contains(&index) { (600 - index) * 10 + 30 } else { 30 }),
            |_| (),
        ),
        case(
            "a freeze of 2 s that begins with nothing in flight",
            1_000,
            answered_after(1_000, |index| if (400..600).contains(&index) { (600 - index) * 10 + 3 } else { 3 }),
            |_| (),
        ),
        case(
            "pauses of 300 ms every 3 s",
            1_000,
            answered_after(1_000, |index| if index % 300 >= 270 { (300 - index % 300) * 10 + 30 } else { 30 }),
            |_| (),
        ),
        case(
            "4 cold requests of 300",
            300,
            answered_after(300, |index| if index < 4 { 430 } else { 30 + index % 3 }),
            |_| (),
        ),
        case(
            "1 cold request of 120",
            120,
            answered_after(120, |index| if index < 1 { 430 } else { 30 + index % 3 }),
            |_| (),
        ),
        case("TTFT rises by 25 % over the run", 300, answered_after(300, |index| 100 + index / 12), |_| ()),
        case(
            "TTFT is three times as long in the last fifth",
            300,
            answered_after(300, |index| if index < 240 { 30 } else { 90 } + index * 7_919 % 7),
            |_| (),
        ),
        case("TPOT doubles in the middle", 300, with_gaps(300, |index| if index < 150 { 10 } else { 20 }), |_| ()),
        case("TPOT rises by 40 % over the run", 300, with_gaps(300, |index| 20 + index * 8 / 300), |_| ()),
        case("10 prompts sent again and again", 1_000, answered_after(1_000, |_| 30), |spec| {
            spec.content.distinct = Some(10);
        }),
        case("a server that speeds up from 60 to 30 ms", 1_000, drifting(-0.03), |_| ()),
        case("a server that slows down from 60 to 90 ms", 1_000, drifting(0.03), |_| ()),
        case(
            "a server that still fills, from 3 to 6 s",
            1_000,
            answered_after(1_000, |index| 3_000 + 3 * index),
            |_| (),
        ),
        case("64 requests of 256 users", 64, in_slots(64, 64, true), users(256.0)),
        case("1.5 requests for each of 256 users", 384, in_slots(384, 256, true), users(256.0)),
        case("128 requests of all lengths at once on 64 slots", 128, in_slots_of_all_lengths(128, 64), |spec| {
            spec.scenario = LoadPattern::Offline;
        }),
    ];
    let late = |late: u64| {
        let mut answers = Collector::new();
        for index in 0..300 {
            let at = index * 10;
            ended(&mut answers, index, (at, at + late, at + late + 30), 1, &[(at + late + 30, 1)], RequestEnd::Ok);
        }
        answers
    };
    cases.push(case("a client that sends 50 ms late", 300, late(50), |_| ()));
    let share = |name, change: fn(&mut crate::measure::collector::WorkerOutput)| Case {
        name,
        result: summarize_with(&spec(300), answered_after(300, |_| 30), change).judge().result,
    };
    cases.push(share("a client without CPU to spare", |share| share.cpu_ns = share.wall_ns * 95 / 100));
    cases.push(case("a request that vanished", 301, answered_after(300, |_| 30), |_| ()));
    cases.push(share("a run that was stopped before its end", |share| share.not_sent = 30));
    cases.push(share("a server with unary calls", |share| share.call = CallKind::Unary));
    let with_one = |how: RequestEnd| {
        let mut answers = answered_after(299, |_| 30);
        ended(&mut answers, 299, (2_990, 2_990, 3_020), 1, &[], how);
        answers
    };
    let failed = RequestEnd::Failed { class: FailureClass::Server, why: "out of memory".to_owned() };
    cases.push(case("one failure in 300", 300, with_one(failed), |_| ()));
    let mut slow = Collector::new();
    for index in 0..300 {
        let at = index * 11;
        ended(&mut slow, index, (index * 10, at, at + 30), 1, &[(at + 30, 1)], RequestEnd::Ok);
    }
    cases.push(case("90 requests/s sent where 100 are scheduled", 300, slow, |_| ()));
    let one_late = |requests: u64, late: u64, by: u64| {
        let mut answers = Collector::new();
        for index in 0..requests {
            let at = index * 10 + if index == late { by } else { 0 };
            ended(&mut answers, index, (index * 10, at, at + 30), 1, &[(at + 30, 1)], RequestEnd::Ok);
        }
        answers
    };
    cases.push(case("the last one of 300 requests sent 100 ms late", 300, one_late(300, 299, 100), |_| ()));
    cases.push(case("the first one of 6 requests sent 2 ms late", 6, one_late(6, 0, 2), |_| ()));
    let mut short = Collector::new();
    for index in 0..300 {
        let at = index * 10;
        ended(&mut short, index, (at, at, at + 30), 100, &[(at + 30, 1)], RequestEnd::Ok);
    }
    cases.push(case("answers of 1 token where 100 were requested", 300, short, |_| ()));
    let mut bursts = Collector::new();
    for index in 0..300 {
        let (at, gap) = (index * 10, if index % 2 == 0 { 0 } else { 10 });
        let chunks: Vec<(u64, u32)> = (0..10).map(|token| (at + 120 - 9 * gap + token * gap, 1)).collect();
        ended(&mut bursts, index, (at, at, at + 120), 10, &chunks, RequestEnd::Ok);
    }
    cases.push(case("half of the answers in one burst", 300, bursts, |_| ()));
    cases.push(case("a limit that is missed", 300, answered_after(300, |_| 30), |spec| {
        spec.limits.ttft_p99 = Some(std::time::Duration::from_millis(20).into());
    }));
    cases.push(case("60 requests for a p99", 60, answered_after(60, |_| 30), |_| ()));
    let of_servers = |index: u32| {
        let arrival = f64::from(index) * 10.0;
        let end = arrival + if index % 4 == 2 { 300.0 } else { 30.0 };
        Visit { arrival, start: arrival, end }
    };
    let visits: Vec<Visit> = (0..400).map(of_servers).collect();
    let name = "one of four servers that takes ten times as long";
    cases.push(Case { name, result: at_four_servers(&visits).judge().result });
    cases.push(other_load());
    cases.push(cached_prompts());
    cases.push(longer_prompts());
    cases.extend(super::answer_findings_tests::cases());
    cases
}

fn other_load() -> Case {
    let mut measured = summarize_with(&spec(300), answered_after(300, |_| 30), |_| ());
    let counted = ServerMetric {
        name: "nv_inference_request_success".to_owned(),
        labels: BTreeMap::from([("model".to_owned(), "tensorrt_llm".to_owned())]),
        increase: Some(900.0),
        ..ServerMetric::default()
    };
    measured.server_counted(ServerMetrics { metrics: vec![counted], ..ServerMetrics::default() }, Scrape::default());
    Case { name: "another client on the same server", result: measured.judge().result }
}

fn longer_prompts() -> Case {
    let spec = spec(300);
    let mut result = summarize_with(&spec, answered_after(300, |_| 30), |_| ()).judge().result;
    result.tokens.input_server = Some(2 * result.tokens.input + 100 * 300);
    let result = UnjudgedRun::elsewhere(spec, result, std::time::Instant::now()).judge().result;
    Case { name: "a server that counts two tokens for each word of a prompt", result }
}

fn cached_prompts() -> Case {
    let mut measured = summarize_with(&spec(300), answered_after(300, |_| 30), |_| ());
    let sent = summarize_with(&spec(300), answered_after(300, |_| 30), |_| ()).judge().result.tokens.input as f64;
    let counted = |name: &str, tokens: f64| ServerMetric {
        name: name.to_owned(),
        increase: Some(tokens),
        ..ServerMetric::default()
    };
    let metrics =
        vec![counted("vllm:prefix_cache_queries_total", sent), counted("vllm:prefix_cache_hits_total", 0.98 * sent)];
    measured.server_counted(ServerMetrics { metrics, ..ServerMetrics::default() }, Scrape::default());
    Case { name: "prompts that an earlier run had sent to the same vLLM", result: measured.judge().result }
}

#[test]
fn a_prefix_cache_is_known_by_the_counters_of_either_server() {
    for (queries, hits) in [
        ("vllm:prefix_cache_queries_total", "vllm:prefix_cache_hits_total"),
        ("sglang:prompt_tokens_total", "sglang:cached_tokens_total"),
    ] {
        let measure = || summarize_with(&spec(300), answered_after(300, |_| 30), |_| ());
        let (mut measured, sent) = (measure(), measure().judge().result.tokens.input as f64);
        let metrics = [(queries, sent), (hits, sent / 4.0)].map(|(name, tokens)| ServerMetric {
            name: name.to_owned(),
            increase: Some(tokens),
            ..ServerMetric::default()
        });
        let metrics = ServerMetrics { metrics: metrics.into(), ..ServerMetrics::default() };
        measured.server_counted(metrics, Scrape::default());
        let result = measured.judge().result;
        assert_eq!(result.cached_prompt_share(), Some(0.25), "{queries}");
    }
}

fn table(cases: &[Case]) -> String {
    let mut text = String::new();
    for Case { name, result } in cases {
        let _ = writeln!(text, "{name}\n    {}", result.verdict().as_str());
        for reason in result.reasons() {
            let _ = writeln!(text, "    {}: {}", reason.check, reason.text);
        }
    }
    text
}

#[test]
fn bad_measurements_get_their_verdicts() {
    let cases = bad();
    assert!(cases.len() >= 40, "{}", cases.len());
    for case in &cases {
        assert_ne!(case.result.verdict(), base::event::Verdict::Valid, "{}", case.name);
    }
    insta::assert_snapshot!(table(&cases));
}

/// Four queues of one request at a time at 0.9 of their capacity differ by chance, for busy periods are long.
#[test]
fn equal_servers_are_rarely_called_unequal() {
    let alarms = [60, 300, 1_000].map(|requests| {
        let alarms = (0..100).filter(|seed| {
            let queue = Queue { servers: 1, service: ServiceTime::Exponential, service_ms: 40.0 };
            let runs: Vec<Vec<Visit>> = (0..4).map(|server| queue.run(0.9, requests / 4, seed * 4 + server)).collect();
            let mut visits: Vec<Visit> = Vec::new();
            for at in 0..requests {
                visits.push(runs[at % 4][at / 4]);
            }
            at_four_servers(&visits).judge().result.stability.slow_server.is_some()
        });
        alarms.count()
    });
    assert!(alarms.iter().all(|alarms| *alarms <= 5), "{alarms:?} of 100 runs each");
}

/// The first 100 of 300 requests, each in time: a plan that begins faster than it goes on is not the client's lateness.
#[test]
fn a_run_that_was_stopped_is_not_compared_with_the_rate_of_its_whole_plan() {
    let mut collector = Collector::new();
    for index in 0..100 {
        let at = index * 8;
        ended(&mut collector, index, (at, at, at + 30), 1, &[(at + 30, 1)], RequestEnd::Ok);
    }
    let result = summarize_with(&spec(300), collector, |share| share.not_sent = 200).judge().result;
    let checks: Vec<VerdictCheck> = result.reasons().iter().map(|reason| reason.check.clone()).collect();
    assert!(checks.contains(&VerdictCheck::Stopped) && !checks.contains(&VerdictCheck::Rate), "{:?}", result.reasons());
}

/// A LoadGen test of 100 requests a second, every third of them issued late, with what LoadGen reports of it.
fn loadgen_test_with_lag(lag_ms: u64, result: &str, why: &[&str]) -> RunResult {
    loadgen_test(|index| if index % 3 == 0 { lag_ms } else { 0 }, result, why)
}

fn loadgen_test(lag_ms_of: impl Fn(u64) -> u64, result: &str, why: &[&str]) -> RunResult {
    let mut collector = Collector::new();
    for index in 0..600 {
        let at = index * 10;
        let issued = at + lag_ms_of(index);
        ended(&mut collector, index, (at, issued, issued + 30), 1, &[(issued + 30, 1)], RequestEnd::Ok);
    }
    let spec = BenchSpec { scenario: LoadPattern::External(CallSource::AtTimes), ..spec(600) };
    let mut run = summarize_with(&spec, collector, |_| ());
    run.loadgen_reported(LoadgenResult {
        mode: "performance".to_owned(),
        result: Some(result.to_owned()),
        why: why.iter().map(|why| (*why).to_owned()).collect(),
        ..LoadgenResult::default()
    });
    run.judge().result
}

#[test]
fn a_late_client_is_why_loadgen_reports_a_latency_over_its_limit_and_a_warning_where_it_does_not() {
    use base::event::Verdict;
    let over = ["TTFT constrain not met: Reduce target QPS to improve latency."];
    let few = ["Run unsuccessful.", "Would need to run at least 331 more queries,"];
    let first_checks = |run: &RunResult| run.reasons().first().map(|reason| reason.check.clone());
    let late = loadgen_test_with_lag(400, "INVALID", &over);
    assert_eq!((late.verdict(), first_checks(&late)), (Verdict::InvalidClient, Some(VerdictCheck::Lag)));
    let in_time = loadgen_test_with_lag(0, "INVALID", &over);
    assert_eq!((in_time.verdict(), first_checks(&in_time)), (Verdict::LimitMissed, Some(VerdictCheck::Loadgen)));
    assert_eq!(loadgen_test_with_lag(400, "INVALID", &few).verdict(), Verdict::LimitMissed);
    // The lag of 10 ms is beyond its bound, and a small part of the TTFT of 40 ms.
    assert_eq!(loadgen_test_with_lag(10, "INVALID", &over).verdict(), Verdict::LimitMissed);
    // No lag is in TPOT.
    let tpot = "TPOT constrain not met: Reduce target QPS to improve latency.";
    for missed in [&[tpot][..], &[over[0], tpot]] {
        let slow = loadgen_test_with_lag(400, "INVALID", missed);
        assert_eq!((slow.verdict(), first_checks(&slow)), (Verdict::LimitMissed, Some(VerdictCheck::Loadgen)));
        assert!(slow.reasons().iter().any(|reason| reason.check == VerdictCheck::Lag), "{:?}", slow.reasons());
    }
    let valid = loadgen_test_with_lag(400, "VALID", &[]);
    let lag = valid.reasons().iter().find(|reason| reason.check == VerdictCheck::Lag).expect("a warning");
    assert_eq!(lag.severity, ReasonSeverity::Warning);
    assert_eq!(valid.verdict(), Verdict::ValidWithWarnings, "{:?}", valid.reasons());
}

#[test]
fn a_lower_rate_than_scheduled_is_the_clients_unless_the_server_misses_a_limit_at_it_too() {
    use base::event::Verdict;
    let slowed = |result: &str, why: &[&str]| {
        let mut run = loadgen_test(|index| index * 2, result, why);
        run.rates.offered = Some(100.0);
        let mut reasons = VerdictReasons::default();
        super::admitted_rate(&run, &mut reasons);
        reasons.verdict()
    };
    assert_eq!(slowed("VALID", &[]), Verdict::InvalidClient);
    let missed = |latency: &str| format!("{latency} constrain not met: Reduce target QPS to improve latency.");
    assert_eq!(slowed("INVALID", &[&missed("TTFT")]), Verdict::InvalidClient);
    assert_eq!(slowed("INVALID", &[&missed("TPOT")]), Verdict::LimitMissed);
}

#[test]
fn sound_measurements_are_valid() {
    for Case { name, result } in sound() {
        assert_eq!(result.verdict(), base::event::Verdict::Valid, "{name}: {:?}", result.reasons());
    }
}

/// 20 requests a second of four tokens: while the server pauses for 600 ms every 3 s few or many are in flight. The
/// longest silence began with one, so that it does not stand out as the others do.
#[test]
fn pauses_are_found_whatever_the_longest_of_them_shows() {
    let resumed = |ms: u64| if ms % 3_000 >= 2_400 { ms.next_multiple_of(3_000) } else { ms };
    let mut collector = Collector::new();
    for index in 0..300 {
        let at = index * 50 + index * 7_919 % 53;
        let mut next = resumed(at + 50);
        let chunks = [(); 4].map(|()| {
            let read = next;
            next = resumed(read + 10);
            (read, 1)
        });
        ended(&mut collector, index, (at, at, chunks[3].0), 4, &chunks, RequestEnd::Ok);
    }
    let freeze = Stability::from_records(&spec(300), &collector.records.end()).freeze.expect("pauses");
    assert!(freeze.pauses >= 3 && freeze.held_up >= 3, "{freeze:?}");
}

/// The p99 of an overloaded run grows with its length: no number of requests gives it an interval.
#[test]
fn an_overloaded_run_asks_for_no_interval() {
    let asks =
        |load: f64| queue("", &M_D_8.run(load, 1_000, 4)).result.headline().contains("interval of TTFT p99 needs");
    assert_eq!((asks(0.7), asks(1.3)), (true, false));
}

/// The findings that look at the course of a run, of one simulated queue.
fn findings(queue: Queue, load: f64, requests: usize, seed: u64) -> [bool; 4] {
    let rate = load * queue.servers as f64 * 1e3 / queue.service_ms;
    let spec = BenchSpec { scenario: LoadPattern::Server { rate: rate.into() }, ..spec(requests as u64) };
    let stability = Stability::from_records(&spec, &collected(&queue.run(load, requests, seed)).records.end());
    let mut reasons = VerdictReasons::default();
    stability.findings(&mut reasons);
    let reasons = reasons.into_reasons();
    [VerdictCheck::Overload, VerdictCheck::Drift, VerdictCheck::ColdStart, VerdictCheck::Freeze]
        .map(|check| reasons.iter().any(|reason| reason.check == check))
}

#[test]
fn findings_are_rare_on_stationary_queues_and_overload_is_found() {
    const RUNS: u64 = 40;
    let mut text = "percent of 40 runs      overload  drift  cold_start  freeze\n".to_owned();
    for (name, queue) in [("M/M/4", M_M_4), ("M/D/8", M_D_8)] {
        for (load, requests) in [
            (0.5, 300),
            (0.8, 300),
            (0.9, 60),
            (0.9, 300),
            (0.9, 3_000),
            (1.05, 3_000),
            (1.3, 1_000),
            (3.0, 99),
            (10.0, 1_000),
        ] {
            let mut counts = [0u64; 4];
            for seed in 0..RUNS {
                for (count, is_found) in counts.iter_mut().zip(findings(queue, load, requests, 1_000 + seed)) {
                    *count += u64::from(is_found);
                }
            }
            let percent = counts.map(|count| count as f64 * 100.0 / RUNS as f64);
            let _ = writeln!(
                text,
                "{name}  ρ {load:<4}  N {requests:<5} {:>8.1} {:>6.1} {:>11.1} {:>7.1}",
                percent[0], percent[1], percent[2], percent[3]
            );
            if load < 1.0 {
                assert!(percent.iter().all(|percent| *percent <= 5.0), "false alarms:\n{text}");
            } else {
                assert!(percent[0] >= 85.0, "overload was missed:\n{text}");
            }
        }
    }
    insta::assert_snapshot!(text);
}
