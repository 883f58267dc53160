//! The simulator beside published results: with `UPDATE=1` the table is written into the manual.
//!
//! The rows of `tests/golden/published` are the results of MLPerf Inference v4.1, v5.1, v6.0 and v6.1 (Closed,
//! Datacenter, one host) with TensorRT-LLM on the systems whose tunings are shipped, from the summary of each round; no
//! number of a calibration was chosen after those of v6.1 were read. Lengths of prompts are assumed: they are not in the
//! logs. Server and Interactive are the highest rate within the round's limits, which most submissions come near to.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::process::Command;

use serde_json::Value;

/// What was measured: a benchmark of MLPerf on a system of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Benchmark {
    workload: &'static str,
    system: &'static str,
    scenario: &'static str,
}

/// What of a published row the simulator's step times were fitted to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Basis {
    Throughput,
    /// The median TPOT at the published rate.
    Tpot,
    Nothing,
}

impl Basis {
    const fn mark(self) -> &'static str {
        match self {
            Self::Throughput => "*",
            Self::Tpot => "†",
            Self::Nothing => "",
        }
    }

    const fn label(self) -> &'static str {
        match self {
            Self::Throughput => "fitted",
            Self::Tpot => "TPOT fitted",
            Self::Nothing => "",
        }
    }
}

const fn of(workload: &'static str, system: &'static str, scenario: &'static str) -> Benchmark {
    Benchmark { workload, system, scenario }
}

/// What the shipped calibrations were fitted to; every other published row is held out.
const FITTED: [(Benchmark, Basis); 17] = [
    (of("llama2-70b", "h200-x8", "offline"), Basis::Throughput),
    (of("llama3.1-405b", "h200-x8", "offline"), Basis::Throughput),
    (of("mixtral-8x7b", "h200-x8-v4.1", "offline"), Basis::Throughput),
    (of("llama2-70b", "h100-x8", "offline"), Basis::Throughput),
    (of("llama2-70b", "b200-x8", "offline"), Basis::Throughput),
    (of("llama3.1-8b", "b200-x8", "offline"), Basis::Throughput),
    (of("llama3.1-405b", "b200-x8", "offline"), Basis::Throughput),
    (of("mixtral-8x7b", "b200-x8", "offline"), Basis::Throughput),
    (of("llama2-70b", "h100-nvl-x8", "offline"), Basis::Throughput),
    (of("mixtral-8x7b", "rtx-pro-6000-x8", "offline"), Basis::Throughput),
    (of("llama2-70b", "rtx-pro-6000-x8", "interactive"), Basis::Throughput),
    (of("llama2-70b", "h200-x8-maxq", "offline"), Basis::Throughput),
    (of("mixtral-8x7b", "h200-x8-maxq", "offline"), Basis::Throughput),
    (of("llama2-70b", "h200-x8", "interactive"), Basis::Tpot),
    (of("llama2-70b", "b200-x8", "interactive"), Basis::Tpot),
    (of("llama3.1-405b", "h200-x8", "interactive"), Basis::Tpot),
    (of("llama3.1-405b", "b200-x8", "interactive"), Basis::Tpot),
];

/// The published tokens per second of each benchmark of a system, in ascending order.
fn published() -> BTreeMap<Benchmark, Vec<f64>> {
    let mut points: BTreeMap<Benchmark, Vec<f64>> = BTreeMap::new();
    for line in include_str!("../../golden/published/tokens_per_second.csv").lines().skip(1) {
        let [_, _, _, workload, system, scenario, tokens] = line.split(',').collect::<Vec<_>>()[..] else {
            panic!("{line}")
        };
        points.entry(of(workload, system, scenario)).or_default().push(tokens.parse().unwrap());
    }
    for results in points.values_mut() {
        results.sort_by(f64::total_cmp);
    }
    points
}

