//! Files with a tool's own numbers.

use serde_json::{Map, Value, json};

use super::{MetricConcept, Numbers, Partly, SERVER, Tool, at, text_at};

/// Where a file keeps the numbers of a metric: places under it, and what makes ms of them.
struct Layout<'a> {
    value: &'a Value,
    factor: f64,
    n: &'a str,
    mean: &'a str,
    percentile: &'a str,
}

impl Layout<'_> {
    fn read(&self, metric: &str) -> Partly {
        let get = |name: &str| at(self.value, &format!("{metric}/{name}"));
        let ms = |name: &str| get(name).map(|number| number * self.factor);
        let percentile = |p: &str| ms(&self.percentile.replace('#', p));
        Partly {
            n: get(self.n),
            mean: ms(self.mean),
            p50: percentile("50"),
            p90: percentile("90"),
            p95: percentile("95"),
            p99: percentile("99"),
            min: ms("min"),
            max: ms("max"),
        }
    }
}

/// GenAI-Perf and AIPerf, which uses the same format.
pub(super) fn genai_perf(value: &Value) -> Numbers {
    let is_aiperf = value.get("schema_version").is_some() || value.get("aiperf_version").is_some();
    let (tool, format) = if is_aiperf {
        (Tool::AiPerf, "AIPerf profile_export_aiperf.json")
    } else {
        (Tool::GenAiPerf, "GenAI-Perf profile_export_genai_perf.json")
    };
    let layout = Layout { value, factor: 1.0, n: "count", mean: "avg", percentile: "p#" };
    let mut asked = Map::new();
    let model =
        text_at(value, "/input_config/model_names/0").or_else(|| text_at(value, "/input_config/models/items/0/name"));
    let url = text_at(value, "/input_config/endpoint/url").or_else(|| text_at(value, "/input_config/endpoint/urls/0"));
    let stimulus = value.pointer("/input_config/perf_analyzer/stimulus");
    let phase = value.pointer("/input_config/phases").and_then(Value::as_array).and_then(|all| all.last());
    put(&mut asked, "model", model.map(Value::from));
    put(&mut asked, "endpoints", url.map(|url| json!([url])));
    for key in ["concurrency", "request_rate"] {
        put(&mut asked, key, stimulus.and_then(|it| it.get(key)).or_else(|| phase.and_then(|it| it.get(key))).cloned());
    }
    let ok = at(value, "/request_count/avg");
    let requests_per_s = at(value, "/request_throughput/avg");
    let output_tokens = at(value, "/total_osl/avg")
        .or_else(|| at(value, "/output_sequence_length/avg").zip(ok).map(|(mean, n)| mean * n));
    let input_tokens = at(value, "/total_isl/avg")
        .or_else(|| at(value, "/input_sequence_length/avg").zip(ok).map(|(mean, n)| mean * n));
    Numbers {
        tool: Some(tool),
        format,
        version: text_at(value, "/aiperf_version"),
        asked,
        ok,
        failed: at(value, "/error_request_count/avg"),
        input_tokens,
        output_tokens,
        window_s: at(value, "/benchmark_duration/avg"),
        requests_per_s,
        tokens_per_s: at(value, "/output_token_throughput/avg"),
        counted: (is_aiperf && has_server_counts(value)).then_some(SERVER),
        more: Vec::new(),
        stats: vec![
            (MetricConcept::Ttft, layout.read("/time_to_first_token")),
            (MetricConcept::Itl, layout.read("/inter_token_latency")),
            (MetricConcept::E2e, layout.read("/request_latency")),
        ],
    }
}

/// AIPerf's `--use-server-token-count`: its sequence lengths are then those of the server's usage.
fn has_server_counts(value: &Value) -> bool {
    value.pointer("/input_config/endpoint/use_server_token_count").and_then(Value::as_bool).unwrap_or(false)
}

/// vLLM's object, and SGLang's, which has other names for the whole answer.
pub(super) fn vllm(value: &Value) -> Numbers {
    let is_sglang = value.get("mean_e2e_latency_ms").is_some();
    let (tool, format, e2e) = if is_sglang {
        let native = matches!(text_at(value, "/backend").as_deref(), Some("sglang" | "sglang-native"));
        let tool = if native { Tool::SglangNative } else { Tool::SglangChat };
        (tool, "SGLang bench_serving JSON", "e2e_latency")
    } else {
        (Tool::Vllm, "vLLM bench serve JSON", "e2el")
    };
    let completed = at(value, "/completed");
    let stat = |name: &str| Partly {
        n: None,
        mean: at(value, &format!("/mean_{name}_ms")),
        p50: at(value, &format!("/median_{name}_ms")),
        p90: at(value, &format!("/p90_{name}_ms")),
        p95: at(value, &format!("/p95_{name}_ms")),
        p99: at(value, &format!("/p99_{name}_ms")),
        min: None,
        max: None,
    };
    let mut asked = Map::new();
    for (key, place) in [
        ("model", "/model_id"),
        ("request_rate", "/request_rate"),
        ("burstiness", "/burstiness"),
        ("concurrency", "/max_concurrency"),
        ("requests", "/num_prompts"),
    ] {
        put(&mut asked, key, value.pointer(place).cloned());
    }
    Numbers {
        tool: Some(tool),
        format,
        version: None,
        asked,
        ok: completed,
        failed: at(value, "/failed"),
        input_tokens: at(value, "/total_input_tokens"),
        output_tokens: at(value, "/total_output_tokens"),
        window_s: at(value, "/duration"),
        requests_per_s: at(value, "/request_throughput"),
        tokens_per_s: at(value, "/output_throughput"),
        counted: None,
        more: Vec::new(),
        stats: vec![
            (MetricConcept::Ttft, Partly { n: completed, ..stat("ttft") }),
            (MetricConcept::Tpot, stat("tpot")),
            (MetricConcept::Itl, stat("itl")),
            (MetricConcept::E2e, Partly { n: completed, ..stat(e2e) }),
        ],
    }
}

