//! The harness over HTTP: OpenAI's interfaces and Triton's generate extension, good servers and bad ones.

mod odd_servers;
pub mod script;

use std::time::Duration;

use pretty_assertions::assert_eq;
use regatta::event::{Endpoint, Stop, Verdict};
use regatta::harness::{
    Api, BenchSpec, FailureClass, HarnessError, Http, LoadLevel, LoadPattern, Measured, RequestEnd, Slo, Transport,
    VerdictCheck, Violation, run,
};
use regatta::spec::{Arrivals, CancelBy, CancelPolicy, Length, LengthField, Limits, Request, StopAfter, WordList};
use serde_json::{Value, json};

use self::script::{DONE, Do, END, HEAD, Scripted, chunk, good, role, token, usage};
use crate::ports::free_port;
use crate::scripted_server::wait_for;
use crate::simulator::ground::{Files, Running};
use crate::tritonserver::{self, RealTriton};
use crate::world::World;

pub fn spec(address: &str, api: Api, requests: u64) -> BenchSpec {
    BenchSpec {
        endpoints: vec![address.parse::<Endpoint>().unwrap()],
        protocol: Transport::Http(Http::new(api)),
        model: "ensemble".to_owned(),
        scenario: LoadPattern::Offline,
        arrivals: Arrivals::Poisson,
        stop: StopAfter { requests: Some(requests), duration: None },
        input_len: Length::Fixed(8),
        output_len: Length::Fixed(4),
        seed: 1,
        warmup: 0,
        pace: regatta::harness::SendingSpec::default(),
        content: regatta::harness::PromptSource::default(),
        frontends: 1,
        clients: 1,
        stall_timeout: Duration::from_secs(30),
        limits: Limits::default(),
        slo: Slo::default(),
        timelines: false,
        vocab_size: 32_000,
        end_id: 2,
        request: Request::default(),
    }
}

/// Of a server that is named later.
pub fn spec_of_chat(requests: u64) -> BenchSpec {
    spec("127.0.0.1:1", Api::OpenaiChat, requests)
}

pub fn chat(server: &Scripted, requests: u64) -> BenchSpec {
    spec(&server.address.to_string(), Api::OpenaiChat, requests)
}

pub fn measure(spec: &BenchSpec) -> Measured {
    let stop = Stop::new();
    let measured = wait_for(run(spec, &stop, |_| {})).unwrap();
    let counts = &measured.result.counts;
    assert!(counts.conserved, "{counts:?}");
    measured
}

fn all_ok(measured: &Measured) {
    let counts = &measured.result.counts;
    assert_eq!((counts.ok, counts.failed), (counts.scheduled, 0), "{:?}", counts.failures);
}

/// Class and text of the failure of request 0.
fn failure(measured: &Measured) -> (FailureClass, String) {
    match &measured.requests.to_vec()[0].ended {
        RequestEnd::Failed { class, why } => (*class, why.clone()),
        other => panic!("it did not fail: {other:?}"),
    }
}

fn simulator() -> (Files, Running) {
    let files = Files::new(true, &json!({}));
    let any = Some("127.0.0.1:0".parse().unwrap());
    let server = Running::start(regatta::sim::SimOptions { http: any, metrics: any, ..files.options() });
    (files, server)
}

