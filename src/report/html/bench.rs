//! Reads a benchmark's `result.json` for the page: verdict, numbers, metrics with their definitions, curves.
//!
//! It takes the file as plain JSON, so that a page can be made of results that an older or newer version wrote: an
//! object with a percentile rule is a metric; it shows an unknown field as it is, or leaves it to the file.

use serde::Serialize;
use serde_json::Value;

use super::block::Block;
use super::metric_row::{COLUMNS, MetricRow, metric, scalar, title};
use super::plot::Plot;
use super::sections;
use super::server::{self, ServerSection};
use super::svg::number;
use crate::event::{TaskId, Verdict};
use crate::harness::RunIdentity;
use crate::interop::{identity_of, verdict_text};

/// One benchmark, ready for the template.
#[derive(Debug, Serialize)]
pub(super) struct BenchSection {
    pub task: String,
    /// `VALID`, `INVALID(load)`, `VALID SIMULATED`, …; `None` where the file has none.
    pub verdict: Option<String>,
    pub simulated: bool,
    /// What was measured, in a line and in full; nothing in files of older programs.
    pub identity: Option<String>,
    pub identity_entries: Vec<(String, String)>,
    /// `good`, `odd`, `bad` or `none`: the colour of the badge.
    pub tone: &'static str,
    pub reasons: Vec<String>,
    /// The most important numbers: name, value, what was counted.
    pub numbers: Vec<(String, String, String)>,
    /// Further single values: name, value.
    pub facts: Vec<(String, String)>,
    pub metrics: Vec<MetricRow>,
    /// What holds for all of them.
    pub shared: Vec<String>,
    /// SVG; the page marks it as safe.
    #[serde(skip)]
    pub plots: Vec<String>,
    /// Sections that exist only when requested.
    #[serde(skip)]
    pub blocks: Vec<Block>,
    /// The servers' own metrics.
    pub server: Option<ServerSection>,
}

pub(super) fn read(task: &TaskId, result: &Value) -> BenchSection {
    let verdict = verdict_of(result);
    let identity = identity_of(result);
    let tone = match verdict {
        Some(Verdict::Valid) => "good",
        Some(Verdict::ValidWithWarnings) => "odd",
        Some(_) => "bad",
        None => "none",
    };
    let mut metrics = Vec::new();
    let mut facts = Vec::new();
    walk(result, &mut Vec::new(), &mut metrics, &mut facts);
    let mut plots = distributions(result, &metrics);
    plots.extend(series(result));
    BenchSection {
        task: task.to_string(),
        verdict: verdict.map(|_| verdict_text(result)),
        simulated: identity.as_ref().is_some_and(|identity| identity.simulated),
        identity: identity.as_ref().map(RunIdentity::line),
        identity_entries: identity.as_ref().map(RunIdentity::entries).unwrap_or_default(),
        tone,
        reasons: reasons(result),
        shared: shared(&mut metrics),
        numbers: first(result),
        facts,
        metrics,
        plots,
        blocks: sections::read(result),
        server: server::read(result),
    }
}

/// What all metrics have in common appears once, above them.
fn shared(metrics: &mut [MetricRow]) -> Vec<String> {
    let mut said = Vec::new();
    let mut hoist = |name: &str, field: fn(&mut MetricRow) -> &mut String| {
        let Some(common) = metrics.first_mut().map(|metric| field(metric).clone()).filter(|text| !text.is_empty())
        else {
            return;
        };
        let same = metrics.iter_mut().filter_map(|metric| (*field(metric) == common).then_some(())).count();
        if same < 2 {
            return;
        }
        let others = if same < metrics.len() { ", unless stated otherwise below" } else { "" };
        said.push(format!("{name}: {common}{others}"));
        metrics.iter_mut().map(field).filter(|text| **text == common).for_each(String::clear);
    };
    hoist("window", |metric| &mut metric.window);
    hoist("tokens", |metric| &mut metric.token_source);
    hoist("percentiles", |metric| &mut metric.rule);
    said
}

fn verdict_of(result: &Value) -> Option<Verdict> {
    serde_json::from_value(result.get("verdict")?.clone()).ok()
}

fn reasons(result: &Value) -> Vec<String> {
    let text = |reason: &Value| match reason {
        Value::String(text) => Some(text.clone()),
        Value::Object(fields) => {
            let texts: Vec<&str> = ["check", "text"].into_iter().filter_map(|key| fields.get(key)?.as_str()).collect();
            (!texts.is_empty()).then(|| texts.join(": "))
        }
        _ => None,
    };
    let found = result.get("reasons").and_then(Value::as_array);
    found.map(|reasons| reasons.iter().filter_map(text).collect()).unwrap_or_default()
}

