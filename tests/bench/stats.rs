//! Whether intervals hold the truth, and whether comparisons are right, on queues whose truth is known.
//!
//! ```text
//! cargo bench --bench stats              # 200 runs a cell, 200 pairs
//! cargo bench --bench stats -- 1000 500  # so many runs a cell of the coverage table, so many pairs of the campaigns
//! cargo bench --bench stats -- power 400 3000 # the tables of `power` alone, with 3,000 requests a run
//! ```
//!
//! Virtual time and fixed seeds: the same numbers on every machine. *Before* is what earlier versions did: ranks of the binomial
//! law as if all requests were independent, and requests drawn again in blocks of ⌈N^⅓⌉ neighbors. *After* is the product's own
//! code: `stats::RunSeries`, and requests → `ComparedResult` → `RunSet` → `Comparison`.

#![allow(clippy::print_stdout, reason = "a benchmark prints a table")]

mod power;
#[path = "../../src/base/stats/simulated_queue.rs"]
#[allow(dead_code, reason = "tests of the library use the rest")]
mod simulated_queue;
mod systems;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use regatta::interop::Tool;
use regatta::interop::{ChunkKind, MeasuredResult, MeasuredRun, RequestTrace, TracedChunk, TracedChunks};
use regatta::report::compare::{CompareRules, ComparedResult, Comparison, Judgement, RowFamily, RunSet};
use regatta::stats::{NoInterval, RunSeries};
use serde_json::json;
use simulated_queue::{QueuedRequest, ServiceTime, ServiceTimeNoise, SimulatedQueue};
use systems::{Kind as SystemKind, System};

const STATISTICS: [(&str, f64); 5] = [("mean", 0.0), ("p50", 0.5), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99)];
const RUN_LENGTHS: [usize; 5] = [300, 3_000, 10_000, 30_000, 100_000];
/// Requests of a run in the campaigns.
const REQUESTS: usize = 1_000;
const TRUTH: usize = 2_000_000;

fn main() {
    let numbers: Vec<u64> = std::env::args().skip(1).filter_map(|word| word.parse().ok()).collect();
    let (runs, pairs) = (numbers.first().copied().unwrap_or(200), numbers.get(1).copied().unwrap_or(200));
    if std::env::args().any(|word| word == "power") {
        return power::tables(runs, numbers.get(1).map_or(REQUESTS, |requests| *requests as usize));
    }
    coverage(runs);
    campaigns(pairs);
    power::tables(pairs, REQUESTS);
}

/// What a run is made on.
enum Source {
    Independent,
    Queue(SimulatedQueue),
    /// No threshold was set on these.
    Other(System),
}

/// All that coverage is counted on.
fn sources() -> Vec<(String, Source)> {
    let known = systems().into_iter().map(|(name, queue)| (name, queue.map_or(Source::Independent, Source::Queue)));
    let others = SystemKind::ALL.into_iter().flat_map(|kind| [0.5, 0.8, 0.9].map(|load| System { kind, load }));
    let others = others.map(|system| (format!("{} at {}", system.kind.name(), system.load), Source::Other(system)));
    let many_slots = [0.5, 0.8, 0.9]
        .map(|load| (format!("M/D/64 at {load}"), Source::Queue(SimulatedQueue::new(64, ServiceTime::Fixed, load))));
    known.chain(many_slots).chain(others).collect()
}

/// The systems, with a name; `None` are independent values.
fn systems() -> Vec<(String, Option<SimulatedQueue>)> {
    let mut all = vec![("independent".to_owned(), None)];
    for (name, servers, service) in [("M/M/4", 4, ServiceTime::Exponential), ("M/D/8", 8, ServiceTime::Fixed)] {
        for utilization in [0.5, 0.8, 0.9] {
            all.push((format!("{name} at {utilization}"), Some(SimulatedQueue::new(servers, service, utilization))));
        }
    }
    all
}

/// Times to the first token in the order of arrival: the wait, and a short part of its own for each request.
fn series(source: &Source, n: usize, seed: u64) -> Vec<f64> {
    const SETTLING: usize = 20_000;
    let mut rng = Pcg64::seed_from_u64(seed ^ 0x5eed);
    let mut own = move || rng.random::<f64>();
    match source {
        Source::Independent => (0..n).map(|_| -own().max(f64::MIN_POSITIVE).ln()).collect(),
        Source::Queue(queue) => {
            queue.requests(n, seed).iter().map(|request| request.wait + 0.1 + 0.1 * own()).collect()
        }
        Source::Other(system) => {
            let visits = system.run(n, SETTLING, seed);
            visits.iter().map(|visit| visit.wait() + 0.1 + 0.1 * own()).collect()
        }
    }
}

fn sorted(mut values: Vec<f64>) -> Vec<f64> {
    values.sort_by(f64::total_cmp);
    values
}

fn percentile(sorted: &[f64], p: f64) -> f64 {
    sorted[((sorted.len() as f64 * p) as usize).min(sorted.len() - 1)]
}

