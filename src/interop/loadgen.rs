//! The logs of MLPerf's LoadGen: `mlperf_log_detail.txt`, or `mlperf_log_summary.txt` alone. Both have the same numbers.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::metrics::{MetricConcept, MetricStats, Tool};
use crate::results::imported::{ImportedNumbers, put};

/// Files of a log folder that are read, in the order in which they count.
pub const LOG_FILES: [&str; 2] = ["mlperf_log_detail.txt", "mlperf_log_summary.txt"];
const MARK: &str = ":::MLLOG ";
const TITLE: &str = "MLPerf Results Summary";

/// Where a log keeps one metric: its mean, least, greatest, and percentiles with `#` for the number. All are ns.
struct LatencyNames(MetricConcept, &'static str, &'static str, &'static str, &'static str);

#[rustfmt::skip]
const IN_DETAIL: [LatencyNames; 3] = [
    LatencyNames(MetricConcept::Ttft, "result_first_token_mean_latency_ns", "result_first_token_min_latency_ns", "result_first_token_max_latency_ns", "result_first_token_#.00_percentile_latency_ns"),
    LatencyNames(MetricConcept::Tpot, "result_time_to_output_token_mean", "result_time_to_output_token_min", "result_time_to_output_token_max", "result_time_per_output_token_#.00_percentile_ns"),
    LatencyNames(MetricConcept::E2e, "result_mean_latency_ns", "result_min_latency_ns", "result_max_latency_ns", "result_#.00_percentile_latency_ns"),
];
#[rustfmt::skip]
const IN_SUMMARY: [LatencyNames; 3] = [
    LatencyNames(MetricConcept::Ttft, "Mean First Token latency (ns)", "Min First Token latency (ns)", "Max First Token latency (ns)", "#.00 percentile first token latency (ns)"),
    LatencyNames(MetricConcept::Tpot, "Mean Time per Output Token (ns)", "Min Time per Output Token (ns)", "Max Time per Output Token (ns)", "#.00 percentile time to output token (ns)"),
    LatencyNames(MetricConcept::E2e, "Mean latency (ns)", "Min latency (ns)", "Max latency (ns)", "#.00 percentile latency (ns)"),
];

/// The endings of the lines that a summary of an accuracy run consists of, with a count or `No` before them.
const ONLY_OF_ACCURACY: [&str; 2] = ["encountered during test.", "encountered. See detailed log."];

/// What a log is of.
pub(super) enum ReadLog {
    Performance(Box<ImportedNumbers>),
    /// LoadGen measures nothing in it.
    Accuracy,
}

/// Reads a log; `None`: the text is none.
pub(super) fn read(text: &str) -> Option<ReadLog> {
    if text.starts_with(MARK) {
        let entries = text.lines().filter_map(|line| serde_json::from_str::<Value>(line.strip_prefix(MARK)?).ok());
        let mut values = BTreeMap::new();
        for entry in entries {
            // The first value of a key counts, as it does for the submission checker.
            if let (Some(key), Some(value)) = (entry["key"].as_str(), entry.get("value")) {
                values.entry(key.to_owned()).or_insert_with(|| value.clone());
            }
        }
        let is_accuracy = values.get("effective_test_mode").and_then(Value::as_str) == Some("AccuracyOnly");
        let performance = || ReadLog::Performance(Box::new(numbers(&values, &IN_DETAIL, |name| name)));
        return Some(if is_accuracy { ReadLog::Accuracy } else { performance() });
    }
    if !text.contains(TITLE) {
        let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty()).peekable();
        let is_accuracy =
            lines.peek().is_some() && lines.all(|line| ONLY_OF_ACCURACY.iter().any(|ending| line.ends_with(ending)));
        return is_accuracy.then_some(ReadLog::Accuracy);
    }
    let values = text.lines().filter_map(|line| {
        let (name, value) = line.split_once(" : ").or_else(|| line.split_once(": "))?;
        let value = value.trim();
        let value = value.parse::<f64>().map_or_else(|_| json!(value), |number| json!(number));
        // Its name of the TPOT until 5.1, beside the mean and the ends.
        let name = name.replace("Time to Output Token", "Time per Output Token");
        Some((name.trim().trim_end_matches(':').trim().to_owned(), value))
    });
    let mut all = BTreeMap::new();
    for (name, value) in values {
        all.entry(name).or_insert(value);
    }
    Some(ReadLog::Performance(Box::new(numbers(&all, &IN_SUMMARY, in_summary))))
}

