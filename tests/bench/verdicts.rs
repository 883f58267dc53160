//! False alarms and power of the checks on the course of a run, and coverage of the search, on simulated queues.
//!
//! ```text
//! cargo bench --bench verdicts                 # 400 runs for each row, 200 searches
//! cargo bench --bench verdicts -- 40           # so many runs, and half as many searches
//! cargo bench --bench verdicts -- courses 1000 # the first table alone; `changes` and `searches` are the others
//! ```
//!
//! Virtual time and fixed seeds: the same numbers on every machine.

#![allow(clippy::print_stdout, reason = "a benchmark prints a table")]

mod courses;
mod searches;
#[path = "../../src/base/stats/simulated_queue.rs"]
#[allow(dead_code, reason = "tests of the library and another benchmark use the rest")]
mod simulated_queue;
#[allow(dead_code, reason = "another benchmark uses the rest")]
mod systems;

use std::time::Duration;

use courses::{CourseTally, table};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use regatta::harness::{
    BenchSpec, LoadPattern, PromptSource, RequestRecord, RequestRecords, SendingSpec, Slo, Stability, Transport,
};
use regatta::spec::{Arrivals, Length, Limits, Request, StopAfter};
use searches::{SearchTally, searched_systems};
use simulated_queue::Visit;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let runs = words.iter().find_map(|word| word.parse().ok()).unwrap_or(400);
    let tables = [("courses", courses as fn(u64)), ("changes", changes), ("searches", searches)];
    let is_chosen = |name: &str| words.iter().any(|word| word == name);
    let has_choice = tables.iter().any(|(name, _)| is_chosen(name));
    tables.iter().filter(|(name, _)| !has_choice || is_chosen(name)).for_each(|(_, print)| print(runs));
}

/// A plain load; each table sets its scenario.
fn spec() -> BenchSpec {
    BenchSpec {
        endpoints: Vec::new(),
        protocol: Transport::Kserve,
        model: String::new(),
        scenario: LoadPattern::Server { rate: 1.0.into() },
        arrivals: Arrivals::Constant,
        stop: StopAfter { requests: None, duration: None },
        input_len: Length::Fixed(8),
        output_len: Length::Fixed(1),
        seed: 0,
        warmup: 0,
        pace: SendingSpec::default(),
        content: PromptSource::default(),
        frontends: 1,
        clients: 1,
        stall_timeout: Duration::from_mins(1),
        limits: Limits::default(),
        slo: Slo::default(),
        timelines: false,
        vocab_size: 100,
        end_id: 2,
        request: Request::default(),
    }
}

fn courses(runs: u64) {
    println!(
        "percent of {runs} runs; certain: an overload that a search counts as a missed limit; filling: too short to tell, \
         so that neither overload nor drift is reported; any: a finding about the server; seen: arrivals / capacity \
         that a run says it would show in nine of ten cases, median\n{}",
        table(&spec(), runs)
    );
}

/// What becomes of the service time over the run.
type Course = fn(f64) -> f64;

const CHANGES: [(&str, Course); 8] = [
    ("none", |_| 1.0),
    ("+10 % from the middle on", |at| if at < 0.5 { 1.0 } else { 1.1 }),
    ("+20 % from the middle on", |at| if at < 0.5 { 1.0 } else { 1.2 }),
    ("+50 % from the middle on", |at| if at < 0.5 { 1.0 } else { 1.5 }),
    ("+20 % in the last fifth", |at| if at < 0.8 { 1.0 } else { 1.2 }),
    ("three times in the last fifth", |at| if at < 0.8 { 1.0 } else { 3.0 }),
    ("+25 % over the run", |at| 1.0 + 0.25 * at),
    ("+40 % over the run", |at| 1.0 + 0.4 * at),
];

/// A server without a queue, three requests in flight on average, whose service times have this coefficient of variation.
fn changes(runs: u64) {
    println!(
        "\npercent of {runs} runs in which a change is seen; cv: of the service times\n{:<32}cv    requests  seen",
        "change"
    );
    for (name, course) in CHANGES {
        for cv in [0.02, 0.1, 0.3] {
            for requests in [100, 300, 1_000] {
                let visits = |seed| unqueued(course, cv, requests, seed);
                let tally = CourseTally::new(&spec(), false, 0..runs, visits);
                println!("{name:<32}{cv:<5} {requests:>8} {:>5.0}", tally.percent("drift"));
            }
        }
    }
}

fn unqueued(course: Course, cv: f64, requests: usize, seed: u64) -> Vec<Visit> {
    let mut random = Pcg64::seed_from_u64(seed);
    let (mut arrival, mean) = (0.0, 3.0);
    let visit = |at: usize| {
        arrival -= (1.0 - random.random::<f64>()).ln();
        // The sum of twelve is nearly normal.
        let noise = (0..12).map(|_| random.random::<f64>()).sum::<f64>() - 6.0;
        let end = arrival + mean * course(at as f64 / requests as f64) * (cv * noise).exp();
        Visit { arrival, start: arrival, end }
    };
    (0..requests).map(visit).collect()
}

fn searches(runs: u64) {
    let runs = (runs as usize / 2).max(1);
    for start in [0.09, 0.9] {
        println!(
            "\n95 % intervals of {runs} searches from 0.09 to 1.44 times the true rate, to 2 %, beginning at {start} times it\n{}",
            SearchTally::HEAD
        );
        for system in searched_systems() {
            for requests in [300, 1_000, 3_000] {
                println!("{}", system.search(start, requests, runs).row(&system.name, requests));
            }
        }
    }
}
