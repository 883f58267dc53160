//! One metric of a result as a row of a table.

use serde::Serialize;
use serde_json::{Map, Value};

use super::svg::number;

/// A row of the table, numbers as they are shown.
#[derive(Debug, Serialize)]
pub(super) struct MetricRow {
    pub name: String,
    pub unit: String,
    pub n: String,
    pub cells: Vec<String>,
    /// Intervals from this run, or why there are none.
    pub interval: Option<String>,
    pub population: String,
    pub zero_point: String,
    pub token_source: String,
    pub window: String,
    pub rule: String,
    pub excluded: String,
}

/// The columns of [`MetricRow::cells`].
pub(super) const COLUMNS: [&str; 7] = ["mean", "p50", "p90", "p95", "p99", "min", "max"];

pub(super) fn metric(name: &str, fields: &Map<String, Value>) -> MetricRow {
    let text = |key: &str| fields.get(key).map(scalar).unwrap_or_default();
    let shown = |key: &str| fields.get(key).and_then(Value::as_f64).map_or_else(|| "n/a".to_owned(), number);
    MetricRow {
        name: title(name),
        unit: text("unit"),
        n: fields.get("n").and_then(Value::as_f64).map(number).unwrap_or_default(),
        cells: COLUMNS.iter().map(|column| shown(column)).collect(),
        interval: interval(fields),
        population: match text("absent") {
            why if why.is_empty() => text("population"),
            why => format!("left out: {why}"),
        },
        zero_point: text("zero_point").replace("user_free", "when the user became idle").replace('_', " "),
        token_source: text("token_source"),
        window: text("window"),
        rule: text("percentile_rule"),
        excluded: fields.get("excluded").and_then(Value::as_f64).map(number).unwrap_or_default(),
    }
}

/// `ttft` → `TTFT`, `max_stall` → `max stall`.
pub(super) fn title(name: &str) -> String {
    let words: Vec<String> = name
        .split(['_', ' '])
        .map(|word| match word {
            "ttft" | "tpot" | "itl" | "icl" | "e2e" | "ntpot" => word.to_uppercase(),
            other => other.to_owned(),
        })
        .collect();
    words.join(" ")
}

/// Intervals from one run, or why there are none. Results of earlier versions have one of p99 that does not hold what it
/// claims, and none of the mean: theirs is not shown.
fn interval(fields: &Map<String, Value>) -> Option<String> {
    let of = |statistic: &str| {
        let interval = fields.get(&format!("{statistic}_interval"))?;
        let (low, high) = (interval.get("low")?.as_f64()?, interval.get("high")?.as_f64()?);
        Some(format!("{statistic} {} … {}", number(low), number(high)))
    };
    let why = fields.get("no_interval").and_then(Value::as_str);
    if fields.get("mean_interval").is_none_or(Value::is_null) {
        return why.map(|why| format!("no 95 % interval from this run alone: {why}"));
    }
    let all: Vec<String> = ["mean", "p50", "p90", "p95", "p99"].into_iter().filter_map(of).collect();
    let rest = why.map_or_else(String::new, |why| format!("; no further one: {why}"));
    Some(format!("95 % intervals from this run alone: {}{rest}", all.join(", ")))
}

pub(super) fn scalar(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        // Whole numbers may be seeds, which are never rounded.
        Value::Number(n) if n.is_f64() => n.as_f64().map(number).unwrap_or_default(),
        other => other.to_string(),
    }
}
