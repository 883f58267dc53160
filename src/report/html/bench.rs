//! Reads a benchmark's `result.json` for the page: verdict, numbers, metrics with their definitions, curves.
//!
//! It takes the file as plain JSON and looks for shapes, not for one version of a type: an object with percentiles is
//! a metric, an array of slices is a time series. What it does not know it shows as it stands, or leaves to the file.

use serde::Serialize;
use serde_json::{Map, Value};

use super::plot::Plot;
use super::svg::number;
use crate::event::{TaskId, Verdict};

/// One benchmark, ready for the template.
#[derive(Debug, Serialize)]
pub(super) struct Bench {
    pub task: String,
    /// `VALID`, `INVALID(load)`, …; `None` where the file has none.
    pub verdict: Option<&'static str>,
    /// `good`, `odd`, `bad` or `none`: the colour of the badge.
    pub tone: &'static str,
    pub reasons: Vec<String>,
    /// The few numbers a reader looks for first.
    pub numbers: Vec<(String, String)>,
    /// What else stands alone.
    pub facts: Vec<(String, String)>,
    pub metrics: Vec<Metric>,
    /// SVG; the page marks it as safe.
    #[serde(skip)]
    pub plots: Vec<String>,
}

/// A row of the table, numbers as they are shown.
#[derive(Debug, Serialize)]
pub(super) struct Metric {
    pub name: String,
    pub unit: String,
    pub n: String,
    pub cells: Vec<String>,
    /// The interval of p99.
    pub interval: Option<String>,
    pub population: String,
    pub zero_point: String,
    pub token_source: String,
    pub window: String,
    pub rule: String,
    pub excluded: String,
}

/// The columns of [`Metric::cells`].
pub(super) const COLUMNS: [&str; 7] = ["mean", "p50", "p90", "p95", "p99", "min", "max"];

pub(super) fn read(task: &TaskId, result: &Value) -> Bench {
    let verdict = verdict_of(result);
    let tone = match verdict {
        Some(Verdict::Valid) => "good",
        Some(Verdict::ValidWithWarnings) => "odd",
        Some(_) => "bad",
        None => "none",
    };
    let mut metrics = Vec::new();
    let mut facts = Vec::new();
    walk(result, &mut Vec::new(), &mut metrics, &mut facts);
    let (numbers, facts) = facts.into_iter().partition(|(name, _): &(String, String)| is_first(name));
    let mut plots = distributions(result, &metrics);
    plots.extend(series(result));
    Bench {
        task: task.to_string(),
        verdict: verdict.map(Verdict::as_str),
        tone,
        reasons: reasons(result),
        numbers,
        facts,
        metrics,
        plots,
    }
}

/// Throughput, rates and what became of the requests.
fn is_first(name: &str) -> bool {
    const WORDS: [&str; 9] =
        ["tokens per", "requests per", "rate", "tok/s", "req/s", "goodput", "scenario", "requests", "seconds"];
    WORDS.iter().any(|word| name.contains(word)) && !name.contains("seed")
}

fn verdict_of(result: &Value) -> Option<Verdict> {
    let value = result.get("verdict")?;
    let word =
        value.as_object().and_then(|verdict| verdict.get("verdict").or_else(|| verdict.get("is"))).unwrap_or(value);
    serde_json::from_value(word.clone()).ok()
}

/// Reasons stand beside the verdict or inside it, as texts or as objects that have one.
fn reasons(result: &Value) -> Vec<String> {
    let found = result.get("reasons").or_else(|| result.get("verdict")?.get("reasons")).and_then(Value::as_array);
    let text = |reason: &Value| match reason {
        Value::String(text) => Some(text.clone()),
        Value::Object(fields) => {
            let texts: Vec<&str> = ["check", "what", "text", "reason", "message", "why"]
                .into_iter()
                .filter_map(|key| fields.get(key).and_then(Value::as_str))
                .collect();
            (!texts.is_empty()).then(|| texts.join(": "))
        }
        _ => None,
    };
    found.map(|reasons| reasons.iter().filter_map(text).collect()).unwrap_or_default()
}

