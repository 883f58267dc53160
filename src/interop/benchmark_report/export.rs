//! `benchmark_report_v0.2.json`: the Benchmark Report of llm-d-benchmark, the field's neutral format.
//!
//! Its schema allows no other keys, so unknown values are left out. TTFT, TPOT, ITL and latency are inference-perf's,
//! the tool that has an exporter of this format.

use crate::interop::metrics::{DeviationRule, MeasuredRun, MetricConcept, SortedValues, Tool};
use crate::interop::results::exported::{Exported, counted_by_server, facts, input_tokens, ok, output_tokens, spread};
use crate::interop::results::identity;
use serde_json::{Map, Value, json};

const TOOL: Tool = Tool::InferencePerf;

pub(in crate::interop) fn write(told: &MeasuredRun, out: &mut Exported) {
    let facts = facts(told);
    let mut latency = Map::new();
    for (concept, name, units) in [
        (MetricConcept::Ttft, "time_to_first_token", "ms"),
        (MetricConcept::Tpot, "time_per_output_token", "ms/token"),
        (MetricConcept::Itl, "inter_token_latency", "ms/token"),
        (MetricConcept::E2e, "request_latency", "ms"),
    ] {
        if let Some(values) = spread(told, TOOL, concept, name, out) {
            latency.insert(name.to_owned(), statistics(units, &values));
        }
    }
    let mut throughput = Map::new();
    let (input, output) = (input_tokens(told), output_tokens(told));
    if let Some(rate) = TOOL.rate(&told.seen).ok().filter(|rate| *rate > 0.0) {
        let seconds = ok(told).count() as f64 / rate;
        for (name, units, value) in [
            ("input_token_rate", "tokens/s", input.sum() / seconds),
            ("output_token_rate", "tokens/s", output.sum() / seconds),
            ("total_token_rate", "tokens/s", (input.sum() + output.sum()) / seconds),
            ("request_rate", "queries/s", rate),
        ] {
            throughput.insert(name.to_owned(), json!({ "units": units, "mean": value }));
        }
    }
    let failed = told.seen.iter().filter(|one| !one.ok).count();
    let mut requests = json!({ "total": told.seen.len(), "failures": failed });
    for (name, values) in [("input_length", &input), ("output_length", &output)] {
        if values.n() > 0 {
            requests[name] = statistics("count", values);
        }
    }
    let mut run = Map::new();
    run.insert("description".to_owned(), json!(identity::line(told)));
    if let Some(digest) = facts.text("/schedule_digest") {
        run.insert("eid".to_owned(), json!(digest));
    }
    if let Some(started) = facts.text("/started") {
        run.insert("time".to_owned(), json!({ "start": started }));
    }
    let mut report = json!({
        "version": "0.2",
        "run": run,
        "results": { "request_performance": { "aggregate": {
            "requests": requests, "latency": latency, "throughput": throughput,
        } } },
    });
    match load(told) {
        Some(load) => report["scenario"] = json!({ "load": load }),
        None => out.without("scenario.load: the lengths of requests are of a kind that the shape does not know"),
    }
    counted_by_server(told, out);
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

fn load(told: &MeasuredRun) -> Option<Value> {
    let facts = facts(told);
    let mut load = json!({
        "tool": "regatta",
        "tool_version": facts.text("/versions/regatta")?,
        "source": "random",
        "input_seq_len": length(told.result.pointer("/asked/input_len")?)?,
        "output_seq_len": length(told.result.pointer("/asked/output_len")?)?,
    });
    if let Some(rate) = facts.rate() {
        load["rate_qps"] = json!(rate);
    }
    let mut config = told.result.get("asked").cloned().unwrap_or_default();
    config["regatta"] = identity::object(told);
    Some(json!({ "metadata": {}, "standardized": load, "native": { "config": config } }))
}

fn length(length: &Value) -> Option<Value> {
    if let Some(tokens) = length.get("fixed") {
        return Some(json!({ "distribution": "fixed", "value": tokens }));
    }
    if let Some(uniform) = length.get("uniform") {
        let (min, max) = (uniform.get("min")?.as_f64()?, uniform.get("max")?.as_f64()?);
        let value = f64::midpoint(min, max);
        return Some(json!({ "distribution": "random", "value": value, "min": min as u64, "max": max as u64 }));
    }
    let normal = length.get("normal")?;
    Some(json!({
        "distribution": "gaussian", "value": normal.get("mean")?, "std_dev": normal.get("stddev")?,
        "min": normal.get("min")?, "max": normal.get("max")?,
    }))
}
