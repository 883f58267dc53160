//! How often a comparison calls two identical servers different (A/A), and how often it finds one that is 5 % slower:
//! on 13 loads, with 3 and 5 runs on each side, for each family of rows and each primary row.
//!
//! A run is the numbers of its requests as result.json has them, from an empty server on. What its seed fixes are the
//! arrivals and the length of each answer. The server's own noise is a factor for the whole run, the same for all its
//! tokens (a server is a little faster on one day than on another), and one for each answer or step.
//!
//! The last column is a bound for tests of TTFT p99 by pairs: how often one would find the slower server that knew how
//! much the ratios of all pairs scatter, and had the whole 5 % for this row. Where a few pairs are far off, as at 0.5
//! of an engine that batches, it is no bound: most comparisons have none of them.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use serde_json::{Value, json};

use super::simulated_queue::{ServerPool, Visit};
use super::systems::{BATCH, Kind, MEAN_STEPS, System, exponential, lognormal, steps};
// A benchmark and tests of the library have these under different paths.
use super::{CompareRules, ComparedResult, Comparison, Judgement, MeasuredResult, MeasuredRun, RowFamily, RunSet};

/// Two-sided 5 % of the normal law.
const CERTAIN: f64 = 1.96;
/// Of the service times, in ms.
const UNIT_MS: f64 = 200.0;
/// Each answer or step takes up to this share longer or shorter.
const NOISE: f64 = 0.2;
const PRIMARY: [(&str, &str); 5] =
    [("ttft", "mean"), ("ttft", "p99"), ("tpot", "mean"), ("output_tokens", ""), ("requests_full", "")];

/// Standard deviation between runs, runs of each side, and whether both sides have the same seeds.
const CELLS: [(f64, u64, bool); 4] = [(0.01, 3, true), (0.01, 5, true), (0.01, 5, false), (0.015, 5, true)];

/// How requests come, how long their answers are, and what serves them.
#[derive(Clone, Copy)]
pub struct Law {
    name: &'static str,
    load: Load,
    lengths: fn(&mut Pcg64) -> f64,
    server: Server,
}

#[derive(Clone, Copy)]
enum Load {
    /// At this utilization.
    Poisson(f64),
    Bursts(f64),
    /// Users of a closed loop.
    Users(usize),
}

#[derive(Clone, Copy)]
enum Server {
    /// So many answers at once, each at its own pace.
    Slots(usize),
    /// An engine that batches in flight: 16 answers advance in common steps, which take longer the more there are.
    Steps,
}

pub const LAWS: [Law; 13] = [
    poisson("Poisson, M/4 at 0.5", 0.5, exponential, Server::Slots(4)),
    poisson("Poisson, M/4 at 0.8", 0.8, exponential, Server::Slots(4)),
    poisson("Poisson, M/4 at 0.9", 0.9, exponential, Server::Slots(4)),
    poisson("Poisson, D/8 at 0.8", 0.8, |_| 1.0, Server::Slots(8)),
    poisson("Poisson, D/8 at 0.9", 0.9, |_| 1.0, Server::Slots(8)),
    poisson("Poisson, lognormal/4 at 0.5", 0.5, lognormal, Server::Slots(4)),
    poisson("Poisson, lognormal/4 at 0.8", 0.8, lognormal, Server::Slots(4)),
    Law { name: "bursts, M/4 at 0.5", load: Load::Bursts(0.5), lengths: exponential, server: Server::Slots(4) },
    Law { name: "bursts, M/4 at 0.8", load: Load::Bursts(0.8), lengths: exponential, server: Server::Slots(4) },
    poisson("Poisson, batching at 0.5", 0.5, exponential, Server::Steps),
    poisson("Poisson, batching at 0.8", 0.8, exponential, Server::Steps),
    poisson("Poisson, batching at 0.9", 0.9, exponential, Server::Steps),
    Law { name: "8 users, M/4", load: Load::Users(8), lengths: exponential, server: Server::Slots(4) },
];

const fn poisson(name: &'static str, load: f64, lengths: fn(&mut Pcg64) -> f64, server: Server) -> Law {
    Law { name, load: Load::Poisson(load), lengths, server }
}