/// Lengths of prompts, which are assumed, and of answers; the limits of Server and of Interactive.
fn load(of: &Benchmark) -> (&'static str, &'static str, &'static str) {
    let is_server = of.scenario == "server";
    match of.workload {
        "llama2-70b" if is_server => ("294,220,1024", "294,230,1024", "ttft_p99<2s tpot_p99<200ms"),
        "llama2-70b" => ("294,220,1024", "294,230,1024", "ttft_p99<450ms tpot_p99<40ms"),
        "mixtral-8x7b" => ("180,143,1024", "146,116,1024", "ttft_p99<2s tpot_p99<200ms"),
        "llama3.1-8b" if is_server => ("870,400,2540", "128", "ttft_p99<2s tpot_p99<100ms"),
        "llama3.1-8b" => ("870,400,2540", "128", "ttft_p99<500ms tpot_p99<30ms"),
        "gpt-oss-120b" => ("1000,800,8000", "1278,1200,10240", "ttft_p99<3s tpot_p99<80ms"),
        "deepseek-r1" => ("800,600,3100", "3880,3000,20000", "ttft_p99<2s tpot_p99<80ms"),
        _ if is_server => ("9600,6188,20000", "684,544,2000", "ttft_p99<6s tpot_p99<175ms"),
        _ => ("9600,6188,20000", "684,544,2000", "ttft_p99<4500ms tpot_p99<80ms"),
    }
}

fn point(of: &Benchmark, options: &[&str]) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let (inputs, outputs, _) = load(of);
    let out = Command::new(env!("CARGO_BIN_EXE_regatta"))
        .current_dir(folder.path())
        .args(["what-if", of.workload, &format!("system=sim-{}", of.system), &format!("scenarios={}", of.scenario)])
        .args(["--input-tokens", inputs, "--output-tokens", outputs, "--json"])
        .args(options)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&out.stdout);
    let found: Value =
        serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text}{}", String::from_utf8_lossy(&out.stderr)));
    found["points"][0].clone()
}

/// `37,651`
fn grouped(value: f64) -> String {
    regatta::units::grouped(value, 0)
}

const SCENARIOS: [&str; 3] = ["offline", "server", "interactive"];
const HEAD: &str = "| system | Offline | error, % | Server | error, % | Interactive | error, % | step times |\n\
    |---|---|---|---|---|---|---|---|\n";
const CLASSES: &str =
    "| step times | held-out results | median error | worst | within the band |\n|---|---|---|---|---|\n";
const SPLIT: &str = "| systems | results | shipped constants: median error | worst | fitted to the rest: median error | worst |\n\
    |---|---|---|---|---|---|\n";

/// Whether all results of a system are held out: a hash (FNV-1a) of its name decides, and not what fits.
fn is_held_out_by_hash(system: &str) -> bool {
    let hash = system
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    hash >> 63 == 1
}

/// The calibrations of a generation of GPUs when no system that the hash holds out is in a fit. Made by coordinate
/// descent on the logarithms of errors, from the shipped values: the medians of Offline (of Llama-2-70B, Llama-3.1-405B
/// and Mixtral-8x7B on eight H200; of these and Llama-3.1-8B on one and eight B200 and B300), and the TPOT of
/// `LATENCIES`.
const REFIT: [(&str, &str); 2] = [
    (
        "Hopper",
        "vars.gpu.calibration={source: refit, compute: 0.8436, experts: 0.302, pipeline: 0.812, link: 1, request_us: 9.844, \
         prompt_us: 514.7, layer_us: 122.6}",
    ),
    (
        "Blackwell",
        "vars.gpu.calibration={source: refit, compute_fp4: 0.9194, experts: 0.16, pipeline: 0.8081, link: 0.3808, \
         request_us: 9.725, prompt_us: 1030, layer_us: 138.5, all_reduce_us: 44.62}",
    ),
];

/// Where nothing of a workload's kernels was fitted there is nothing to refit.
fn refit(of: &Benchmark) -> Option<(&'static str, &'static str)> {
    let is_hopper = ["h100", "h200", "gh200"].iter().any(|name| of.system.starts_with(name));
    let has_fit = !["gpt-oss-120b", "deepseek-r1"].contains(&of.workload);
    has_fit.then_some(REFIT[usize::from(!is_hopper)])
}

/// Published results as shares of what was simulated, and the band that they should be in.
#[derive(Default)]
struct HeldOut {
    shares: Vec<f64>,
    band: (f64, f64),
}

impl HeldOut {
    fn add(&mut self, results: &[f64], answer: &Value) {
        let simulated = answer["tokens_per_second"].as_f64().unwrap();
        self.band = (answer["basis"]["low"].as_f64().unwrap(), answer["basis"]["high"].as_f64().unwrap());
        self.shares.extend(results.iter().map(|tokens| tokens / simulated));
    }

