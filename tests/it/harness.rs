//! The harness against a scripted server over real sockets: identities, counts and orders, never tight times.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use pretty_assertions::assert_eq;
use prost::Message as _;
use regatta::event::{Endpoint, Stop, Verdict};
use regatta::harness::{
    BenchSpec, FailureClass, HarnessError, LoadPattern, Measured, ReasonSeverity, RequestEnd, RequestRecord, Slo,
    VerdictCheck, Violation, plan, read_result, result_schema, run, write,
};
use regatta::spec::{Arrivals, CancelBy, CancelPolicy, Length, Limits, Request, StopAfter};
use regatta::triton::proto::inference::{ModelInferRequest, ModelStreamInferResponse};

use crate::scripted_server::{Act, Last, Script, Scripted, response, wait_for};

const GAP: Duration = Duration::from_millis(4);
pub const AT_ONCE: Act = Act::Answer { gap: Duration::ZERO, per_chunk: 1, last: Last::FlagOnToken };

pub fn spec(server: &Scripted, requests: u64) -> BenchSpec {
    BenchSpec {
        endpoints: vec![server.address.to_string().parse::<Endpoint>().unwrap()],
        protocol: regatta::harness::Transport::Kserve,
        model: "tensorrt_llm".to_owned(),
        scenario: LoadPattern::Server { rate: 200.0.into() },
        arrivals: Arrivals::Poisson,
        stop: StopAfter { requests: Some(requests), duration: None },
        input_len: Length::Uniform { min: 4, max: 64 },
        output_len: Length::Uniform { min: 2, max: 8 },
        seed: 1,
        warmup: 0,
        pace: regatta::harness::SendingSpec::default(),
        content: regatta::harness::PromptSource::default(),
        frontends: 1,
        clients: 2,
        stall_timeout: Duration::from_secs(30),
        limits: Limits::default(),
        slo: Slo::default(),
        timelines: false,
        vocab_size: 32_000,
        end_id: 2,
        request: Request::default(),
    }
}

pub fn script(act: impl Fn(u64) -> Act + Send + Sync + 'static) -> Script {
    Arc::new(act)
}

pub fn measure(spec: &BenchSpec) -> Measured {
    let stop = Stop::new();
    wait_for(may_move(run(spec, &stop, |_| {}))).unwrap()
}

/// A run can be awaited from any thread of a runtime.
fn may_move<F: Future + Send>(future: F) -> F {
    future
}

/// What must hold for every run, whatever the server did.
pub fn adds_up(measured: &Measured) {
    let counts = &measured.result.counts;
    assert!(counts.conserved, "{counts:?}");
    assert_eq!(counts.scheduled, counts.ok + counts.failed + counts.cancelled + counts.not_sent);
    assert_eq!(measured.requests.len() as u64, counts.issued);
    assert!(measured.requests.iter().is_sorted_by(|a, b| a.index < b.index));
    for RequestRecord { t_sched, t_issue, t_first, t_last, t_end, tokens, .. } in &measured.requests.to_vec() {
        assert!(t_sched <= t_issue && t_issue <= t_end);
        assert_eq!(t_first.is_some(), *tokens > 0);
        if let (Some(first), Some(last)) = (t_first, t_last) {
            assert!(t_issue <= first && first <= last && last <= t_end);
        }
    }
    let little = measured.result.reasons().iter().any(|reason| reason.check.as_str() == "little");
    assert!(!little, "{:?}", measured.result.little);
}

pub fn class_of(record: &RequestRecord) -> Option<FailureClass> {
    match record.ended {
        RequestEnd::Failed { class, .. } => Some(class),
        _ => None,
    }
}

#[test]
fn tokens_are_counted_and_stamped_in_order() {
    let server =
        Scripted::start(true, None, script(|_| Act::Answer { gap: GAP, per_chunk: 2, last: Last::FlagOnToken }));
    let spec = BenchSpec { warmup: 2, ..spec(&server, 40) };
    let measured = measure(&spec);
    adds_up(&measured);
    assert_eq!((measured.result.counts.ok, measured.result.counts.failed), (40, 0));
    let planned = plan(&spec).unwrap();
    assert_eq!(measured.result.schedule_digest, planned.digest.to_string());
    for (record, planned) in measured.requests.iter().zip(&planned.requests) {
        assert_eq!((record.t_sched, record.input_tokens), (planned.at_ns, planned.input_len));
        assert_eq!(record.tokens, planned.output_len);
        assert_eq!(record.chunks, planned.output_len.div_ceil(2));
        assert_eq!(record.first_tokens, 2);
        assert!(record.final_marker);
        // A server that sleeps cannot be faster than its sleeps.
        let (first, last) = (record.t_first.unwrap(), record.t_last.unwrap());
        assert!(first - record.t_issue >= GAP.as_nanos() as u64);
        assert!(last - record.t_issue >= GAP.as_nanos() as u64 * u64::from(record.chunks));
    }
    let tokens = &measured.result.tokens;
    assert_eq!((tokens.output, tokens.shorter, tokens.longer), (tokens.output_requested, 0, 0));
    let by_slice: u64 = measured.result.slices.iter().map(|slice| slice.tokens).sum();
    assert_eq!(by_slice, tokens.output);
    assert_eq!(measured.result.client.call, "stream");
}