/// Makes the runs of one server.
#[derive(Clone, Copy)]
struct Runs {
    law: Law,
    /// Time of a token, of that of A.
    slower: f64,
    /// Standard deviation of the factor of a run.
    between_runs: f64,
    requests: usize,
}

impl Runs {
    /// With the arrivals and lengths of this seed, and noise of its own; and its TTFT p99.
    fn run(&self, seed: u64, own: u64) -> (ComparedResult, f64) {
        let (mut plan, mut own) = (Pcg64::seed_from_u64(seed), Pcg64::seed_from_u64(own));
        let token = || 1 + ((self.law.lengths)(&mut plan) * (MEAN_STEPS - 0.5)) as u32;
        let tokens: Vec<u32> = std::iter::repeat_with(token).take(self.requests).collect();
        let day = self.slower * (self.between_runs * normal(&mut own)).exp();
        let mut pace = || day * (1.0 + NOISE * (2.0 * own.random::<f64>() - 1.0));
        let system = |kind, load| System { kind, load };
        let visits = match (self.law.load, self.law.server) {
            (Load::Poisson(load), Server::Steps) => {
                let arrivals = system(Kind::Steps, load).arrivals(self.requests, BATCH, &mut plan);
                let mut remaining = tokens.iter().copied();
                steps(&arrivals, || remaining.next().unwrap_or(1), pace)
            }
            (Load::Users(users), Server::Slots(slots)) => closed_loop(users, slots, &tokens, pace),
            (Load::Poisson(load), Server::Slots(slots)) => {
                let arrivals = system(Kind::Lognormal, load).arrivals(self.requests, slots, &mut plan);
                serve(slots, &arrivals, &tokens, &mut pace)
            }
            (Load::Bursts(load), Server::Slots(slots)) => {
                let arrivals = system(Kind::Bursts, load).arrivals(self.requests, slots, &mut plan);
                serve(slots, &arrivals, &tokens, &mut pace)
            }
            (Load::Bursts(_) | Load::Users(_), Server::Steps) => unreachable!("no law has this"),
        };
        result(&visits, &tokens, self.law.load, seed)
    }

    fn side(&self, name: &str, runs: u64, seed: u64, own: u64) -> (RunSet, Vec<f64>) {
        let (sheets, p99) = (0..runs).map(|number| self.run(seed + number, own + number)).unzip();
        (RunSet::new(name, sheets).expect("runs of one load"), p99)
    }
}

fn service(tokens: u32, pace: f64) -> f64 {
    f64::from(tokens) / MEAN_STEPS * pace
}

fn serve(slots: usize, arrivals: &[f64], tokens: &[u32], mut pace: impl FnMut() -> f64) -> Vec<Visit> {
    let mut pool = ServerPool::new(slots);
    arrivals.iter().zip(tokens).map(|(arrival, tokens)| pool.serve(*arrival, service(*tokens, pace()))).collect()
}

/// Each user sends the next request when the answer to the last one has ended.
fn closed_loop(users: usize, slots: usize, tokens: &[u32], mut pace: impl FnMut() -> f64) -> Vec<Visit> {
    let (mut pool, mut idle) = (ServerPool::new(slots), vec![0.0_f64; users]);
    let mut next = |tokens: u32| {
        let first = idle.iter_mut().min_by(|a, b| a.total_cmp(b)).expect("a user");
        let visit = pool.serve(*first, service(tokens, pace()));
        *first = visit.end;
        visit
    };
    tokens.iter().map(|tokens| next(*tokens)).collect()
}

/// Box and Muller.
fn normal(random: &mut Pcg64) -> f64 {
    let radius = (2.0 * exponential(random)).sqrt();
    radius * (std::f64::consts::TAU * random.random::<f64>()).cos()
}

