//! The JSON object that `vllm bench serve --save-detailed` leaves.

use serde_json::{Map, Value, json};

use super::export::{Exported, identity_entries, model, ok, output_tokens, spread, started, users};
use crate::command_line::number;
use crate::metrics::{ChunkFilter, DeviationRule, MeasuredRun, MetricConcept, MissingMetric, RequestTrace, Tool};
use base::spec::Arrivals;
use harness::{LoadLevel, LoadPattern, RunResult};

const TOOL: Tool = Tool::Vllm;

pub(super) fn write(run: &MeasuredRun, out: &mut Exported) {
    let mut object = Map::new();
    let mut insert = |name: &str, value: Value| drop(object.insert(name.to_owned(), value));
    insert("date", json!(started(run)));
    insert("backend", json!("regatta"));
    insert(
        "label",
        json!(format!("regatta {}, in the shape of vLLM and with its definitions", env!("CARGO_PKG_VERSION"))),
    );
    // vLLM's `--metadata KEY=VALUE` adds texts in the same way.
    for (name, value) in identity_entries(run) {
        insert(&format!("regatta_{}", name.replace([' ', '-'], "_")), json!(value));
    }
    let result = run.result.own();
    let requests = json!(run.request_traces.len());
    let model = model(run).map(|model| json!(model)).ok_or("the result has no name of the model");
    let rate = result.map_or(Ok(json!("inf")), request_rate);
    let burstiness = result.map_or(Err("the load is not known"), burstiness).map(|burstiness| json!(burstiness));
    let users = users(run).map(number).ok_or("a result has no limit on requests in flight beside another load");
    for (name, value) in [
        ("model_id", model),
        ("num_prompts", Ok(requests)),
        ("request_rate", rate),
        ("burstiness", burstiness),
        ("max_concurrency", users),
    ] {
        match value {
            Ok(value) => insert(name, value),
            Err(reason) => out.without(format!("{name}: {reason}")),
        }
    }
    let input: u64 = ok(run).filter_map(input_length).map(u64::from).sum();
    let output = output_tokens(run, TOOL, "total_output_tokens, output_throughput, total_token_throughput", out);
    let output = output.map(|output| output.sum() as u64);
    let completed = ok(run).count();
    insert("completed", json!(completed));
    insert("failed", json!(run.request_traces.len() - completed));
    insert("total_input_tokens", json!(input));
    if let Some(output) = output {
        insert("total_output_tokens", json!(output));
    }
    if let Some(rate) = TOOL.rate(&run.request_traces).ok().filter(|rate| *rate > 0.0) {
        let duration = completed as f64 / rate;
        insert("duration", json!(duration));
        insert("request_throughput", json!(rate));
        if let Some(output) = output {
            insert("output_throughput", json!(output as f64 / duration));
            insert("total_token_throughput", json!((input + output) as f64 / duration));
        }
    }
    for (concept, name) in [
        (MetricConcept::Ttft, "ttft"),
        (MetricConcept::Tpot, "tpot"),
        (MetricConcept::Itl, "itl"),
        (MetricConcept::E2e, "e2el"),
    ] {
        let Some(values) = spread(run, TOOL, concept, &format!("*_{name}_ms"), out) else { continue };
        insert(&format!("mean_{name}_ms"), json!(values.mean()));
        insert(&format!("median_{name}_ms"), json!(values.at(0.5)));
        insert(&format!("std_{name}_ms"), json!(values.deviation(DeviationRule::Population)));
        for (p, at) in [("p50", 0.5), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99)] {
            insert(&format!("{p}_{name}_ms"), json!(values.at(at)));
        }
    }
    put_details(run, &mut object, out);
    out.without("generated_texts: a run keeps no contents");
    out.without("tokenizer_id, max_output_tokens_per_s, max_concurrent_requests: not known as vLLM counts them");
    out.json("vllm_bench.json", &Value::Object(object));
}

/// Prompt tokens from the server's `usage` where it sends one, as in vLLM 0.33.0 (`output.prompt_len` in
/// vllm/benchmarks/lib/endpoint_request_func.py).
fn input_length(trace: &RequestTrace) -> Option<u32> {
    trace.input_server.or(trace.input)
}

/// In requests per second. `inf`: no request waits for its time, as vLLM has it also with a limit on requests in
/// flight.
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
        (LoadPattern::Server { .. }, Arrivals::Poisson | Arrivals::PoissonScaled) => Ok(1.0),
        (LoadPattern::Server { .. }, Arrivals::Gamma { cv }) => Ok(1.0 / (cv * cv)),
        (LoadPattern::Server { .. }, Arrivals::Constant) => Err("the arrivals were not of the gamma family"),
        _ => Err("the load was not one of arrivals at a rate, whose gaps have a law"),
    }
}

/// Adds the arrays with one value for each issued request, in seconds.
fn put_details(run: &MeasuredRun, object: &mut Map<String, Value>, out: &mut Exported) {
    let since_issue = |trace: &RequestTrace, at: Option<f64>| at.map_or(0.0, |at| (at - trace.issue) / 1e3);
    let first = |trace: &RequestTrace| trace.first(ChunkFilter::Token).map(|chunk| chunk.at);
    let last = |trace: &RequestTrace| trace.last(ChunkFilter::Token).map(|chunk| chunk.at);
    let mut insert = |name: &str, value: &dyn Fn(&RequestTrace) -> Value| {
        object.insert(name.to_owned(), run.request_traces.iter().map(value).collect());
    };
    insert("input_lens", &|trace| json!(input_length(trace)));
    insert("output_lens", &|trace| json!(if trace.ok { TOOL.output_tokens(trace) } else { Some(0) }));
    insert("ttfts", &|trace| json!(since_issue(trace, first(trace))));
    insert("latencies", &|trace| json!(since_issue(trace, last(trace))));
    insert("start_times", &|trace| json!(trace.issue / 1e3));
    insert("errors", &|trace| json!(trace.error.as_deref().unwrap_or("")));
    let gaps = |trace: &RequestTrace| {
        let gaps = trace.gaps(ChunkFilter::Token)?;
        Some(gaps.into_iter().map(|(gap, _)| json!(gap / 1e3)).collect::<Value>())
    };
    match run.request_traces.iter().map(gaps).collect::<Option<Value>>() {
        Some(gaps) => drop(object.insert("itls".to_owned(), gaps)),
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
            // These loads have no distribution of arrivals; `arrivals` has its default.
            (&users, poisson, None, inf.clone()),
            (&LoadPattern::Offline, poisson, None, inf),
            (&trace, poisson, None, Err("the arrivals were not at one rate")),
        ] {
            (result.requested.scenario, result.requested.arrivals) = (scenario.clone(), arrivals);
            assert_eq!((burstiness(&result).ok(), request_rate(&result)), (shape, rate), "{scenario:?} {arrivals:?}");
        }
    }
}
