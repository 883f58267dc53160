//! A benchmark's result as fields for programs: in `regatta runs --json`, and a line of `regatta runs --csv`.

use std::path::PathBuf;

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::command_tables::RunRow;
use base::units::csv_cell;
use harness::RunResult;

/// A result of a run in the list of runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ResultRow {
    pub task: String,
    /// The result in short, for people.
    #[serde(skip)]
    pub headline: String,
    /// Its server and load.
    pub workload: Option<String>,
    /// Where its files are.
    pub folder: Option<PathBuf>,
    /// Of one measurement: see [`result_numbers`].
    #[serde(flatten)]
    pub numbers: Map<String, Value>,
}

/// The verdict and the numbers of a result by their names. Latencies are in milliseconds, rates per second.
pub fn result_numbers(result: &RunResult) -> Map<String, Value> {
    let mut numbers = Map::new();
    let mut insert = |name: String, value: Value| drop(numbers.insert(name, value));
    insert("verdict".to_owned(), json!(result.verdict()));
    insert("is_simulated".to_owned(), json!(result.is_simulated()));
    insert("requests_ok".to_owned(), json!(result.counts.ok));
    insert("requests_failed".to_owned(), json!(result.counts.failed));
    insert("requests_per_s".to_owned(), json!(result.rates.requests_full));
    insert("output_tokens_per_s".to_owned(), json!(result.rates.output_tokens));
    let latency = &result.latency;
    for (name, metric) in
        [("ttft", &latency.ttft), ("tpot", &latency.tpot), ("itl", &latency.itl_token), ("e2e", &latency.e2e)]
    {
        for (part, value) in [("mean", metric.mean), ("p50", metric.p50), ("p90", metric.p90), ("p99", metric.p99)] {
            insert(format!("{name}_{part}_ms"), json!(value));
        }
    }
    numbers
}

/// A line for each result of these runs, below the names of its fields.
pub fn run_list_csv(rows: &[RunRow]) -> String {
    let lines: Vec<Map<String, Value>> =
        rows.iter().flat_map(|run| run.results.iter().map(|result| line(run, result))).collect();
    // A result that is gone has no numbers.
    let names: Vec<&String> =
        lines.iter().max_by_key(|line| line.len()).map(|line| line.keys().collect()).unwrap_or_default();
    let head = names.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(",") + "\n";
    let text = |line: &Map<String, Value>| names.iter().map(|name| cell(line.get(*name))).collect::<Vec<_>>().join(",");
    lines.iter().fold(head, |csv, line| csv + &text(line) + "\n")
}

fn line(run: &RunRow, result: &ResultRow) -> Map<String, Value> {
    let fields = [
        ("run", json!(run.run)),
        ("manifest", json!(run.manifest)),
        ("started_at", json!(run.started_at)),
        ("state", json!(run.state)),
        ("task", json!(result.task)),
        ("workload", json!(result.workload)),
        ("folder", json!(result.folder)),
    ];
    let mut line = Map::from_iter(fields.map(|(name, value)| (name.to_owned(), value)));
    line.extend(result.numbers.clone());
    line
}

fn cell(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => csv_cell(text),
        Some(value) => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_program_reads_each_number_by_its_name() {
        let file = include_str!("../../tests/golden/results/benchmark/result.json");
        let result: RunResult = serde_json::from_str(file).unwrap();
        let row = ResultRow {
            task: "=load".to_owned(),
            workload: Some("a, \"b\"".to_owned()),
            numbers: result_numbers(&result),
            ..ResultRow::default()
        };
        let run = RunRow::shared("r", "m".to_owned(), "", row);
        let csv = run_list_csv(&[run]);
        let [head, line] = csv.lines().collect::<Vec<_>>()[..] else { panic!("{csv}") };
        assert!(line.starts_with("r,m,,shared,'=load,\"a, \"\"b\"\"\","), "{line}");
        let at = head.split(',').rev().position(|name| name == "ttft_p99_ms").unwrap();
        let value = line.rsplit(',').nth(at).unwrap();
        assert_eq!(value.parse().ok(), result.latency.ttft.p99, "{csv}");
    }
}