#[test]
fn every_interface_of_the_simulator_is_counted_token_by_token() {
    let (_files, server) = simulator();
    let address = server.http.unwrap().to_string();
    for (api, model) in [
        (Api::OpenaiChat, "tensorrt_llm"),
        (Api::OpenaiCompletions, "ensemble"),
        (Api::Generate, "ensemble"),
        (Api::Generate, "tensorrt_llm"),
    ] {
        for streaming in [true, false] {
            let mut spec = BenchSpec {
                model: model.to_owned(),
                output_len: Length::Uniform { min: 1, max: 9 },
                warmup: 1,
                ..spec(&address, api, 30)
            };
            spec.request.streaming = Some(streaming);
            let measured = measure(&spec);
            all_ok(&measured);
            let tokens = &measured.result.tokens;
            assert_eq!(
                (tokens.output, tokens.shorter, tokens.longer),
                (tokens.output_requested, 0, 0),
                "{api:?} {model}"
            );
            let source = match (api, model, streaming) {
                (Api::OpenaiChat | Api::OpenaiCompletions, ..) => "usage.completion_tokens",
                (_, "tensorrt_llm", _) => "output_ids",
                (_, _, true) => "responses, each counted as one token",
                (..) => "requested max_tokens, since the answer is one text",
            };
            assert_eq!(tokens.source, source);
            for record in &measured.requests {
                assert!(record.final_marker);
                assert_eq!(record.chunks, if streaming { record.tokens } else { 1 });
            }
            if api != Api::Generate {
                assert_eq!(tokens.input_server, Some(tokens.input), "a word is four bytes and one token here");
            }
            assert_eq!(measured.result.client.call, if streaming { "stream" } else { "unary" });
        }
    }
}

#[test]
fn prompts_may_go_as_token_ids_and_bodies_have_what_was_asked_for() {
    let server = Scripted::start(|_| vec![Do::Send(good())]);
    let mut spec = BenchSpec { model: "m".to_owned(), ..spec(&server.address.to_string(), Api::OpenaiCompletions, 1) };
    let mut http = Http { prompt_ids: true, path: Some("/my/path".to_owned()), ..Http::new(Api::OpenaiCompletions) };
    http.extra = json!({"ignore_eos": true, "stream_options": null}).as_object().unwrap().clone();
    spec.protocol = Transport::Http(http);
    spec.request = Request { temperature: Some(0.5), min_length: Some(4), ..Request::default() };
    all_ok(&measure(&spec));
    let requests = server.requests.lock().unwrap();
    let (head, body) = requests[0].split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("POST /my/path HTTP/1.1\r\nHost: 127.0.0.1:"), "{head}");
    let mut body: Value = serde_json::from_str(body).unwrap();
    let prompt = body.as_object_mut().unwrap().remove("prompt").unwrap();
    assert_eq!(prompt.as_array().unwrap().len(), 8);
    let expected =
        json!({"model": "m", "stream": true, "temperature": 0.5, "min_tokens": 4, "max_tokens": 4, "ignore_eos": true});
    assert_eq!(body, expected);
}

#[test]
fn connections_are_kept_and_used_again() {
    let server = Scripted::start(|_| vec![Do::Send(good())]);
    let one_after_the_other = one_user(BenchSpec { warmup: 20, ..chat(&server, 1) });
    let measured = measure(&one_after_the_other);
    all_ok(&measured);
    assert_eq!((measured.result.connections.count, measured.result.connections.reconnects), (1, 0));
}

fn one_user(spec: BenchSpec) -> BenchSpec {
    BenchSpec { scenario: LoadPattern::Concurrency { users: LoadLevel::Fixed(1.0) }, ..spec }
}

/// What the connections of a run did: closed while idle, requests sent again, lost.
fn connections(measured: &Measured) -> (u64, u64, u64) {
    let connections = &measured.result.connections;
    assert!(!measured.result.reasons().iter().any(|reason| reason.check == VerdictCheck::Reconnects));
    (connections.idle_closed, connections.resent, connections.reconnects)
}

/// A server that sends every answer twice: the second one is no answer to the next request.
#[test]
fn a_second_answer_to_one_request_makes_the_run_invalid() {
    let later = |ms| {
        vec![
            Do::Wait(Duration::from_millis(50)),
            Do::Send(good()),
            Do::Wait(Duration::from_millis(ms)),
            Do::Send(good()),
        ]
    };
    let at_once = vec![Do::Wait(Duration::from_millis(50)), Do::Send(good() + &good())];
    // In the last case, the next request is sent before the second answer comes, and takes it for its own.
    for (case, script) in [at_once, later(0), later(1), later(10)].into_iter().enumerate() {
        let server = Scripted::start(move |_| script.clone());
        let measured = measure(&one_user(chat(&server, 6)));
        let result = &measured.result;
        assert!(result.counts.violations.contains_key(&Violation::AfterEnd), "{case}: {:?}", result.counts);
        assert_eq!(result.verdict(), Verdict::InvalidServer, "{case}");
        assert_eq!(result.connections.idle_closed, 0, "{case}");
    }
}