/// Share of printed 95 % intervals that hold the truth, and share of runs that have one.
fn coverage(runs: u64) {
    println!(
        "95 % intervals of one run's TTFT ({runs} runs a cell): printed ones that hold the truth, in brackets runs that print one, and \
         after the stroke runs that print one which misses; percent. Before: all are printed.\n"
    );
    print!("{:<14} {:>7}  {:>15}", "system", "n", "before: p99");
    for (name, _) in &STATISTICS {
        print!("  {:>16}", format!("after: {name}"));
    }
    println!();
    for (name, source) in sources() {
        let long = sorted(series(&source, TRUTH, u64::MAX));
        let truth = |p: f64| {
            if p == 0.0 { long.iter().sum::<f64>() / long.len() as f64 } else { percentile(&long, p) }
        };
        let truths = STATISTICS.map(|(_, p)| truth(p));
        for n in RUN_LENGTHS {
            let mut before = 0;
            let mut after = [(0_u64, 0_u64); 5];
            for seed in 0..runs {
                let values = series(&source, n, seed);
                before += u64::from(as_if_independent(&sorted(values.clone()), 0.99, truths[4]));
                let series = RunSeries::new(&values, 1.0);
                for (at, (_, p)) in STATISTICS.iter().enumerate() {
                    let ends: Result<_, NoInterval> =
                        if *p == 0.0 { series.mean_interval() } else { series.percentile_interval(*p) };
                    if let Ok((low, high)) = ends {
                        after[at].0 += 1;
                        after[at].1 += u64::from(low <= truths[at] && truths[at] <= high);
                    }
                }
            }
            let percent = |part: u64, whole: u64| part as f64 / whole.max(1) as f64 * 100.0;
            print!("{name:<14} {n:>7}  {:>9.0} (100)", percent(before, runs));
            for (given, held) in after {
                let cell = if given == 0 {
                    "-   (0) | 0.0".to_owned()
                } else {
                    let [held, given, missed] =
                        [percent(held, given), percent(given, runs), percent(given - held, runs)];
                    format!("{held:.0} ({given:>3.0}) | {missed:.1}")
                };
                print!("  {cell:>16}");
            }
            println!();
        }
    }
}

/// Order statistics with the ranks that N independent values would have; an end that does not exist holds everything.
fn as_if_independent(sorted: &[f64], p: f64, truth: f64) -> bool {
    let n = sorted.len();
    let half = 1.96 * (n as f64 * p * (1.0 - p)).sqrt();
    let (low, high) = (n as f64 * p - half, n as f64 * p + half + 1.0);
    let above_low = low < 1.0 || sorted[low as usize - 1] <= truth;
    let below_high = high as usize > n || sorted[high as usize - 1] >= truth;
    above_low && below_high
}

/// A run as the harness has it: requests with their arrivals, chunks and lengths. `own` is of the server's noise.
fn run(name: &str, queue: &SimulatedQueue, noise: ServiceTimeNoise, seed: u64, own: u64) -> MeasuredRun {
    const UNIT_MS: f64 = 100.0;
    let passages = queue.noisy_requests(REQUESTS, seed, noise, own);
    let seen = passages.into_iter().zip(0..).map(|(QueuedRequest { arrival, wait, service }, index)| {
        let sched = arrival * UNIT_MS;
        let first = sched + (wait + 0.2 * service) * UNIT_MS;
        let last = sched + (wait + service) * UNIT_MS;
        let chunk = |at, tokens| TracedChunk { at, tokens, kind: ChunkKind::Token };
        RequestTrace {
            index,
            ok: true,
            sched: Some(sched),
            issue: sched,
            end: last,
            input: Some(8),
            input_server: None,
            tokens: Some(16),
            retokenized: None,
            chunks: TracedChunks::Every(vec![chunk(first, 1), chunk(last, 15)]),
            error: None,
        }
    });
    let result = json!({
        "schema": 1, "verdict": "valid", "reasons": [], "schedule_digest": seed.to_string(), "latency": {}, "rates": {},
        "requested": { "scenario": { "server": { "rate": 1.0 } }, "seed": seed }, "counts": { "ok": REQUESTS },
    });
    let result = MeasuredResult::read(&result.to_string()).expect("a result");
    MeasuredRun { name: name.to_owned(), result, request_traces: seen.collect() }
}

/// Runs with the seeds from `seed` on.
fn side(name: &str, queue: &SimulatedQueue, noise: ServiceTimeNoise, runs: u64, seed: u64, own: u64) -> RunSet {
    let sheets = (0..runs).map(|number| {
        let measured = run(name, queue, noise, seed + number, own + number);
        ComparedResult::as_tool(&measured, Tool::Regatta).expect("its requests are known")
    });
    RunSet::new(name, sheets.collect()).expect("runs of one load")
}

/// What a campaign counts.
#[derive(Default)]
struct Tally {
    pairs: u64,
    /// Comparisons with at least one row that is judged better or worse.
    with_any: u64,
    /// Comparisons in which a row is judged worse, and none better.
    found: u64,
}

