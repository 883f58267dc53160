//! Answers without end: each part has a limit, the request fails with it, and no more is read.

use pretty_assertions::assert_eq;
use regatta::harness::{BenchSpec, FailureClass, RequestEnd};
use regatta::spec::{Length, Request, ResponseSizeLimits};
use regatta::triton::proto::inference::{ModelInferRequest, ModelStreamInferResponse};

use crate::harness as kserve;
use crate::openai::script::{Do, HEAD, Scripted, chunk, good};
use crate::openai::{chat, measure};
use crate::scripted_server::{Act, Scripted as GrpcServer, response};

const LIMITS: ResponseSizeLimits = ResponseSizeLimits {
    body: Some(300_000),
    header: Some(4_000),
    line: Some(50_000),
    frame: Some(30_000),
    total: None,
};

fn limited(spec: BenchSpec) -> BenchSpec {
    BenchSpec { request: Request { response_limits: Some(LIMITS), ..spec.request.clone() }, ..spec }
}

/// Why request 0 failed.
fn failure(spec: &BenchSpec) -> (FailureClass, String) {
    let measured = measure(spec);
    assert_eq!(measured.result.counts.failed, 1, "{:?}", measured.result.counts);
    match &measured.requests.to_vec()[0].ended {
        RequestEnd::Failed { class, why } => (*class, why.clone()),
        other => panic!("it did not fail: {other:?}"),
    }
}

#[test]
fn an_answer_without_end_fails_with_its_limit_and_is_not_read_on() {
    let line = "x".repeat(1_000);
    let event = format!("data: {{\"choices\":[{{\"delta\":{{\"content\":\"{line}\"}}}}]}}\n\n");
    let json = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 99999999999\r\n\r\n";
    let open = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";
    let cases: [(&str, Vec<Do>, &str); 7] = [
        ("a header", vec![Do::Send("HTTP/1.1 200 OK\r\nX: ".to_owned()), Do::Flood(line.clone())], "header"),
        ("one event", vec![Do::Send(format!("{open}data: ")), Do::Flood(line.clone())], "line"),
        ("one event of many lines", vec![Do::Send(open.to_owned()), Do::Flood(format!("data: {line}\n"))], "line"),
        ("tokens", vec![Do::Send(HEAD.to_owned()), Do::Flood(chunk(&event))], "body"),
        ("keep-alive lines", vec![Do::Send(open.to_owned()), Do::Flood(format!(": {line}\n\n"))], "body"),
        ("one piece", vec![Do::Send(json.to_owned()), Do::Flood(line.clone())], "body"),
        ("a chunk extension", vec![Do::Send(format!("{HEAD}1;")), Do::Flood(line.clone())], "body"),
    ];
    for (what, steps, key) in cases {
        let server = Scripted::start(move |_| steps.clone());
        let (class, why) = failure(&limited(chat(&server, 1)));
        assert_eq!(class, FailureClass::TooLarge, "{what}: {why}");
        assert!(why.contains(&format!("`request.response_limits.{key}`")), "{what}: {why}");
        // What was read, and what waits in the sockets of both sides.
        let taken = server.flooded.load(std::sync::atomic::Ordering::SeqCst);
        assert!(taken < 32 << 20, "{what}: {taken} bytes");
    }
}

/// More tokens than any request of these tests asks for, without an end.
fn endless(request: &ModelInferRequest) -> Vec<ModelStreamInferResponse> {
    let token =
        || ModelStreamInferResponse { infer_response: Some(response(&request.id, 1, false)), ..Default::default() };
    (0..10_000).map(|_| token()).collect()
}

/// Tokens that keep coming: the stall time-out never fires, and their bytes are few.
#[test]
fn an_answer_whose_tokens_do_not_end_fails() {
    let event = "data: {\"choices\":[{\"delta\":{\"content\":\"t\"}}]}\n\n";
    let server = Scripted::start(move |_| vec![Do::Send(HEAD.to_owned()), Do::Flood(chunk(event))]);
    let (class, why) = failure(&chat(&server, 1));
    assert_eq!(class, FailureClass::TooLarge, "{why}");
    assert!(why.contains("the answer has not ended after"), "{why}");

    let script = kserve::script(|_| Act::Play { gap: std::time::Duration::ZERO, messages: endless });
    let (class, why) = failure(&kserve::spec(&GrpcServer::start(true, None, script), 1));
    assert_eq!(class, FailureClass::TooLarge, "{why}");
    assert!(why.contains("the answer has not ended after"), "{why}");
}

