//! Answers without end: each part has a limit, the request fails with it, and no more is read.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use pretty_assertions::assert_eq;
use regatta::event::{Endpoint, Stop};
use regatta::harness::{BenchSpec, FailureClass, RequestEnd, SendingSpec, run};
use regatta::spec::{Length, Request, ResponseSizeLimits};
use regatta::triton::proto::inference::{ModelInferRequest, ModelStreamInferResponse};
use regatta::triton::{HttpAddress, HttpClient, TritonClient};

use crate::harness as kserve;
use crate::openai::script::{Do, HEAD, Scripted, chunk, good};
use crate::openai::{chat, measure};
use crate::scripted_server::{Act, Scripted as GrpcServer, response, wait_for};

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

/// A token comes before each stall time-out, for ever: only the time since the first one ends the request.
#[test]
fn an_answer_that_is_slow_for_ever_fails() {
    let slow = |spec: BenchSpec| {
        let pace = SendingSpec { answer_time_out: Some(Duration::from_millis(1)), ..SendingSpec::default() };
        let (class, why) = failure(&BenchSpec { pace, ..spec });
        assert_eq!(class, FailureClass::Deadline, "{why}");
        assert!(why.contains("after its first token") && why.contains("ten times 1ms"), "{why}");
    };
    let pause = Duration::from_millis(5);
    let event = chunk("data: {\"choices\":[{\"delta\":{\"content\":\"t\"}}]}\n\n");
    let server = Scripted::start(move |_| vec![Do::Send(HEAD.to_owned()), Do::Drip(event.clone(), pause)]);
    slow(chat(&server, 1));

    let script = kserve::script(|_| Act::Play { gap: Duration::from_millis(5), messages: endless });
    slow(kserve::spec(&GrpcServer::start(true, None, script), 1));
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

/// Answers every call with messages of no bytes, without end.
async fn empty_messages(listener: tokio::net::TcpListener) {
    while let Ok((socket, _)) = listener.accept().await {
        tokio::spawn(async move {
            let Ok(mut connection) = h2::server::handshake(socket).await else { return };
            while let Some(Ok((_, mut call))) = connection.accept().await {
                tokio::spawn(async move {
                    let Ok(mut body) = call.send_response(http::Response::new(()), false) else { return };
                    loop {
                        body.reserve_capacity(16 << 10);
                        let Some(Ok(bytes)) = std::future::poll_fn(|context| body.poll_capacity(context)).await else {
                            return;
                        };
                        // A message begins with five bytes: not compressed, and its length.
                        if body.send_data(bytes::Bytes::from(vec![0; bytes]), false).is_err() {
                            return;
                        }
                    }
                });
            }
        });
    }
}

#[test]
fn an_answer_to_a_query_of_more_than_one_message_is_not_read_on() {
    let spec = kserve::spec(&GrpcServer::start(true, None, kserve::script(|_| kserve::AT_ONCE)), 1);
    let error = wait_for(async move {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoints = vec![listener.local_addr().unwrap().to_string().parse().unwrap()];
        tokio::spawn(empty_messages(listener));
        run(&BenchSpec { endpoints, ..spec }, &Stop::new(), |_| {}).await.unwrap_err()
    });
    let text = error.to_string();
    assert!(text.contains("ServerReady: the answer is not a gRPC stream: it has more than one message"), "{text}");
}

/// The reason of a refusal is a text without end: at any speed the request fails with what has come of it.
#[test]
fn a_refusal_without_end_is_a_refusal_and_neither_a_stall_nor_too_large() {
    let head = "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 99999999999\r\n\r\n".to_owned();
    let fast = vec![Do::Send(head.clone()), Do::Flood("out of memory ".repeat(100))];
    let slow = vec![Do::Send(head), Do::Drip("out of memory ".to_owned(), Duration::from_millis(50))];
    for (what, steps) in [("fast", fast), ("slow", slow)] {
        let server = Scripted::start(move |_| steps.clone());
        let (class, why) = failure(&chat(&server, 1));
        assert_eq!(class, FailureClass::Server, "{what}: {why}");
        assert!(why.starts_with("HTTP status 500"), "{what}: {why}");
        let taken = server.flooded.load(std::sync::atomic::Ordering::SeqCst);
        assert!(taken < 32 << 20, "{what}: {taken} bytes");
    }
}

fn endless_error(_: &ModelInferRequest) -> Vec<ModelStreamInferResponse> {
    vec![ModelStreamInferResponse { error_message: "no room ".repeat(1 << 17), ..Default::default() }]
}

#[test]
fn of_an_error_over_grpc_as_much_is_kept_as_over_http() {
    for stream in [regatta::spec::StreamMode::PerRequest, regatta::spec::StreamMode::Shared] {
        let script = kserve::script(|_| Act::Play { gap: Duration::ZERO, messages: endless_error });
        let server = GrpcServer::start(true, None, script);
        let mut spec = kserve::spec(&server, 1);
        spec.pace.stream = stream;
        let (class, why) = failure(&spec);
        assert_eq!(class, FailureClass::Server, "{why}");
        assert!(why.contains("no room no room") && why.len() < 600, "{} bytes: {}", why.len(), &why[..100]);
    }
}

/// Answers each request with a head, and with a text over and over again until the other side hangs up.
fn endless_server(head: &'static str, text: &'static str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut socket = listener.accept().unwrap().0;
        let _ = socket.read(&mut [0; 4096]);
        let piece = text.repeat(1_000);
        let _ = socket.write_all(head.as_bytes());
        while socket.write_all(piece.as_bytes()).is_ok() {}
    });
    address
}

#[test]
fn what_a_server_reports_of_itself_has_a_limit() {
    let http =
        |address: SocketAddr| HttpClient::new(HttpAddress { host: "127.0.0.1".to_owned(), port: address.port() });
    let metrics = endless_server("HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n", "a_metric{label=\"x\"} 1\n");
    let error = wait_for(async { http(metrics).text("/metrics").await }).unwrap_err().to_string();
    assert!(error.ends_with("the answer is longer than 16 MiB, the limit"), "{error}");

    let open = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: ";
    let events = endless_server(open, "xxxxxxxx");
    let error = wait_for(async {
        let mut client = http(events);
        let mut events = client.generate_stream("m", &serde_json::json!({})).await.unwrap();
        events.next().await.unwrap().map(drop)
    });
    let error = error.unwrap_err().to_string();
    assert!(error.ends_with("the answer is longer than 16 MiB, the limit"), "{error}");

    let server = GrpcServer::start(true, None, kserve::script(|_| Act::Refuse));
    let endpoint: Endpoint = server.address.to_string().parse().unwrap();
    let error = wait_for(async { TritonClient::connect(&endpoint).await.unwrap().model_config("long", "").await });
    let error = error.unwrap_err().to_string();
    assert!(error.contains("message length too large") && error.contains("16777216 bytes"), "{error}");
}
