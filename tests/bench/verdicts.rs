//! False alarms and power of the checks on the course of a run, and coverage of the search, on simulated queues.
//!
//! ```text
//! cargo bench --bench verdicts                 # 400 runs for each row, 200 searches
//! cargo bench --bench verdicts -- 40           # so many runs, and half as many searches
//! ```
//!
//! Virtual time and fixed seeds: the same numbers on every machine.

#![allow(clippy::print_stdout, reason = "a benchmark prints a table")]

mod searches;
#[path = "../../src/base/stats/simulated_queue.rs"]
#[allow(dead_code, reason = "tests of the library and another benchmark use the rest")]
mod simulated_queue;
mod systems;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use regatta::stats::{Growth, LatencyShift, LatencyTrend, Observation};
use searches::{SearchTally, in_order, searched_systems};
use simulated_queue::{ServiceTime, SimulatedQueue, Visit};
use systems::{BATCH, Kind, SERVERS, System};

/// Mean service time 1 s.
#[derive(Clone, Copy)]
struct Queue {
    name: &'static str,
    servers: usize,
    service: ServiceTime,
}

const QUEUES: [Queue; 4] = [
    Queue { name: "M/M/4", servers: 4, service: ServiceTime::Exponential },
    Queue { name: "M/D/1", servers: 1, service: ServiceTime::Fixed },
    Queue { name: "M/D/8", servers: 8, service: ServiceTime::Fixed },
    Queue { name: "M/D/64", servers: 64, service: ServiceTime::Fixed },
];

fn run(queue: Queue, rate: f64, requests: usize, seed: u64) -> Vec<Visit> {
    SimulatedQueue::new(queue.servers, queue.service, rate / queue.servers as f64).starting_empty(requests, seed)
}

fn main() {
    let runs = std::env::args().skip(1).find_map(|word| word.parse().ok()).unwrap_or(400);
    courses(runs);
    power(runs);
    searches((runs as usize / 2).max(1));
}

/// The requests of a run, for a load, a number of requests and a seed.
type Runs = Box<dyn Fn(f64, usize, u64) -> Vec<Visit>>;

/// How much of what a run's servers can do its requests need, while they arrive.
type Need = fn(&[Visit]) -> f64;

/// The queues that thresholds were set on, and the others.
fn all_courses() -> Vec<(&'static str, usize, Need, Runs)> {
    let services: Need = |visits| visits.iter().map(|visit| visit.end - visit.start).sum();
    let known = QUEUES.map(|queue| {
        let runs: Runs = Box::new(move |load, requests, seed| run(queue, load * queue.servers as f64, requests, seed));
        (queue.name, queue.servers, services, runs)
    });
    let others = Kind::ALL.map(|kind| {
        let runs: Runs = Box::new(move |load, requests, seed| System { kind, load }.run(requests, 0, seed));
        // The more of these are served at once, the longer each takes.
        let is_shared = matches!(kind, Kind::Batches | Kind::Steps);
        let places = if is_shared { BATCH } else { SERVERS };
        (kind.name(), places, if is_shared { |visits: &[Visit]| visits.len() as f64 } else { services }, runs)
    });
    known.into_iter().chain(others).collect()
}