fn walk(value: &Value, path: &mut Vec<String>, metrics: &mut Vec<Metric>, facts: &mut Vec<(String, String)>) {
    let Value::Object(fields) = value else { return };
    if fields.contains_key("percentile_rule") {
        metrics.push(metric(&path.join(" "), fields));
        return;
    }
    for (key, value) in fields {
        if matches!(key.as_str(), "verdict" | "reasons" | "headline") && path.is_empty() {
            continue;
        }
        // A folder of metrics adds nothing to their names.
        let named = key != "metrics";
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

fn scalar(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        // Whole numbers may be seeds, which are never rounded.
        Value::Number(n) if n.is_f64() => n.as_f64().map(number).unwrap_or_default(),
        other => other.to_string(),
    }
}

fn metric(name: &str, fields: &Map<String, Value>) -> Metric {
    let text = |key: &str| fields.get(key).map(scalar).unwrap_or_default();
    let shown = |key: &str| fields.get(key).and_then(Value::as_f64).map_or_else(|| "n/a".to_owned(), number);
    let end = |interval: &Value, key: &str| interval.get(key).and_then(Value::as_f64).map_or("n/a".to_owned(), number);
    Metric {
        name: title(name),
        unit: text("unit"),
        n: fields.get("n").and_then(Value::as_f64).map(number).unwrap_or_default(),
        cells: COLUMNS.iter().map(|column| shown(column)).collect(),
        interval: fields
            .get("p99_interval")
            .filter(|interval| interval.is_object())
            .map(|interval| format!("{} … {}", end(interval, "low"), end(interval, "high"))),
        population: text("population"),
        zero_point: text("zero_point").replace('_', " "),
        token_source: text("token_source"),
        window: text("window"),
        rule: text("percentile_rule"),
        excluded: fields.get("excluded").and_then(Value::as_f64).map(number).unwrap_or_default(),
    }
}

/// `ttft` → `TTFT`, `max_stall` → `max stall`.
fn title(name: &str) -> String {
    let words: Vec<String> = name
        .split(['_', ' '])
        .map(|word| match word {
            "ttft" | "tpot" | "itl" | "icl" | "e2e" | "ntpot" => word.to_uppercase(),
            other => other.to_owned(),
        })
        .collect();
    words.join(" ")
}

/// The distribution of each latency that has one: an array of `[value, fraction]` under its name in `cdf`.
fn distributions(result: &Value, metrics: &[Metric]) -> Vec<String> {
    let Some(Value::Object(curves)) = result.get("cdf").or_else(|| result.get("distributions")) else {
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
    match point {
        Value::Array(pair) => Some((pair.first()?.as_f64()?, pair.get(1)?.as_f64()?)),
        Value::Object(fields) => {
            let x = fields.get("value").or_else(|| fields.get("ms")).or_else(|| fields.get("x"))?;
            let y = fields.get("fraction").or_else(|| fields.get("p")).or_else(|| fields.get("y"))?;
            Some((x.as_f64()?, y.as_f64()?))
        }
        _ => None,
    }
}

/// What happened over time: an array of slices, each with a start and numbers.
fn series(result: &Value) -> Vec<String> {
    let slices = result.get("timeslices").or_else(|| result.get("slices")).and_then(Value::as_array);
    let Some(slices) = slices else { return Vec::new() };
    let column = |keys: &[&str]| -> Vec<(f64, f64)> {
        slices
            .iter()
            .filter_map(|slice| {
                let at =
                    ["start_s", "start", "at_s", "t_s", "second"].iter().find_map(|key| slice.get(key)?.as_f64())?;
                Some((at, keys.iter().find_map(|key| slice.get(key)?.as_f64())?))
            })
            .collect()
    };
    let wanted: [(&str, &[&str]); 2] = [
        ("Output tokens per second", &["output_tokens_per_second", "tokens_per_second", "tokens_per_s", "tok_s"]),
        ("Requests in flight", &["in_flight", "in_flight_mean", "in_flight_at_end"]),
    ];
    wanted
        .into_iter()
        .filter_map(|(title, keys)| {
            let points = column(keys);
            Plot {
                title,
                across: "seconds from the first arrival",
                points: &points,
                top: None,
                marks: &[],
                filled: true,
            }
            .draw()
        })
        .collect()
}
