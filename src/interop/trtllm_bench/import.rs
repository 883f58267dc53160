//! trtllm-bench: its report, and what it prints under `PERFORMANCE OVERVIEW`.

use serde_json::{Map, Value, json};

use crate::metrics::{MetricConcept, MetricStats, Tool};
use crate::results::imported::{ImportedNumbers, at, text_at};

/// Where its result begins in what it prints.
pub(crate) const OVERVIEW: &str = "= PERFORMANCE OVERVIEW";

/// The file of `--report_json`.
pub(crate) fn report(value: &Value) -> ImportedNumbers {
    let spread = |place: &str| {
        let get = |name: &str| at(value, &format!("{place}/{name}"));
        MetricStats {
            n: at(value, "/request_info/num_requests").map_or(0, |n| n as u64),
            mean: get("average"),
            p50: get("p50"),
            p90: get("p90"),
            p95: get("p95"),
            p99: get("p99"),
            min: get("minimum"),
            max: get("maximum"),
        }
    };
    let mut requested = Map::new();
    for (key, place) in [
        ("model", "/engine/model"),
        ("backend", "/engine/backend"),
        ("quantization", "/engine/quantization"),
        ("gpu", "/machine/name"),
        ("tp", "/world_info/tp_size"),
        ("pp", "/world_info/pp_size"),
        ("ep", "/world_info/ep_size"),
        ("max_batch_size", "/world_info/max_batch_size"),
        ("max_num_tokens", "/world_info/max_num_tokens"),
        ("kv_cache_free_gpu_mem_fraction", "/world_info/kv_cache_percentage"),
    ] {
        if let Some(found) = value.pointer(place).filter(|found| !found.is_null()) {
            requested.insert(key.to_owned(), found.clone());
        }
    }
    let n = at(value, "/request_info/num_requests");
    let tokens = |place: &str| at(value, place).zip(n).map(|(mean, n)| (mean * n).round());
    let rate = |name: &str| at(value, &format!("/performance/{name}"));
    ImportedNumbers {
        tool: Some(Tool::TrtllmBench),
        format: "trtllm-bench report JSON",
        version: text_at(value, "/engine/version"),
        requested,
        ok: n,
        in_flight: at(value, "/request_info/avg_num_concurrent_requests"),
        input_tokens: tokens("/request_info/avg_input_length"),
        output_tokens: tokens("/request_info/avg_output_length"),
        window_s: rate("total_latency_ms").map(|ms| ms / 1e3),
        requests_per_s: rate("request_throughput_req_s"),
        tokens_per_s: rate("system_output_throughput_tok_s"),
        extra_rates: vec![
            ("total_tokens", rate("system_total_throughput_tok_s")),
            ("output_tokens_per_gpu", rate("output_throughput_per_gpu_tok_s")),
            ("output_tokens_per_user", rate("output_throughput_per_user_tok_s")),
            ("output_speed_per_user", at(value, "/streaming_metrics/token_output_speed_tok_s")),
        ],
        stats: vec![
            (MetricConcept::Ttft, spread("/streaming_metrics/ttft_percentiles")),
            (MetricConcept::Tpot, spread("/streaming_metrics/tpot_percentiles")),
            (MetricConcept::E2e, spread("/performance/request_latency_percentiles_ms")),
        ],
        ..ImportedNumbers::default()
    }
}

/// Each overview in what it printed, with anything before and after it. Lines may begin with the logger's prefix.
pub(crate) fn overviews(text: &str) -> Vec<ImportedNumbers> {
    // The settings of an overview are above it, behind the numbers of the one before.
    let parts: Vec<&str> = text.split(OVERVIEW).collect();
    parts.windows(2).map(|parts| overview(parts[0], parts[1])).collect()
}

