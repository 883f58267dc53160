//! Several runs of one measurement: means over runs with their intervals, and the runs one by one.

use super::block::Block;
use super::svg::number;
use harness::RunResult;

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

pub(super) fn section(result: &RunResult) -> Option<Block> {
    let repeats = result.repeats.as_ref()?;
    let row = |(key, name): &(&str, &str)| {
        let over = repeats.over_runs.get(*key)?;
        let values: Vec<String> = over.values.iter().map(|value| number(*value)).collect();
        let spread = (over.mean != 0.0).then(|| format!("{} %", number(over.stddev / over.mean * 100.0)));
        Some(vec![
            format!("{name}, {}", over.unit),
            number(over.mean),
            format!("{} … {}", number(over.low), number(over.high)),
            spread.unwrap_or_else(|| "n/a".to_owned()),
            values.join(" "),
        ])
    };
    Some(Block {
        title: "Runs",
        about: format!(
            "{} runs of the same measurement with different seeds. The interval is of the mean over runs, 95 %, by Student's t; \
             the spread is the standard deviation between runs in percent of the mean. The head of the page and its table of all results \
             have the means, too, and the failures of all runs. All other numbers on this page are of run {}, in which the \
             populations, zero points and token sources are given.",
            repeats.runs.len(),
            repeats.shown,
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
    use crate::test_runs;

    #[test]
    fn a_row_for_each_number_over_runs() {
        let over = json!({ "unit": "ms", "values": [10.0, 12.0, 11.0], "mean": 11.0, "stddev": 1.0, "low": 8.5, "high": 13.5 });
        let run = json!({ "folder": "repeats/01", "seed": 1, "verdict": "valid", "started": "" });
        let repeats = json!({ "runs": [run, run, run], "shown": 1, "over_runs": { "ttft_p99": over } });
        let mut result = test_runs::result();
        assert!(section(&result).is_none());
        result.repeats = serde_json::from_value(repeats).unwrap();
        let block = section(&result).unwrap();
        assert_eq!(block.rows, [["TTFT p99, ms", "11", "8.5 … 13.5", "9.09 %", "10 12 11"]]);
        assert!(block.about.contains("3 runs"));
    }
}
