//! The simulator beside published results: `cargo test --test it truth` writes the table to `target/tmp/truth.txt`.
//!
//! The rows are of the MLPerf Inference logs of v5.1 (Closed, Datacenter); the tunings are the shipped ones, which are those of
//! the submissions. Mean lengths of prompts are assumed: they are not in the logs. Server is the highest rate within the round's
//! limits, which the submissions come near to.

use std::fmt::Write as _;
use std::process::Command;

use serde_json::Value;

/// A published row.
struct Row {
    workload: &'static str,
    system: &'static str,
    scenario: &'static str,
    /// Mean and deviation of prompts, which are assumed, and of answers.
    lengths: (&'static str, &'static str),
    tokens_per_second: f64,
    is_fitted: bool,
}

const LLAMA2: (&str, &str) = ("294,220", "294,230");
const LLAMA31_8B: (&str, &str) = ("870,400", "128");
const LLAMA31_405B: (&str, &str) = ("9400,6000", "684,300");

const ROWS: [Row; 10] = [
    Row {
        workload: "llama2-70b",
        system: "h200-x8",
        scenario: "server",
        lengths: LLAMA2,
        tokens_per_second: 34_029.0,
        is_fitted: false,
    },
    Row {
        workload: "llama2-70b",
        system: "b200-x8",
        scenario: "server",
        lengths: LLAMA2,
        tokens_per_second: 99_123.0,
        is_fitted: false,
    },
    Row {
        workload: "llama2-70b",
        system: "gb200-x4",
        scenario: "server",
        lengths: LLAMA2,
        tokens_per_second: 49_360.0,
        is_fitted: false,
    },
    Row {
        workload: "llama2-70b",
        system: "h200-x8",
        scenario: "offline",
        lengths: LLAMA2,
        tokens_per_second: 34_812.0,
        is_fitted: true,
    },
    Row {
        workload: "llama2-70b",
        system: "b200-x8",
        scenario: "offline",
        lengths: LLAMA2,
        tokens_per_second: 101_527.0,
        is_fitted: true,
    },
    Row {
        workload: "llama2-70b",
        system: "gb200-x4",
        scenario: "offline",
        lengths: LLAMA2,
        tokens_per_second: 51_737.0,
        is_fitted: false,
    },
    Row {
        workload: "llama3.1-8b",
        system: "b200-x8",
        scenario: "offline",
        lengths: LLAMA31_8B,
        tokens_per_second: 136_752.0,
        is_fitted: false,
    },
    Row {
        workload: "llama3.1-405b",
        system: "b200-x8",
        scenario: "offline",
        lengths: LLAMA31_405B,
        tokens_per_second: 1_624.0,
        is_fitted: false,
    },
    Row {
        workload: "llama3.1-405b",
        system: "h200-x8",
        scenario: "offline",
        lengths: LLAMA31_405B,
        tokens_per_second: 553.0,
        is_fitted: false,
    },
    Row {
        workload: "llama2-70b",
        system: "h200-x8-v4.1",
        scenario: "offline",
        lengths: LLAMA2,
        tokens_per_second: 31_303.0,
        is_fitted: false,
    },
];

fn simulated(row: &Row) -> f64 {
    let folder = tempfile::tempdir().unwrap();
    let out = Command::new(env!("CARGO_BIN_EXE_regatta"))
        .current_dir(folder.path())
        .args(["what-if", row.workload, &format!("system=sim-{}", row.system), &format!("scenarios={}", row.scenario)])
        .args([
            "--input-tokens",
            row.lengths.0,
            "--output-tokens",
            row.lengths.1,
            "--goal",
            "ttft_p99<2s tpot_p99<200ms",
            "--json",
        ])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&out.stdout);
    let found: Value =
        serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text}{}", String::from_utf8_lossy(&out.stderr)));
    found["points"][0]["tokens_per_second"].as_f64().unwrap_or_else(|| panic!("{found}"))
}

#[test]
fn published_throughput_beside_the_simulators() {
    let mut table = String::from("workload | system | scenario | published tok/s | simulated | error | row\n");
    let mut fitted = Vec::new();
    for row in &ROWS {
        let simulated = simulated(row);
        let error = simulated / row.tokens_per_second - 1.0;
        let kind = if row.is_fitted { "fitted" } else { "held out" };
        let Row { workload, system, scenario, tokens_per_second, .. } = row;
        let _ = writeln!(
            table,
            "{workload} | {system} | {scenario} | {tokens_per_second:.0} | {simulated:.0} | {:+.1} % | {kind}",
            error * 100.0
        );
        if row.is_fitted {
            fitted.push(error);
        }
    }
    std::fs::write(concat!(env!("CARGO_TARGET_TMPDIR"), "/truth.txt"), &table).unwrap();
    // The page has these numbers.
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/manual/25-what-if.md")).unwrap();
    for line in table.lines().skip(1) {
        let error = line.split(" | ").nth(5).unwrap();
        assert!(page.contains(error), "{error} is not in the manual: {table}");
    }
    assert!(fitted.iter().all(|error| error.abs() < 0.05), "{table}");
}
