//! `benchmark_report_v0.2.json`: the Benchmark Report of llm-d-benchmark, the field's neutral format.
//!
//! Its schema allows no other keys, so unknown values are left out. TTFT, TPOT, ITL and latency are inference-perf's,
//! the tool that has an exporter of this format.

use crate::metrics::{DeviationRule, MeasuredRun, MetricConcept, SortedValues, Tool};
use crate::results::exported::{Exported, counted_otherwise, facts, input_tokens, ok, output_tokens, spread};
use crate::results::identity;
use base::spec::Length;
use serde_json::{Map, Value, json};

const TOOL: Tool = Tool::InferencePerf;

pub(crate) fn write(measured_run: &MeasuredRun, out: &mut Exported) {
    let facts = facts(measured_run);
    let mut latency = Map::new();
    for (concept, name, units) in [
        (MetricConcept::Ttft, "time_to_first_token", "ms"),
        (MetricConcept::Tpot, "time_per_output_token", "ms/token"),
        (MetricConcept::Itl, "inter_token_latency", "ms/token"),
        (MetricConcept::E2e, "request_latency", "ms"),
    ] {
        if let Some(values) = spread(measured_run, TOOL, concept, name, out) {
            latency.insert(name.to_owned(), statistics(units, &values));
        }
    }
    let mut throughput = Map::new();
    let input = input_tokens(measured_run);
    let output = output_tokens(measured_run, TOOL, "output_length, output_token_rate, total_token_rate", out);
    if let Some(rate) = TOOL.rate(&measured_run.request_traces).ok().filter(|rate| *rate > 0.0) {
        let seconds = ok(measured_run).count() as f64 / rate;
        let output = output.as_ref().map(SortedValues::sum);
        for (name, units, value) in [
            ("input_token_rate", "tokens/s", Some(input.sum() / seconds)),
            ("output_token_rate", "tokens/s", output.map(|output| output / seconds)),
            ("total_token_rate", "tokens/s", output.map(|output| (input.sum() + output) / seconds)),
            ("request_rate", "queries/s", Some(rate)),
        ] {
            if let Some(value) = value {
                throughput.insert(name.to_owned(), json!({ "units": units, "mean": value }));
            }
        }
    }
    let failed = measured_run.request_traces.iter().filter(|one| !one.ok).count();
    let mut requests = json!({ "total": measured_run.request_traces.len(), "failures": failed });
    for (name, values) in [("input_length", Some(&input)), ("output_length", output.as_ref())] {
        if let Some(values) = values.filter(|values| values.n() > 0) {
            requests[name] = statistics("count", values);
        }
    }
    let mut run = Map::new();
    run.insert("description".to_owned(), json!(identity::line(measured_run)));
    if let Some(digest) = facts.result.map(|result| &result.schedule_digest) {
        run.insert("eid".to_owned(), json!(digest));
    }
    if let Some(started) = facts.started() {
        run.insert("time".to_owned(), json!({ "start": started }));
    }
    let mut report = json!({
        "version": "0.2",
        "run": run,
        "results": { "request_performance": { "aggregate": {
            "requests": requests, "latency": latency, "throughput": throughput,
        } } },
    });
    match load(measured_run) {
        Some(load) => report["scenario"] = json!({ "load": load }),
        None => out.without("scenario.load: the lengths of requests are of a kind that the shape does not know"),
    }
    counted_otherwise(measured_run, out);
    out.without(
        "normalized_time_per_output_token, observability, component_health: not measured as the shape means it",
    );
    out.without("scenario.stack: a benchmark alone does not know how its server was built");
    out.json("benchmark_report_v0.2.json", &report);
}

fn statistics(units: &str, values: &SortedValues) -> Value {
    let mut all = Map::new();
    all.insert("units".to_owned(), json!(units));
    all.insert("mean".to_owned(), json!(values.mean()));
    all.insert("stddev".to_owned(), json!(values.deviation(DeviationRule::Population)));
    all.insert("min".to_owned(), json!(values.min()));
    for (name, p) in [
        ("p0p1", 0.001),
        ("p1", 0.01),
        ("p5", 0.05),
        ("p10", 0.10),
        ("p25", 0.25),
        ("p50", 0.50),
        ("p75", 0.75),
        ("p90", 0.90),
        ("p95", 0.95),
        ("p99", 0.99),
        ("p99p9", 0.999),
    ] {
        all.insert(name.to_owned(), json!(values.at(p)));
    }
    all.insert("max".to_owned(), json!(values.max()));
    Value::Object(all)
}

fn load(measured_run: &MeasuredRun) -> Option<Value> {
    let facts = facts(measured_run);
    let result = facts.result?;
    let mut load = json!({
        "tool": "regatta",
        "tool_version": result.versions.regatta,
        "source": "random",
        "input_seq_len": length(&result.requested.input_len)?,
        "output_seq_len": length(&result.requested.output_len)?,
    });
    if let Some(rate) = facts.rate() {
        load["rate_qps"] = json!(rate);
    }
    let mut config = measured_run.result.requested();
    config.insert("regatta".to_owned(), identity::object(measured_run));
    Some(json!({ "metadata": {}, "standardized": load, "native": { "config": config } }))
}

/// `None`: the format has no such law.
fn length(length: &Length) -> Option<Value> {
    match length {
        Length::Fixed(tokens) => Some(json!({ "distribution": "fixed", "value": tokens })),
        Length::Uniform { min, max } => {
            let value = f64::midpoint(f64::from(*min), f64::from(*max));
            Some(json!({ "distribution": "random", "value": value, "min": min, "max": max }))
        }
        Length::Normal { mean, stddev, min, max } => Some(json!({
            "distribution": "gaussian", "value": mean, "std_dev": stddev, "min": min, "max": max,
        })),
        _ => None,
    }
}
