//! A server that stands still for a while: whoever was due meanwhile has waited, and the percentiles say so.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use regatta::harness::{BenchSpec, LoadPattern, SendingSpec};
use regatta::spec::{Arrivals, Length};

use crate::harness::{adds_up, measure, script, spec};
use crate::scripted_server::{Act, Last, Scripted};

const REQUESTS: u64 = 300;
/// ms between arrivals.
const EVERY: u64 = 10;
/// ms
const SERVICE: u64 = 20;
/// ms from the first request on.
const STALL: (u64, u64) = (500, 1000);

/// How long a request takes that comes at `at`, ms: what would be under way in the stall is done 20 ms after it.
fn takes(at: u64) -> u64 {
    if at < STALL.1 && at + SERVICE > STALL.0 { STALL.1 + SERVICE - at } else { SERVICE }
}

fn standing_still() -> Scripted {
    let first = OnceLock::new();
    let service = move |_| {
        // Whole ms, so one more makes up for what is cut off.
        let at = first.get_or_init(Instant::now).elapsed().as_millis() as u64;
        Act::Answer { gap: Duration::from_millis(takes(at) + 1), per_chunk: 1, last: Last::FlagOnToken }
    };
    Scripted::start(true, None, script(service))
}

/// The least p99 that such a server leaves, by arithmetic, ms. Lateness of anybody adds to it; one request may fall out
/// of the stall when the server's zero is later than ours.
fn at_least() -> f64 {
    let mut all: Vec<u64> = (0..REQUESTS).map(|index| takes(index * EVERY)).collect();
    all.sort_unstable();
    all[(REQUESTS * 99 / 100) as usize] as f64 - EVERY as f64
}

fn shows_in_full(pace: SendingSpec) {
    let server = standing_still();
    let measured = measure(&BenchSpec {
        scenario: LoadPattern::Server { rate: (1e3 / EVERY as f64).into() },
        arrivals: Arrivals::Constant,
        output_len: Length::Fixed(1),
        pace,
        ..spec(&server, REQUESTS)
    });
    adds_up(&measured);
    assert_eq!(measured.result.counts.ok, REQUESTS);
    for metric in [&measured.result.latency.e2e, &measured.result.latency.ttft] {
        let (p99, least) = (metric.p99.unwrap(), at_least());
        assert!(p99 >= least, "p99 is {p99} ms, and the stall alone makes it {least} ms");
    }
}

#[test]
fn a_stall_of_the_server_shows_in_full_from_the_schedule() {
    assert!(at_least() > 470.0);
    shows_in_full(SendingSpec::default());
}

/// With few requests in flight the stall hides from whoever counts from the send, but not from the schedule.
#[test]
fn a_stall_of_the_server_shows_in_full_when_arrivals_wait_in_the_client() {
    shows_in_full(SendingSpec { max_in_flight: Some(8), ..SendingSpec::default() });
}