#[test]
fn an_idle_connection_that_the_server_closes_is_no_loss_and_no_warning() {
    // Every answer is followed by a close that its head does not announce, as uvicorn does after five idle seconds.
    let server = Scripted::start(|_| vec![Do::Send(good()), Do::Close]);
    let pause = regatta::harness::Pause::Fixed(100.0);
    let mut spec = one_user(chat(&server, 5));
    spec.pace.think = pause;
    let measured = measure(&spec);
    all_ok(&measured);
    let (idle_closed, resent, lost) = connections(&measured);
    // Whether the close is seen before the next request or crosses it, depends on the machine.
    assert_eq!((idle_closed + resent, lost), (4, 0));
}

#[test]
fn a_request_that_crosses_the_close_of_a_kept_connection_is_sent_again_and_counted() {
    // The second request is read and not answered.
    let server = Scripted::start(|number| vec![if number == 1 { Do::Close } else { Do::Send(good()) }]);
    let measured = measure(&one_user(chat(&server, 3)));
    all_ok(&measured);
    assert_eq!(connections(&measured), (0, 1, 0));
    assert_eq!(server.requests.lock().unwrap().len(), 4);
    let warning = measured.result.reasons().iter().find(|reason| reason.check == VerdictCheck::Retries).unwrap();
    assert!(warning.text.starts_with("1 request had to be sent again, because the server closed"), "{}", warning.text);
    // Of a new connection it is the server's failure.
    let silent = Scripted::start(|_| vec![Do::Close]);
    assert_eq!(failure(&measure(&one_user(chat(&silent, 1)))).0, FailureClass::Connect);
}

#[test]
fn a_request_whose_answer_has_begun_is_not_sent_again() {
    let server = Scripted::start(|number| {
        let begun = vec![Do::Send("HTTP/1.1 200".to_owned()), Do::Close];
        if number == 1 { begun } else { vec![Do::Send(good())] }
    });
    let measured = measure(&one_user(chat(&server, 2)));
    assert_eq!((measured.result.counts.ok, measured.result.counts.failed), (1, 1));
    assert_eq!(server.requests.lock().unwrap().len(), 2);
}

#[test]
fn a_stop_of_a_closed_loop_is_an_interruption_and_every_request_is_counted() {
    let server = Scripted::start(|number| vec![if number < 2 { Do::Send(good()) } else { Do::Hang }]);
    let stop = Stop::new();
    let spec = one_user(chat(&server, 50));
    let measured = wait_for(run(&spec, &stop, |progress| {
        if progress.so_far.ended >= 2 {
            stop.request();
        }
    }))
    .unwrap();
    let counts = &measured.result.counts;
    assert!(counts.conserved, "{counts:?}");
    assert_eq!((counts.ok, counts.cancelled, counts.not_sent), (2, 1, 47));
    assert_eq!(measured.result.verdict().as_str(), "INVALID(client)");
    let reasons = measured.result.reasons();
    let stopped = reasons.iter().find(|reason| reason.check == VerdictCheck::Stopped).unwrap();
    assert!(stopped.text.starts_with("interrupted"), "{}", stopped.text);
    assert!(reasons.iter().all(|reason| reason.check != VerdictCheck::Conservation), "{reasons:?}");
}

#[test]
fn an_answer_is_the_same_wherever_its_packets_are_cut() {
    let whole = good();
    let cuts = whole.len() as u64 - 1;
    let server = Scripted::start(move |number| {
        let (one, two) = whole.split_at(number as usize % (whole.len() - 1) + 1);
        vec![Do::Send(one.to_owned()), Do::Wait(Duration::from_micros(200)), Do::Send(two.to_owned())]
    });
    let measured = measure(&chat(&server, cuts));
    all_ok(&measured);
    assert_eq!(measured.result.tokens.output, 4 * cuts);
    assert!(measured.requests.iter().all(|record| record.chunks == 4 && record.final_marker));
}

