//! What the checks on the course of a run find in queues whose truth is known: false alarms where the servers keep up,
//! and power where they do not. Each run goes through `Stability`, as a measurement does. Tests of the harness ask for
//! the worst cells, and `cargo bench --bench verdicts` prints all.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use rand::SeedableRng;
use rand_pcg::Pcg64;
use serde_json::json;

use super::simulated_queue::{ServerPool, ServiceTime, SimulatedQueue, Visit};
use super::systems::{BATCH, Kind, SERVERS, System, exponential, lognormal, two_kinds};
// A benchmark and tests of the library have these under different paths.
use super::{BenchSpec, LoadPattern, RequestRecord, RequestRecords, Stability};

/// How requests come and what serves them, a service in 1 s on average.
#[derive(Clone, Copy)]
pub struct Law {
    pub name: &'static str,
    /// Requests per second that the servers can do.
    capacity: usize,
    /// Of a closed loop, which has no load of its own.
    users: usize,
    /// Between which a run can tell.
    servers: usize,
    visits: fn(f64, usize, u64) -> Vec<Visit>,
}

/// So many servers take turns.
const FLEET: usize = 2;

const fn law(name: &'static str, capacity: usize, visits: fn(f64, usize, u64) -> Vec<Visit>) -> Law {
    Law { name, capacity, users: 0, servers: 1, visits }
}

const fn closed(name: &'static str, users: usize, visits: fn(f64, usize, u64) -> Vec<Visit>) -> Law {
    Law { name, capacity: 1, users, servers: 1, visits }
}

pub const LAWS: [Law; 20] = [
    law("M/M/1", 1, |load, requests, seed| queue(1, ServiceTime::Exponential, load, requests, seed)),
    law("M/M/4", 4, |load, requests, seed| queue(4, ServiceTime::Exponential, load, requests, seed)),
    law("M/D/1", 1, |load, requests, seed| queue(1, ServiceTime::Fixed, load, requests, seed)),
    law("M/D/8", 8, |load, requests, seed| queue(8, ServiceTime::Fixed, load, requests, seed)),
    law("M/D/64", 64, |load, requests, seed| queue(64, ServiceTime::Fixed, load, requests, seed)),
    law("bursts", SERVERS, |load, requests, seed| system(Kind::Bursts, load, requests, seed)),
    law("M/H2/1", 1, |load, requests, seed| system(Kind::TwoKindsAtOnce, load, requests, seed)),
    law("M/H2/4", SERVERS, |load, requests, seed| system(Kind::TwoKinds, load, requests, seed)),
    law("M/G/4", SERVERS, |load, requests, seed| system(Kind::Lognormal, load, requests, seed)),
    law("batches", BATCH, |load, requests, seed| system(Kind::Batches, load, requests, seed)),
    law("steps", BATCH, |load, requests, seed| system(Kind::Steps, load, requests, seed)),
    Law { name: "2 × M/H2/1", capacity: FLEET, users: 0, servers: FLEET, visits: fleet },
    closed("2 on M/1", 2, |_, requests, seed| closed_loop(2, 1, exponential, requests, seed)),
    closed("2 on H/2", 2, |_, requests, seed| closed_loop(2, 2, two_kinds, requests, seed)),
    closed("4 on M/4", 4, |_, requests, seed| closed_loop(4, 4, exponential, requests, seed)),
    closed("8 on M/4", 8, |_, requests, seed| closed_loop(8, 4, exponential, requests, seed)),
    closed("8 on G/4", 8, |_, requests, seed| closed_loop(8, 4, lognormal, requests, seed)),
    closed("4 on H/1", 4, |_, requests, seed| closed_loop(4, 1, two_kinds, requests, seed)),
    closed("8 on H/4", 8, |_, requests, seed| closed_loop(8, 4, two_kinds, requests, seed)),
    closed("32 on H/8", 32, |_, requests, seed| closed_loop(32, 8, two_kinds, requests, seed)),
];

