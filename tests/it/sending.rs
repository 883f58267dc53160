//! How requests travel: many over one stream, and once more after a failure.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::time::Duration;

use pretty_assertions::assert_eq;
use regatta::event::{Stop, Verdict};
use regatta::harness::{
    BenchSpec, FailureClass, HarnessError, LoadPattern, Measured, RequestEnd, SendingSpec, VerdictCheck, run,
};
use regatta::spec::{CancelBy, CancelPolicy, Length, Request, Retries, RetryOn, StreamMode};

use crate::harness::{AT_ONCE, adds_up, class_of, measure, script, spec};
use crate::openai;
use crate::openai::script::{Do, good};
use crate::scripted_server::{Act, Last, Scripted, wait_for};
use crate::world::World;

pub const SHARED: SendingSpec = SendingSpec {
    think: regatta::harness::Pause::Fixed(0.0),
    max_in_flight: None,
    warmup_for: None,
    stream: StreamMode::Shared,
    retries: None,
    answer_time_out: None,
};

/// One connection; so many users with one request under way each.
fn users(server: &Scripted, users: u32, requests: u64) -> BenchSpec {
    let scenario = LoadPattern::Concurrency { users: f64::from(users).into() };
    BenchSpec { scenario, clients: 1, pace: SHARED, output_len: Length::Fixed(3), ..spec(server, requests) }
}

fn classes(measured: &Measured) -> Vec<Option<FailureClass>> {
    measured.requests.iter().map(|record| class_of(&record)).collect()
}

fn refusal(spec: &BenchSpec) -> String {
    wait_for(run(spec, &Stop::new(), |_| {})).unwrap_err().to_string()
}

#[test]
fn all_requests_of_a_connection_go_over_one_stream() {
    let gap = Duration::from_millis(4);
    // Room for one stream a connection, and for any number of requests on it.
    let server =
        Scripted::start(true, Some(1), script(move |_| Act::Answer { gap, per_chunk: 2, last: Last::EmptyFinal }));
    let spec = BenchSpec { scenario: LoadPattern::Offline, pace: SHARED, warmup: 1, ..spec(&server, 40) };
    let measured = measure(&spec);
    adds_up(&measured);
    let result = &measured.result;
    assert_eq!((result.counts.ok, result.connections.waited_for_stream), (40, 0), "{:?}", result.counts.failures);
    assert_eq!((result.connections.stream, result.connections.shared_streams), (Some(StreamMode::Shared), Some(2)));
    assert_eq!(server.calls.load(Ordering::SeqCst), 2);
    assert_eq!(result.requested.stream, StreamMode::Shared);
    for record in &measured.requests {
        assert_eq!((record.tokens, record.chunks), (record.requested_tokens, record.requested_tokens.div_ceil(2)));
        assert!(record.final_marker && record.t_first.unwrap() - record.t_issue >= gap.as_nanos() as u64);
    }
    let many = BenchSpec { scenario: LoadPattern::Offline, pace: SendingSpec::default(), ..spec };
    let apart = measure(&BenchSpec { clients: 50, ..many });
    assert_eq!((apart.result.counts.ok, apart.result.connections.stream), (40, Some(StreamMode::PerRequest)));
    assert_eq!(server.calls.load(Ordering::SeqCst), 2 + 41, "a stream for each, warm-up included");
}

#[test]
fn an_error_on_a_shared_stream_belongs_to_the_request_that_it_names() {
    let server = Scripted::start(
        true,
        None,
        script(|index| match index % 4 {
            0 => Act::NamedError { after: 1 },
            1 => Act::NamedError { after: 0 },
            2 => Act::Hang { after: 1 },
            _ => AT_ONCE,
        }),
    );
    let measured = measure(&BenchSpec { stall_timeout: Duration::from_secs(5), ..users(&server, 8, 16) });
    adds_up(&measured);
    let expected = [Some(FailureClass::Server), Some(FailureClass::Server), Some(FailureClass::Stall), None];
    assert_eq!(classes(&measured), expected.repeat(4));
    assert_eq!(server.calls.load(Ordering::SeqCst), 1, "the stream stays usable");
}

#[test]
fn an_error_that_names_no_request_is_the_only_request_s_or_ends_the_stream() {
    let server =
        Scripted::start(true, None, script(|index| if index == 1 { Act::Error { after: 0 } } else { AT_ONCE }));
    let alone = measure(&users(&server, 1, 3));
    assert_eq!(classes(&alone), [None, Some(FailureClass::Server), None]);
    assert_eq!(
        (server.calls.load(Ordering::SeqCst), alone.result.counts.failures[0].why.as_str()),
        (1, "the model is on fire")
    );

    let act = |index| match index {
        0..3 => Act::Hang { after: 1 },
        3 => Act::Error { after: 0 },
        _ => AT_ONCE,
    };
    let server = Scripted::start(true, None, script(act));
    let among = measure(&users(&server, 4, 6));
    adds_up(&among);
    let all = Some(FailureClass::Server);
    assert_eq!(classes(&among), [all, all, all, all, None, None]);
    let why = &among.result.counts.failures[0].why;
    assert_eq!(
        why,
        "an error names none of the 4 requests on this shared stream, so all were given up: the model is on fire"
    );
    assert_eq!(among.result.connections.shared_streams, Some(2), "the next request opens another");
    assert_eq!(server.calls.load(Ordering::SeqCst), 2);
}

