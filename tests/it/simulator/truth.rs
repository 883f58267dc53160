//! The simulator beside published results: with `UPDATE=1` the table is written into the manual.
//!
//! The rows are of the MLPerf Inference logs of v4.1 and v5.1 (Closed, Datacenter); the tunings are the shipped ones, which are
//! those of the submissions. Lengths of prompts are assumed: they are not in the logs. Server and Interactive are the highest rate
//! within the round's limits, which most submissions come near to.

use std::fmt::Write as _;
use std::process::Command;

use serde_json::Value;

/// What was measured: a benchmark of MLPerf on a system of ours.
#[derive(Clone, Copy)]
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
    const fn label(self) -> &'static str {
        match self {
            Self::Throughput => "fitted",
            Self::Tpot => "TPOT fitted",
            Self::Nothing => "held out",
        }
    }
}

/// A published throughput. `note`: why it is worse than the others.
struct Row {
    of: Benchmark,
    tokens_per_second: f64,
    basis: Basis,
    note: &'static str,
}

const fn of(workload: &'static str, system: &'static str, scenario: &'static str) -> Benchmark {
    Benchmark { workload, system, scenario }
}

const fn fitted(workload: &'static str, system: &'static str, tokens_per_second: f64) -> Row {
    Row { of: of(workload, system, "offline"), tokens_per_second, basis: Basis::Throughput, note: "" }
}

const fn tpot_fitted(workload: &'static str, system: &'static str, tokens_per_second: f64) -> Row {
    Row { of: of(workload, system, "interactive"), tokens_per_second, basis: Basis::Tpot, note: "" }
}

const fn held_out(
    workload: &'static str,
    system: &'static str,
    scenario: &'static str,
    tokens_per_second: f64,
    note: &'static str,
) -> Row {
    Row { of: of(workload, system, scenario), tokens_per_second, basis: Basis::Nothing, note }
}

const BELOW_THE_LIMITS: &str = "its latencies were below the limits: it could have had a higher rate";
const OF_A_README: &str = "of a README of v4.1, no submitted run";
const OF_THE_HOST: &str = "not at a limit: with the same settings and rate another host had a TPOT p99 of 18.7 ms of 30; the published one's was 27.9 ms";

const ROWS: [Row; 27] = [
    fitted("llama2-70b", "h200-x8", 34_812.0),
    fitted("llama3.1-405b", "h200-x8", 553.0),
    fitted("mixtral-8x7b", "h200-x8-v4.1", 59_022.0),
    fitted("llama2-70b", "h100-x8", 24_525.0),
    fitted("llama2-70b", "b200-x8", 101_527.0),
    fitted("llama3.1-8b", "b200-x8", 136_752.0),
    fitted("llama3.1-405b", "b200-x8", 1_624.0),
    held_out("llama2-70b", "h200-x1", "offline", 3_757.0, OF_A_README),
    held_out("llama2-70b", "h200-x8-v4.1", "offline", 31_303.0, ""),
    held_out("llama2-70b", "gb200-x4", "offline", 51_737.0, ""),
    held_out("mixtral-8x7b", "h100-x8", "offline", 52_416.0, ""),
    held_out("llama2-70b", "h200-x1", "server", 3_660.0, OF_A_README),
    held_out("llama2-70b", "h200-x8", "server", 34_029.0, ""),
    held_out("llama2-70b", "h200-x8-v4.1", "server", 29_228.0, BELOW_THE_LIMITS),
    held_out("llama2-70b", "h100-x8", "server", 21_606.0, BELOW_THE_LIMITS),
    held_out("llama2-70b", "b200-x8", "server", 99_123.0, ""),
    held_out("llama2-70b", "gb200-x4", "server", 49_360.0, ""),
    held_out("mixtral-8x7b", "h200-x8-v4.1", "server", 57_177.0, ""),
    held_out("mixtral-8x7b", "h100-x8", "server", 50_796.0, ""),
    held_out("llama3.1-8b", "b200-x8", "server", 128_541.0, ""),
    held_out("llama3.1-405b", "h200-x8", "server", 295.0, ""),
    held_out("llama3.1-405b", "b200-x8", "server", 1_240.0, ""),
    tpot_fitted("llama2-70b", "h200-x8", 23_080.0),
    tpot_fitted("llama2-70b", "b200-x8", 59_545.0),
    held_out("llama3.1-8b", "b200-x8", "interactive", 102_903.0, OF_THE_HOST),
    tpot_fitted("llama3.1-405b", "h200-x8", 203.0),
    tpot_fitted("llama3.1-405b", "b200-x8", 751.0),
];

