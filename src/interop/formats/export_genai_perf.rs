//! `profile_export_genai_perf.json` and `.csv` of GenAI-Perf, and AIPerf's files of the same form with the records of
//! `profile_export.jsonl`; and the raw export of perf_analyzer, from which GenAI-Perf computes its numbers.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::LazyLock;

use base::units::{csv_cell, grouped};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::export::{
    Exported, gaps, generated_by, identity_object, identity_section, linear, model, ok, output_tokens, rate, spread,
    urls, users, wall_clock_ns,
};
use crate::metrics::{
    ChunkFilter, DeviationRule, MeasuredRun, MetricConcept, MissingMetric, RequestTrace, SortedValues, Tool,
    TracedChunks,
};

const OUTPUT_LENGTH: &str = "output_sequence_length";
const TOKEN_LATENCY: &str = "inter_token_latency";

/// A row of both files: its key in JSON, its unit, its heading in CSV, and what it is computed from.
#[derive(Deserialize)]
struct Row(String, String, String, Source);

/// In the order of the JSON file.
#[derive(Deserialize)]
struct RowTables {
    genai_perf: Vec<Row>,
    aiperf: Vec<Row>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Source {
    Metric(MetricConcept),
    SecondToken,
    ChunkGaps,
    TokensPerUser,
    OutputLength,
    InputLength,
    Requests,
    Failures,
    OutputTokens,
    InputTokens,
    RequestRate,
    Duration,
    TokenRate,
}

enum RowValue {
    Spread(SortedValues),
    Single(f64),
}

static TABLES: LazyLock<RowTables> =
    LazyLock::new(|| toml::from_str(include_str!("genai-perf-rows.toml")).expect("a test reads the table"));

/// Rows of GenAI-Perf's CSV file that stand before the others, which have the order of the JSON file.
const FIRST_IN_CSV: [&str; 3] = ["time_to_first_token", "time_to_second_token", "output_token_throughput"];

const PERCENTILES: [&str; 9] = ["p1", "p5", "p10", "p25", "p50", "p75", "p90", "p95", "p99"];

/// Rows with their values, as far as a run has them.
fn rows<'a>(table: &'a [Row], tool: Tool, run: &MeasuredRun, out: &mut Exported) -> Vec<(&'a Row, RowValue)> {
    table.iter().filter_map(|row| Some((row, value(row, tool, run, out)?))).collect()
}

fn value(Row(tag, _, _, source): &Row, tool: Tool, run: &MeasuredRun, out: &mut Exported) -> Option<RowValue> {
    let input = || linear(ok(run).filter_map(|trace| trace.input).map(f64::from));
    let values = match source {
        Source::Metric(concept) => spread(run, tool, *concept, tag, out)?,
        Source::TokensPerUser => {
            let latency = spread(run, tool, MetricConcept::Itl, TOKEN_LATENCY, out)?;
            linear(latency.values().iter().filter(|ms| **ms > 0.0).map(|ms| 1e3 / ms))
        }
        Source::SecondToken | Source::ChunkGaps => {
            let is_second = matches!(source, Source::SecondToken);
            let (chunks, most) = if is_second { (ChunkFilter::Token, 1) } else { (ChunkFilter::Text, usize::MAX) };
            let values = gaps(run, chunks, most);
            if values.is_none() {
                out.without(format!("{tag}: {}", MissingMetric::Timelines.reason()));
            }
            values?
        }
        Source::OutputLength => return output_tokens(run, tool, tag, out).map(RowValue::Spread),
        Source::InputLength => return Some(RowValue::Spread(input())),
        _ => {
            let count = |ok: bool| run.request_traces.iter().filter(|trace| trace.ok == ok).count() as f64;
            let tokens = |out: &mut Exported| Some(output_tokens(run, tool, OUTPUT_LENGTH, out)?.sum());
            let number = match source {
                Source::Requests => Some(count(true)),
                Source::Failures => Some(count(false)).filter(|count| *count > 0.0),
                Source::OutputTokens => tokens(out),
                Source::InputTokens => Some(input().sum()),
                Source::RequestRate => tool.rate(&run.request_traces).ok(),
                Source::Duration => duration_s(run, tool),
                _ => tokens(out).zip(duration_s(run, tool)).map(|(tokens, seconds)| tokens / seconds),
            };
            return number.map(RowValue::Single);
        }
    };
    (values.n() > 0).then_some(RowValue::Spread(values))
}

