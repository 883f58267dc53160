//! The JSON object that `vllm bench serve --save-detailed` leaves.

use crate::interop::metrics::{
    ChunkFilter, DeviationRule, MeasuredRun, MetricConcept, MissingMetric, RequestTrace, Tool,
};
use crate::interop::results::exported::{Exported, facts, ok, spread};
use crate::interop::results::identity;
use crate::spec::Arrivals;
use serde_json::{Map, Value, json};

const TOOL: Tool = Tool::Vllm;

pub(in crate::interop) fn write(measured_run: &MeasuredRun, out: &mut Exported) {
    let facts = facts(measured_run);
    let mut all = Map::new();
    let mut put = |name: &str, value: Value| all.insert(name.to_owned(), value);
    put("date", json!(facts.started()));
    put("backend", json!("regatta"));
    put(
        "label",
        json!(format!("regatta {}, in the shape of vLLM and with its definitions", env!("CARGO_PKG_VERSION"))),
    );
    // As its `--metadata KEY=VALUE` puts texts here.
    for (name, value) in identity::entries(measured_run) {
        put(&format!("regatta_{}", name.replace([' ', '-'], "_")), json!(value));
    }
    put("model_id", json!(facts.model()));
    put("num_prompts", json!(measured_run.request_traces.len()));
    put("request_rate", facts.rate().map_or_else(|| json!("inf"), |rate| json!(rate)));
    match facts.result.map(|result| result.requested.arrivals) {
        Some(Arrivals::Poisson) => drop(put("burstiness", json!(1.0))),
        _ => out.without("burstiness: the arrivals were not of the gamma family"),
    }
    let sum = |of: fn(&RequestTrace) -> Option<u32>| ok(measured_run).filter_map(of).map(u64::from).sum::<u64>();
    let (input, output) = (sum(|one| one.input), sum(|one| one.tokens));
    let completed = ok(measured_run).count();
    put("completed", json!(completed));
    put("failed", json!(measured_run.request_traces.len() - completed));
    put("total_input_tokens", json!(input));
    put("total_output_tokens", json!(output));
    if let Some(rate) = TOOL.rate(&measured_run.request_traces).ok().filter(|rate| *rate > 0.0) {
        let duration = completed as f64 / rate;
        put("duration", json!(duration));
        put("request_throughput", json!(rate));
        put("output_throughput", json!(output as f64 / duration));
        put("total_token_throughput", json!((input + output) as f64 / duration));
    }
    for (concept, name) in [
        (MetricConcept::Ttft, "ttft"),
        (MetricConcept::Tpot, "tpot"),
        (MetricConcept::Itl, "itl"),
        (MetricConcept::E2e, "e2el"),
    ] {
        let Some(values) = spread(measured_run, TOOL, concept, &format!("*_{name}_ms"), out) else { continue };
        put(&format!("mean_{name}_ms"), json!(values.mean()));
        put(&format!("median_{name}_ms"), json!(values.at(0.5)));
        put(&format!("std_{name}_ms"), json!(values.deviation(DeviationRule::Population)));
        for (p, at) in [("p50", 0.5), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99)] {
            put(&format!("{p}_{name}_ms"), json!(values.at(at)));
        }
    }
    details(measured_run, &mut all, out);
    out.without("generated_texts: a run keeps no contents");
    out.without("tokenizer_id, max_concurrency, max_output_tokens_per_s, max_concurrent_requests: not known as vLLM counts them");
    out.json("vllm_bench.json", &Value::Object(all));
}

/// One value for each request that was issued, seconds.
fn details(measured_run: &MeasuredRun, all: &mut Map<String, Value>, out: &mut Exported) {
    let first = |one: &RequestTrace| one.first(ChunkFilter::Token).map_or(0.0, |chunk| (chunk.at - one.issue) / 1e3);
    let last = |one: &RequestTrace| one.last(ChunkFilter::Token).map_or(0.0, |chunk| (chunk.at - one.issue) / 1e3);
    let each =
        |value: &dyn Fn(&RequestTrace) -> Value| measured_run.request_traces.iter().map(value).collect::<Value>();
    all.insert("input_lens".to_owned(), each(&|one| json!(one.input)));
    all.insert("output_lens".to_owned(), each(&|one| json!(if one.ok { one.tokens } else { Some(0) })));
    all.insert("ttfts".to_owned(), each(&|one| json!(first(one))));
    all.insert("latencies".to_owned(), each(&|one| json!(last(one))));
    all.insert("start_times".to_owned(), each(&|one| json!(one.issue / 1e3)));
    all.insert("errors".to_owned(), each(&|one| json!(one.error.as_deref().unwrap_or(""))));
    let gaps: Option<Vec<Vec<f64>>> = measured_run
        .request_traces
        .iter()
        .map(|one| Some(one.gaps(ChunkFilter::Token)?.into_iter().map(|gap| gap.0 / 1e3).collect()))
        .collect();
    match gaps {
        Some(gaps) => drop(all.insert("itls".to_owned(), json!(gaps))),
        None => out.without(format!("itls: {}", MissingMetric::Timelines.reason())),
    }
}