/// Lengths of prompts, which are assumed, and of answers; the limits of Server and of Interactive.
fn load(of: &Benchmark) -> (&'static str, &'static str, &'static str) {
    let is_server = of.scenario == "server";
    match of.workload {
        "llama2-70b" if is_server => ("294,220,1024", "294,230,1024", "ttft_p99<2s tpot_p99<200ms"),
        "llama2-70b" => ("294,220,1024", "294,230,1024", "ttft_p99<450ms tpot_p99<40ms"),
        "mixtral-8x7b" => ("180,143,1024", "146,116,1024", "ttft_p99<2s tpot_p99<200ms"),
        "llama3.1-8b" if is_server => ("870,400,2540", "128", "ttft_p99<2s tpot_p99<100ms"),
        "llama3.1-8b" => ("870,400,2540", "128", "ttft_p99<500ms tpot_p99<30ms"),
        _ if is_server => ("9600,6188,20000", "684,544,2000", "ttft_p99<6s tpot_p99<175ms"),
        _ => ("9600,6188,20000", "684,544,2000", "ttft_p99<4500ms tpot_p99<80ms"),
    }
}

fn simulated(row: &Row) -> f64 {
    let (_, _, goal) = load(&row.of);
    point(&row.of, &["--goal", goal])["tokens_per_second"].as_f64().unwrap()
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
    assert!(found["points"][0]["tokens_per_second"].is_f64(), "{found}");
    found["points"][0].clone()
}

/// `37,651`
fn grouped(value: f64) -> String {
    regatta::units::grouped(value, 0)
}

const HEAD: &str =
    "| workload | system | scenario | published tok/s | simulated | error | |\n|---|---|---|---|---|---|---|\n";

#[test]
fn published_throughput_beside_the_simulators() {
    let mut table = String::from(HEAD);
    let (mut fitted, mut held_out) = (Vec::new(), Vec::new());
    for row in &ROWS {
        let simulated = simulated(row);
        let error = simulated / row.tokens_per_second - 1.0;
        let Row { of: Benchmark { workload, system, scenario }, tokens_per_second, basis, note } = row;
        let colon = if note.is_empty() { "" } else { ": " };
        let _ = writeln!(
            table,
            "| {workload} | {system} | {scenario} | {} | {} | {:+.1} % | {}{colon}{note} |",
            grouped(*tokens_per_second),
            grouped(simulated),
            error * 100.0,
            basis.label(),
        );
        if *basis == Basis::Throughput {
            fitted.push(error);
        } else if note.is_empty() {
            held_out.push(error);
        }
    }
    super::manual_table::on_the_page("concepts/simulation.md", &table);
    assert!(fitted.iter().all(|error| error.abs() < 0.09), "{table}");
    assert!(held_out.iter().all(|error| error.abs() < 0.16), "{table}");
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
const NEAR_THE_LIMIT: &str = "near the most that the system takes";
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
        "| workload | system | scenario | req/s | TTFT p50 published | simulated | error | TPOT p50 published | simulated | error | |\n|---|---|---|---|---|---|---|---|---|---|---|\n",
    );
    let mut errors = Vec::new();
    for LatencyRow { of, rate, ttft, tpot, basis, note } in &LATENCIES {
        let found = point(of, &["--rate", &rate.to_string()]);
        let median = |metric: &str| found[metric]["p50"].as_f64().unwrap();
        let (own_ttft, own_tpot) = (median("ttft_ms"), median("tpot_ms"));
        let percent = |own: f64, published: f64| 100.0 * (own / published - 1.0);
        let Benchmark { workload, system, scenario } = of;
        let colon = if note.is_empty() { "" } else { ": " };
        let _ = writeln!(
            table,
            "| {workload} | {system} | {scenario} | {rate} | {ttft:.0} ms | {own_ttft:.0} ms | {:+.0} % | {tpot:.1} ms | {own_tpot:.1} ms | {:+.0} % | {}{colon}{note} |",
            percent(own_ttft, *ttft),
            percent(own_tpot, *tpot),
            basis.label(),
        );
        if *note != NEAR_THE_LIMIT {
            errors.push(percent(own_tpot, *tpot));
        }
    }
    super::manual_table::on_the_page("concepts/simulation.md", &table);
    assert!(errors.iter().all(|error| error.abs() < 15.0), "{table}");
}