#[test]
fn an_answer_within_its_limits_is_no_failure() {
    let server = Scripted::start(|_| vec![Do::Send(good())]);
    let measured = measure(&limited(chat(&server, 3)));
    assert_eq!((measured.result.counts.ok, measured.result.counts.failed), (3, 0));
}

/// A response of 40,000 bytes, of which 30,000 are allowed.
fn long(request: &ModelInferRequest) -> Vec<ModelStreamInferResponse> {
    let message =
        ModelStreamInferResponse { infer_response: Some(response(&request.id, 10_000, true)), ..Default::default() };
    vec![message]
}

#[test]
fn a_message_beyond_its_limit_fails_over_grpc_too() {
    for stream in [regatta::spec::StreamMode::PerRequest, regatta::spec::StreamMode::Shared] {
        let server = GrpcServer::start(
            true,
            None,
            kserve::script(|_| Act::Play { gap: std::time::Duration::ZERO, messages: long }),
        );
        let mut spec = BenchSpec { output_len: Length::Fixed(10_000), ..limited(kserve::spec(&server, 1)) };
        spec.pace.stream = stream;
        let (class, why) = failure(&spec);
        assert_eq!(class, FailureClass::TooLarge, "{why}");
        assert!(why.contains("`request.response_limits.frame`"), "{why}");
    }
}

/// Each answer is within its own limits; all together are not.
#[test]
fn endless_answers_on_many_connections_share_one_budget() {
    const REQUESTS: u64 = 64;
    const TOTAL: u64 = 4 << 20;
    let json = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 99999999999\r\n\r\n";
    let open = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: ";
    for head in [json, open] {
        let server = Scripted::start(move |_| vec![Do::Send(head.to_owned()), Do::Flood("x".repeat(1_000))]);
        let mut spec = chat(&server, REQUESTS);
        spec.request.response_limits = Some(ResponseSizeLimits { total: Some(TOTAL), ..ResponseSizeLimits::default() });
        let measured = measure(&spec);
        assert_eq!(measured.result.counts.failed, REQUESTS, "{:?}", measured.result.counts);
        for request in &measured.requests {
            let RequestEnd::Failed { class, why } = &request.ended else { panic!("{:?}", request.ended) };
            assert_eq!(*class, FailureClass::TooLarge, "{why}");
            assert!(
                why.contains(&format!("more than {TOTAL} bytes, the limit `request.response_limits.total`")),
                "{why}"
            );
        }
    }
    // The sum is given back: an answer of the same size as before passes.
    let server = Scripted::start(|_| vec![Do::Send(good())]);
    let mut spec = chat(&server, 3);
    spec.request.response_limits = Some(ResponseSizeLimits { total: Some(TOTAL), ..ResponseSizeLimits::default() });
    assert_eq!(measure(&spec).result.counts.ok, 3);
}

/// A message of 400,000 bytes, which comes in many pieces.
fn in_pieces(request: &ModelInferRequest) -> Vec<ModelStreamInferResponse> {
    let response = response(&request.id, 100_000, true);
    vec![ModelStreamInferResponse { infer_response: Some(response), ..Default::default() }]
}

#[test]
fn messages_over_grpc_have_the_same_budget() {
    let script = kserve::script(|_| Act::Play { gap: std::time::Duration::ZERO, messages: in_pieces });
    let server = GrpcServer::start(true, None, script);
    let mut spec = BenchSpec { output_len: Length::Fixed(100_000), ..kserve::spec(&server, 1) };
    spec.request.response_limits = Some(ResponseSizeLimits { total: Some(100_000), ..ResponseSizeLimits::default() });
    let (class, why) = failure(&spec);
    assert_eq!(class, FailureClass::TooLarge, "{why}");
    assert!(why.contains("`request.response_limits.total`"), "{why}");
}