/// How two sides are made.
#[derive(Clone, Copy)]
struct Campaign {
    /// On each side.
    runs: u64,
    /// B's service times, of A's.
    slower: f64,
    /// B's runs have the seeds of A's.
    is_paired: bool,
    noise: ServiceTimeNoise,
}

fn compare(pairs: u64, queue: &SimulatedQueue, campaign: Campaign) -> Tally {
    let Campaign { runs, slower, is_paired, noise } = campaign;
    let mut tally = Tally { pairs, ..Tally::default() };
    for pair in 0..pairs {
        let b = SimulatedQueue { service_time: queue.service_time * slower, ..*queue };
        let seed = 1_000 * pair;
        let (own_a, own_b) = (10_000_000 + seed, 20_000_000 + seed);
        let a = side("A", queue, noise, runs, seed, own_a);
        let b = side("B", &b, noise, runs, if is_paired { seed } else { seed + 500 }, own_b);
        let comparison = Comparison::new(&a, &b, CompareRules::default());
        assert_eq!(comparison.pairing.is_paired(), is_paired, "{}", comparison.pairing.describe());
        let count =
            |wanted: Judgement| comparison.deltas.iter().filter(|delta| delta.judgement == Some(wanted)).count() as u64;
        let (better, worse) = (count(Judgement::Better), count(Judgement::Worse));
        tally.with_any += u64::from(better + worse > 0);
        tally.found += u64::from(worse > 0 && better == 0);
    }
    tally
}

/// The old way for one run on each side: the mean TTFT, requests drawn again in blocks of neighbors.
fn blocks_say_different(a: &[f64], b: &[f64], rng: &mut Pcg64) -> bool {
    const ROUNDS: usize = 200;
    let length = (a.len() as f64).cbrt().ceil() as usize;
    let mut drawn = |of: &[f64]| {
        let blocks = of.len().div_ceil(length);
        let sum: f64 = (0..blocks)
            .map(|_| {
                let start = rng.random_range(0..of.len());
                (0..length).map(|at| of[(start + at) % of.len()]).sum::<f64>()
            })
            .sum();
        sum / (blocks * length) as f64
    };
    let ratios = sorted((0..ROUNDS).map(|_| drawn(b) / drawn(a)).collect());
    percentile(&ratios, 0.025) > 1.0 || percentile(&ratios, 0.975) < 1.0
}

/// Services that take up to 35 % longer or shorter have a coefficient of variation of 20 %.
const FACTOR: ServiceTimeNoise = ServiceTimeNoise::Factor(0.35);
const TENTH_ANEW: ServiceTimeNoise = ServiceTimeNoise::Anew(0.1);

fn campaigns(pairs: u64) {
    println!(
        "\nTwo servers that are the same (A/A: share of comparisons in which any row is judged better or worse), and one that is 5 % \
         slower (found: a row is judged worse, none better); {pairs} comparisons a cell, {REQUESTS} requests a run, 5 and 5 runs unless said. \
         Paired: the same arrivals and demands on both sides, and each service up to 35 % longer or shorter on its own, or a tenth of the \
         demands drawn anew.\n"
    );
    let noise = |runs, slower, is_paired, noise| Campaign { runs, slower, is_paired, noise };
    let columns = [
        ("A/A", noise(5, 1.0, false, FACTOR)),
        ("A/A paired", noise(5, 1.0, true, FACTOR)),
        ("A/A paired, 3+3", noise(3, 1.0, true, FACTOR)),
        ("A/A paired, anew", noise(5, 1.0, true, TENTH_ANEW)),
        ("found", noise(5, 1.05, false, FACTOR)),
        ("found paired", noise(5, 1.05, true, FACTOR)),
        ("found paired, 3+3", noise(3, 1.05, true, FACTOR)),
        ("found paired, anew", noise(5, 1.05, true, TENTH_ANEW)),
    ];
    print!("{:<14} {:>22}", "system", "before: A/A, 1+1, mean");
    for (name, _) in &columns {
        print!(" {name:>18}");
    }
    println!();
    for (name, system) in systems() {
        let Some(queue) = system else { continue };
        let mut rng = Pcg64::seed_from_u64(1);
        let source = Source::Queue(queue);
        let waits = |seed| series(&source, REQUESTS, seed);
        let before = (0..pairs)
            .filter(|pair| blocks_say_different(&waits(1_000 * pair), &waits(1_000 * pair + 500), &mut rng))
            .count();
        let percent = |part: u64, whole: u64| format!("{:.1} %", part as f64 / whole.max(1) as f64 * 100.0);
        print!("{name:<14} {:>22}", percent(before as u64, pairs));
        for (_, campaign) in &columns {
            let tally = compare(pairs, &queue, *campaign);
            let counted = if campaign.slower > 1.0 { tally.found } else { tally.with_any };
            print!(" {:>18}", percent(counted, tally.pairs));
        }
        println!();
    }
}
