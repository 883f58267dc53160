//! The numbers of a Benchmark Report, with the definitions of the tool that it names.

use serde_json::{Map, Value};

use crate::metrics::{MetricConcept, Tool};
use crate::results::imported::{ImportedNumbers, StatsLayout, at, put, text_at};

/// The neutral format; its numbers mean what the tool named in it means.
pub(crate) fn import_numbers(value: &Value) -> ImportedNumbers {
    let load = value.pointer("/scenario/load/standardized").unwrap_or(&Value::Null);
    let aggregate = value.pointer("/results/request_performance/aggregate").unwrap_or(&Value::Null);
    let tool = match text_at(load, "/tool").unwrap_or_default().to_lowercase().as_str() {
        // Regatta's own export has inference-perf's definitions, and states so.
        "regatta" | "inference-perf" => Some(Tool::InferencePerf),
        "vllm" | "vllm-benchmark" | "inferencemax" => Some(Tool::Vllm),
        "guidellm" => Some(Tool::GuideLlm),
        "aiperf" => Some(Tool::AiPerf),
        _ => None,
    };
    let read = |metric: &str| {
        let place = format!("/latency/{metric}");
        let in_seconds = text_at(aggregate, &format!("{place}/units")).is_some_and(|units| units.starts_with('s'));
        let factor = if in_seconds { 1e3 } else { 1.0 };
        StatsLayout { value: aggregate, factor, n: "count", mean: "mean", percentile: "p#" }.read(&place)
    };
    let mut requested = Map::new();
    put(&mut requested, "model", value.pointer("/scenario/stack/0/standardized/model/name").cloned());
    put(&mut requested, "request_rate", load.get("rate_qps").cloned());
    put(&mut requested, "concurrency", load.get("concurrency").cloned());
    put(&mut requested, "input_seq_len", load.get("input_seq_len").cloned());
    put(&mut requested, "output_seq_len", load.get("output_seq_len").cloned());
    let total = at(aggregate, "/requests/total");
    let failed = at(aggregate, "/requests/failures");
    let ok = total.map(|total| total - failed.unwrap_or(0.0));
    ImportedNumbers {
        tool,
        format: "Benchmark Report",
        version: text_at(load, "/tool_version"),
        requested,
        ok,
        failed,
        input_tokens: at(aggregate, "/requests/input_length/mean").zip(ok).map(|(mean, n)| mean * n),
        output_tokens: at(aggregate, "/requests/output_length/mean").zip(ok).map(|(mean, n)| mean * n),
        requests_per_s: at(aggregate, "/throughput/request_rate/mean"),
        tokens_per_s: at(aggregate, "/throughput/output_token_rate/mean"),
        stats: vec![
            (MetricConcept::Ttft, read("time_to_first_token")),
            (MetricConcept::Tpot, read("time_per_output_token")),
            (MetricConcept::Itl, read("inter_token_latency")),
            (MetricConcept::E2e, read("request_latency")),
        ],
        ..ImportedNumbers::default()
    }
}
