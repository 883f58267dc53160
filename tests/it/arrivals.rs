//! When requests are sent, over real sockets: closed loops, traces, ramps, sessions, a limit on what is in flight.

use std::sync::Arc;
use std::time::Duration;

use pretty_assertions::assert_eq;
use regatta::event::Stop;
use regatta::harness::{
    BenchProgress, BenchSpec, DataKind, LoadLevel, LoadPattern, LoadSegment, Measured, Pause, PromptFile, PromptSource,
    ReasonSeverity, RequestRecords, SendingSpec, Slo, Transport, VerdictCheck, run,
};
use regatta::sim::SimOptions;
use regatta::spec::{Arrivals, DelayPlace, History, Length, Limits, RecordOrder, Request, Sessions, StopAfter};

use crate::scripted_server::{Act, Last, Scripted, wait_for};
use crate::simulator::ground::{Files, Running};

const MS: u64 = 1_000_000;

pub fn spec(address: std::net::SocketAddr, scenario: LoadPattern, requests: u64) -> BenchSpec {
    BenchSpec {
        endpoints: vec![address.to_string().parse().unwrap()],
        protocol: Transport::Kserve,
        model: "tensorrt_llm".to_owned(),
        scenario,
        arrivals: Arrivals::Constant,
        stop: StopAfter { requests: Some(requests), duration: None },
        input_len: Length::Uniform { min: 4, max: 40 },
        output_len: Length::Fixed(4),
        seed: 1,
        warmup: 1,
        pace: SendingSpec::default(),
        content: PromptSource::default(),
        frontends: 1,
        clients: 2,
        stall_timeout: Duration::from_secs(30),
        limits: Limits::default(),
        slo: Slo::default(),
        timelines: false,
        vocab_size: 1000,
        end_id: 2,
        request: Request::default(),
    }
}

/// A server that takes `gap` for each token.
pub fn paced(gap: Duration) -> Scripted {
    Scripted::start(true, None, Arc::new(move |_| Act::Answer { gap, per_chunk: 1, last: Last::FlagOnToken }))
}

pub fn measured(spec: &BenchSpec) -> Measured {
    let measured = wait_for(run(spec, &Stop::new(), |_| {})).unwrap();
    let counts = &measured.result.counts;
    assert!(counts.conserved, "{counts:?}");
    assert_eq!((counts.ok, counts.failed), (counts.scheduled, 0), "{:?}", counts.failures);
    measured
}

fn users(count: f64) -> LoadPattern {
    LoadPattern::Concurrency { users: count.into() }
}

fn in_flight(records: &RequestRecords, at: u64) -> usize {
    records.iter().filter(|record| record.t_issue <= at && at < record.t_end).count()
}

#[test]
fn a_closed_loop_holds_its_users_in_flight() {
    let files = Files::new(true, &serde_json::json!({}));
    let server = Running::start(SimOptions { speed: 5.0, ..files.options() });
    let measured = measured(&BenchSpec { output_len: Length::Fixed(20), ..spec(server.address, users(5.0), 60) });
    let load = &measured.result.load;
    assert_eq!(load.in_flight_max, 5);
    assert!(load.zero_point.contains("closed loop"), "{}", load.zero_point);
    assert_eq!(measured.result.latency.ttft.zero_point, "user_idle");
    // Each request but the first five was issued by a user whose last one had ended, and at once all five are at work.
    let mut ends: Vec<u64> = measured.requests.iter().map(|record| record.t_end).collect();
    ends.sort_unstable();
    let mut issues = measured.requests.to_vec();
    issues.sort_by_key(|record| record.t_issue);
    for (place, record) in issues.iter().enumerate().skip(5) {
        assert!(record.t_issue >= ends[place - 5], "request {} came too early", record.index);
        let is_first = record.t_sched == 0;
        assert!(is_first || ends.contains(&record.t_sched), "request {} is not due when a user is free", record.index);
    }
    assert_eq!(issues.iter().filter(|record| record.t_sched == 0).count(), 5);
    // A free user does not stay free: most requests find the four others at work.
    let full = issues.iter().filter(|record| in_flight(&measured.requests, record.t_issue) == 5).count();
    assert!(full > 30, "{full} of 60");
    assert_eq!(measured.result.rates.offered, None);
    server.stop().unwrap();
}

