//! Bad measurements that users of benchmarks reported of servers, gateways and clients, on made-up records: rows of the
//! table of `verdict_table_tests`.

use super::verdict_table_tests::{Case, answered_after, case};
use crate::measure::collector::Collector;
use crate::verdict::metric_vector_tests::ended;
use crate::*;

/// Requests every 20 ms, the first token of each after 50 ms; `gap_ms` is the time before each later token of a
/// request.
fn with_stalls(requests: u64, tokens: u64, gap_ms: impl Fn(u64, u64) -> u64) -> Collector {
    let mut collector = Collector::new();
    for index in 0..requests {
        let at = index * 20;
        let mut now = at + 50;
        let mut chunks = vec![(now, 1)];
        for token in 1..tokens {
            now += gap_ms(index, token);
            chunks.push((now, 1));
        }
        ended(&mut collector, index, (at, at, now), tokens as u32, &chunks, RequestEnd::Ok);
    }
    collector
}

/// Requests every 10 ms that the client sends, and reads the answers of, as late as `resumes` has it.
fn of_a_paused_client(requests: u64, resumes: impl Fn(u64) -> u64) -> Collector {
    let mut collector = Collector::new();
    for index in 0..requests {
        let at = index * 10;
        let issued = resumes(at);
        let read = resumes(issued + 30);
        ended(&mut collector, index, (at, issued, read), 1, &[(read, 1)], RequestEnd::Ok);
    }
    collector
}

/// Refused at the end of each second, for 100 ms.
fn rate_limited(requests: u64) -> Collector {
    let mut collector = Collector::new();
    for index in 0..requests {
        let at = index * 10;
        let refusal = || "HTTP status 429: Too Many Requests".to_owned();
        let (end, chunks, how) = match at % 1_000 {
            900.. => (at + 2, Vec::new(), RequestEnd::Failed { class: FailureClass::Refused, why: refusal() }),
            _ => (at + 30, vec![(at + 30, 1)], RequestEnd::Ok),
        };
        ended(&mut collector, index, (at, at, end), 1, &chunks, how);
    }
    collector
}

/// A context window that fills: from the middle on answers end after a quarter of their tokens.
fn cut_answers(requests: u64) -> Collector {
    let mut collector = Collector::new();
    for index in 0..requests {
        let (at, tokens) = (index * 10, if index < requests / 2 { 40 } else { 10 });
        let chunks: Vec<(u64, u32)> = (0..tokens).map(|token| (at + 30 + token * 10, 1)).collect();
        let end = at + 30 + (tokens - 1) * 10;
        ended(&mut collector, index, (at, at, end), 40, &chunks, RequestEnd::Ok);
    }
    collector
}

pub(super) fn cases() -> Vec<Case> {
    let noise = |index: u64| index * 7_919 % 7;
    vec![
        case(
            "a client that pauses for 60 ms every second to collect garbage",
            300,
            of_a_paused_client(300, |at| if at % 1_000 < 940 { at } else { at - at % 1_000 + 1_000 }),
            |_| (),
        ),
        case(
            "a client whose machine is suspended for 1 s",
            300,
            of_a_paused_client(300, |at| if (1_000..2_000).contains(&at) { 2_000 } else { at }),
            |_| (),
        ),
        case(
            "a client that falls behind by 20 ms over the run",
            300,
            of_a_paused_client(300, |at| at + at / 150),
            |_| (),
        ),
        case(
            "a warm-up that is part of the run: 30 requests of 300 twice as slow",
            300,
            answered_after(300, |index| if index < 30 { 200 } else { 100 } + noise(index)),
            |_| (),
        ),
        case(
            "a prefix cache that is hot in the second half",
            300,
            answered_after(300, |index| if index < 150 { 300 } else { 60 } + noise(index)),
            |_| (),
        ),
        case(
            "a gateway that answers every second request from its cache",
            300,
            answered_after(300, |index| if index % 2 == 0 { 200 } else { 2 }),
            |spec| spec.content.distinct = Some(150),
        ),
        case("a rate limiter that refuses the end of each second", 300, rate_limited(300), |_| ()),
        case("the same within a budget of failures", 300, rate_limited(300), |spec| {
            spec.limits.failures = Some("15%".parse().unwrap());
        }),
        case("answers cut to a quarter in the second half", 300, cut_answers(300), |_| ()),
        case(
            "a stall of 65 ms in each answer of the second half, TPOT 6 % longer",
            300,
            with_stalls(300, 200, |index, token| if index >= 150 && token == 100 { 65 } else { 5 }),
            |_| (),
        ),
        case(
            "tokens sent ten at a time from the middle on, at the same TPOT",
            300,
            with_stalls(300, 101, |index, token| match (index, token % 10) {
                (..150, _) => 6,
                (_, 1) => 60,
                _ => 0,
            }),
            |_| (),
        ),
        case(
            "a fifth of the answers preempted for 1 s in the last third",
            1_000,
            with_stalls(1_000, 200, |index, token| match (index, token) {
                (667.., 150) if index % 5 == 0 => 1_000,
                _ => 20 + (index + token) % 3,
            }),
            |_| (),
        ),
    ]
}