#[test]
fn a_missing_or_empty_final_marker_is_no_failure_and_no_token() {
    let server = Scripted::start(
        true,
        None,
        script(|index| Act::Answer {
            gap: Duration::ZERO,
            per_chunk: 1,
            last: if index.is_multiple_of(2) { Last::Nothing } else { Last::EmptyFinal },
        }),
    );
    let measured = measure(&spec(&server, 20));
    adds_up(&measured);
    assert_eq!(measured.result.counts.ok, 20);
    assert_eq!(measured.result.tokens.without_final_marker, 10);
    for record in &measured.requests {
        assert_eq!(record.tokens, record.requested_tokens);
        assert_eq!(record.final_marker, !record.index.is_multiple_of(2));
    }
}

#[test]
fn every_failure_is_in_its_class() {
    let server = Scripted::start(
        true,
        None,
        script(|index| match index % 6 {
            0 => Act::Error { after: 1 },
            1 => Act::Hang { after: 1 },
            2 => Act::Hang { after: 0 },
            3 => Act::Cut { after: 1 },
            4 => Act::Refuse,
            _ => AT_ONCE,
        }),
    );
    let spec = BenchSpec { stall_timeout: Duration::from_secs(5), output_len: Length::Fixed(3), ..spec(&server, 12) };
    let measured = measure(&spec);
    adds_up(&measured);
    let expected = [
        Some(FailureClass::Server),
        Some(FailureClass::Stall),
        Some(FailureClass::Stall),
        Some(FailureClass::Short),
        Some(FailureClass::Refused),
        None,
    ];
    for record in &measured.requests {
        assert_eq!(class_of(&record), expected[record.index as usize % 6], "{record:?}");
    }
    let result = &measured.result;
    assert_eq!(result.verdict(), Verdict::InvalidServer);
    assert_eq!((result.counts.ok, result.counts.failed), (2, 10));
    assert_eq!(result.counts.failed_by_class[&FailureClass::Stall], 4);
    assert!(result.reasons()[0].text.contains("the model is on fire"), "{}", result.reasons()[0].text);
    assert_eq!(result.latency.ttft.n, 2);
}

#[test]
fn a_server_that_goes_away_invalidates_the_run_and_loses_no_request() {
    let (reached, at_twenty) = mpsc::channel();
    let server = Scripted::start(
        true,
        None,
        script(move |index| {
            if index == 20 {
                let _ = reached.send(());
            }
            if index < 20 { AT_ONCE } else { Act::Hang { after: 1 } }
        }),
    );
    let spec = spec(&server, 60);
    let killer = std::thread::spawn(move || {
        at_twenty.recv().unwrap();
        drop(server);
    });
    let measured = measure(&spec);
    killer.join().unwrap();
    adds_up(&measured);
    let result = &measured.result;
    assert_eq!(result.verdict(), Verdict::InvalidServer);
    assert_eq!((result.counts.issued, result.counts.not_sent, result.counts.cancelled), (60, 0, 0));
    assert!(result.counts.failed >= 40, "{:?}", result.counts);
    assert!(
        result.counts.failed_by_class.keys().all(|class| matches!(class, FailureClass::Connect | FailureClass::Stream))
    );
}

#[test]
fn a_model_that_does_not_stream_is_called_once_a_request() {
    let server = Scripted::start(false, None, script(|_| AT_ONCE));
    let measured = measure(&BenchSpec { scenario: LoadPattern::Offline, ..spec(&server, 30) });
    adds_up(&measured);
    let result = &measured.result;
    assert_eq!((result.counts.ok, result.client.call.as_str()), (30, "unary"));
    assert!(measured.requests.iter().all(|r| r.t_sched == 0 && r.chunks == 1 && r.tokens == r.requested_tokens));
    assert_eq!((result.latency.tpot.n, result.latency.tpot.excluded), (0, 30));
    assert!(result.headline().contains("req/s"), "{}", result.headline());
}