fn courses(runs: u64) {
    println!(
        "percent of {runs} runs; seen: arrivals / capacity that a run says it would show in nine of ten cases, median\n\
         filling: too short to tell, so that neither overload nor drift is reported\n\
         either: overload or drift, which exclude each other; in brackets of those runs whose own requests the servers\n\
         can do while they arrive\n\
         queue    ρ     requests  overload  certain    seen  filling  drift  either"
    );
    for (name, capacity, need, course) in all_courses() {
        for load in [0.5, 0.8, 0.9, 1.05, 1.3] {
            for requests in [300, 1_000, 3_000] {
                let (mut counts, mut seen, mut held) = ([0u64; 5], Vec::new(), [0u64; 2]);
                for seed in 0..runs {
                    let visits = course(load, requests, seed);
                    let ends: Vec<(f64, f64)> = visits.iter().map(|visit| (visit.arrival, visit.end)).collect();
                    let growth = in_order(&ends, |visits| Growth::estimate(visits, load * capacity as f64));
                    let trend = growth.is_none().then(|| in_order(&ends, LatencyTrend::estimate)).flatten();
                    seen.extend(growth.map(|growth| growth.least_overload_seen));
                    let is_overload =
                        growth.is_some_and(|growth| growth.is_likely()) || trend.is_some_and(|trend| trend.is_likely());
                    let is_filling = trend.is_some_and(|trend| trend.shows_only_filling());
                    let is_drift = !is_overload && !is_filling && shifts(&ends);
                    if need(&visits) <= capacity as f64 * (ends[requests - 1].0 - ends[0].0) {
                        held[0] += 1;
                        held[1] += u64::from(is_overload || is_drift);
                    }
                    let found = [
                        is_overload,
                        growth.is_some_and(|growth| growth.is_certain())
                            || trend.is_some_and(|trend| trend.is_certain()),
                        is_filling,
                        is_drift,
                        is_overload || is_drift,
                    ];
                    for (count, is_found) in counts.iter_mut().zip(found) {
                        *count += u64::from(is_found);
                    }
                }
                seen.sort_by(f64::total_cmp);
                let seen = seen.get(seen.len() / 2).copied().unwrap_or(f64::NAN);
                let percent = |count: u64, all: u64| count as f64 * 100.0 / all.max(1) as f64;
                let [overload, certain, filling, drift, either] = counts.map(|count| percent(count, runs));
                let held = percent(held[1], held[0]);
                println!(
                    "{name:<8} {load:<5} {requests:>8} {overload:>9.1} {certain:>8.1} {seen:>7.2} {filling:>8.1} {drift:>6.1} \
                     {either:>7.1} ({held:.1})"
                );
            }
        }
    }
}

/// A change that neither chance nor the load explains.
fn shifts(visits: &[(f64, f64)]) -> bool {
    let mut ends: Vec<f64> = visits.iter().map(|(_, end)| *end).collect();
    ends.sort_by(f64::total_cmp);
    let observed = |(before, (arrival, end)): (usize, &(f64, f64))| Observation {
        value: end - arrival,
        load: before.saturating_sub(ends.partition_point(|one| one <= arrival)) as u64,
    };
    let series: Vec<Observation> = visits.iter().enumerate().map(observed).collect();
    LatencyShift::find(&series, true).is_some()
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
fn power(runs: u64) {
    println!(
        "\npercent of {runs} runs in which a change is seen; cv: of the service times\n{:<32}cv    requests  seen",
        "change"
    );
    for (name, course) in CHANGES {
        for cv in [0.02, 0.1, 0.3] {
            for requests in [100, 300, 1_000] {
                let seen = (0..runs).filter(|seed| shifts(&unqueued(course, cv, requests, *seed))).count();
                println!("{name:<32}{cv:<5} {requests:>8} {:>5.0}", seen as f64 * 100.0 / runs as f64);
            }
        }
    }
}

fn unqueued(course: Course, cv: f64, requests: usize, seed: u64) -> Vec<(f64, f64)> {
    let mut random = Pcg64::seed_from_u64(seed);
    let (mut arrival, mean) = (0.0, 3.0);
    let visit = |at: usize| {
        arrival -= (1.0 - random.random::<f64>()).ln();
        // The sum of twelve is nearly normal.
        let noise = (0..12).map(|_| random.random::<f64>()).sum::<f64>() - 6.0;
        (arrival, arrival + mean * course(at as f64 / requests as f64) * (cv * noise).exp())
    };
    (0..requests).map(visit).collect()
}

fn searches(runs: usize) {
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
