//! `profile_export_genai_perf.json` and `.csv`.

use base::units::grouped;
use std::fmt::Write as _;

use crate::metrics::{MeasuredRun, MetricConcept, MissingMetric, SortedValues, Tool};
use crate::results::exported::{
    Exported, PERCENTILES, cell, counted_otherwise, duration_s, facts, input_tokens, ok, output_tokens, second_token,
    single, spread, statistics, tokens_per_user,
};
use crate::results::identity;
use serde_json::{Map, Value, json};

const TOOL: Tool = Tool::GenAiPerf;

pub(crate) fn write(measured_run: &MeasuredRun, out: &mut Exported) {
    let mut all = Map::new();
    // (heading, spread), in the order of the CSV file.
    let mut rows: Vec<(&str, SortedValues)> = Vec::new();
    let ttft = spread(measured_run, TOOL, MetricConcept::Ttft, "time_to_first_token", out);
    let latency = spread(measured_run, TOOL, MetricConcept::E2e, "request_latency", out);
    let itl = spread(measured_run, TOOL, MetricConcept::Itl, "inter_token_latency", out);
    let second = second_token(measured_run);
    if second.is_none() {
        out.without(format!("time_to_second_token: {}", MissingMetric::Timelines.reason()));
    }
    let throughput = TOOL.rate(&measured_run.request_traces).ok();
    let per_user = itl.as_ref().map(tokens_per_user);
    let (output, input) =
        (output_tokens(measured_run, TOOL, "output_sequence_length", out), input_tokens(measured_run));
    let seconds = duration_s(measured_run, TOOL);
    let tokens_per_s = output.as_ref().zip(seconds).map(|(output, seconds)| output.sum() / seconds);
    let mut put = |name: &str, value: Value| all.insert(name.to_owned(), value);
    if let Some(rate) = throughput {
        put("request_throughput", single("requests/sec", rate));
    }
    if let Some(latency) = &latency {
        put("request_latency", statistics("ms", latency, false));
    }
    put("request_count", single("count", ok(measured_run).count() as f64));
    for (name, unit, heading, values) in [
        ("time_to_first_token", "ms", "Time To First Token (ms)", ttft),
        ("time_to_second_token", "ms", "Time To Second Token (ms)", second),
    ] {
        if let Some(values) = values {
            put(name, statistics(unit, &values, false));
            rows.push((heading, values));
        }
    }
    if let Some(latency) = latency {
        rows.push(("Request Latency (ms)", latency));
    }
    if let Some(itl) = itl {
        put("inter_token_latency", statistics("ms", &itl, false));
        rows.push(("Inter Token Latency (ms)", itl));
    }
    if let Some(rate) = tokens_per_s {
        put("output_token_throughput", single("tokens/sec", rate));
    }
    if let Some(per_user) = per_user.filter(|values| values.n() > 0) {
        put("output_token_throughput_per_user", statistics("tokens/sec/user", &per_user, false));
        rows.push(("Output Token Throughput Per User (tokens/sec/user)", per_user));
    }
    for (name, heading, values) in [
        ("output_sequence_length", "Output Sequence Length (tokens)", output),
        ("input_sequence_length", "Input Sequence Length (tokens)", Some(input)),
    ] {
        let Some(values) = values else { continue };
        put(name, statistics("tokens", &values, false));
        rows.push((heading, values));
    }
    put("input_config", input_config(measured_run));
    counted_otherwise(measured_run, out);
    out.without("telemetry_stats, sessions: a run has none");
    out.json("profile_export_genai_perf.json", &Value::Object(all));
    let text = csv(&rows, tokens_per_s, throughput, ok(measured_run).count());
    out.file("profile_export_genai_perf.csv", text + &identity::csv_section(measured_run));
}

fn input_config(measured_run: &MeasuredRun) -> Value {
    let facts = facts(measured_run);
    let stimulus = match (facts.rate(), facts.users()) {
        (Some(rate), _) => json!({ "request_rate": rate }),
        (None, Some(users)) => json!({ "concurrency": users }),
        (None, None) => Value::Null,
    };
    json!({
        "generated_by": format!("regatta {}, in the shape of GenAI-Perf and with its definitions", env!("CARGO_PKG_VERSION")),
        "model_names": facts.model().into_iter().collect::<Vec<_>>(),
        "endpoint": { "url": facts.urls().join(",") },
        "perf_analyzer": { "stimulus": stimulus },
        "input": { "random_seed": facts.seed() },
        "regatta": identity::object(measured_run),
    })
}

fn csv(rows: &[(&str, SortedValues)], tokens_per_s: Option<f64>, throughput: Option<f64>, count: usize) -> String {
    let mut text = "Metric,avg,min,max,p99,p95,p90,p75,p50,p25,p10,p5,p1\n".to_owned();
    for (heading, spread) in rows {
        let mut cells = vec![cell(heading)];
        let number = |value: Option<f64>| value.map_or_else(String::new, |value| cell(&grouped(value, 2)));
        cells.extend([number(spread.mean()), number(spread.min()), number(spread.max())]);
        cells.extend(PERCENTILES.iter().rev().map(|(_, p)| number(spread.at(*p))));
        let _ = writeln!(text, "{}", cells.join(","));
    }
    text.push_str("\nMetric,Value\n");
    for (heading, value) in [
        ("Output Token Throughput (tokens/sec)", tokens_per_s),
        ("Request Throughput (per sec)", throughput),
        ("Request Count (count)", Some(count as f64)),
    ] {
        if let Some(value) = value {
            let _ = writeln!(text, "{heading},{}", cell(&grouped(value, 2)));
        }
    }
    text
}