/// Path in the file, the usual name, and what was counted.
const FIRST: [(&str, &str, &str); 9] = [
    ("/rates/output_tokens", "output tokens per second", "of successful requests, over the window"),
    ("/rates/requests_full", "requests per second", "successful requests over the window"),
    ("/rates/offered", "offered per second", "N − 1 over the time from first to last intended arrival"),
    ("/rates/window_s", "window, seconds", "schedule start to the end of the last successful request"),
    ("/counts/scheduled", "requests scheduled", "whether or not they were sent"),
    ("/counts/ok", "ok", "successful requests"),
    ("/counts/failed", "failed", "sent, and ended with an error"),
    ("/counts/lost", "not sent", "because the run was stopped"),
    ("/tokens/output", "output tokens", "of successful requests"),
];

fn first(result: &Value) -> Vec<(String, String, String)> {
    let source = result.pointer("/tokens/source").and_then(Value::as_str);
    let shown = |(path, name, counted): &(&str, &str, &str)| {
        let value = result.pointer(path).and_then(Value::as_f64)?;
        let source = source.filter(|_| path.ends_with("tokens") || path.starts_with("/tokens"));
        let source = source.map(|source| format!("; tokens from {source}")).unwrap_or_default();
        Some(((*name).to_owned(), number(value), format!("{counted}{source}")))
    };
    FIRST.iter().filter_map(shown).collect()
}

fn walk(value: &Value, path: &mut Vec<String>, metrics: &mut Vec<MetricRow>, facts: &mut Vec<(String, String)>) {
    let Value::Object(fields) = value else { return };
    if fields.contains_key("percentile_rule") {
        metrics.push(metric(&path.join(" "), fields));
        return;
    }
    for (key, value) in fields {
        let elsewhere = ["verdict", "reasons", "headline", "identity", "server_metrics"];
        if path.is_empty() && elsewhere.iter().chain(&sections::TOLD).any(|told| told == key) {
            continue;
        }
        // That a metric is a latency adds nothing to its name.
        let named = key != "latency";
        if named {
            path.push(key.clone());
        }
        match value {
            Value::Object(_) => walk(value, path, metrics, facts),
            Value::Number(_) | Value::String(_) | Value::Bool(_) => {
                let name = path.join(" ").replace('_', " ");
                facts.push((name, scalar(value)));
            }
            Value::Null | Value::Array(_) => {}
        }
        if named {
            path.pop();
        }
    }
}

/// The distribution of each latency that has one: an array of `[ms, share]` under its name in `curves`.
fn distributions(result: &Value, metrics: &[MetricRow]) -> Vec<String> {
    let Some(Value::Object(curves)) = result.get("curves") else {
        return Vec::new();
    };
    let mut plots = Vec::new();
    for (name, curve) in curves {
        let name = title(name);
        let metric = metrics.iter().find(|metric| metric.name == name);
        let unit = metric.map_or("ms", |metric| metric.unit.as_str());
        let points: Vec<(f64, f64)> =
            curve.as_array().map(|points| points.iter().filter_map(pair).collect()).unwrap_or_default();
        let marks: Vec<(f64, String)> = metric
            .map(|metric| {
                let mark = |column: &str| {
                    let at = COLUMNS.iter().position(|name| *name == column)?;
                    let value: f64 = metric.cells.get(at)?.replace(',', "").parse().ok()?;
                    Some((value, format!("{column} {} {unit}", number(value))))
                };
                ["p50", "p99"].into_iter().filter_map(mark).collect()
            })
            .unwrap_or_default();
        let percent: Vec<(f64, f64)> = points.iter().map(|(x, fraction)| (*x, fraction * 100.0)).collect();
        let heading = format!("{name}: % of requests at most …");
        plots.extend(
            Plot { title: &heading, across: unit, points: &percent, top: Some(100.0), marks: &marks, filled: false }
                .draw(),
        );
    }
    plots
}

fn pair(point: &Value) -> Option<(f64, f64)> {
    let pair = point.as_array()?;
    Some((pair.first()?.as_f64()?, pair.get(1)?.as_f64()?))
}

/// What happened in each second of the run.
fn series(result: &Value) -> Vec<String> {
    let Some(slices) = result.get("slices").and_then(Value::as_array) else { return Vec::new() };
    let column = |key: &str| -> Vec<(f64, f64)> {
        slices.iter().filter_map(|slice| Some((slice.get("second")?.as_f64()?, slice.get(key)?.as_f64()?))).collect()
    };
    let is_of_chunks = result.pointer("/tokens/chunk_source").is_some();
    let wanted = [
        (if is_of_chunks { "Chunks in each second" } else { "Output tokens in each second" }, "tokens"),
        ("Requests in flight", "in_flight"),
        ("Mean TTFT of each second's first tokens, ms", "ttft_ms"),
    ];
    wanted
        .into_iter()
        .filter_map(|(title, key)| {
            let points = column(key);
            let across = "seconds from the start";
            Plot { title, across, points: &points, top: None, marks: &[], filled: true }.draw()
        })
        .collect()
}