#[test]
fn the_end_of_a_shared_stream_fails_its_requests_and_no_later_ones() {
    let act = |index| match index {
        0 => Act::Hang { after: 1 },
        1 => Act::Hang { after: 0 },
        2 => Act::Refuse,
        _ => AT_ONCE,
    };
    let server = Scripted::start(true, None, script(act));
    let measured = measure(&users(&server, 3, 8));
    adds_up(&measured);
    for record in measured.requests.iter().take(3) {
        let class = if record.tokens > 0 { FailureClass::Stream } else { FailureClass::Refused };
        assert_eq!(class_of(&record), Some(class), "{record:?}");
    }
    assert!(measured.requests.iter().skip(3).all(|record| record.ended == RequestEnd::Ok));
    assert_eq!(server.calls.load(Ordering::SeqCst), 2);
}

#[test]
fn a_shared_stream_needs_final_markers_and_says_so() {
    let act = |index| Act::Answer {
        gap: Duration::ZERO,
        per_chunk: 1,
        last: if index == 1 { Last::Nothing } else { Last::EmptyFinal },
    };
    let server = Scripted::start(true, None, script(act));
    let measured = measure(&BenchSpec { stall_timeout: Duration::from_secs(5), ..users(&server, 1, 3) });
    assert_eq!(classes(&measured), [None, Some(FailureClass::Stall), None]);
    let why = &measured.result.counts.failures[0].why;
    assert!(why.ends_with("all tokens had come, and only a final marker ends a request on a shared stream"), "{why}");
}

#[test]
fn what_a_shared_stream_cannot_do_is_refused_before_anything_is_sent() {
    let server = Scripted::start(false, None, script(|_| AT_ONCE));
    let shared = users(&server, 1, 3);
    assert!(refusal(&shared).contains("stream `shared`: the model is not decoupled"));
    let cancel = Some(CancelPolicy { after_tokens: 1, share: 1.0, by: CancelBy::Rpc });
    let by_rpc = BenchSpec { request: Request { cancel, ..Request::default() }, ..shared.clone() };
    assert!(refusal(&by_rpc).contains("which all requests share with stream `shared`: use `stop`"));
    let http = regatta::harness::Transport::Http(regatta::harness::Http::new(regatta::harness::Api::Generate));
    assert!(refusal(&BenchSpec { protocol: http, ..shared }).contains("it needs the protocol kserve"));
    assert!(server.prompts.lock().unwrap().is_empty());

    let world = World::with(
        r"
stages:
  b:
    bench:
      target: http://127.0.0.1:1/v1
      stream: shared
      retries: { times: 1, on: [], pause: soon }
      request: { cancel: { after_tokens: 1 } }
      scenario: offline
      stop: { requests: 1 }
      input_tokens: { fixed: 1 }
      output_tokens: { fixed: 1 }
",
    );
    let checked = world.regatta(&["check", "m"]);
    assert_eq!(checked.code, 2, "{checked:?}");
    checked.shows("cannot be `shared` over HTTP").shows("cannot be by `rpc` with `stream: shared`");
    checked.shows("`stages.b.bench.retries.on` names no failure").shows("must be a duration");
}

fn twice() -> Retries {
    Retries { times: 2, on: vec![RetryOn::Connect, RetryOn::Refused], pause: Duration::from_millis(1).into() }
}

/// Does the first with the first so many attempts of a request, then answers.
fn first(server_does: fn(u64, u32) -> Option<Act>) -> impl Fn(u64) -> Act + Send + Sync {
    let attempts = Mutex::new(HashMap::<u64, u32>::new());
    move |index| {
        let mut attempts = attempts.lock().unwrap();
        let attempt = attempts.entry(index).or_default();
        *attempt += 1;
        server_does(index, *attempt).unwrap_or(AT_ONCE)
    }
}

