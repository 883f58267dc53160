//! GuideLLM's `benchmarks.json`: its numbers, and its requests one by one.

use serde_json::{Map, Value, json};

use crate::metrics::{ChunkKind, MetricConcept, MetricStats, RequestTrace, Tool, TracedChunk, TracedChunks};
use crate::results::imported::{ImportedNumbers, ImportedRequests, StatsLayout, at, put, text_at};

/// The benchmarks of the file; a sweep has several, each a run of its own.
pub(crate) fn runs(value: &Value) -> Vec<(ImportedNumbers, Option<ImportedRequests>)> {
    let benchmarks = value.get("benchmarks").and_then(Value::as_array).into_iter().flatten();
    benchmarks.map(|benchmark| (import_numbers(value, benchmark), requests(value, benchmark))).collect()
}

fn import_numbers(value: &Value, benchmark: &Value) -> ImportedNumbers {
    let metrics = benchmark.get("metrics").unwrap_or(&Value::Null);
    let layout = StatsLayout {
        value: metrics,
        factor: 1.0,
        n: "successful/count",
        mean: "successful/mean",
        percentile: "successful/percentiles/p#",
    };
    let read = |metric: &str, factor: f64| {
        let ms = |name: &str| at(metrics, &format!("{metric}/successful/{name}")).map(|number| number * factor);
        MetricStats { min: ms("min"), max: ms("max"), ..StatsLayout { factor, ..layout }.read(metric) }
    };
    let mut requested = Map::new();
    let spec = value.pointer("/config/spec");
    put(&mut requested, "model", spec.and_then(|it| it.pointer("/backend/model")).cloned());
    put(&mut requested, "endpoints", spec.and_then(|it| it.pointer("/backend/target")).map(|url| json!([url])));
    let strategy = text_at(benchmark, "/config/strategy/type_");
    let streams = match strategy.as_deref() {
        Some("synchronous") => Some(json!(1)),
        // As many at once as may be; without a limit all.
        Some("throughput") => benchmark.pointer("/config/strategy/max_concurrency").cloned(),
        _ => benchmark.pointer("/config/strategy/streams").cloned(),
    };
    let is_unlimited = strategy.as_deref() == Some("throughput") && streams.as_ref().is_none_or(Value::is_null);
    let rate = benchmark.pointer("/config/strategy/rate").cloned();
    put(&mut requested, "strategy", strategy.map(Value::from));
    put(&mut requested, "concurrency", streams);
    put(&mut requested, "request_rate", if is_unlimited { Some(json!("inf")) } else { rate });
    for (key, place) in [
        ("endpoint_type", "/backend/request_format"),
        ("input_tokens", "/data/0/prompt_tokens"),
        ("output_tokens", "/data/0/output_tokens"),
    ] {
        put(&mut requested, key, spec.and_then(|it| it.pointer(place)).cloned());
    }
    ImportedNumbers {
        tool: Some(Tool::GuideLlm),
        format: "GuideLLM benchmarks.json",
        version: text_at(value, "/metadata/guidellm_version"),
        requested,
        ok: at(metrics, "/request_totals/successful"),
        failed: at(metrics, "/request_totals/errored"),
        input_tokens: at(metrics, "/prompt_token_count/successful/total_sum"),
        output_tokens: at(metrics, "/output_token_count/successful/total_sum"),
        window_s: at(benchmark, "/duration"),
        requests_per_s: at(metrics, "/requests_per_second/successful/mean"),
        tokens_per_s: at(metrics, "/output_tokens_per_second/successful/mean"),
        stats: vec![
            (MetricConcept::Ttft, read("/time_to_first_token_ms", 1.0)),
            (MetricConcept::Tpot, read("/time_per_output_token_ms", 1.0)),
            (MetricConcept::Itl, read("/inter_token_latency_ms", 1.0)),
            (MetricConcept::E2e, read("/request_latency", 1e3)),
        ],
        ..ImportedNumbers::default()
    }
}

/// GuideLLM's requests, with the times when they should have started.
fn requests(value: &Value, benchmark: &Value) -> Option<ImportedRequests> {
    let requests = benchmark.get("requests")?;
    let of = |kind: &str| requests.get(kind).and_then(Value::as_array).cloned().unwrap_or_default();
    let (good, bad) = (of("successful"), of("errored"));
    let time = |one: &Value, name: &str| at(one, &format!("/info/timings/{name}"));
    let all = || good.iter().map(|one| (one, true)).chain(bad.iter().map(|one| (one, false)));
    let origin = all().filter_map(|(one, _)| time(one, "request_start")).fold(f64::INFINITY, f64::min);
    let seen: Vec<RequestTrace> = all()
        .enumerate()
        .filter_map(|(index, (one, ok))| {
            let ms = |name: &str| time(one, name).map(|at| (at - origin) * 1e3);
            let issue = ms("request_start")?;
            let tokens = at(one, "/output_metrics/total_tokens")
                .or_else(|| at(one, "/output_metrics/text_tokens"))
                .map(|tokens| tokens as u32);
            let chunk = |at| TracedChunk { at, tokens: 1, kind: ChunkKind::Token };
            let count = time(one, "token_iterations").unwrap_or(0.0) as u32;
            let chunks = match (ms("first_token_iteration"), ms("last_token_iteration")) {
                (Some(first), Some(last)) => TracedChunks::Ends { first: chunk(first), last: chunk(last), count },
                _ => TracedChunks::Every(Vec::new()),
            };
            Some(RequestTrace {
                index: index as u64,
                ok,
                sched: ms("targeted_start"),
                issue,
                end: ms("request_end").unwrap_or(issue),
                input: at(one, "/input_metrics/total_tokens").map(|tokens| tokens as u32),
                input_server: None,
                tokens,
                retokenized: None,
                chunks,
                error: (!ok).then(|| text_at(one, "/info/error").unwrap_or_else(|| "errored".to_owned())),
            })
        })
        .collect();
    (!seen.is_empty()).then(|| ImportedRequests {
        tool: Tool::GuideLlm,
        format: "GuideLLM benchmarks.json",
        version: text_at(value, "/metadata/guidellm_version"),
        requested: Map::new(),
        counted: None,
        request_traces: seen,
    })
}