#[test]
fn the_stream_limit_of_the_server_is_kept_and_waiting_is_seen() {
    let busy = Arc::new((AtomicU64::new(0), AtomicU64::new(0)));
    let server =
        Scripted::start(true, Some(2), script(|_| Act::Answer { gap: GAP, per_chunk: 1, last: Last::Nothing }));
    let spec = BenchSpec { scenario: LoadPattern::Offline, clients: 1, ..spec(&server, 12) };
    let seen = Arc::clone(&busy);
    let measured = wait_for(run(&spec, &Stop::new(), move |progress| {
        seen.0.store(progress.so_far.ended, Ordering::Relaxed);
        seen.1.store(progress.so_far.tokens, Ordering::Relaxed);
    }))
    .unwrap();
    adds_up(&measured);
    assert_eq!(measured.result.connections.max_streams, Some(2));
    assert!(measured.result.connections.waited_for_stream > 0);
    // No more than two at a time, by the records' own stamps.
    for record in &measured.requests {
        let at = record.t_issue;
        let in_flight = measured.requests.iter().filter(|other| other.t_issue <= at && at < other.t_end).count();
        assert!(in_flight <= 2, "{in_flight}");
    }
    assert_eq!(busy.0.load(Ordering::Relaxed), 12);
    assert_eq!(busy.1.load(Ordering::Relaxed), measured.result.tokens.output);
}

#[test]
fn a_stop_cancels_what_is_under_way_and_counts_the_rest() {
    let (reached, under_way) = mpsc::channel();
    let server = Scripted::start(
        true,
        None,
        script(move |index| {
            let _ = reached.send(index);
            Act::Hang { after: 1 }
        }),
    );
    let spec = BenchSpec {
        scenario: LoadPattern::Server { rate: 0.5.into() },
        arrivals: Arrivals::Constant,
        ..spec(&server, 9)
    };
    let stop = Stop::new();
    let puller = stop.clone();
    let watcher = std::thread::spawn(move || {
        under_way.recv().unwrap();
        puller.request();
    });
    let measured = wait_for(run(&spec, &stop, |_| {})).unwrap();
    watcher.join().unwrap();
    adds_up(&measured);
    let counts = &measured.result.counts;
    assert_eq!((counts.ok, counts.failed, counts.cancelled + counts.not_sent), (0, 0, 9));
    assert!(counts.cancelled >= 1 && counts.not_sent >= 1);
    let stopped = measured.result.reasons().iter().find(|reason| reason.check == VerdictCheck::Stopped).unwrap();
    assert_eq!(stopped.severity, ReasonSeverity::InvalidClient);
    assert!(!measured.result.verdict().is_valid());
}

#[test]
fn a_missed_limit_is_named() {
    let server =
        Scripted::start(true, None, script(|_| Act::Answer { gap: GAP, per_chunk: 1, last: Last::FlagOnToken }));
    let limits = Limits {
        ttft_p99: Some(Duration::from_millis(1).into()),
        tpot_p99: Some(Duration::from_mins(1).into()),
        ..Limits::default()
    };
    let measured = measure(&BenchSpec { limits, ..spec(&server, 10) });
    let found: Vec<_> =
        measured.result.reasons().iter().filter(|reason| reason.check == VerdictCheck::Limits).collect();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].severity, ReasonSeverity::LimitMissed);
    assert!(found[0].text.starts_with("TTFT p99 is ") && found[0].text.ends_with("limit ttft_p99 is 1.0 ms"));
    assert!(!measured.result.verdict().is_valid());
}

#[test]
fn what_was_written_is_read_back_and_fits_the_schema() {
    let server = Scripted::start(true, None, script(|_| AT_ONCE));
    let measured = measure(&spec(&server, 10));
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), &measured).unwrap();
    let path = folder.path().join("result.json");
    assert_eq!(read_result(&path).unwrap(), measured.result);
    let json: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    jsonschema::validate(&result_schema(), &json).unwrap();
    let lines = std::fs::read_to_string(folder.path().join("requests.jsonl")).unwrap();
    let requests: Vec<RequestRecord> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(requests, measured.requests.to_vec());
    std::fs::write(&path, "{}").unwrap();
    assert!(matches!(read_result(&path), Err(HarnessError::Format { .. })));
}