#[test]
fn a_retried_request_keeps_its_intended_time_and_every_attempt_is_recorded() {
    let act = |index, attempt| match (index % 5, attempt) {
        (0, 1) | (1, 1 | 2) => Some(Act::Refuse),
        _ => None,
    };
    for pace in [SendingSpec::default(), SHARED] {
        // On a shared stream a refusal ends the stream, so there is one user.
        let server = Scripted::start(true, None, script(first(act)));
        let spec = BenchSpec { pace: SendingSpec { retries: Some(twice()), ..pace.clone() }, ..users(&server, 1, 20) };
        let measured = measure(&spec);
        adds_up(&measured);
        let result = &measured.result;
        assert_eq!((result.counts.ok, result.counts.retried), (20, 12), "{:?}", result.counts.failures);
        assert_eq!(result.counts.retried_by_class[&FailureClass::Refused], 12);
        let reason = result.reasons().iter().find(|reason| reason.check == VerdictCheck::Retries).unwrap();
        assert!(
            reason.text.starts_with("12 attempts failed, sent again as `retries` requests: 12 refused;"),
            "{reason:?}"
        );
        assert!(result.verdict() != Verdict::Valid && result.verdict() != Verdict::InvalidServer);
        for record in &measured.requests {
            let expected = [1, 2, 0, 0, 0][record.index as usize % 5];
            assert_eq!(record.attempts.len(), expected);
            let Some(attempt) = record.attempts.first() else { continue };
            assert_eq!(attempt.t_issue, record.t_issue);
            assert!(record.t_sched <= attempt.t_issue && attempt.t_end < record.t_first.unwrap());
            assert!(attempt.class == FailureClass::Refused && attempt.why.contains("full"), "{attempt:?}");
        }
    }
}

#[test]
fn retries_end_and_are_never_for_requests_that_had_a_token() {
    let act = |index, attempt| match (index, attempt) {
        (0, _) => Some(Act::Refuse),
        (1, 1) => Some(Act::Cut { after: 1 }),
        (2, 1) => Some(Act::Error { after: 0 }),
        _ => None,
    };
    let server = Scripted::start(true, None, script(first(act)));
    let pace = SendingSpec { retries: Some(twice()), ..SendingSpec::default() };
    let measured = measure(&BenchSpec { pace: pace.clone(), ..users(&server, 1, 4) });
    adds_up(&measured);
    assert_eq!(
        classes(&measured),
        [Some(FailureClass::Refused), Some(FailureClass::Short), Some(FailureClass::Server), None]
    );
    let attempts: Vec<usize> = measured.requests.iter().map(|record| record.attempts.len()).collect();
    assert_eq!((attempts, measured.result.counts.retried), (vec![2, 0, 0, 0], 2));
    assert_eq!(measured.result.verdict(), Verdict::InvalidServer);

    let off = Scripted::start(true, None, script(first(act)));
    let measured = measure(&BenchSpec { pace: SendingSpec::default(), ..users(&off, 1, 4) });
    assert_eq!((measured.result.counts.retried, off.calls.load(Ordering::SeqCst)), (0, 4));
    assert!(matches!(
        wait_for(run(
            &BenchSpec {
                pace: SendingSpec { retries: Some(Retries { times: 0, ..twice() }), ..pace.clone() },
                ..users(&off, 1, 1)
            },
            &Stop::new(),
            |_| {}
        )),
        Err(HarnessError::Spec(_))
    ));
}

#[test]
fn a_request_is_not_sent_again_after_its_deadline() {
    let server = Scripted::start(true, None, script(|_| Act::Refuse));
    let retries = Retries { pause: Duration::from_secs(1).into(), ..twice() };
    let pace = SendingSpec { retries: Some(retries), ..SendingSpec::default() };
    let request = Request { deadline: Some(Duration::from_millis(200).into()), ..Request::default() };
    let measured = measure(&BenchSpec { pace, request, ..users(&server, 1, 1) });
    adds_up(&measured);
    assert_eq!(classes(&measured), [Some(FailureClass::Deadline)]);
    assert_eq!(server.calls.load(Ordering::SeqCst), 1);
    let record = measured.requests.iter().next().unwrap();
    assert!(record.t_end - record.t_issue < Duration::from_millis(900).as_nanos() as u64, "it ends at its deadline");
}

#[test]
fn a_connection_that_breaks_before_any_answer_is_tried_again_when_asked() {
    let server =
        openai::script::Scripted::start(|number| if number < 2 { vec![Do::Close] } else { vec![Do::Send(good())] });
    let spec = openai::chat(&server, 1);
    let pace = |retries| SendingSpec { retries: Some(retries), ..SendingSpec::default() };
    let measured = measure(&BenchSpec { pace: pace(twice()), ..spec.clone() });
    assert_eq!((measured.result.counts.ok, measured.result.counts.retried_by_class[&FailureClass::Connect]), (1, 1));
    let server = openai::script::Scripted::start(|_| vec![Do::Close]);
    let only_refused = Retries { on: vec![RetryOn::Refused], ..twice() };
    let measured = measure(&BenchSpec { pace: pace(only_refused), ..openai::chat(&server, 1) });
    assert_eq!((measured.result.counts.failed, measured.result.counts.retried), (1, 0));
}