fn overview(above: &str, below: &str) -> ImportedNumbers {
    let value = |label: &str| {
        let line = below.lines().find(|line| line.contains(label))?;
        number(line.get(line.find(label)? + label.len()..)?)
    };
    let info = |label: &str| {
        let line = above.lines().rfind(|line| line.contains(label))?;
        Some(line.get(line.find(label)? + label.len()..)?.trim().to_owned())
            .filter(|text| !["", "None"].contains(&text.as_str()))
    };
    let figure = |label: &str| number(&info(label)?);
    // The labels have changed between versions; what stands before the unit has not.
    let either = |labels: [&str; 2]| labels.iter().find_map(|label| value(label));
    let n = figure("Number of requests:");
    let spread = |tag: &str, mean: Option<f64>| {
        let get = |name: &str| {
            let begins = format!("[{tag}] {name}");
            let line = below.lines().find(|line| line.contains(&begins))?;
            number(line.split_once(&begins)?.1.trim_start_matches([' ', ':']))
        };
        MetricStats {
            n: n.map_or(0, |n| n as u64),
            mean: get("AVERAGE").or(mean),
            p50: get("P50"),
            p90: get("P90"),
            p95: get("P95"),
            p99: get("P99"),
            min: get("MINIMUM"),
            max: get("MAXIMUM"),
        }
    };
    let mut requested = Map::new();
    for (key, label) in [("model", "Model:"), ("quantization", "Quantization:")] {
        if let Some(text) = info(label) {
            requested.insert(key.to_owned(), json!(text));
        }
    }
    for (key, label) in [
        ("tp", "TP Size:"),
        ("pp", "PP Size:"),
        ("ep", "EP Size:"),
        ("max_batch_size", "Max Runtime Batch Size:"),
        ("max_num_tokens", "Max Runtime Tokens:"),
    ] {
        if let Some(figure) = figure(label) {
            requested.insert(key.to_owned(), json!(figure));
        }
    }
    let tokens = |label: &str| figure(label).zip(n).map(|(mean, n)| (mean * n).round());
    ImportedNumbers {
        tool: Some(Tool::TrtllmBench),
        format: "trtllm-bench PERFORMANCE OVERVIEW",
        version: info("TensorRT LLM Version:").or_else(|| info("TensorRT-LLM Version:")),
        requested,
        ok: n,
        in_flight: figure("Number of concurrent requests:"),
        input_tokens: tokens("Average Input Length (tokens):"),
        output_tokens: tokens("Average Output Length (tokens):"),
        window_s: value("Total Latency (ms):").map(|ms| ms / 1e3),
        requests_per_s: value("Request Throughput (req/sec):"),
        tokens_per_s: either(["Total Output Throughput (tokens/sec):", "Token Throughput (tokens/sec):"]),
        extra_rates: vec![
            ("total_tokens", value("Total Token Throughput (tokens/sec):")),
            (
                "output_tokens_per_gpu",
                either(["Per GPU Output Throughput (tps/gpu):", "Per GPU Output Throughput (tokens/sec/gpu):"]),
            ),
            (
                "output_tokens_per_user",
                either([
                    "Per User Output Throughput [w/ ctx] (tps/user):",
                    "Per User Output Throughput (tokens/sec/user):",
                ]),
            ),
            (
                "output_speed_per_user",
                either(["Per User Output Speed (tps/user):", "Per User Output Speed [1/TPOT] (tokens/sec/user):"]),
            ),
        ],
        stats: vec![
            (MetricConcept::Ttft, spread("TTFT", value("Average time-to-first-token [TTFT] (ms):"))),
            (MetricConcept::Tpot, spread("TPOT", value("Average time-per-output-token [TPOT] (ms):"))),
            (MetricConcept::E2e, spread("Latency", value("Average request latency (ms):"))),
        ],
        ..ImportedNumbers::default()
    }
}