#[test]
fn a_closed_loop_of_some_time_sends_until_then_and_takes_its_plan_in_order() {
    let server = paced(Duration::from_millis(2));
    let mut spec = spec(server.address, users(3.0), 0);
    spec.stop = StopAfter { requests: None, duration: Some(Duration::from_millis(300).into()) };
    let measured = measured(&spec);
    let records = &measured.requests.to_vec();
    assert_eq!(
        records.iter().map(|record| record.index).collect::<Vec<_>>(),
        (0..records.len() as u64).collect::<Vec<_>>()
    );
    assert!(records.iter().all(|record| record.t_sched < 300 * MS));
    // Whoever was free before the end took another one.
    let late = records.iter().filter(|record| record.t_end >= 300 * MS).count();
    assert_eq!(late, 3);
    assert_eq!(measured.schedule.requests.len(), records.len());
}

#[test]
fn users_think_between_an_answer_and_the_next_request() {
    let server = paced(Duration::ZERO);
    let mut spec = spec(server.address, users(2.0), 12);
    spec.pace.think = Pause::Fixed(20.0);
    let measured = measured(&spec);
    let mut ends: Vec<u64> = measured.requests.iter().map(|record| record.t_end).collect();
    ends.sort_unstable();
    for record in measured.requests.iter().filter(|record| record.t_sched > 0) {
        assert!(record.t_issue >= record.t_sched);
        assert!(ends.contains(&(record.t_sched - 20 * MS)), "request {} is due 20 ms after an end", record.index);
    }
}

#[test]
fn users_come_with_a_ramp_and_none_above_it() {
    let server = paced(Duration::from_millis(5));
    let level = LoadLevel::Ramp(vec![
        LoadSegment { from: 1.0, to: 1.0, seconds: 0.5 },
        LoadSegment { from: 3.0, to: 3.0, seconds: 0.5 },
        LoadSegment { from: 2.0, to: 2.0, seconds: 0.5 },
    ]);
    let mut spec = spec(server.address, LoadPattern::Concurrency { users: level }, 0);
    spec.stop = StopAfter { requests: None, duration: Some(Duration::from_millis(1500).into()) };
    let measured = measured(&spec);
    let due = |from: u64, to: u64| {
        measured.requests.iter().filter(move |record| (from * MS..to * MS).contains(&record.t_sched))
    };
    // Nobody's request is due while another's of the one user is under way.
    for record in measured.requests.iter().filter(|record| record.t_issue < 500 * MS) {
        assert_eq!(in_flight(&measured.requests, record.t_issue), 1);
    }
    assert_eq!(due(500, 501).filter(|record| record.t_sched == 500 * MS).count(), 2, "two users come at 500 ms");
    // Who is above the level ends what he has begun, and begins nothing new.
    let later = RequestRecords::new(due(1000, 1500));
    for record in &later {
        assert!(in_flight(&later, record.t_issue) <= 2);
    }
    assert_eq!(measured.result.load.in_flight_max, 3);
}