fn queue(servers: usize, service: ServiceTime, load: f64, requests: usize, seed: u64) -> Vec<Visit> {
    SimulatedQueue::new(servers, service, load).starting_empty(requests, seed)
}

/// Users that each send the next request when the last one has ended.
fn closed_loop(users: usize, servers: usize, service: fn(&mut Pcg64) -> f64, requests: usize, seed: u64) -> Vec<Visit> {
    let mut random = Pcg64::seed_from_u64(seed);
    let (mut pool, mut idle_from) = (ServerPool::new(servers), vec![0.0_f64; users]);
    let mut next = || {
        let user = (0..users).min_by(|one, other| idle_from[*one].total_cmp(&idle_from[*other])).unwrap_or_default();
        let visit = pool.serve(idle_from[user], service(&mut random));
        idle_from[user] = visit.end;
        visit
    };
    (0..requests).map(|_| next()).collect()
}

/// Servers of one slot that take turns.
fn fleet(load: f64, requests: usize, seed: u64) -> Vec<Visit> {
    let mut random = Pcg64::seed_from_u64(seed);
    let arrivals = System { kind: Kind::TwoKinds, load }.arrivals(requests, FLEET, &mut random);
    let mut pools = vec![ServerPool::new(1); FLEET];
    let turns = (0..FLEET).cycle();
    arrivals.iter().zip(turns).map(|(arrival, turn)| pools[turn].serve(*arrival, two_kinds(&mut random))).collect()
}

fn system(kind: Kind, load: f64, requests: usize, seed: u64) -> Vec<Visit> {
    System { kind, load }.run(requests, 0, seed)
}

/// Of answers of 20 tokens a second, each as one piece or as a stream of five.
fn records(visits: &[Visit], is_streamed: bool, servers: usize) -> RequestRecords {
    let usual = json!({
        "index": 0, "endpoint": 0, "input_tokens": 8, "requested_tokens": 8, "tokens": 0, "first_tokens": 0, "chunks": 0,
        "interleaved": false, "final_marker": true, "t_sched": 0, "t_issue": 0, "t_end": 0, "max_gap": 0, "ended": "ok",
    });
    let usual: RequestRecord = serde_json::from_value(usual).expect("a record");
    let ns = |at: f64| (at * 1e9).round() as u64;
    let record = |(visit, index): (&Visit, u64)| {
        let service = visit.end - visit.start;
        let of_chunk = (service * 4.0).ceil().max(1.0) as u32;
        let (first, first_tokens, chunks, gap) = if is_streamed {
            (visit.start + service / 5.0, of_chunk, 5, service / 5.0)
        } else {
            (visit.end, 5 * of_chunk, 1, 0.0)
        };
        RequestRecord {
            index,
            session: index,
            endpoint: (index % servers.max(1) as u64) as u32,
            requested_tokens: 5 * of_chunk,
            tokens: 5 * of_chunk,
            first_tokens,
            chunks,
            t_sched: ns(visit.arrival),
            t_issue: ns(visit.arrival),
            t_first: Some(ns(first)),
            t_last: Some(ns(visit.end)),
            t_end: ns(visit.end),
            max_gap: ns(gap),
            ..usual.clone()
        }
    };
    RequestRecords::new(visits.iter().zip(0..).map(record))
}

/// What was found in several runs.
#[derive(Clone, Debug)]
pub struct CourseTally {
    /// Percent of the runs with each finding; `any` is one that says something of the server, which `filling` does not.
    percents: BTreeMap<&'static str, f64>,
    /// The overload that the median run would show in nine of ten cases.
    seen: f64,
}

const FINDINGS: [&str; 7] = ["overload", "certain", "filling", "drift", "cold_start", "freeze", "any"];

