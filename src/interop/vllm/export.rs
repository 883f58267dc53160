//! The JSON object that `vllm bench serve --save-detailed` leaves.

use crate::command_line::json_number::number;
use crate::metrics::{ChunkFilter, DeviationRule, MeasuredRun, MetricConcept, MissingMetric, RequestTrace, Tool};
use crate::results::exported::{Exported, facts, ok, output_tokens, spread};
use crate::results::identity;
use base::spec::Arrivals;
use harness::{LoadLevel, LoadPattern, RunResult};
use serde_json::{Map, Value, json};

const TOOL: Tool = Tool::Vllm;

pub(crate) fn write(measured_run: &MeasuredRun, out: &mut Exported) {
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
    match facts.model() {
        Some(model) => drop(put("model_id", json!(model))),
        None => out.without("model_id: the result has no name of the model"),
    }
    put("num_prompts", json!(measured_run.request_traces.len()));
    match facts.result.map_or(Ok(json!("inf")), request_rate) {
        Ok(rate) => drop(put("request_rate", rate)),
        Err(why) => out.without(format!("request_rate: {why}")),
    }
    match facts.result.map_or(Err("the load is not known"), burstiness) {
        Ok(burstiness) => drop(put("burstiness", json!(burstiness))),
        Err(why) => out.without(format!("burstiness: {why}")),
    }
    match facts.users() {
        Some(users) => drop(put("max_concurrency", number(users))),
        None => out.without("max_concurrency: a result has no limit on requests in flight beside another load"),
    }
    let input: u64 = ok(measured_run).filter_map(input_length).map(u64::from).sum();
    let output =
        output_tokens(measured_run, TOOL, "total_output_tokens, output_throughput, total_token_throughput", out);
    let output = output.map(|output| output.sum() as u64);
    let completed = ok(measured_run).count();
    put("completed", json!(completed));
    put("failed", json!(measured_run.request_traces.len() - completed));
    put("total_input_tokens", json!(input));
    if let Some(output) = output {
        put("total_output_tokens", json!(output));
    }
    if let Some(rate) = TOOL.rate(&measured_run.request_traces).ok().filter(|rate| *rate > 0.0) {
        let duration = completed as f64 / rate;
        put("duration", json!(duration));
        put("request_throughput", json!(rate));
        if let Some(output) = output {
            put("output_throughput", json!(output as f64 / duration));
            put("total_token_throughput", json!((input + output) as f64 / duration));
        }
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
    out.without("tokenizer_id, max_output_tokens_per_s, max_concurrent_requests: not known as vLLM counts them");
    out.json("vllm_bench.json", &Value::Object(all));
}

/// Of the server's `usage` where it sends one, as vLLM 0.33.0 has it (`output.prompt_len` in
/// vllm/benchmarks/lib/endpoint_request_func.py).
fn input_length(one: &RequestTrace) -> Option<u32> {
    one.input_server.or(one.input)
}

/// In requests per second. `inf`: no request waits for its time, as vLLM has it also with a limit on requests in flight.
fn request_rate(result: &RunResult) -> Result<Value, &'static str> {
    match &result.requested.scenario {
        LoadPattern::Server { rate: LoadLevel::Fixed(rate) } => Ok(json!(rate)),
        other if other.is_open_loop() => Err("the arrivals were not at one rate"),
        _ => Ok(json!("inf")),
    }
}

/// The shape of the gamma law that gaps between arrivals follow: 1/cv².
fn burstiness(result: &RunResult) -> Result<f64, &'static str> {
    match (&result.requested.scenario, result.requested.arrivals) {
        (LoadPattern::Server { .. }, Arrivals::Poisson) => Ok(1.0),
        (LoadPattern::Server { .. }, Arrivals::Gamma { cv }) => Ok(1.0 / (cv * cv)),
        (LoadPattern::Server { .. }, Arrivals::Constant) => Err("the arrivals were not of the gamma family"),
        _ => Err("the load was not one of arrivals at a rate, whose gaps have a law"),
    }
}

/// One value for each request that was issued, seconds.
fn details(measured_run: &MeasuredRun, all: &mut Map<String, Value>, out: &mut Exported) {
    let first = |one: &RequestTrace| one.first(ChunkFilter::Token).map_or(0.0, |chunk| (chunk.at - one.issue) / 1e3);
    let last = |one: &RequestTrace| one.last(ChunkFilter::Token).map_or(0.0, |chunk| (chunk.at - one.issue) / 1e3);
    let each =
        |value: &dyn Fn(&RequestTrace) -> Value| measured_run.request_traces.iter().map(value).collect::<Value>();
    all.insert("input_lens".to_owned(), each(&|one| json!(input_length(one))));
    all.insert("output_lens".to_owned(), each(&|one| json!(if one.ok { TOOL.output_tokens(one) } else { Some(0) })));
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

#[cfg(test)]
mod tests {
    use super::*;

    /// vLLM draws gaps from a gamma law whose shape it calls burstiness: their coefficient of variation is 1/√shape.
    #[test]
    fn burstiness_is_the_shape_of_the_law_that_arrivals_follow() {
        let text = include_str!("../../../tests/golden/results/benchmark/result.json");
        let mut result: RunResult = serde_json::from_str(text).unwrap();
        let fixed = LoadPattern::Server { rate: LoadLevel::Fixed(4.0) };
        let users = LoadPattern::Concurrency { users: LoadLevel::Fixed(4.0) };
        let trace = LoadPattern::Trace { speed: 1.0 };
        let (poisson, gamma) = (Arrivals::Poisson, Arrivals::Gamma { cv: 2.0 });
        let inf = Ok(json!("inf"));
        for (scenario, arrivals, shape, rate) in [
            (&fixed, poisson, Some(1.0), Ok(json!(4.0))),
            (&fixed, gamma, Some(0.25), Ok(json!(4.0))),
            (&fixed, Arrivals::Constant, None, Ok(json!(4.0))),
            // These have no law, and `arrivals` has its default.
            (&users, poisson, None, inf.clone()),
            (&LoadPattern::Offline, poisson, None, inf),
            (&trace, poisson, None, Err("the arrivals were not at one rate")),
        ] {
            (result.requested.scenario, result.requested.arrivals) = (scenario.clone(), arrivals);
            assert_eq!((burstiness(&result).ok(), request_rate(&result)), (shape, rate), "{scenario:?} {arrivals:?}");
        }
    }
}