#[test]
fn a_trace_arrives_when_it_says() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trace.jsonl");
    let stamps = [0u64, 40, 40, 100, 260];
    let lines: Vec<String> = stamps
        .iter()
        .map(|at| format!(r#"{{"timestamp": {}, "input_length": 20, "output_length": 3}}"#, at + 7_000))
        .collect();
    std::fs::write(&file, lines.join("\n")).unwrap();
    let server = paced(Duration::ZERO);
    let mut spec = spec(server.address, LoadPattern::Trace { speed: 2.0 }, 0);
    spec.stop = StopAfter::default();
    (spec.input_len, spec.output_len) = (Length::Given, Length::Given);
    spec.content.data = Some(from(file, DataKind::Jsonl));
    let measured = measured(&spec);
    let due: Vec<u64> = measured.requests.iter().map(|record| record.t_sched).collect();
    assert_eq!(due, stamps.map(|at| at * MS / 2));
    assert!(measured.requests.iter().all(|record| record.t_issue >= record.t_sched && record.tokens == 3));
    assert_eq!(measured.result.client.ks_distance, None);
}

pub fn from(file: std::path::PathBuf, kind: DataKind) -> PromptFile {
    PromptFile {
        kind,
        file,
        lengths: None,
        output_lengths: None,
        first: None,
        max_input_tokens: None,
        order: RecordOrder::Given,
        repeat: false,
        block_tokens: 512,
        delay: DelayPlace::BeforeTurn,
    }
}

#[test]
fn a_rate_that_rises_is_offered_and_admitted_as_planned() {
    let server = paced(Duration::ZERO);
    let rate = LoadLevel::Ramp(vec![LoadSegment { from: 20.0, to: 180.0, seconds: 0.5 }]);
    let mut spec = spec(server.address, LoadPattern::Server { rate }, 0);
    spec.stop = StopAfter { requests: None, duration: Some(Duration::from_millis(500).into()) };
    let measured = measured(&spec);
    // The area under the ramp.
    assert_eq!(measured.requests.len(), 50);
    let requests = measured.requests.to_vec();
    let gap = |place: usize| requests[place + 1].t_sched - requests[place].t_sched;
    assert!((0..48).all(|place| gap(place) > gap(place + 1)), "every gap is shorter than the one before");
}

#[test]
fn turns_of_a_session_keep_their_order_and_carry_what_was_answered() {
    let server = paced(Duration::from_millis(1));
    let mut spec = spec(server.address, LoadPattern::Server { rate: 50.0.into() }, 12);
    spec.content.sessions = Some(Sessions { turns: Length::Fixed(3), history: History::Answers, turn_delay: None });
    spec.pace.think = Pause::Fixed(5.0);
    let measured = measured(&spec);
    for session in measured.requests.to_vec().chunk_by(|one, next| one.session == next.session) {
        assert_eq!(session.iter().map(|record| record.turn).collect::<Vec<_>>(), [0, 1, 2]);
        for pair in session.windows(2) {
            assert_eq!(pair[1].t_sched, pair[0].t_end + 5 * MS);
        }
    }
    let prompts = server.prompts.lock().unwrap();
    let prompt = |index: u64| &prompts.iter().find(|(id, _)| *id == index).unwrap().1;
    // The scripted server answers every request with the token 10, one at a time.
    let answer = [10; 4];
    for first in (0..12).step_by(3) {
        let (one, two, three) = (prompt(first), prompt(first + 1), prompt(first + 2));
        assert!(two.starts_with(one) && two[one.len()..].starts_with(&answer));
        assert!(three.starts_with(two) && three[two.len()..].starts_with(&answer));
    }
    let sessions = measured.result.load.sessions.as_ref().unwrap();
    assert_eq!((sessions.count, sessions.turns_max, sessions.ttft_first.n, sessions.ttft_later.n), (4, 3, 4, 8));
    assert_eq!(measured.result.rates.offered.map(f64::round), Some(50.0));
}

#[test]
fn arrivals_that_are_held_back_wait_in_their_latency() {
    let server = paced(Duration::from_millis(10));
    let mut spec = spec(server.address, LoadPattern::Server { rate: 1000.0.into() }, 16);
    spec.pace.max_in_flight = Some(2);
    let measured = measured(&spec);
    let load = &measured.result.load;
    assert_eq!((load.in_flight_max, load.max_in_flight), (2, Some(2)));
    assert!(load.held_back >= 12, "{}", load.held_back);
    // Pairs of at least 40 ms each, one after the other: the last pair has waited for seven others.
    let latency = &measured.result.latency;
    assert!(latency.e2e.max.unwrap() > 7.0 * 40.0 - 16.0);
    assert!(latency.e2e.max.unwrap() > latency.e2e_sent.min.unwrap() * 6.0);
    assert!(measured.requests.iter().all(|record| record.t_sched == record.index * MS));
    let reasons: Vec<&str> = measured.result.reasons().iter().map(|reason| reason.check.as_str()).collect();
    assert!(reasons.contains(&"held_back") && !reasons.contains(&"lag"), "{reasons:?}");
}

#[test]
fn a_stop_while_no_user_is_at_work_is_an_interruption_too() {
    // Longer than the one user's time: the answer comes when the level is at none.
    let server = paced(Duration::from_millis(60));
    let users = LoadLevel::Ramp(vec![
        LoadSegment { from: 1.0, to: 1.0, seconds: 0.05 },
        LoadSegment { from: 0.0, to: 0.0, seconds: 600.0 },
        LoadSegment { from: 1.0, to: 1.0, seconds: 1.0 },
    ]);
    let mut spec = spec(server.address, LoadPattern::Concurrency { users }, 0);
    spec.stop = StopAfter { requests: None, duration: Some(Duration::from_secs(601).into()) };
    let stop = Stop::new();
    let after_the_answer = |progress: BenchProgress| {
        if progress.so_far.ended > 0 {
            stop.request();
        }
    };
    let measured = wait_for(run(&spec, &stop, after_the_answer)).unwrap();
    let counts = &measured.result.counts;
    assert_eq!((counts.ok, counts.cancelled, counts.not_sent), (1, 0, 0));
    let stopped = measured.result.reasons().iter().find(|reason| reason.check == VerdictCheck::Stopped).unwrap();
    assert_eq!(stopped.severity, ReasonSeverity::InvalidClient);
}

#[test]
fn no_user_thinks_past_the_end_of_a_closed_loop() {
    let server = paced(Duration::ZERO);
    let mut spec = spec(server.address, users(2.0), 0);
    spec.pace.think = Pause::Fixed(600.0);
    let due = |least: Option<u64>| {
        let stop = StopAfter { requests: least, duration: Some(Duration::from_millis(300).into()) };
        let measured = measured(&BenchSpec { stop, ..spec.clone() });
        assert_eq!(measured.schedule.requests.len(), measured.requests.len());
        measured.requests.iter().map(|record| record.t_sched / (600 * MS)).collect::<Vec<_>>()
    };
    assert_eq!(due(None), [0, 0]);
    // So many are sent in any case, whatever the time.
    assert_eq!(due(Some(3)), [0, 0, 1]);
}

#[test]
fn every_server_is_warmed_up() {
    let servers = [paced(Duration::ZERO), paced(Duration::ZERO)];
    let endpoints = servers.iter().map(|server| server.address.to_string().parse().unwrap()).collect();
    // With two workers each has connections to one server only.
    let spec = BenchSpec { endpoints, warmup: 5, ..spec(servers[0].address, users(4.0), 12) };
    measured(&spec);
    let warm_ups = |server: &Scripted| server.prompts.lock().unwrap().iter().filter(|(id, _)| *id >= 12).count();
    assert_eq!(servers.each_ref().map(warm_ups), [3, 2]);
}

/// The warm-ups that come to each of two servers which answer only their first one, until there are as many. Their ids follow those of
/// the 12 measured requests.
fn warm_ups_come(scenario: LoadPattern, warmup: u32, expected: [usize; 2]) {
    let answers_one = || {
        let answer = Act::Answer { gap: Duration::ZERO, per_chunk: 1, last: Last::EmptyFinal };
        Scripted::start(true, None, Arc::new(move |id| if id < 14 { answer } else { Act::Hang { after: 0 } }))
    };
    let servers = [answers_one(), answers_one()];
    let endpoints = servers.iter().map(|server| server.address.to_string().parse().unwrap()).collect();
    let spec = BenchSpec { endpoints, warmup, ..spec(servers[0].address, scenario, 12) };
    let came = || servers.each_ref().map(|server| server.prompts.lock().unwrap().len());
    let stop = Stop::new();
    let stopping = async {
        while came() != expected {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        stop.request();
    };
    let stopped = wait_for(async { tokio::join!(run(&spec, &stop, |_| {}), stopping).0 });
    assert!(stopped.is_err(), "before the first measured request");
    assert_eq!(came(), expected);
}

#[test]
fn warm_ups_come_as_the_measured_requests_do() {
    warm_ups_come(users(6.0), 20, [4, 4]);
    warm_ups_come(LoadPattern::Offline, 8, [4, 4]);
    let at_rate = |rate: f64| LoadPattern::Server { rate: rate.into() };
    warm_ups_come(at_rate(1000.0), 20, [10, 10]);
    warm_ups_come(at_rate(0.5), 20, [1, 1]);
}

#[test]
fn a_server_that_refuses_some_warm_ups_is_measured() {
    let answer = Act::Answer { gap: Duration::ZERO, per_chunk: 1, last: Last::EmptyFinal };
    let refuses_some =
        Scripted::start(true, None, Arc::new(move |id| if (13..17).contains(&id) { Act::Refuse } else { answer }));
    let spec = BenchSpec { warmup: 8, ..spec(refuses_some.address, users(4.0), 12) };
    assert_eq!(measured(&spec).result.counts.ok, 12);
    let refuses_all = Scripted::start(true, None, Arc::new(|_| Act::Refuse));
    let failed = wait_for(run(
        &BenchSpec { warmup: 8, ..self::spec(refuses_all.address, users(4.0), 12) },
        &Stop::new(),
        |_| {},
    ));
    assert!(failed.unwrap_err().to_string().contains("warm-up request 1 failed"));
}

#[test]
fn input_tokens_are_those_that_were_sent_where_answers_are_part_of_the_prompt() {
    // Two tokens of four: the next prompt has as many of them as came.
    let server = Scripted::start(true, None, Arc::new(|_| Act::Cut { after: 2 }));
    let mut spec = spec(server.address, users(1.0), 6);
    spec.warmup = 0;
    spec.content.sessions = Some(Sessions { turns: Length::Fixed(3), history: History::Answers, turn_delay: None });
    let measured = wait_for(run(&spec, &Stop::new(), |_| {})).unwrap();
    let prompts = server.prompts.lock().unwrap();
    let sent = |index: u64| prompts.iter().find(|(id, _)| *id == index).unwrap().1.len();
    assert_eq!(measured.requests.len(), 6);
    for record in &measured.requests {
        assert_eq!(record.input_tokens as usize, sent(record.index), "request {}", record.index);
    }
}

#[test]
fn a_later_turn_of_a_trace_comes_at_its_own_time_or_after_the_answer_before() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trace.jsonl");
    let lines = [
        r#"{"timestamp": 1000, "session_id": "a", "input_length": 20, "output_length": 3}"#,
        r#"{"timestamp": 1100, "session_id": "b", "input_length": 20, "output_length": 3}"#,
        r#"{"timestamp": 1800, "session_id": "a", "input_length": 20, "output_length": 3}"#,
        r#"{"delay": 120, "session_id": "a", "input_length": 20, "output_length": 3}"#,
        r#"{"timestamp": 1801, "delay": 60, "session_id": "a", "input_length": 20, "output_length": 3}"#,
    ];
    std::fs::write(&file, lines.join("\n")).unwrap();
    let server = paced(Duration::ZERO);
    let mut spec = spec(server.address, LoadPattern::Trace { speed: 2.0 }, 0);
    spec.stop = StopAfter::default();
    (spec.input_len, spec.output_len) = (Length::Given, Length::Given);
    spec.content.data = Some(from(file, DataKind::Jsonl));
    let measured = measured(&spec);
    let [first, second, third, fourth, other] = &measured.requests.to_vec()[..] else { panic!("five requests") };
    assert_eq!((first.t_sched, other.t_sched), (0, 50 * MS));
    assert_eq!(second.t_sched, first.t_end.max(400 * MS));
    assert_eq!(third.t_sched, second.t_end + 60 * MS);
    assert_eq!(fourth.t_sched, third.t_end + 30 * MS);
}