#[test]
fn what_prevents_a_measurement_is_an_error() {
    let server = Scripted::start(true, None, script(|_| Act::Error { after: 0 }));
    let spec = spec(&server, 10);
    let fails = |spec: &BenchSpec| wait_for(run(spec, &Stop::new(), |_| {})).unwrap_err();
    let unknown = BenchSpec { model: "gpt".to_owned(), ..spec.clone() };
    assert!(matches!(fails(&unknown), HarnessError::Model { model, .. } if model == "gpt"));
    let warm = BenchSpec { warmup: 1, ..spec.clone() };
    assert!(matches!(fails(&warm), HarnessError::Warmup { number: 1, why, .. } if why.contains("on fire")));
    drop(server);
    assert!(matches!(fails(&spec), HarnessError::Connect { .. }));
    let stopped = Stop::new();
    stopped.request();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = listener.local_addr().unwrap().to_string().parse().unwrap();
    let silent = BenchSpec { endpoints: vec![silent], ..spec };
    assert!(matches!(wait_for(run(&silent, &stopped, |_| {})), Err(HarnessError::Stopped)));
}

#[test]
fn a_stop_request_that_the_server_refuses_fails_its_request() {
    let calls = Arc::new(AtomicU64::new(0));
    let server = Scripted::start(
        true,
        None,
        script(move |_| {
            // The second call with the same id is the stop.
            let is_stop = calls.fetch_add(1, Ordering::Relaxed) > 0;
            if is_stop { Act::Error { after: 0 } } else { Act::Hang { after: 3 } }
        }),
    );
    let cancel = CancelPolicy { after_tokens: 2, share: 1.0, by: CancelBy::Stop };
    let request = Request { cancel: Some(cancel), ..Request::default() };
    let measured = measure(&BenchSpec { request, output_len: Length::Fixed(8), ..spec(&server, 1) });
    let counts = &measured.result.counts;
    assert_eq!((counts.cancelled_early, counts.failed), (0, 1));
    assert_eq!(counts.failures[0].why, "the stop request failed: the model is on fire");
}

#[test]
fn a_model_without_a_batch_dimension_is_not_asked_for_two_at_once() {
    let server = Scripted::start(true, None, script(|_| AT_ONCE));
    let request = Request { batch: Some(2), ..Request::default() };
    let refused = wait_for(run(&BenchSpec { request, ..spec(&server, 4) }, &Stop::new(), |_| {}));
    assert!(
        matches!(refused, Err(HarnessError::Request { source, .. }) if source.faults[0].contains("max_batch_size is 0"))
    );
}

/// Answers each request with its tokens and the final flag, and ends the stream without trailers, so without a status.
async fn without_status(listener: tokio::net::TcpListener) {
    while let Ok((socket, _)) = listener.accept().await {
        tokio::spawn(async move {
            let Ok(mut connection) = h2::server::handshake(socket).await else { return };
            while let Some(Ok((call, mut answer))) = connection.accept().await {
                tokio::spawn(async move {
                    let (head, mut body) = call.into_parts();
                    if !head.uri.path().ends_with("/ModelStreamInfer") {
                        let refusal = http::Response::builder().header("grpc-status", "12").body(()).unwrap();
                        drop(answer.send_response(refusal, true));
                        return;
                    }
                    let mut frame = Vec::new();
                    while let Some(Ok(data)) = body.data().await {
                        frame.extend_from_slice(&data);
                    }
                    let request = ModelInferRequest::decode(&frame[5..]).unwrap();
                    let response = response(&request.id, 4, true);
                    let message = ModelStreamInferResponse { infer_response: Some(response), ..Default::default() };
                    let message = message.encode_to_vec();
                    let mut bytes = vec![0];
                    bytes.extend((message.len() as u32).to_be_bytes());
                    bytes.extend(message);
                    let mut sender = answer.send_response(http::Response::new(()), false).unwrap();
                    drop(sender.send_data(bytes.into(), true));
                });
            }
        });
    }
}

#[test]
fn an_answer_without_a_grpc_status_counts_with_a_warning() {
    let server = Scripted::start(true, None, script(|_| AT_ONCE));
    let spec = BenchSpec { output_len: Length::Fixed(4), ..spec(&server, 3) };
    assert!(!measure(&spec).result.counts.violations.contains_key(&Violation::MissingEnd));
    let measured = wait_for(async move {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoints = vec![listener.local_addr().unwrap().to_string().parse().unwrap()];
        tokio::spawn(without_status(listener));
        run(&BenchSpec { endpoints, ..spec }, &Stop::new(), |_| {}).await.unwrap()
    });
    let counts = &measured.result.counts;
    assert_eq!((counts.ok, counts.violations.get(&Violation::MissingEnd)), (3, Some(&3)), "{:?}", counts.failures);
    assert_eq!(counts.violation_examples[&Violation::MissingEnd], "the stream ended without a gRPC status");
    let reasons = measured.result.reasons();
    let protocol = reasons.iter().find(|reason| reason.check == VerdictCheck::Protocol).unwrap();
    assert_eq!(protocol.severity, ReasonSeverity::Warning);
}