#[test]
fn events_of_one_packet_are_one_arrival_and_reported_as_such() {
    let two = [token("a"), token("b"), token("c"), token("d"), usage(4), DONE.to_owned()].concat();
    let answer = [HEAD.to_owned(), chunk(&two), END.to_owned()].concat();
    let server = Scripted::start(move |_| vec![Do::Send(answer.clone())]);
    let measured = measure(&chat(&server, 5));
    all_ok(&measured);
    // Three of four chunks came with the one before.
    assert_eq!(measured.result.tokens.coalesced_share, Some(0.75));
    assert!(measured.requests.iter().all(|record| record.max_gap == 0));
}

#[test]
fn a_role_is_no_token_and_its_wait_is_part_of_the_first() {
    const WAIT: Duration = Duration::from_millis(50);
    let rest = [token("a"), token("b"), token("c"), token("d"), usage(4), DONE.to_owned()].concat();
    let server = Scripted::start(move |_| {
        let rest = [chunk(&rest), END.to_owned()].concat();
        vec![Do::Send([HEAD.to_owned(), chunk(&role())].concat()), Do::Wait(WAIT), Do::Send(rest)]
    });
    let measured = measure(&chat(&server, 3));
    all_ok(&measured);
    for record in &measured.requests {
        assert!(record.t_first.unwrap() - record.t_issue >= WAIT.as_nanos() as u64);
    }
}

#[test]
fn a_server_that_leaves_out_its_usage_is_counted_by_chunks_and_that_is_said() {
    let events = [role(), token("a"), token("b"), DONE.to_owned()].concat();
    let answer = [HEAD.to_owned(), chunk(&events), END.to_owned()].concat();
    let server = Scripted::start(move |_| vec![Do::Send(answer.clone())]);
    let measured = measure(&chat(&server, 3));
    all_ok(&measured);
    let tokens = &measured.result.tokens;
    assert_eq!((tokens.output, tokens.shorter, tokens.input_server), (6, 3, None));
    assert_eq!(tokens.source, "chunks, each counted as one token");
    let events = [role(), token("a"), token("b"), usage(0), DONE.to_owned()].concat();
    let answer = [HEAD.to_owned(), chunk(&events), END.to_owned()].concat();
    let server = Scripted::start(move |_| vec![Do::Send(answer.clone())]);
    let measured = measure(&chat(&server, 3));
    let texts: Vec<&str> = measured.result.reasons().iter().map(|reason| reason.text.as_str()).collect();
    let has = |part: &str| texts.iter().any(|text| text.contains(part));
    assert!(has("contradicts its answers, so it is not used") && !has("sends no usage"), "{texts:#?}");
}

/// The models of a gateway are listed below the base URL of its requests.
#[test]
fn a_server_below_a_prefix_is_asked_for_its_models_there() {
    let (_files, server) = simulator();
    let path = Some("/api/llm/v1/chat/completions".to_owned());
    let mut below = spec(&server.http.unwrap().to_string(), Api::OpenaiChat, 1);
    below.model = String::new();
    below.protocol = Transport::Http(Http { path, ..Http::new(Api::OpenaiChat) });
    // There is none, so the root is asked, too.
    let refused = wait_for(run(&below, &Stop::new(), |_| {})).map(|measured| measured.result.counts.failures);
    let text = format!("{refused:?}");
    assert!(text.contains("404 of POST /api/llm/v1/chat/completions"), "{text}");
}

