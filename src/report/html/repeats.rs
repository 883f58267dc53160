//! Several runs of one measurement: means over runs with their intervals, and the runs one by one.

use serde_json::Value;

use super::block::{Block, at, shown, text};
use super::svg::number;

/// Key in `repeats.over_runs`, and its name.
const ROWS: [(&str, &str); 10] = [
    ("ttft_mean", "TTFT mean"),
    ("ttft_p50", "TTFT p50"),
    ("ttft_p99", "TTFT p99"),
    ("tpot_mean", "TPOT mean"),
    ("tpot_p99", "TPOT p99"),
    ("e2e_mean", "E2E mean"),
    ("e2e_p99", "E2E p99"),
    ("requests_full", "requests"),
    ("output_tokens", "output tokens"),
    ("goodput", "goodput"),
];

pub(super) fn read(result: &Value) -> Option<Block> {
    let repeats = result.get("repeats").filter(|repeats| repeats.is_object())?;
    let runs = repeats.get("runs")?.as_array()?;
    let row = |(key, name): &(&str, &str)| {
        let over = repeats.get("over_runs")?.get(key)?;
        let cell = |path: &str| shown(over, path).unwrap_or_else(|| "n/a".to_owned());
        let values = over.get("values").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_f64);
        let values: Vec<String> = values.map(number).collect();
        let share = at(over, "/stddev").zip(at(over, "/mean")).filter(|(_, mean)| *mean != 0.0);
        Some(vec![
            format!("{name}, {}", text(over, "/unit").unwrap_or_default()),
            cell("/mean"),
            format!("{} … {}", cell("/low"), cell("/high")),
            share.map_or_else(|| "n/a".to_owned(), |(stddev, mean)| format!("{} %", number(stddev / mean * 100.0))),
            values.join(" "),
        ])
    };
    Some(Block {
        title: "Runs",
        about: format!(
            "{} runs of the same measurement with different seeds. The interval is of the mean over runs, 95 %, by Student's t; \
             the spread is the standard deviation between runs in percent of the mean. All other numbers on this page are of run {}, \
             in which the populations, zero points and token sources are given.",
            runs.len(),
            shown(repeats, "/shown").unwrap_or_default(),
        ),
        head: vec!["number", "mean", "95 % interval", "spread", "runs"],
        rows: ROWS.iter().filter_map(row).collect(),
        ..Block::default()
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_row_for_each_number_over_runs() {
        let over = json!({ "unit": "ms", "values": [10.0, 12.0, 11.0], "mean": 11.0, "stddev": 1.0, "low": 8.5, "high": 13.5 });
        let result = json!({ "repeats": { "runs": [1, 2, 3], "shown": 1, "over_runs": { "ttft_p99": over } } });
        let block = read(&result).unwrap();
        assert_eq!(block.rows, [["TTFT p99, ms", "11", "8.5 … 13.5", "9.09 %", "10 12 11"]]);
        assert!(block.about.contains("3 runs") && read(&json!({})).is_none());
    }
}