/// Seconds from the first start to the last response.
fn duration_s(run: &MeasuredRun, tool: Tool) -> Option<f64> {
    let rate = tool.rate(&run.request_traces).ok()?;
    let count = if tool == Tool::GenAiPerf { run.request_traces.len() } else { ok(run).count() };
    (rate > 0.0).then(|| count as f64 / rate)
}

/// A tool counts text with its own tokenizer; a run whose tokens were counted in another way has no such count.
fn note_other_counts(run: &MeasuredRun, out: &mut Exported) {
    if ok(run).any(|trace| trace.retokenized.is_none()) {
        let source = Some(run.result.token_source()).filter(|source| !source.is_empty()).unwrap_or("the server");
        out.without(format!("counts of a client's tokenizer; output tokens come from {source}"));
    }
}

/// `avg`, `min`, `max`, `sum`, `std`, or a percentile.
fn statistic(values: &SortedValues, name: &str) -> Option<f64> {
    match name {
        "avg" => values.mean(),
        "min" => values.min(),
        "max" => values.max(),
        "sum" => Some(values.sum()),
        "std" => values.deviation(DeviationRule::Population),
        _ => values.at(name.strip_prefix('p')?.parse::<f64>().ok()? / 100.0),
    }
}

/// `{unit, avg, p1, …, min, max, std}`, and of AIPerf count and sum; of a single value `{unit, avg}`.
fn statistics(unit: &str, value: &RowValue, tool: Tool) -> Value {
    let values = match value {
        RowValue::Spread(values) => values,
        RowValue::Single(value) => return json!({ "unit": unit, "avg": value }),
    };
    let names = ["avg"].into_iter().chain(PERCENTILES).chain(["min", "max", "std"]);
    let mut object = Map::from_iter([("unit".to_owned(), json!(unit))]);
    object.extend(names.map(|name| (name.to_owned(), json!(statistic(values, name)))));
    if tool == Tool::AiPerf {
        object.insert("count".to_owned(), json!(values.n()));
        object.insert("sum".to_owned(), json!(values.sum()));
    }
    Value::Object(object)
}

fn csv(rows: &[(&Row, RowValue)], columns: &[&str], number: fn(f64) -> String) -> String {
    let mut text = format!("Metric,{}\n", columns.join(","));
    for (Row(_, _, heading, _), value) in rows {
        if let RowValue::Spread(values) = value {
            let numbers = columns.iter().map(|name| statistic(values, name).map_or_else(String::new, number));
            let cells = std::iter::once(heading.as_str()).map(csv_cell).chain(numbers).collect::<Vec<_>>();
            let _ = writeln!(text, "{}", cells.join(","));
        }
    }
    text.push_str("\nMetric,Value\n");
    for (Row(_, _, heading, _), value) in rows {
        if let RowValue::Single(value) = value {
            let _ = writeln!(text, "{},{}", csv_cell(heading), number(*value));
        }
    }
    text
}

