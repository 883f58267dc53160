//! `profile_export_genai_perf.json`, and AIPerf's `profile_export_aiperf.json`, which has the same format.

use serde_json::{Map, Value, json};

use crate::metrics::{MetricConcept, Tool};
use crate::results::imported::{ImportedNumbers, SERVER, StatsLayout, at, put, text_at};

/// GenAI-Perf and AIPerf, which uses the same format.
pub(crate) fn import_numbers(value: &Value) -> ImportedNumbers {
    let is_aiperf = value.get("schema_version").is_some() || value.get("aiperf_version").is_some();
    let (tool, format) = if is_aiperf {
        (Tool::AiPerf, "AIPerf profile_export_aiperf.json")
    } else {
        (Tool::GenAiPerf, "GenAI-Perf profile_export_genai_perf.json")
    };
    let layout = StatsLayout { value, factor: 1.0, n: "count", mean: "avg", percentile: "p#" };
    let mut requested = Map::new();
    let model =
        text_at(value, "/input_config/model_names/0").or_else(|| text_at(value, "/input_config/models/items/0/name"));
    let url = text_at(value, "/input_config/endpoint/url").or_else(|| text_at(value, "/input_config/endpoint/urls/0"));
    let stimulus = value.pointer("/input_config/perf_analyzer/stimulus");
    let phase = value.pointer("/input_config/phases").and_then(Value::as_array).and_then(|all| all.last());
    put(&mut requested, "model", model.map(Value::from));
    put(&mut requested, "endpoints", url.map(|url| json!([url])));
    // A phase of AIPerf has its rate as `rate`.
    for (key, of_phase) in
        [("concurrency", "concurrency"), ("session_concurrency", "session_concurrency"), ("request_rate", "rate")]
    {
        let phase = || phase.and_then(|it| it.get(key).or_else(|| it.get(of_phase)));
        put(&mut requested, key, stimulus.and_then(|it| it.get(key)).or_else(phase).cloned());
    }
    for (key, place) in [
        ("backend", "/input_config/endpoint/backend"),
        ("endpoint_type", "/input_config/endpoint/type"),
        ("streaming", "/input_config/endpoint/streaming"),
        ("input_tokens", "/input_config/input/synthetic_tokens/mean"),
        ("input_tokens", "/input_config/datasets/0/prompts/isl/mean"),
        ("output_tokens", "/input_config/input/output_tokens/mean"),
        ("output_tokens", "/input_config/datasets/0/prompts/osl/mean"),
    ] {
        // A mean of -1 is that of no request.
        let stated = value.pointer(place).filter(|stated| stated.as_f64().is_none_or(|number| number > 0.0));
        put(&mut requested, key, stated.cloned());
    }
    let ok = at(value, "/request_count/avg");
    let requests_per_s = at(value, "/request_throughput/avg");
    let output_tokens = at(value, "/total_osl/avg")
        .or_else(|| at(value, "/output_sequence_length/avg").zip(ok).map(|(mean, n)| mean * n));
    let input_tokens = at(value, "/total_isl/avg")
        .or_else(|| at(value, "/input_sequence_length/avg").zip(ok).map(|(mean, n)| mean * n));
    ImportedNumbers {
        tool: Some(tool),
        format,
        version: text_at(value, "/aiperf_version"),
        requested,
        ok,
        failed: at(value, "/error_request_count/avg"),
        input_tokens,
        output_tokens,
        window_s: at(value, "/benchmark_duration/avg"),
        requests_per_s,
        tokens_per_s: at(value, "/output_token_throughput/avg"),
        counted: (is_aiperf && has_server_counts(value)).then_some(SERVER),
        stats: vec![
            (MetricConcept::Ttft, layout.read("/time_to_first_token")),
            (MetricConcept::Itl, layout.read("/inter_token_latency")),
            (MetricConcept::E2e, layout.read("/request_latency")),
        ],
        ..ImportedNumbers::default()
    }
}

/// AIPerf's `--use-server-token-count`: its sequence lengths are then those of the server's usage.
fn has_server_counts(value: &Value) -> bool {
    value.pointer("/input_config/endpoint/use_server_token_count").and_then(Value::as_bool).unwrap_or(false)
}