#[test]
fn the_length_of_a_chat_answer_may_be_in_the_newer_field() {
    let server = Scripted::start(|_| vec![Do::Send(good())]);
    let mut spec = chat(&server, 1);
    spec.request.length_field = Some(LengthField::MaxCompletionTokens);
    all_ok(&measure(&spec));
    let requests = server.requests.lock().unwrap();
    let (_, body) = requests[0].split_once("\r\n\r\n").unwrap();
    let body: Value = serde_json::from_str(body).unwrap();
    assert_eq!((&body["max_completion_tokens"], body.get("max_tokens")), (&json!(4), None));
}

/// What a server does wrong, the class that it is counted in, and a part of what is told.
#[test]
fn every_fault_is_counted_in_its_class() {
    let stream =
        |events: &[String]| -> String { [HEAD.to_owned(), events.iter().map(|event| chunk(event)).collect()].concat() };
    let whole = |status: &str, body: &str| {
        format!("HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}", body.len())
    };
    let some = [role(), token("a")];
    let error = [token("a"), "data: {\"error\":{\"message\":\"out of memory\",\"code\":500}}\n\n".to_owned()];
    let cases: Vec<(Vec<Do>, FailureClass, &str)> = vec![
        (vec![Do::Close], FailureClass::Connect, "closed the connection before any answer"),
        (vec![Do::Send(HEAD.to_owned()), Do::Close], FailureClass::Stream, "in the middle"),
        (vec![Do::Send(stream(&some)), Do::Close], FailureClass::Stream, "in the middle"),
        (vec![Do::Send([stream(&some), END.to_owned()].concat())], FailureClass::Short, "after 1 token without"),
        (vec![Do::Send([stream(&error), END.to_owned()].concat())], FailureClass::Server, "out of memory"),
        (
            vec![Do::Send(whole("500 Oh", "{\"error\":{\"message\":\"no GPU\"}}"))],
            FailureClass::Server,
            "HTTP status 500: no GPU",
        ),
        (vec![Do::Send(whole("429 Slow", "{\"error\":\"busy\"}"))], FailureClass::Refused, "HTTP status 429: busy"),
        (vec![Do::Send(whole("503 Not yet", ""))], FailureClass::Refused, "HTTP status 503"),
        (
            vec![Do::Send(whole("307 Temporary Redirect\r\nLocation: http://me:sk-1@h/v2?token=abc", "{}"))],
            FailureClass::Server,
            "HTTP status 307, a redirect to http://h/v2, which is not followed",
        ),
        (vec![Do::Send(whole("200 OK", "{\"error\":\"in peace\"}"))], FailureClass::Server, "in peace"),
        (vec![Do::Send(whole("200 OK", "{\"choices\":[]}"))], FailureClass::Short, "no token"),
        (vec![Do::Send(stream(&["data: {\"choices\": nonsense\n\n".to_owned()]))], FailureClass::Stream, "not JSON"),
        (vec![Do::Send("SMTP ready\r\n\r\n".to_owned())], FailureClass::Stream, "not HTTP/1.1"),
        (vec![Do::Send([HEAD, "zz\r\n"].concat())], FailureClass::Stream, "size"),
        (vec![Do::Send([stream(&[DONE.to_owned()]), END.to_owned()].concat())], FailureClass::Short, "no token"),
    ];
    for (steps, class, message) in cases {
        let what = format!("{steps:?}");
        let server = Scripted::start(move |_| steps.clone());
        let measured = measure(&chat(&server, 1));
        let (found, why) = failure(&measured);
        assert_eq!(found, class, "{what}: {why}");
        assert!(why.contains(message), "{what}: {why}");
        assert_eq!(measured.result.counts.failed_by_class.get(&class), Some(&1));
    }
}

#[test]
fn a_server_that_never_answers_or_stops_in_the_middle_is_a_stall() {
    let begun = [HEAD.to_owned(), chunk(&token("a"))].concat();
    for steps in [vec![Do::Hang], vec![Do::Send(begun), Do::Hang]] {
        let server = Scripted::start(move |_| steps.clone());
        let measured = measure(&BenchSpec { stall_timeout: Duration::from_millis(100), ..chat(&server, 2) });
        let (class, why) = failure(&measured);
        assert_eq!(class, FailureClass::Stall, "{why}");
        assert_eq!(measured.result.counts.failed, 2);
    }
}