/// GenAI-Perf's files.
pub(super) fn write_genai_perf(run: &MeasuredRun, out: &mut Exported) {
    let mut rows = rows(&TABLES.genai_perf, Tool::GenAiPerf, run, out);
    let keys = rows.iter().map(|(Row(tag, unit, _, _), value)| (tag.clone(), statistics(unit, value, Tool::GenAiPerf)));
    let mut object: Map<String, Value> = keys.collect();
    let stimulus = match (rate(run), users(run)) {
        (Some(rate), _) => json!({ "request_rate": rate }),
        (None, Some(users)) => json!({ "concurrency": users }),
        (None, None) => Value::Null,
    };
    let input_config = json!({
        "generated_by": generated_by("GenAI-Perf"),
        "model_names": model(run).into_iter().collect::<Vec<_>>(),
        "endpoint": { "url": urls(run).join(",") },
        "perf_analyzer": { "stimulus": stimulus },
        "input": { "random_seed": run.result.own().map(|result| result.requested.seed) },
        "regatta": identity_object(run),
    });
    object.insert("input_config".to_owned(), input_config);
    note_other_counts(run, out);
    out.without("telemetry_stats, sessions: Regatta does not record them");
    out.json("profile_export_genai_perf.json", &Value::Object(object));
    rows.sort_by_key(|(Row(tag, ..), _)| {
        FIRST_IN_CSV.iter().position(|first| *first == tag.as_str()).unwrap_or(usize::MAX)
    });
    let columns = ["avg", "min", "max"].into_iter().chain(PERCENTILES.into_iter().rev());
    let text = csv(&rows, &columns.collect::<Vec<_>>(), |number| csv_cell(&grouped(number, 2)));
    out.file("profile_export_genai_perf.csv", text + &identity_section(run));
}

/// AIPerf's files.
pub(super) fn write_aiperf(run: &MeasuredRun, out: &mut Exported) {
    let mut rows = rows(&TABLES.aiperf, Tool::AiPerf, run, out);
    let mut object = Map::from_iter([("schema_version".to_owned(), json!("1.4"))]);
    object
        .extend(rows.iter().map(|(Row(tag, unit, _, _), value)| (tag.clone(), statistics(unit, value, Tool::AiPerf))));
    let result = run.result.own();
    let unanswered = result.map_or(0, |result| result.counts.not_sent.saturating_add(result.counts.cancelled));
    let further = json!({
        "input_config": {
            "generated_by": generated_by("AIPerf"),
            "models": { "items": model(run).map(|name| json!({ "name": name })).into_iter().collect::<Vec<_>>() },
            "endpoint": { "urls": urls(run) },
            "regatta": identity_object(run),
        },
        "run_info": { "random_seed": result.map(|result| result.requested.seed) },
        "was_cancelled": unanswered > 0,
        "is_complete": unanswered == 0,
        "error_summary": error_summary(run),
    });
    object.extend(further.as_object().cloned().unwrap_or_default());
    out.without("aiperf_version, benchmark_id: AIPerf did not run");
    out.without("telemetry_data, http_req_*, effective_*: Regatta does not record them");
    note_other_counts(run, out);
    out.json("profile_export_aiperf.json", &Value::Object(object));
    rows.sort_by(|(Row(_, _, heading, _), _), (Row(_, _, other, _), _)| heading.cmp(other));
    let columns = ["avg", "min", "max", "sum"].into_iter().chain(PERCENTILES).chain(["std"]);
    let text = csv(&rows, &columns.collect::<Vec<_>>(), |number| format!("{number:.2}"));
    out.file("profile_export_aiperf.csv", text + &identity_section(run));
    out.file("profile_export.jsonl", aiperf_records(run));
}

fn error_summary(run: &MeasuredRun) -> Value {
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for error in run.request_traces.iter().filter_map(|trace| trace.error.as_deref()) {
        *counts.entry(error.split(':').next().unwrap_or(error)).or_default() += 1;
    }
    counts.into_iter().map(|(class, count)| json!({ "error_details": { "type": class }, "count": count })).collect()
}

