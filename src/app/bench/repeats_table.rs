//! Several runs of one measurement, as a table: means over runs with their intervals.

use std::fmt::Write as _;

use harness::Repeats;

/// The numbers that a reader looks for; result.json has all.
const ROWS: [(&str, &str); 9] = [
    ("ttft_mean", "TTFT mean (ms)"),
    ("ttft_p50", "TTFT p50 (ms)"),
    ("ttft_p99", "TTFT p99 (ms)"),
    ("tpot_mean", "TPOT mean (ms)"),
    ("tpot_p99", "TPOT p99 (ms)"),
    ("e2e_mean", "Latency mean (ms)"),
    ("e2e_p99", "Latency p99 (ms)"),
    ("requests_full", "Request throughput (1/s)"),
    ("output_tokens", "Output tokens (1/s)"),
];

pub fn text(repeats: &Repeats) -> String {
    let count = repeats.runs.len();
    let mut text = format!(
        "\n{:<27} {:>11} {:>25} {:>16}\n",
        format!("Over {count} runs"),
        "mean",
        "95 % interval",
        "between runs"
    );
    for (name, title) in ROWS {
        let Some(over) = repeats.over_runs.get(name) else { continue };
        let interval = format!("{:.2} … {:.2}", over.low, over.high);
        let share =
            if over.mean == 0.0 { "n/a".to_owned() } else { format!("{:.1} %", over.stddev / over.mean * 100.0) };
        let _ = writeln!(text, "{title:<27} {:>11.2} {interval:>25} {share:>16}", over.mean);
    }
    let seeds: Vec<String> = repeats.runs.iter().map(|run| run.seed.to_string()).collect();
    let verdicts: Vec<&str> = repeats.runs.iter().map(|run| run.verdict.as_str()).collect();
    let _ = writeln!(
        text,
        "mean: of the runs' numbers; interval: of that mean, by Student's t over runs; between runs: standard deviation in percent of it"
    );
    if count == 2 {
        let _ = writeln!(
            text,
            "two runs show little of how much runs differ: an interval is 12.7 standard errors to each side, of five runs 2.8 (`--repeat 5`)"
        );
    }
    let _ =
        writeln!(text, "seeds {}: {}; the table above is run {}", seeds.join(", "), verdicts.join(", "), repeats.shown);
    text
}