#[test]
fn a_slow_server_is_slow_and_nothing_else() {
    const GAP: Duration = Duration::from_millis(20);
    let server = Scripted::start(|_| {
        let mut steps = vec![Do::Send(HEAD.to_owned())];
        for event in [token("a"), token("b"), token("c"), [token("d"), usage(4), DONE.to_owned()].concat()] {
            steps.extend([Do::Wait(GAP), Do::Send(chunk(&event))]);
        }
        steps.push(Do::Send(END.to_owned()));
        steps
    });
    let measured = measure(&chat(&server, 4));
    all_ok(&measured);
    for record in &measured.requests {
        assert!(record.t_last.unwrap() - record.t_issue >= 4 * GAP.as_nanos() as u64);
    }
}

#[test]
fn a_server_that_is_not_there_and_a_model_that_is_not_there_are_reported_before_anything_is_sent() {
    let nothing = format!("127.0.0.1:{}", free_port());
    let stop = Stop::new();
    let refused = wait_for(run(&spec(&nothing, Api::OpenaiChat, 1), &stop, |_| {})).unwrap_err();
    assert!(matches!(refused, HarnessError::Connect { .. }), "{refused}");
    let (_files, server) = simulator();
    let address = server.http.unwrap().to_string();
    for api in [Api::OpenaiChat, Api::Generate] {
        let wrong = BenchSpec { model: "gpt-9".to_owned(), ..spec(&address, api, 1) };
        let refused = wait_for(run(&wrong, &stop, |_| {})).unwrap_err();
        assert!(matches!(refused, HarnessError::Model { .. }), "{refused}");
        assert!(refused.to_string().contains("gpt-9"), "{refused}");
    }
    let unnamed = BenchSpec { model: String::new(), ..spec(&address, Api::OpenaiChat, 1) };
    let measured = wait_for(run(&unnamed, &stop, |_| {})).unwrap();
    assert_eq!(measured.result.counts.ok, 1, "the model that takes text is measured");
}

