//! One metric of a result as a row of a table.

use serde::Serialize;
use serde_json::Value;

use super::svg::number;
use harness::{ConfidenceInterval, Metric, zero_point_text};
use interop::ImportedMetric;

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

impl MetricRow {
    /// `None`: the result does not have it.
    pub(super) fn of(name: &str, metric: &Metric) -> Option<Self> {
        let &Metric { mean, p50, p90, p95, p99, min, max, .. } = metric;
        (!metric.percentile_rule.is_empty()).then(|| Self {
            name: title(name),
            unit: metric.unit.clone(),
            n: number(metric.n as f64),
            cells: [mean, p50, p90, p95, p99, min, max].map(cell).to_vec(),
            interval: interval(metric),
            population: match &metric.absent {
                Some(why) => format!("left out: {why}"),
                None => metric.population.clone(),
            },
            zero_point: zero_point_text(&metric.zero_point),
            token_source: metric.token_source.clone(),
            window: metric.window.clone(),
            rule: metric.percentile_rule.clone(),
            excluded: number(metric.excluded as f64),
        })
    }

    /// Of another tool.
    pub(super) fn imported(name: &str, metric: &ImportedMetric) -> Self {
        let &ImportedMetric { mean, p50, p90, p95, p99, min, max, .. } = metric;
        Self {
            name: title(name),
            unit: metric.unit.clone(),
            n: metric.n.map(|n| number(n as f64)).unwrap_or_default(),
            cells: [mean, p50, p90, p95, p99, min, max].map(cell).to_vec(),
            interval: None,
            population: metric.population.clone(),
            zero_point: zero_point_text(&metric.zero_point),
            token_source: metric.token_source.clone(),
            window: metric.window.clone(),
            rule: metric.percentile_rule.clone(),
            excluded: String::new(),
        }
    }
}

/// A number as tables show it.
pub(super) fn cell(value: Option<f64>) -> String {
    value.map_or_else(|| "n/a".to_owned(), number)
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
fn interval(metric: &Metric) -> Option<String> {
    let why = metric.no_interval.as_deref();
    if metric.mean_interval.is_none() {
        return why.map(|why| format!("no 95 % interval from this run alone: {why}"));
    }
    let all = [
        ("mean", metric.mean_interval),
        ("p50", metric.p50_interval),
        ("p90", metric.p90_interval),
        ("p95", metric.p95_interval),
        ("p99", metric.p99_interval),
    ];
    let text = |(statistic, interval): (&str, Option<ConfidenceInterval>)| {
        let ConfidenceInterval { low, high } = interval?;
        Some(format!("{statistic} {} … {}", number(low?), number(high?)))
    };
    let all: Vec<String> = all.into_iter().filter_map(text).collect();
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