    /// The median of the errors without their signs, and the largest.
    fn errors(shares: &[f64]) -> (String, String) {
        let mut errors: Vec<f64> = shares.iter().map(|share| 1.0 / share - 1.0).collect();
        errors.sort_by(|a, b| a.abs().total_cmp(&b.abs()));
        let Some(worst) = errors.last() else { return ("n/a".to_owned(), "n/a".to_owned()) };
        (format!("{:.0} %", errors[errors.len() / 2].abs() * 100.0), format!("{:+.0} %", worst * 100.0))
    }

    fn share_within(&self) -> f64 {
        let (low, high) = self.band;
        self.shares.iter().filter(|share| (low..=high).contains(*share)).count() as f64 / self.shares.len() as f64
    }

    fn row(&self, class: &str) -> String {
        let (median, worst) = Self::errors(&self.shares);
        let (low, high) = ((1.0 - self.band.0) * 100.0, (self.band.1 - 1.0) * 100.0);
        let (count, within) = (self.shares.len(), self.share_within() * 100.0);
        format!("| {class} | {count} | {median} | {worst} | {within:.0} % in −{low:.0} to +{high:.0} % |\n")
    }
}

/// What is simulated of a row.
struct Answers {
    own: Value,
    /// Of Offline the same with the data sheet alone, as on a GPU that nothing was fitted to.
    bare: Option<Value>,
    refit: Option<Value>,
}

fn answers(of: &Benchmark) -> Answers {
    let (_, _, goal) = load(of);
    Answers {
        own: point(of, &["--goal", goal]),
        bare: (of.scenario == "offline").then(|| point(of, &["vars.gpu.calibration=null"])),
        refit: refit(of).map(|(_, calibration)| point(of, &["--goal", goal, calibration])),
    }
}

/// Those of all rows, on every core.
fn all_answers(rows: &[Benchmark]) -> Vec<Answers> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut found: Vec<(usize, _)> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|worker| {
                let share = rows.iter().enumerate().skip(worker).step_by(threads);
                scope.spawn(move || share.map(|(at, row)| (at, answers(row))).collect::<Vec<_>>())
            })
            .collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });
    found.sort_by_key(|(at, _)| *at);
    found.into_iter().map(|(_, answers)| answers).collect()
}

#[test]
fn published_throughput_beside_the_simulators() {
    let mut table = String::from(HEAD);
    let mut classes: BTreeMap<String, HeldOut> = BTreeMap::new();
    let mut split: BTreeMap<String, [HeldOut; 2]> = BTreeMap::new();
    let published = published();
    let rows: Vec<Benchmark> = published.keys().copied().collect();
    let mut systems: BTreeMap<(&str, &str), (String, [String; 3])> = BTreeMap::new();
    for ((of, results), Answers { own: answer, bare, refit: refitted }) in published.iter().zip(all_answers(&rows)) {
        let Benchmark { workload, system, scenario } = of;
        let median = results[results.len() / 2];
        let column = SCENARIOS.iter().position(|name| name == scenario).expect("a scenario of the table");
        let class = answer["basis"]["class"].as_str().expect("a class");
        let (_, cells) = systems
            .entry((*workload, *system))
            .or_insert_with(|| (class.to_owned(), [(); 3].map(|()| " | ".to_owned())));
        let simulated = answer["tokens_per_second"].as_f64().expect("tokens per second");
        let fit = FITTED.iter().find(|(row, _)| row == of).map_or(Basis::Nothing, |(_, basis)| *basis);
        let error = (simulated / median - 1.0) * 100.0;
        cells[column] = format!("{} | {error:+.1}{}", grouped(median), fit.mark());
        if fit == Basis::Nothing {
            classes.entry(class.to_owned()).or_default().add(results, &answer);
        } else {
            assert!(error.abs() < 16.0, "{of:?}: {error:+.1} %");
        }
        if let Some(bare) = bare {
            let class = format!("{}, the data sheet alone", bare["basis"]["class"].as_str().unwrap());
            classes.entry(class).or_default().add(results, &bare);
        }
        if let (Some(refitted), Some((generation, _))) = (refitted, refit(of)) {
            let place = if is_held_out_by_hash(system) { "held out" } else { "in the fit" };
            let [today, rest] = split.entry(format!("{generation}, {place}")).or_default();
            today.add(results, &answer);
            rest.add(results, &refitted);
        }
    }
    let mut last = "";
    for ((workload, system), (class, cells)) in systems {
        if workload != std::mem::replace(&mut last, workload) {
            let _ = writeln!(table, "| **{workload}** {}|", "| ".repeat(7));
        }
        let _ = writeln!(table, "| {system} | {} | {class} |", cells.join(" | "));
    }
    let rows: String = classes.iter().map(|(class, held_out)| held_out.row(class)).collect();
    super::on_the_page("concepts/simulation.md", &table);
    super::on_the_page("concepts/simulation.md", &format!("{CLASSES}{rows}"));
    let split = split.iter().fold(SPLIT.to_owned(), |mut table, (systems, [today, rest])| {
        let [(median, worst), (rest_median, rest_worst)] = [today, rest].map(|those| HeldOut::errors(&those.shares));
        let count = today.shares.len();
        let _ = writeln!(table, "| {systems} | {count} | {median} | {worst} | {rest_median} | {rest_worst} |");
        table
    });
    super::on_the_page("concepts/simulation.md", &split);
    for (class, held_out) in &classes {
        assert!(held_out.share_within() >= 0.9, "{class}: {rows}");
    }
}