/// The file of a run, as far as a comparison reads it.
fn result(visits: &[Visit], tokens: &[u32], load: Load, seed: u64) -> (ComparedResult, f64) {
    let values = |value: &dyn Fn(&Visit, f64) -> f64, fewest: u32| -> Value {
        let answers = visits.iter().zip(tokens).filter(|(_, tokens)| **tokens >= fewest);
        metric(answers.map(|(visit, tokens)| value(visit, f64::from(*tokens)) * UNIT_MS).collect())
    };
    let of_token = |visit: &Visit, tokens: f64| (visit.end - visit.start) / tokens;
    let requests = visits.len();
    let end = visits.iter().map(|visit| visit.end).fold(0.0, f64::max) * UNIT_MS / 1e3;
    let sum: u32 = tokens.iter().sum();
    let scenario = match load {
        Load::Users(users) => json!({ "concurrency": { "users": users } }),
        Load::Poisson(_) | Load::Bursts(_) => json!({ "server": { "rate": 1.0 } }),
    };
    let file = json!({
        "schema": 1, "verdict": "valid", "reasons": [], "schedule_digest": seed.to_string(),
        "requested": { "scenario": scenario, "seed": seed, "stop_requests": requests }, "counts": { "ok": requests },
        "rates": { "requests_full": requests as f64 / end, "output_tokens": f64::from(sum) / end },
        "latency": {
            "ttft": values(&|visit, tokens| visit.wait() + of_token(visit, tokens), 1),
            "tpot": values(&of_token, 2),
            "e2e": values(&|visit, _| visit.end - visit.arrival, 1),
        },
    });
    let result = MeasuredResult::read(&file.to_string()).expect("a result");
    let p99 = file["latency"]["ttft"]["p99"].as_f64().expect("a number");
    (ComparedResult::new(&MeasuredRun { name: seed.to_string(), result, request_traces: Vec::new() }), p99)
}

fn metric(mut values: Vec<f64>) -> Value {
    values.sort_by(f64::total_cmp);
    let at = |share: f64| values[(values.len() as f64 * share) as usize];
    json!({
        "unit": "ms", "n": values.len(), "percentile_rule": "nearest rank",
        "mean": values.iter().sum::<f64>() / values.len() as f64,
        "p50": at(0.5), "p90": at(0.9), "p95": at(0.95), "p99": at(0.99),
    })
}

/// How many comparisons have what a column counts.
#[derive(Debug, Default)]
pub struct Counts {
    /// A row of the family that is called better or worse.
    pub families: [u64; 2],
    /// The primary rows that are called worse.
    pub worse: [u64; PRIMARY.len()],
    pub any_worse: u64,
    /// Means over a comparison's pairs of the logarithms of the ratios of TTFT p99, and their squares.
    p99_ratios: Vec<(f64, f64)>,
}

impl Counts {
    fn add(&mut self, comparison: &Comparison) {
        let has_claim = |family: RowFamily| {
            let mut rows = comparison.deltas.iter().filter(|delta| delta.family == family);
            rows.any(|delta| matches!(delta.judgement, Some(Judgement::Better | Judgement::Worse)))
        };
        self.families[0] += u64::from(has_claim(RowFamily::Primary));
        self.families[1] += u64::from(has_claim(RowFamily::Exploratory));
        let is_worse = PRIMARY.map(|(metric, stat)| {
            let row = comparison.find(metric, stat).expect("a row of every result");
            assert_eq!(row.family, RowFamily::Primary, "{metric} {stat}");
            row.judgement == Some(Judgement::Worse)
        });
        for (count, is_worse) in self.worse.iter_mut().zip(is_worse) {
            *count += u64::from(is_worse);
        }
        self.any_worse += u64::from(is_worse.contains(&true));
    }

    fn add_p99(&mut self, a: &[f64], b: &[f64]) {
        let ratios: Vec<f64> = a.iter().zip(b).map(|(a, b)| (b / a).ln()).collect();
        let mean = |values: &mut dyn Iterator<Item = f64>| values.sum::<f64>() / ratios.len() as f64;
        self.p99_ratios.push((mean(&mut ratios.iter().copied()), mean(&mut ratios.iter().map(|ratio| ratio * ratio))));
    }