#[test]
fn the_only_model_of_a_server_and_the_key_that_it_needs_are_what_to_set() {
    let refused = |status: &str, list: &str, model: &str| {
        let length = list.len();
        let answer = format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\n\r\n{list}");
        let server = Scripted::start(|_| vec![Do::Send(good())]).with_models(&answer);
        let spec = BenchSpec { model: model.to_owned(), ..chat(&server, 1) };
        wait_for(run(&spec, &Stop::new(), |_| {})).unwrap_err().to_string()
    };
    let one = refused("200 OK", r#"{"data":[{"id":"mini"}]}"#, "tensorrt_llm");
    assert!(one.ends_with("it has mini; set `model: mini`"), "{one}");
    let bare = refused("200 OK", r#"[{"id":"mini"}]"#, "tensorrt_llm");
    assert!(bare.ends_with("it has mini; set `model: mini`"), "{bare}");
    let several = refused("200 OK", r#"{"data":[{"id":"mini"},{"id":"maxi"}]}"#, "");
    assert!(several.ends_with("it has several models, mini, maxi: set `model`"), "{several}");
    let locked = refused("401 Unauthorized", "{}", "");
    assert!(locked.contains(" refuses access: /v1/models: HTTP status 401; name the variable"), "{locked}");
    assert!(!locked.contains("no model"), "{locked}");
    let loading = refused("503 Service Unavailable", r#"{"error":{"message":"Loading model"}}"#, "");
    assert!(loading.ends_with("it is not ready (/v1/models: HTTP status 503)"), "{loading}");
    let moved = refused("308 Permanent Redirect\r\nLocation: https://h.example/v1/models", "", "");
    assert!(moved.contains("/v1/models is a redirect to https://h.example/v1/models, which is not on"), "{moved}");
    let looped = refused("302 Found\r\nLocation: /v1/models", "", "");
    assert!(looped.contains("/v1/models is redirected more than 3 times; for a login, name the variable"), "{looped}");
    let page = refused("200 OK", "<html>Sign in</html>", "");
    assert!(page.contains("/v1/models (HTTP status 200) is a web page, not JSON"), "{page}");
    let absent = refused("404 Not Found", "", "");
    assert!(absent.ends_with("/v1/models (HTTP status 404) lists no models; set `model`"), "{absent}");
}

#[test]
fn what_the_interface_cannot_carry_is_refused_with_its_name() {
    let (_files, server) = simulator();
    let mut wrong = spec(&server.http.unwrap().to_string(), Api::OpenaiChat, 1);
    wrong.request = Request { return_perf_metrics: true, batch: Some(2), ..Request::default() };
    let refused = wait_for(run(&wrong, &Stop::new(), |_| {})).unwrap_err().to_string();
    for key in ["request.return_perf_metrics", "request.batch"] {
        assert!(refused.contains(key), "{refused}");
    }
}

/// Settings that only Triton's models have.
fn of_beams() -> Request {
    Request {
        beam_width: Some(2),
        length_penalty: Some(2.0),
        early_stopping: Some(true),
        bad_words: Some(WordList::Texts(vec!["no".to_owned()])),
        end_id: Some(9),
        pad_id: Some(4),
        exclude_input_in_output: Some(false),
        ..Request::default()
    }
}

#[test]
fn a_setting_that_openai_lacks_is_refused_before_the_first_request() {
    let server = Scripted::start(|_| vec![Do::Send(good())]);
    for api in [Api::OpenaiChat, Api::OpenaiCompletions] {
        let wrong = BenchSpec { request: of_beams(), ..spec(&server.address.to_string(), api, 1) };
        let refused = wait_for(run(&wrong, &Stop::new(), |_| {})).unwrap_err();
        let HarnessError::Request { source, .. } = refused else { panic!("{refused:?}") };
        let expected = [
            "beam_width",
            "end_id",
            "pad_id",
            "exclude_input_in_output",
            "length_penalty",
            "early_stopping",
            "bad_words.texts",
        ]
        .map(|key| format!("request.{key} is of kserve, generate, not of {}", api.protocol().as_str()));
        assert_eq!(source.faults, expected);
    }
    assert!(server.requests.lock().unwrap().is_empty());
}

#[test]
fn the_generate_extension_is_sent_every_setting_that_it_has() {
    let server = Scripted::start(|_| vec![Do::Send(good())]);
    measure(&BenchSpec { request: of_beams(), ..spec(&server.address.to_string(), Api::Generate, 1) });
    let requests = server.requests.lock().unwrap();
    let (_, body) = requests[0].split_once("\r\n\r\n").unwrap();
    let mut body: Value = serde_json::from_str(body).unwrap();
    body.as_object_mut().unwrap().retain(|key, _| !["id", "text_input", "max_tokens"].contains(&key.as_str()));
    let expected = json!({
        "stream": false, "beam_width": 2, "length_penalty": 2.0, "early_stopping": true, "bad_words": ["no"],
        "end_id": 9, "pad_id": 4, "exclude_input_in_output": false,
    });
    assert_eq!(body, expected);
}

#[test]
fn beams_of_token_ids_over_the_generate_extension_count_once_and_cannot_be_cancelled() {
    let answer = r#"{"output_ids":[[5,6,7,8],[5,6,7,9]]}"#;
    let answer = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{answer}",
        answer.len()
    );
    let server = Scripted::start(move |_| vec![Do::Send(answer.clone())]);
    let http = Http { prompt_ids: true, ..Http::new(Api::Generate) };
    let beams = BenchSpec {
        protocol: Transport::Http(http),
        request: Request { beam_width: Some(2), ..Request::default() },
        ..spec(&server.address.to_string(), Api::Generate, 1)
    };
    let measured = measure(&beams);
    all_ok(&measured);
    let tokens = &measured.result.tokens;
    assert_eq!((tokens.output, tokens.source.as_str()), (4, "output_ids of the longest of 2 beams"));
    let cancel = Some(CancelPolicy { after_tokens: 2, share: 1.0, by: CancelBy::Rpc });
    let wrong = BenchSpec { request: Request { cancel, ..beams.request.clone() }, ..beams };
    let refused = wait_for(run(&wrong, &Stop::new(), |_| {})).unwrap_err().to_string();
    assert!(refused.contains("an answer of several beams does not stream"), "{refused}");
}

#[test]
fn the_simulators_metrics_are_what_it_did() {
    let (_files, server) = simulator();
    let measured = measure(&spec(&server.http.unwrap().to_string(), Api::Generate, 10));
    all_ok(&measured);
    let text = get(&server.metrics.unwrap().to_string(), "/metrics");
    let value = |line: &str| -> u64 {
        let line = text.lines().find(|found| found.starts_with(line)).unwrap_or_else(|| panic!("{line} in\n{text}"));
        line.rsplit(' ').next().unwrap().parse::<f64>().unwrap() as u64
    };
    let model = "model=\"tensorrt_llm\"";
    assert_eq!(value(&format!("nv_inference_request_success{{{model},version=\"1\"}}")), 10);
    assert_eq!(value(&format!("nv_llm_output_token_len{{{model}")), 40);
    assert_eq!(value(&format!("nv_llm_input_token_len{{{model}")), 80);
    assert_eq!(value(&format!("nv_trt_llm_request_metrics{{{model},request_type=\"active\"")), 0);
    assert!(value(&format!("nv_trt_llm_general_metrics{{{model},general_type=\"iteration_counter\"")) >= 4);
    // Every family of the backend's page; V1's are those of a static batch alone.
    for family in [
        "request_metrics",
        "runtime_memory_metrics",
        "kv_cache_block_metrics",
        "inflight_batcher_metrics",
        "general_metrics",
        "disaggregated_serving_metrics",
    ] {
        assert!(text.contains(&format!("# TYPE nv_trt_llm_{family} ")), "{family} in\n{text}");
    }
    assert!(!text.contains("nv_trt_llm_v1_metrics"), "{text}");
    assert!(value(&format!("nv_trt_llm_runtime_memory_metrics{{{model},memory_type=\"gpu\"")) > 0);
    let health = get(&server.http.unwrap().to_string(), "/v2/health/ready");
    assert!(health.starts_with("HTTP/1.1 200"), "{health}");
}

/// The whole answer, head and all.
fn get(address: &str, path: &str) -> String {
    use std::io::{Read as _, Write as _};
    let mut socket = std::net::TcpStream::connect(address).unwrap();
    write!(socket, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    socket.read_to_string(&mut text).unwrap();
    text
}

#[test]
#[ignore = "needs a real tritonserver"]
fn a_real_triton_streams_its_generate_extension() {
    let world = World::new();
    world.copy("manifests");
    let program = format!("tritonserver={}", tritonserver::program().display());
    world.good(&["run", "triton-cpu", &program, "--until", "generate_triton_config"]);
    let repository = world.path("latest/generate_triton_config/offline/triton_model_repo_0");
    let server = wait_for(RealTriton::ready(&repository, &[]));
    for model in ["ensemble", "tensorrt_llm"] {
        let endpoint = server.endpoint.clone();
        let spec =
            BenchSpec { endpoints: vec![endpoint], model: model.to_owned(), ..spec("127.0.0.1:1", Api::Generate, 8) };
        let measured = measure(&spec);
        all_ok(&measured);
        assert_eq!(measured.result.tokens.output, 32, "{model}");
        assert!(measured.requests.iter().all(|record| record.chunks == 4 && record.final_marker), "{model}");
    }
    let wrong = BenchSpec {
        endpoints: vec![server.endpoint.clone()],
        model: "nobody".to_owned(),
        ..spec("127.0.0.1:1", Api::Generate, 1)
    };
    let refused = wait_for(run(&wrong, &Stop::new(), |_| {})).unwrap_err().to_string();
    assert!(refused.contains("nobody"), "{refused}");
}