/// Published medians at the published rate, ms, from the `mlperf_log_summary.txt` of v5.1.
struct LatencyRow {
    of: Benchmark,
    rate: f64,
    ttft: f64,
    tpot: f64,
    basis: Basis,
    note: &'static str,
}

/// Close to what the system can take, one per cent of throughput is a large part of a latency.
const NEAR_THE_LIMIT: &str = "near saturation";
const OF_ANOTHER_HOST: &str = "of G894-SD1";

const fn latencies(of: Benchmark, rate: f64, ttft: f64, tpot: f64, basis: Basis, note: &'static str) -> LatencyRow {
    LatencyRow { of, rate, ttft, tpot, basis, note }
}

const LATENCIES: [LatencyRow; 10] = [
    latencies(of("llama2-70b", "h200-x8", "interactive"), 79.16, 111.2, 37.07, Basis::Tpot, ""),
    latencies(of("llama3.1-405b", "h200-x8", "interactive"), 0.31, 1430.6, 42.73, Basis::Tpot, ""),
    latencies(of("llama2-70b", "b200-x8", "interactive"), 218.82, 63.3, 34.47, Basis::Tpot, ""),
    latencies(of("llama3.1-405b", "b200-x8", "interactive"), 1.15, 987.6, 62.07, Basis::Tpot, ""),
    latencies(of("llama3.1-8b", "b200-x8", "interactive"), 797.12, 33.9, 16.78, Basis::Nothing, OF_ANOTHER_HOST),
    latencies(of("llama3.1-405b", "h200-x8", "server"), 0.45, 1536.9, 53.79, Basis::Nothing, ""),
    latencies(of("llama3.1-405b", "b200-x8", "server"), 1.9, 1357.3, 100.80, Basis::Nothing, ""),
    latencies(of("llama2-70b", "h200-x8", "server"), 115.59, 528.7, 188.13, Basis::Nothing, NEAR_THE_LIMIT),
    latencies(of("llama2-70b", "b200-x8", "server"), 361.3, 244.2, 126.10, Basis::Nothing, NEAR_THE_LIMIT),
    latencies(of("llama3.1-8b", "b200-x8", "server"), 996.53, 498.3, 29.42, Basis::Nothing, NEAR_THE_LIMIT),
];

#[test]
fn published_latencies_beside_the_simulators() {
    let mut table = String::from(
        "| workload, system, scenario | req/s | TTFT p50, ms | error, % | TPOT p50, ms | error, % | |\n|---|---|---|---|---|---|---|\n",
    );
    let mut errors = Vec::new();
    for LatencyRow { of, rate, ttft, tpot, basis, note } in &LATENCIES {
        let found = point(of, &["--rate", &rate.to_string()]);
        let median = |metric: &str| found[metric]["p50"].as_f64().unwrap();
        let (own_ttft, own_tpot) = (median("ttft_ms"), median("tpot_ms"));
        let percent = |own: f64, published: f64| 100.0 * (own / published - 1.0);
        let Benchmark { workload, system, scenario } = of;
        let _ = writeln!(
            table,
            "| {workload} {system} {scenario} | {rate} | {ttft:.0} | {:+.0} | {tpot:.1} | {:+.0} | {}{note} |",
            percent(own_ttft, *ttft),
            percent(own_tpot, *tpot),
            basis.label(),
        );
        if *note != NEAR_THE_LIMIT {
            errors.push(percent(own_tpot, *tpot));
        }
    }
    super::on_the_page("concepts/simulation.md", &table);
    assert!(errors.iter().all(|error| error.abs() < 15.0), "{table}");
}
