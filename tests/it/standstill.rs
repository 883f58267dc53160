//! A server that stands still for a while: whoever was due meanwhile has waited, and the percentiles say so.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use regatta::harness::{Arrivals, Length, Pace, Scenario, Spec};

use crate::harness::{adds_up, measure, script, spec};
use crate::scripted::{Act, Last, Scripted};

const RATE: u64 = 100;
const REQUESTS: u64 = 300;
const SERVICE: Duration = Duration::from_millis(20);
/// From the first request on.
const STALL: (Duration, Duration) = (Duration::from_millis(500), Duration::from_millis(1000));

/// 20 ms for each request; what would be under way in the stall is done 20 ms after it.
fn standing_still() -> Scripted {
    let first = OnceLock::new();
    let service = move |_| {
        let now = first.get_or_init(Instant::now).elapsed();
        let is_stalled = now < STALL.1 && now + SERVICE > STALL.0;
        let gap = if is_stalled { STALL.1 + SERVICE - now } else { SERVICE };
        Act::Answer { gap, per_chunk: 1, last: Last::FlagOnToken }
    };
    Scripted::start(true, None, script(service))
}

/// The least p99 that such a server leaves, by arithmetic, ms. Lateness of anybody adds to it; one request may fall out
/// of the stall when the server's zero is later than ours.
fn at_least() -> f64 {
    let latency = |index: u64| {
        let at = Duration::from_millis(1000 / RATE * index);
        let is_stalled = at < STALL.1 && at + SERVICE > STALL.0;
        if is_stalled { STALL.1 + SERVICE - at } else { SERVICE }
    };
    let mut all: Vec<Duration> = (0..REQUESTS).map(latency).collect();
    all.sort();
    (all[(REQUESTS * 99 / 100) as usize] - Duration::from_millis(1000 / RATE)).as_secs_f64() * 1e3
}

fn shows_in_full(pace: Pace) {
    let server = standing_still();
    let measured = measure(&Spec {
        scenario: Scenario::Server { rate: (RATE as f64).into() },
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
    shows_in_full(Pace::default());
}

/// With few requests in flight the stall hides from whoever counts from the send, but not from the schedule.
#[test]
fn a_stall_of_the_server_shows_in_full_when_arrivals_wait_in_the_client() {
    shows_in_full(Pace { max_in_flight: Some(8), ..Pace::default() });
}