/// The first benchmark of the file; a sweep has several, each a run of its own.
pub(super) fn guidellm(value: &Value) -> Numbers {
    let first = value.pointer("/benchmarks/0").unwrap_or(&Value::Null);
    let metrics = first.get("metrics").unwrap_or(&Value::Null);
    let layout = Layout {
        value: metrics,
        factor: 1.0,
        n: "successful/count",
        mean: "successful/mean",
        percentile: "successful/percentiles/p#",
    };
    let read = |metric: &str, factor: f64| {
        let ms = |name: &str| at(metrics, &format!("{metric}/successful/{name}")).map(|number| number * factor);
        Partly { min: ms("min"), max: ms("max"), ..Layout { factor, ..layout }.read(metric) }
    };
    let mut asked = Map::new();
    let spec = value.pointer("/config/spec");
    put(&mut asked, "model", spec.and_then(|it| it.pointer("/backend/model")).cloned());
    put(&mut asked, "endpoints", spec.and_then(|it| it.pointer("/backend/target")).map(|url| json!([url])));
    put(&mut asked, "strategy", first.pointer("/config/strategy/type_").cloned());
    put(&mut asked, "concurrency", first.pointer("/config/strategy/streams").cloned());
    put(&mut asked, "request_rate", first.pointer("/config/strategy/rate").cloned());
    Numbers {
        tool: Some(Tool::GuideLlm),
        format: "GuideLLM benchmarks.json",
        version: text_at(value, "/metadata/guidellm_version"),
        asked,
        ok: at(metrics, "/request_totals/successful"),
        failed: at(metrics, "/request_totals/errored"),
        input_tokens: at(metrics, "/prompt_token_count/successful/total_sum"),
        output_tokens: at(metrics, "/output_token_count/successful/total_sum"),
        window_s: at(first, "/duration"),
        requests_per_s: at(metrics, "/requests_per_second/successful/mean"),
        tokens_per_s: at(metrics, "/output_tokens_per_second/successful/mean"),
        counted: None,
        more: Vec::new(),
        stats: vec![
            (MetricConcept::Ttft, read("/time_to_first_token_ms", 1.0)),
            (MetricConcept::Tpot, read("/time_per_output_token_ms", 1.0)),
            (MetricConcept::Itl, read("/inter_token_latency_ms", 1.0)),
            (MetricConcept::E2e, read("/request_latency", 1e3)),
        ],
    }
}

/// The neutral format; its numbers mean what the tool named in it means.
pub(super) fn benchmark_report(value: &Value) -> Numbers {
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
        Layout { value: aggregate, factor, n: "count", mean: "mean", percentile: "p#" }.read(&place)
    };
    let mut asked = Map::new();
    put(&mut asked, "request_rate", load.get("rate_qps").cloned());
    put(&mut asked, "concurrency", load.get("concurrency").cloned());
    put(&mut asked, "input_seq_len", load.get("input_seq_len").cloned());
    put(&mut asked, "output_seq_len", load.get("output_seq_len").cloned());
    let total = at(aggregate, "/requests/total");
    let failed = at(aggregate, "/requests/failures");
    let ok = total.map(|total| total - failed.unwrap_or(0.0));
    Numbers {
        tool,
        format: "Benchmark Report",
        version: text_at(load, "/tool_version"),
        asked,
        ok,
        failed,
        input_tokens: at(aggregate, "/requests/input_length/mean").zip(ok).map(|(mean, n)| mean * n),
        output_tokens: at(aggregate, "/requests/output_length/mean").zip(ok).map(|(mean, n)| mean * n),
        window_s: None,
        requests_per_s: at(aggregate, "/throughput/request_rate/mean"),
        tokens_per_s: at(aggregate, "/throughput/output_token_rate/mean"),
        counted: None,
        more: Vec::new(),
        stats: vec![
            (MetricConcept::Ttft, read("time_to_first_token")),
            (MetricConcept::Tpot, read("time_per_output_token")),
            (MetricConcept::Itl, read("inter_token_latency")),
            (MetricConcept::E2e, read("request_latency")),
        ],
    }
}

fn put(map: &mut Map<String, Value>, key: &str, value: Option<Value>) {
    if let Some(value) = value.filter(|value| !value.is_null()) {
        map.insert(key.to_owned(), value);
    }
}