/// The first field as a number.
fn number(text: &str) -> Option<f64> {
    text.split_whitespace().next()?.parse().ok().filter(|number: &f64| number.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As releases of 2025 print it, with the logger's prefix in front of some lines.
    const PRINTED: &str = "
[08/01/2025-10:00:00] [TRT-LLM] [I] Starting benchmarking async task.
= PERFORMANCE OVERVIEW
Request Throughput (req/sec): 1.0
[08/01/2025-10:10:00] [TRT-LLM] [I]
===========================================================
= PYTORCH BACKEND
===========================================================
Model:\t\t\tLlama3.3-70B
Model Path:\t\t/models/x
TensorRT-LLM Version:\t1.0.0rc1
Quantization:\t\tNVFP4

= WORLD + RUNTIME INFORMATION
TP Size:                2
EP Size:                None
Max Runtime Batch Size: 640

= REQUEST DETAILS
Number of requests:             4000
Number of concurrent requests:  612.5000
Average Input Length (tokens):  1000.0000
Average Output Length (tokens): 1000.5000
= PERFORMANCE OVERVIEW
Request Throughput (req/sec):                     43.2500
Total Output Throughput (tokens/sec):             43271.6250
Total Token Throughput (tokens/sec):              86521.6250
Total Latency (ms):                               92485.5000
Average request latency (ms):                     14000.5000
Per User Output Throughput [w/ ctx] (tps/user):   71.5000
Per GPU Output Throughput (tps/gpu):              21635.8125
Average time-to-first-token [TTFT] (ms):          812.2500
Average time-per-output-token [TPOT] (ms):        13.2000
Per User Output Speed (tps/user):                 75.7500

-- Per-Request Time-per-Output-Token [TPOT] Breakdown (ms)

[TPOT] MINIMUM: 9.0000
[TPOT] MAXIMUM: 15.5000
[TPOT] AVERAGE: 13.2000
[TPOT] P50    : 13.1000
[TPOT] P99    : 15.1000

-- Request Latency Breakdown (ms) -----------------------

[Latency] P50    : 13900.0000
[Latency] P99    : 15900.0000
[Latency] AVERAGE: 14000.5000
";

    #[test]
    fn every_overview_is_read_with_everything_in_it() {
        let [first, numbers]: [ImportedNumbers; 2] = overviews(PRINTED).try_into().ok().expect("two overviews");
        assert_eq!((first.requests_per_s, first.tokens_per_s, first.ok), (Some(1.0), None, None));
        assert_eq!(numbers.in_flight, Some(612.5));
        assert_eq!(
            (numbers.ok, numbers.requests_per_s, numbers.tokens_per_s),
            (Some(4000.0), Some(43.25), Some(43271.625))
        );
        assert_eq!((numbers.input_tokens, numbers.output_tokens), (Some(4_000_000.0), Some(4_002_000.0)));
        assert_eq!(numbers.window_s, Some(92.4855));
        assert_eq!(numbers.version.as_deref(), Some("1.0.0rc1"));
        assert_eq!(
            Value::Object(numbers.requested),
            json!({"model": "Llama3.3-70B", "quantization": "NVFP4", "tp": 2.0, "max_batch_size": 640.0})
        );
        let more: Vec<f64> = numbers.extra_rates.iter().filter_map(|(_, value)| *value).collect();
        assert_eq!(more, [86521.625, 21635.8125, 71.5, 75.75]);
        let tpot = numbers.stats[1].1;
        assert_eq!(
            (tpot.mean, tpot.p50, tpot.p90, tpot.p99, tpot.min, tpot.max),
            (Some(13.2), Some(13.1), None, Some(15.1), Some(9.0), Some(15.5))
        );
        let ttft = numbers.stats[0].1;
        assert_eq!((ttft.mean, ttft.p99, ttft.n), (Some(812.25), None, 4000));
        assert_eq!(numbers.stats[2].1.p50, Some(13900.0));
    }

    #[test]
    fn words_of_other_releases_are_known_and_other_texts_are_none() {
        let older = "Number of requests:\t\t3000\n= PERFORMANCE OVERVIEW \nToken Throughput (tokens/sec):\t5530.7382\nPer GPU Output Throughput (tokens/sec/gpu):       5530.7382\n";
        let overview = |text: &str| overviews(text).pop();
        let none = overview("Quantization:           None\n= PERFORMANCE OVERVIEW\n").expect("an overview");
        assert!(none.requested.is_empty(), "Python's word for nothing is no value: {:?}", none.requested);
        let numbers = overview(older).expect("an overview");
        assert_eq!(numbers.tokens_per_s, Some(5530.7382));
        assert_eq!(numbers.extra_rates[1].1, Some(5530.7382));
        assert!(overview("nothing of the kind").is_none());
    }
}
