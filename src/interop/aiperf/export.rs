//! `profile_export_aiperf.json` and `.csv`, and the records of `profile_export.jsonl`.

use std::fmt::Write as _;

use crate::metrics::{ChunkFilter, DeviationRule, MeasuredRun, MetricConcept, MissingMetric, SortedValues, Tool};
use crate::results::exported::{
    Exported, PERCENTILES, cell, counted_otherwise, duration_s, facts, input_tokens, linear, ok, output_tokens,
    second_token, single, spread, statistics, tokens_per_user,
};
use crate::results::identity;
use serde_json::{Map, Value, json};

const TOOL: Tool = Tool::AiPerf;
const OUTPUT_LENGTH: &str = "output_sequence_length";

/// Tag, heading with its unit, unit, values.
type Spreads = Vec<(&'static str, &'static str, &'static str, SortedValues)>;
/// Tag, heading with its unit, unit, value.
type Singles = Vec<(&'static str, &'static str, &'static str, f64)>;

pub(crate) fn write(measured_run: &MeasuredRun, out: &mut Exported) {
    let spreads = spreads(measured_run, out);
    let singles = singles(measured_run, &spreads);
    let mut all = Map::new();
    all.insert("schema_version".to_owned(), json!("1.4"));
    for (tag, _, unit, values) in &spreads {
        all.insert((*tag).to_owned(), statistics(unit, values, true));
    }
    for (tag, _, unit, value) in &singles {
        all.insert((*tag).to_owned(), single(unit, *value));
    }
    let facts = facts(measured_run);
    let unanswered = facts.result.map_or(0, |result| result.counts.not_sent.saturating_add(result.counts.cancelled));
    all.insert(
        "input_config".to_owned(),
        json!({
            "generated_by": format!("regatta {}, in the shape of AIPerf and with its definitions", env!("CARGO_PKG_VERSION")),
            "models": { "items": facts.model().map(|name| json!({ "name": name })).into_iter().collect::<Vec<_>>() },
            "endpoint": { "urls": facts.urls() },
            "regatta": identity::object(measured_run),
        }),
    );
    all.insert("run_info".to_owned(), json!({ "random_seed": facts.seed() }));
    all.insert("was_cancelled".to_owned(), json!(unanswered > 0));
    all.insert("is_complete".to_owned(), json!(unanswered == 0));
    all.insert("error_summary".to_owned(), error_summary(measured_run));
    out.without("aiperf_version, benchmark_id: AIPerf did not run");
    out.without("telemetry_data, http_req_*, effective_*: a run has none");
    counted_otherwise(measured_run, out);
    out.json("profile_export_aiperf.json", &Value::Object(all));
    out.file("profile_export_aiperf.csv", csv(spreads, singles) + &identity::csv_section(measured_run));
    out.file("profile_export.jsonl", records(measured_run));
}

fn spreads(measured_run: &MeasuredRun, out: &mut Exported) -> Spreads {
    let mut all: Spreads = Vec::new();
    for (concept, tag, heading) in [
        (MetricConcept::E2e, "request_latency", "Request Latency (ms)"),
        (MetricConcept::Ttft, "time_to_first_token", "Time to First Token (ms)"),
        (MetricConcept::Itl, "inter_token_latency", "Inter Token Latency (ms)"),
    ] {
        if let Some(values) = spread(measured_run, TOOL, concept, tag, out) {
            if concept == MetricConcept::Itl {
                let heading = "Output Token Throughput Per User (tokens/sec/user)";
                let per_user = tokens_per_user(&values);
                if per_user.n() > 0 {
                    all.push(("output_token_throughput_per_user", heading, "tokens/sec/user", per_user));
                }
            }
            all.push((tag, heading, "ms", values));
        }
    }
    match second_token(measured_run) {
        Some(values) if values.n() > 0 => {
            all.push(("time_to_second_token", "Time to Second Token (ms)", "ms", values));
        }
        Some(_) => {}
        None => out.without(format!("time_to_second_token: {}", MissingMetric::Timelines.reason())),
    }
    match ok(measured_run).map(|one| one.gaps(ChunkFilter::Text)).collect::<Option<Vec<_>>>() {
        Some(gaps) => {
            let values = linear(gaps.into_iter().flatten().map(|gap| gap.0));
            if values.n() > 0 {
                all.push(("inter_chunk_latency", "Inter Chunk Latency (ms)", "ms", values));
            }
        }
        None => out.without(format!("inter_chunk_latency: {}", MissingMetric::Timelines.reason())),
    }
    if let Some(output) = output_tokens(measured_run, TOOL, OUTPUT_LENGTH, out) {
        all.push((OUTPUT_LENGTH, "Output Sequence Length (tokens)", "tokens", output));
    }
    all.push(("input_sequence_length", "Input Sequence Length (tokens)", "tokens", input_tokens(measured_run)));
    all
}

fn singles(measured_run: &MeasuredRun, spreads: &Spreads) -> Singles {
    let output = spreads.iter().find(|(tag, ..)| *tag == OUTPUT_LENGTH).map(|(_, _, _, lengths)| lengths.sum());
    let mut all: Singles = vec![("request_count", "Request Count", "requests", ok(measured_run).count() as f64)];
    all.extend(output.map(|sum| ("total_osl", "Total Output Sequence Length (tokens)", "tokens", sum)));
    let input = input_tokens(measured_run).sum();
    all.push(("total_isl", "Total Input Sequence Length (tokens)", "tokens", input));
    let failed = measured_run.request_traces.iter().filter(|one| !one.ok).count();
    if failed > 0 {
        all.push(("error_request_count", "Error Request Count", "requests", failed as f64));
    }
    if let Ok(rate) = TOOL.rate(&measured_run.request_traces) {
        all.push(("request_throughput", "Request Throughput (requests/sec)", "requests/sec", rate));
    }
    if let Some(seconds) = duration_s(measured_run, TOOL) {
        all.push(("benchmark_duration", "Benchmark Duration (sec)", "sec", seconds));
        let heading = "Output Token Throughput (tokens/sec)";
        all.extend(output.map(|sum| ("output_token_throughput", heading, "tokens/sec", sum / seconds)));
    }
    all
}

fn error_summary(measured_run: &MeasuredRun) -> Value {
    let mut counts: std::collections::BTreeMap<&str, u64> = std::collections::BTreeMap::new();
    for error in measured_run.request_traces.iter().filter_map(|one| one.error.as_deref()) {
        *counts.entry(error.split(':').next().unwrap_or(error)).or_default() += 1;
    }
    counts.into_iter().map(|(class, count)| json!({ "error_details": { "type": class }, "count": count })).collect()
}

/// Rows sorted by heading, two decimals.
fn csv(mut spreads: Spreads, mut singles: Singles) -> String {
    spreads.sort_by_key(|row| row.1);
    singles.sort_by_key(|row| row.1);
    let names: Vec<&str> = PERCENTILES.iter().map(|(name, _)| *name).collect();
    let mut text = format!("Metric,avg,min,max,sum,{},std\n", names.join(","));
    for (_, heading, _, values) in &spreads {
        let mut cells = vec![cell(heading)];
        let number = |value: Option<f64>| value.map_or_else(String::new, |value| format!("{value:.2}"));
        cells.extend([number(values.mean()), number(values.min()), number(values.max()), number(Some(values.sum()))]);
        cells.extend(PERCENTILES.iter().map(|(_, p)| number(values.at(*p))));
        cells.push(number(values.deviation(DeviationRule::Population)));
        let _ = writeln!(text, "{}", cells.join(","));
    }
    text.push_str("\nMetric,Value\n");
    for (_, heading, _, value) in &singles {
        let _ = writeln!(text, "{},{value:.2}", cell(heading));
    }
    text
}

/// One line for each request.
fn records(measured_run: &MeasuredRun) -> String {
    let epoch = facts(measured_run).epoch_ns();
    let ns = |ms: f64| (epoch + (ms * 1e6).round() as i128) as u64;
    let mut text = String::new();
    let simulated = identity::is_simulated(measured_run);
    for one in &measured_run.request_traces {
        let alone = std::slice::from_ref(one);
        let mut metrics = Map::new();
        let mut put = |tag: &str, unit: &str, value: Option<f64>| {
            if let Some(value) = value {
                metrics.insert(tag.to_owned(), json!({ "value": value, "unit": unit }));
            }
        };
        let value =
            |concept| TOOL.by_request(concept, alone).ok().and_then(|values| values.first().map(|value| value.1));
        put("input_sequence_length", "tokens", one.input.map(f64::from));
        put(OUTPUT_LENGTH, "tokens", TOOL.output_tokens(one).map(f64::from).filter(|_| one.ok));
        put("time_to_first_token", "ms", value(MetricConcept::Ttft));
        put("request_latency", "ms", value(MetricConcept::E2e));
        put("inter_token_latency", "ms", value(MetricConcept::Itl));
        let mut line = json!({
            "metadata": {
                "session_num": one.index,
                "request_start_ns": ns(one.issue),
                "request_end_ns": ns(one.end),
                "benchmark_phase": "profiling",
                "was_cancelled": false,
            },
            "metrics": metrics,
        });
        if let Some(simulated) = simulated {
            line["metadata"]["simulated"] = json!(simulated);
        }
        if let Some(sched) = one.sched {
            line["metadata"]["credit_issued_ns"] = json!(ns(sched));
        }
        if let Some(error) = &one.error {
            line["error"] = json!({ "message": error });
        }
        let _ = writeln!(text, "{line}");
    }
    text
}