/// The summary's name of a value of the detail log.
fn in_summary(name: &'static str) -> &'static str {
    match name {
        "effective_scenario" => "Scenario",
        "effective_test_mode" => "Mode",
        "sut_name" => "SUT name",
        "effective_target_qps" => "target_qps",
        "effective_min_duration_ms" => "min_duration (ms)",
        "result_validity" => "Result is",
        "result_samples_per_second" => "Samples per second",
        "result_tokens_per_second" => "Tokens per second",
        "result_completed_samples_per_sec" => "Completed samples per second",
        "result_completed_tokens_per_second" => "Completed tokens per second",
        other => other,
    }
}

fn numbers(
    values: &BTreeMap<String, Value>,
    latencies: &[LatencyNames],
    called: fn(&'static str) -> &'static str,
) -> ImportedNumbers {
    let number = |name: &str| values.get(name)?.as_f64().filter(|number| number.is_finite());
    let rate = |names: [&'static str; 2]| names.into_iter().find_map(|name| number(called(name)));
    let mut requested = serde_json::Map::new();
    for (key, name) in [
        ("scenario", "effective_scenario"),
        ("mode", "effective_test_mode"),
        ("sut", "sut_name"),
        ("target_qps", "effective_target_qps"),
        ("min_duration_ms", "effective_min_duration_ms"),
        ("loadgen_result", "result_validity"),
    ] {
        put(&mut requested, key, values.get(called(name)).cloned());
    }
    let stats = latencies.iter().map(|LatencyNames(concept, mean, min, max, percentile)| {
        let ms = |name: &str| number(name).map(|ns| ns / 1e6);
        let at = |p: &str| ms(&percentile.replace('#', p));
        let stats = MetricStats {
            n: 0,
            mean: ms(mean),
            p50: at("50"),
            p90: at("90"),
            p95: at("95"),
            p99: at("99"),
            min: ms(min),
            max: ms(max),
        };
        (*concept, stats)
    });
    let completed = number(called("result_completed_samples_per_sec"));
    let version = values.get("loadgen_version").and_then(Value::as_str);
    ImportedNumbers {
        tool: Some(Tool::LoadGen),
        format: "LoadGen log",
        version: version.map(str::to_owned),
        requested,
        ok: number("result_query_count"),
        requests_per_s: rate(["result_completed_samples_per_sec", "result_samples_per_second"]),
        tokens_per_s: rate(["result_completed_tokens_per_second", "result_tokens_per_second"]),
        extra_rates: vec![("requests_loadgen_completed", completed)],
        stats: stats.collect(),
        ..ImportedNumbers::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;

    fn text(name: &str) -> String {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/mlperf/logs").join(name);
        std::fs::read_to_string(path).unwrap()
    }

    fn numbers_of(text: &str) -> ImportedNumbers {
        match read(text) {
            Some(ReadLog::Performance(numbers)) => *numbers,
            _ => panic!("no log of a performance run"),
        }
    }

    fn log(name: &str) -> ImportedNumbers {
        numbers_of(&text(name))
    }

    #[test]
    fn the_summary_and_the_detail_log_have_the_same_numbers() {
        for folder in ["server-valid", "offline-valid"] {
            let summary = log(&format!("{folder}/mlperf_log_summary.txt"));
            let detail = log(&format!("{folder}/mlperf_log_detail.txt"));
            // The summary has two digits behind the point.
            let rounded = |rate: Option<f64>| rate.map(|rate| format!("{rate:.2}"));
            let shown = |it: &ImportedNumbers| {
                format!("{:?} {:?} {:?}", it.stats, rounded(it.requests_per_s), rounded(it.tokens_per_s))
            };
            assert_eq!(shown(&summary), shown(&detail), "{folder}");
            for key in ["scenario", "sut", "target_qps", "loadgen_result"] {
                let value = |it: &ImportedNumbers| {
                    it.requested[key].as_f64().map_or_else(|| it.requested[key].to_string(), |n| n.to_string())
                };
                assert_eq!(value(&summary), value(&detail), "{folder}: {key}");
            }
        }
        let server = log("server-valid/mlperf_log_detail.txt");
        assert_eq!((server.requests_per_s, server.tokens_per_s), (Some(404.317), Some(2024.75)));
        let (_, ttft) = &server.stats[0];
        assert_eq!(ttft.p99, Some(15.320_277));
        assert_eq!(server.version.as_deref(), Some("6.0.17 @ d6147c7eb7"));
        assert!(read("MLPerf").is_none());
    }

    #[test]
    fn the_summary_of_an_older_loadgen_has_the_same_numbers() {
        let newer = text("server-valid/mlperf_log_summary.txt");
        let older = newer.replace("Time per Output Token", "Time to Output Token");
        assert_ne!(older, newer);
        assert_eq!(format!("{:?}", numbers_of(&older).stats), format!("{:?}", numbers_of(&newer).stats));
    }

    #[test]
    fn an_accuracy_run_has_no_numbers() {
        for name in ["server-accuracy", "offline-accuracy"]
            .into_iter()
            .flat_map(|folder| LOG_FILES.map(|file| format!("{folder}/{file}")))
        {
            assert!(matches!(read(text(&name).trim()), Some(ReadLog::Accuracy)), "{name}");
        }
        let warned = "2 warnings encountered. See detailed log.\n\n1 ERROR encountered. See detailed log.\n";
        assert!(matches!(read(warned), Some(ReadLog::Accuracy)));
        assert!(read("").is_none());
    }
}
