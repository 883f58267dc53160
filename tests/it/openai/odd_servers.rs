//! Servers that do what others do not: what they send still counts when it comes, and what they leave out is no success.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use pretty_assertions::assert_eq;
use regatta::harness::{Api, BenchSpec, FailureClass, Http, Transport, VerdictCheck, Violation};
use regatta::spec::Length;
use serde_json::json;

use super::script::{DONE, Do, END, HEAD, Scripted, chunk, good, role, token, usage};
use super::{all_ok, chat, failure, measure, one_user, spec};

#[test]
fn a_request_that_the_server_has_taken_and_drops_later_is_not_sent_again() {
    let server = Scripted::start(|number| {
        if number == 1 { vec![Do::Wait(Duration::from_secs(1)), Do::Close] } else { vec![Do::Send(good())] }
    });
    let measured = measure(&one_user(chat(&server, 3)));
    let counts = &measured.result.counts;
    assert_eq!((counts.ok, counts.failed), (2, 1));
    assert_eq!(counts.failed_by_class[&FailureClass::Connect], 1);
    assert_eq!(measured.result.connections.resent, 0);
    assert!(measured.result.reasons().iter().all(|reason| reason.check != VerdictCheck::Retries));
    assert_eq!(server.requests.lock().unwrap().len(), 3);
}

#[test]
fn an_answer_with_its_end_is_whole_where_the_body_has_none() {
    let without_end = good().strip_suffix(END).unwrap().to_owned();
    for last in [Do::Close, Do::Hang] {
        let (begin, last) = (without_end.clone(), last);
        let server = Scripted::start(move |_| vec![Do::Send(begin.clone()), last.clone()]);
        let measured = measure(&one_user(BenchSpec { stall_timeout: Duration::from_secs(2), ..chat(&server, 3) }));
        all_ok(&measured);
        assert_eq!(measured.result.counts.violations, [(Violation::MissingEnd, 3)].into());
        assert!(measured.requests.iter().all(|record| record.final_marker && record.chunks == 4));
        // None is used again.
        assert_eq!((measured.result.connections.idle_closed, measured.result.connections.resent), (0, 0));
    }
}

/// A rate limit that was reached before: the first request is refused, and the next is not.
#[test]
fn a_warm_up_that_is_refused_ends_a_run_only_where_no_failure_is_expected() {
    let busy = "HTTP/1.1 429 Slow\r\nContent-Type: application/json\r\nContent-Length: 16\r\n\r\n{\"error\":\"busy\"}";
    let server = || Scripted::start(move |number| vec![Do::Send(if number == 0 { busy.to_owned() } else { good() })]);
    let with = |server: &Scripted, change: fn(&mut BenchSpec)| {
        let mut spec = one_user(BenchSpec { warmup: 1, ..chat(server, 3) });
        change(&mut spec);
        super::wait_for(super::run(&spec, &super::Stop::new(), |_| {}))
    };
    let strict = with(&server(), |_| {}).unwrap_err().to_string();
    assert!(strict.contains("busy; `retries` sends it again, and `warmup: 0` leaves it out"), "{strict}");
    let budgeted = server();
    let measured = with(&budgeted, |spec| spec.limits.failures = Some("10%".parse().unwrap()));
    all_ok(&measured.unwrap());
    assert_eq!(budgeted.requests.lock().unwrap().len(), 4);
    let retried = server();
    let measured = with(&retried, |spec| {
        spec.pace.retries = serde_json::from_value(json!({ "times": 1, "pause": "1ms" })).unwrap();
    });
    all_ok(&measured.unwrap());
    assert_eq!(retried.requests.lock().unwrap().len(), 5);
}

/// A server that reads the head of a request, refuses it, and reads no more.
fn without_an_ear() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    // The threads end with the test; they hold the connections until then.
    thread::spawn(move || {
        for mut socket in listener.incoming().map_while(Result::ok) {
            thread::spawn(move || {
                while let Some(head) = head(&mut socket) {
                    if head.starts_with("GET ") {
                        socket.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n").unwrap();
                    } else {
                        socket.write_all(b"HTTP/1.1 413 Too Large\r\nContent-Length: 7\r\n\r\ntoo big").unwrap();
                        loop {
                            thread::park();
                        }
                    }
                }
            });
        }
    });
    address
}