/// One line for each request.
fn aiperf_records(run: &MeasuredRun) -> String {
    const TOOL: Tool = Tool::AiPerf;
    let ns = wall_clock_ns(run);
    let mut text = String::new();
    let simulated = run.result.identity().map(|identity| identity.simulated);
    for trace in &run.request_traces {
        let only = std::slice::from_ref(trace);
        let ms = |concept| TOOL.by_request(concept, only).ok().and_then(|values| values.first().map(|value| value.1));
        let metrics = [
            ("input_sequence_length", "tokens", trace.input.map(f64::from)),
            (OUTPUT_LENGTH, "tokens", TOOL.output_tokens(trace).map(f64::from).filter(|_| trace.ok)),
            ("time_to_first_token", "ms", ms(MetricConcept::Ttft)),
            ("request_latency", "ms", ms(MetricConcept::E2e)),
            (TOKEN_LATENCY, "ms", ms(MetricConcept::Itl)),
        ];
        let metrics: Map<String, Value> = metrics
            .into_iter()
            .filter_map(|(tag, unit, value)| Some((tag.to_owned(), json!({ "value": value?, "unit": unit }))))
            .collect();
        let mut line = json!({
            "metadata": {
                "session_num": trace.index,
                "request_start_ns": ns(trace.issue),
                "request_end_ns": ns(trace.end),
                "benchmark_phase": "profiling",
                "was_cancelled": false,
            },
            "metrics": metrics,
        });
        if let Some(simulated) = simulated {
            line["metadata"]["simulated"] = json!(simulated);
        }
        if let Some(sched) = trace.sched {
            line["metadata"]["credit_issued_ns"] = json!(ns(sched));
        }
        if let Some(error) = &trace.error {
            line["error"] = json!({ "message": error });
        }
        let _ = writeln!(text, "{line}");
    }
    text
}

/// perf_analyzer's raw export, `profile_export.json`, from which every metric can be computed again.
pub(super) fn write_perf_analyzer(run: &MeasuredRun, out: &mut Exported) {
    let is_partly_kept = |trace: &RequestTrace| matches!(trace.chunks, TracedChunks::Ends { count, .. } if count > 2);
    if run.request_traces.iter().any(is_partly_kept) {
        return out.without(format!("profile_export.json: {}", MissingMetric::Timelines.reason()));
    }
    let ns = wall_clock_ns(run);
    let request = |trace: &RequestTrace| {
        json!({
            "timestamp": ns(trace.issue),
            "request_inputs": {},
            "response_timestamps": chunk_times(trace).into_iter().map(&ns).collect::<Vec<u64>>(),
            "response_outputs": [],
        })
    };
    let first = run.request_traces.iter().map(|trace| trace.issue).fold(f64::INFINITY, f64::min);
    let last = run.request_traces.iter().map(|trace| trace.end).fold(f64::NEG_INFINITY, f64::max);
    let windows = if first.is_finite() { vec![ns(first), ns(last)] } else { Vec::new() };
    let (mode, value) = match rate(run) {
        Some(rate) => ("request_rate", rate),
        // All at once is as many users as requests.
        None => ("concurrency", users(run).unwrap_or(run.request_traces.len() as f64)),
    };
    out.without("request_inputs, response_outputs: a run keeps no contents");
    out.without("wall-clock stamps: they count from the start of set-up (`started`), only differences are exact");
    if run.request_traces.iter().any(|trace| !trace.ok) {
        out.without("profile_export.json: failed requests; the shape has no place for them");
    }
    out.json(
        "profile_export.json",
        &json!({
            "experiments": [{
                "experiment": { "mode": mode, "value": value },
                "requests": ok(run).map(request).collect::<Value>(),
                "window_boundaries": windows,
            }],
            "version": "",
            "service_kind": "triton",
            "endpoint": "",
            "regatta": identity_object(run),
        }),
    );
}

fn chunk_times(trace: &RequestTrace) -> Vec<f64> {
    match &trace.chunks {
        TracedChunks::Every(object) => object.iter().map(|chunk| chunk.at).collect(),
        TracedChunks::Ends { first, count: 1, .. } => vec![first.at],
        TracedChunks::Ends { first, last, .. } => vec![first.at, last.at],
    }
}