impl CourseTally {
    /// `visits`: those of a run with this seed.
    pub fn new(
        spec: &BenchSpec,
        is_streamed: bool,
        seeds: std::ops::Range<u64>,
        visits: impl Fn(u64) -> Vec<Visit>,
    ) -> Self {
        let (mut percents, mut seen) = (BTreeMap::new(), Vec::new());
        let of_run = 100.0 / (seeds.end - seeds.start) as f64;
        for seed in seeds {
            let Stability { growth, latency_trend, changes, freeze, .. } =
                Stability::from_records(spec, &records(&visits(seed), is_streamed, spec.endpoints.len()));
            let is_overload =
                growth.is_some_and(|growth| growth.is_likely()) || latency_trend.is_some_and(|trend| trend.is_likely());
            let is_certain = growth.is_some_and(|growth| growth.is_certain())
                || latency_trend.is_some_and(|trend| trend.is_certain());
            let is_filling = latency_trend.is_some_and(|trend| trend.shows_only_filling());
            let (cold, drifts) = changes.iter().partition::<Vec<_>, _>(|change| change.is_beginning);
            let of_server = [is_overload, !drifts.is_empty(), !cold.is_empty(), freeze.is_some()];
            let [_, is_drift, is_cold, is_frozen] = of_server;
            let is_any = of_server.contains(&true);
            let findings = [is_overload, is_certain, is_filling, is_drift, is_cold, is_frozen, is_any];
            for (name, _) in FINDINGS.into_iter().zip(findings).filter(|(_, is_there)| *is_there) {
                *percents.entry(name).or_default() += of_run;
            }
            seen.extend(growth.map(|growth| growth.least_overload_seen));
        }
        seen.sort_by(f64::total_cmp);
        Self { percents, seen: seen.get(seen.len() / 2).copied().unwrap_or(f64::NAN) }
    }

    /// `load`: arrivals over what the servers can do.
    pub fn of_law(
        spec: &BenchSpec,
        law: Law,
        load: f64,
        requests: usize,
        is_streamed: bool,
        seeds: std::ops::Range<u64>,
    ) -> Self {
        let scenario = match law.users {
            0 => LoadPattern::Server { rate: (load * law.capacity as f64).into() },
            users => LoadPattern::Concurrency { users: (users as f64).into() },
        };
        let address = |port| format!("127.0.0.1:{port}").parse().expect("an address");
        let spec = BenchSpec { scenario, endpoints: (1..=law.servers).map(address).collect(), ..spec.clone() };
        Self::new(&spec, is_streamed, seeds, |seed| (law.visits)(load, requests, seed))
    }

    pub fn percent(&self, finding: &str) -> f64 {
        self.percents.get(finding).copied().unwrap_or(0.0)
    }
}

/// All laws, loads and lengths; a core for each cell.
pub fn table(spec: &BenchSpec, runs: u64) -> String {
    let cells: Vec<(Law, bool, f64, usize)> = LAWS
        .into_iter()
        .flat_map(|law| [false, true].map(|is_streamed| (law, is_streamed)))
        .flat_map(|(law, is_streamed)| {
            let loads = if law.users == 0 { &[0.5, 0.7, 0.9, 1.05, 1.3][..] } else { &[1.0] };
            loads.iter().map(move |load| (law, is_streamed, *load))
        })
        .flat_map(|(law, is_streamed, load)| [300, 1_000, 3_000].map(|n| (law, is_streamed, load, n)))
        .collect();
    let (next, rows) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let at = next.fetch_add(1, Ordering::Relaxed)
                    && let Some((law, is_streamed, load, requests)) = cells.get(at).copied()
                {
                    let tally = CourseTally::of_law(spec, law, load, requests, is_streamed, 0..runs);
                    let percents = FINDINGS.map(|finding| format!("{:>11.1}", tally.percent(finding))).concat();
                    let form = if is_streamed { "streamed" } else { "whole" };
                    let row =
                        format!("{:<10} {form:<8} {load:<5} {requests:>8}{percents} {:>6.2}\n", law.name, tally.seen);
                    rows.lock().expect("no panic").insert(at, row);
                }
            });
        }
    });
    let head = FINDINGS.map(|finding| format!("{finding:>11}")).concat();
    let rows = rows.into_inner().expect("no panic").into_values().collect::<String>();
    format!("queue      answers  ρ     requests{head}   seen\n{rows}")
}