fn head(socket: &mut TcpStream) -> Option<String> {
    let (mut head, mut byte) = (Vec::new(), [0; 1]);
    while !head.ends_with(b"\r\n\r\n") {
        socket.read_exact(&mut byte).ok()?;
        head.extend_from_slice(&byte);
    }
    String::from_utf8(head).ok()
}

#[test]
fn a_refusal_is_read_while_the_request_is_still_being_written() {
    let mut large = spec(&without_an_ear().to_string(), Api::OpenaiChat, 1);
    // More than both sides' buffers hold.
    let extra = json!({ "filler": "x".repeat(32 << 20) }).as_object().unwrap().clone();
    large.protocol = Transport::Http(Http { extra, ..Http::new(Api::OpenaiChat) });
    large.stall_timeout = Duration::from_secs(20);
    let (class, why) = failure(&measure(&large));
    assert_eq!((class, why.as_str()), (FailureClass::Server, "HTTP status 413: too big"));
}

/// 40 ms between pairs of tokens, each pair in one write: 20 ms a token. A busy machine makes gaps longer, and never zero.
#[test]
fn tokens_in_pairs_have_half_the_gap_of_their_writes() {
    let server = Scripted::start(|_| {
        let pair = [Do::Wait(Duration::from_millis(40)), Do::Send(chunk(&[token("a"), token("b")].concat()))];
        let end = Do::Send([chunk(&usage(8)), chunk(DONE), END.to_owned()].concat());
        [vec![Do::Send(HEAD.to_owned() + &chunk(&role()))], vec![pair; 4].concat(), vec![end]].concat()
    });
    let measured = measure(&one_user(BenchSpec { output_len: Length::Fixed(8), ..chat(&server, 5) }));
    all_ok(&measured);
    let result = &measured.result;
    assert_eq!(result.tokens.coalesced_share, Some(0.5));
    assert!(result.self_check.mismatches.is_empty(), "{:?}", result.self_check);
    let latency = &result.latency;
    let p50 = |metric: &regatta::harness::Metric| metric.p50.unwrap();
    assert!(p50(&latency.itl_token) > 15.0 && p50(&latency.icl) > 30.0, "{latency:?}");
    // One population: TPOT is of 6 tokens of each answer, as ITL is.
    let (tpot, itl) = (latency.tpot.mean.unwrap(), latency.itl_token.mean.unwrap());
    assert!((tpot - itl).abs() < 1e-6 && latency.itl_token.n == 30, "{tpot} {itl}");
}

/// The total counts an end token, and its event comes long after the last text.
#[test]
fn an_answer_ends_with_its_last_text_and_not_with_an_event_without_any() {
    const LATE: Duration = Duration::from_millis(300);
    for last in ["\"delta\":{},\"finish_reason\":\"stop\"", "\"delta\":{\"content\":\"\"},\"finish_reason\":null"] {
        let event = format!("data: {{\"choices\":[{{\"index\":0,{last}}}]}}\n\n");
        let server = Scripted::start(move |_| {
            let each = [Do::Wait(Duration::from_millis(5)), Do::Send(chunk(&token("a")))];
            let end = Do::Send([chunk(&event), chunk(&usage(4)), chunk(DONE), END.to_owned()].concat());
            [vec![Do::Send(HEAD.to_owned())], vec![each; 3].concat(), vec![Do::Wait(LATE), end]].concat()
        });
        let measured = measure(&one_user(chat(&server, 3)));
        all_ok(&measured);
        assert_eq!(measured.result.tokens.output, 12);
        for record in &measured.requests {
            assert!(record.t_end - record.t_last.unwrap() > LATE.as_nanos() as u64 / 2, "{record:?}");
        }
        assert!(measured.result.latency.tpot.n == 3, "{:?}", measured.result.latency.tpot);
    }
}