    /// Comparisons whose mean ratio of TTFT p99 is too large for chance, as the scatter of all pairs is known.
    fn bound_of_p99(&self, runs: u64) -> u64 {
        let mean = |values: &mut dyn Iterator<Item = f64>| values.sum::<f64>() / self.p99_ratios.len() as f64;
        let mean_ratio = mean(&mut self.p99_ratios.iter().map(|(mean, _)| *mean));
        let variance = mean(&mut self.p99_ratios.iter().map(|(_, square)| *square)) - mean_ratio * mean_ratio;
        let least = CERTAIN * (variance / runs as f64).sqrt();
        self.p99_ratios.iter().filter(|(mean, _)| *mean > least).count() as u64
    }
}

/// Comparisons that are made alike, with other seeds each.
#[derive(Clone, Copy)]
pub struct Campaign {
    pub law: Law,
    /// On each side.
    pub runs: u64,
    /// The time of a token of B, of that of A.
    pub slower: f64,
    /// Standard deviation of the servers' speed from run to run.
    pub between_runs: f64,
    /// B's runs have the arrivals and lengths of A's.
    pub has_same_seeds: bool,
    /// Of a run.
    pub requests: usize,
}

impl Campaign {
    pub fn count(&self, pairs: u64) -> Counts {
        let Self { law, between_runs, requests, .. } = *self;
        let [a, b] = [1.0, self.slower].map(|slower| Runs { law, slower, between_runs, requests });
        let mut counts = Counts::default();
        for pair in 0..pairs {
            let seed = 1_000 * pair;
            let seed_of_b = if self.has_same_seeds { seed } else { seed + 500 };
            let (a, a_p99) = a.side("A", self.runs, seed, 10_000_000 + seed);
            let (b, b_p99) = b.side("B", self.runs, seed_of_b, 20_000_000 + seed);
            counts.add(&Comparison::new(&a, &b, CompareRules::default()));
            counts.add_p99(&a_p99, &b_p99);
        }
        counts
    }
}

/// Prints both tables for each load.
pub fn tables(pairs: u64, requests: usize) {
    println!(
        "\nIdentical servers (A/A: comparisons in which a row of the family is called better or worse), and one whose \
         tokens take 5 % longer (comparisons in which the row is called worse); {pairs} comparisons a cell, {requests} \
         requests a run; percent. Servers are up to {} % faster or slower from answer to answer, and from run to run \
         by the standard deviation that the second column has.\n",
        NOISE * 100.0
    );
    print!(
        "{:<28} {:>7} {:>5} {:>11} {:>12} {:>12}  ",
        "load", "between", "runs", "seeds", "A/A primary", "A/A explor."
    );
    for (metric, stat) in PRIMARY {
        print!(" {:>13}", format!("{metric} {stat}").trim());
    }
    println!(" {:>13} {:>13}", "any of these", "ttft p99 bound");
    // A core for each load.
    let rows = std::thread::scope(|scope| {
        let loads = LAWS.map(|law| scope.spawn(move || CELLS.map(|cell| row(law, cell, pairs, requests)).concat()));
        loads.map(|load| load.join().expect("no panic"))
    });
    print!("{}", rows.concat());
}

fn row(law: Law, (between_runs, runs, has_same_seeds): (f64, u64, bool), pairs: u64, requests: usize) -> String {
    let campaign = Campaign { law, runs, slower: 1.0, between_runs, has_same_seeds, requests };
    let (same, slower) = (campaign.count(pairs), Campaign { slower: 1.05, ..campaign }.count(pairs));
    let percent = |part: u64| part as f64 / pairs as f64 * 100.0;
    let seeds = if has_same_seeds { "the same" } else { "others" };
    let between = format!("{:.1} %", between_runs * 100.0);
    let found = slower.worse.map(|worse| format!(" {:>13.0}", percent(worse))).concat();
    let [primary, exploratory] = same.families.map(percent);
    format!(
        "{:<28} {between:>7} {:>5} {seeds:>11} {primary:>12.1} {exploratory:>12.1}  {found} {:>13.0} {:>13.0}\n",
        law.name,
        format!("{runs}+{runs}"),
        percent(slower.any_worse),
        percent(slower.bound_of_p99(runs))
    )
}
