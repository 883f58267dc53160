//! False alarms and power of the checks on the course of a run, and coverage of the search, on simulated queues.
//!
//! ```text
//! cargo bench --bench verdicts                 # 400 runs for each row, 200 searches
//! cargo bench --bench verdicts -- 40           # so many runs, and half as many searches
//! ```
//!
//! Virtual time and fixed seeds: the same numbers on every machine. `earlier drift` is the rule that Regatta had before: the halves of
//! the part after MSER-5's cut, more than 4 standard errors of batch means of five and more than 20 % apart.

#![allow(clippy::print_stdout, reason = "a benchmark prints a table")]

mod searches;
#[path = "../../src/base/stats/simulated_queue.rs"]
#[allow(dead_code, reason = "tests of the library and another benchmark use the rest")]
mod simulated_queue;
mod systems;

use regatta::stats::{Growth, LevelChange, Observation, separated_floors};
use searches::{SearchTally, searched_systems};
use simulated_queue::{ServiceTime, SimulatedQueue, Visit};
use systems::{Kind, System};

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
    searches((runs as usize / 2).max(1));
}

/// (arrival, end) of each request, for a load, a number of requests and a seed.
type OccupancySteps = Box<dyn Fn(f64, usize, u64) -> Vec<(f64, f64)>>;

/// The queues that thresholds were set on, and the others.
fn all_courses() -> Vec<(&'static str, OccupancySteps)> {
    let known = QUEUES.map(|queue| {
        let course: OccupancySteps = Box::new(move |load, requests, seed| {
            let visits = run(queue, load * queue.servers as f64, requests, seed);
            visits.iter().map(|visit| (visit.arrival, visit.end)).collect()
        });
        (queue.name, course)
    });
    let others = Kind::ALL.map(|kind| {
        let course: OccupancySteps = Box::new(move |load, requests, seed| {
            let visits = System { kind, load }.run(requests, 0, seed);
            visits.iter().map(|visit| (visit.arrival, visit.end)).collect()
        });
        (kind.name(), course)
    });
    known.into_iter().chain(others).collect()
}

fn courses(runs: u64) {
    println!(
        "percent of {runs} runs; seen: arrivals / capacity that a run says it would show in nine of ten cases, median\n\
         queue    ρ     requests  overload  certain    seen  drift  earlier drift"
    );
    for (name, course) in all_courses() {
        for load in [0.5, 0.8, 0.9, 1.05, 1.3] {
            for requests in [300, 1_000, 3_000] {
                let (mut counts, mut seen) = ([0u64; 4], Vec::new());
                for seed in 0..runs {
                    let ends = course(load, requests, seed);
                    let growth = Growth::estimate(&ends);
                    seen.extend(growth.map(|growth| growth.least_overload_seen));
                    let found = [
                        growth.is_some_and(|growth| growth.is_likely()),
                        growth.is_some_and(|growth| growth.is_certain()),
                        growth.is_none_or(|growth| !growth.is_likely()) && drifts(&ends),
                        drifted_earlier(&ends),
                    ];
                    for (count, is_found) in counts.iter_mut().zip(found) {
                        *count += u64::from(is_found);
                    }
                }
                seen.sort_by(f64::total_cmp);
                let seen = seen.get(seen.len() / 2).copied().unwrap_or(f64::NAN);
                let [overload, certain, drift, earlier] = counts.map(|count| count as f64 * 100.0 / runs as f64);
                println!(
                    "{name:<8} {load:<5} {requests:>8} {overload:>9.1} {certain:>8.1} {seen:>7.2} {drift:>6.1} {earlier:>14.1}"
                );
            }
        }
    }
}

/// The rule of the harness: at equal load more than 4 standard errors and 20 %, or separated floors by 20 %.
fn drifts(visits: &[(f64, f64)]) -> bool {
    let mut ends: Vec<f64> = visits.iter().map(|(_, end)| *end).collect();
    ends.sort_by(f64::total_cmp);
    let series: Vec<Observation> = visits
        .iter()
        .enumerate()
        .map(|(before, (arrival, end))| Observation {
            value: end - arrival,
            load: before.saturating_sub(ends.partition_point(|one| one <= arrival)) as u64,
        })
        .collect();
    let values: Vec<f64> = series.iter().map(|one| one.value).collect();
    LevelChange::estimate(&series)
        .is_some_and(|change| change.standard_errors().abs() > 4.0 && change.relative().abs() > 0.2)
        || separated_floors(values.len(), values.iter().copied()).is_some_and(|share| share.abs() > 0.2)
}

fn drifted_earlier(visits: &[(f64, f64)]) -> bool {
    let means: Vec<f64> = visits
        .chunks_exact(5)
        .map(|batch| batch.iter().map(|(arrival, end)| end - arrival).sum::<f64>() / 5.0)
        .collect();
    let (mut sum, mut squares, mut best) = (0.0, 0.0, (f64::INFINITY, 0));
    for cut in (0..means.len()).rev() {
        sum += means[cut];
        squares += means[cut] * means[cut];
        let left = (means.len() - cut) as f64;
        let score = (squares - sum * sum / left).max(0.0) / (left * left);
        if cut <= means.len() / 2 && score <= best.0 {
            best = (score, cut);
        }
    }
    let steady = &means[best.1..];
    let (first, second) = steady.split_at(steady.len() / 2);
    let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len() as f64;
    let error = |part: &[f64]| {
        let center = mean(part);
        part.iter().map(|value| (value - center).powi(2)).sum::<f64>() / ((part.len() - 1) * part.len()) as f64
    };
    let difference = mean(second) - mean(first);
    difference > 4.0 * (error(first) + error(second)).sqrt() && mean(second) > 1.2 * mean(first)
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
