//! A metric as the tables of a result have it: its numbers, and what they are of.

use crate::chart::number;
use crate::document::{Block, Cell, Table, TableColumn};
use crate::explain::short_name;
use harness::{ConfidenceInterval, Metric, zero_point_text};

/// A row of the table, numbers as they are shown.
#[derive(Debug)]
pub(crate) struct MetricRow {
    pub name: String,
    pub unit: String,
    pub n: String,
    pub cells: Vec<String>,
    /// From when it counts, and of which requests.
    pub meaning: String,
    /// The window, who counted tokens, the rule of percentiles, and intervals or why they are missing: other metrics
    /// may have the same.
    pub method: Vec<String>,
}

/// The columns of [`MetricRow::cells`].
pub(crate) const COLUMNS: [&str; 8] = ["mean", "p50", "p75", "p90", "p95", "p99", "min", "max"];

/// The metrics that have a value, each with what it means; and those that have none.
pub(crate) fn metric_blocks(rows: &[MetricRow]) -> Vec<Block> {
    let priority = |name| match name {
        "p75" => 4,
        "min" => 3,
        "max" => 2,
        "p95" => 1,
        _ => 0,
    };
    let stated: Vec<usize> = (0..COLUMNS.len()).filter(|at| rows.iter().any(|row| row.cells[*at] != "n/a")).collect();
    let statistics = stated.iter().map(|at| TableColumn::number(COLUMNS[*at]).priority(priority(COLUMNS[*at])));
    let columns = [TableColumn::new("metric"), TableColumn::number("values")].into_iter().chain(statistics);
    let mut table = Table::new("metrics", columns).look("");
    let (with, without): (Vec<&MetricRow>, Vec<_>) = rows.iter().partition(|row| row.n != "0");
    for row in with {
        let name = Cell::name(format!("{} {}", row.name, row.unit)).help(row.definition());
        table.row([name, (&row.n).into()].into_iter().chain(stated.iter().map(|at| Cell::from(&row.cells[*at]))));
    }
    let names: Vec<&str> = without.iter().map(|row| row.name.as_str()).collect();
    let table = (!table.is_empty()).then(|| Block::table(table));
    let without = (!names.is_empty()).then(|| format!("without a value: {}", names.join(", ")));
    table.into_iter().chain(Block::notes(without)).collect()
}

impl MetricRow {
    fn definition(&self) -> String {
        let parts: Vec<&str> = std::iter::once(&self.meaning).chain(&self.method).map(String::as_str).collect();
        parts.join(" · ")
    }

    /// `None`: the result does not have it.
    pub(crate) fn new(name: &str, metric: &Metric) -> Option<Self> {
        let &Metric { n, mean, p50, p75, p90, p95, p99, min, max, .. } = metric;
        // Another tool's file may have numbers without their count.
        let is_counted = n > 0 || mean.or(p50).is_none();
        (!metric.percentile_rule.is_empty()).then(|| Self {
            name: short_name(name),
            unit: metric.unit.clone(),
            n: if is_counted { number(n as f64) } else { String::new() },
            cells: [mean, p50, p75, p90, p95, p99, min, max].map(cell).to_vec(),
            meaning: match &metric.absent {
                Some(why) => meaning(&metric.zero_point, &format!("left out: {why}"), metric.excluded),
                None => meaning(&metric.zero_point, &metric.population, metric.excluded),
            },
            method: method([
                ("window: ", &metric.window),
                ("tokens: ", &metric.token_source),
                ("percentiles: ", &metric.percentile_rule),
                ("", &interval(metric).unwrap_or_default()),
            ]),
        })
    }
}

fn meaning(zero_point: &str, population: &str, excluded: u64) -> String {
    let excluded = if excluded == 0 { String::new() } else { format!(" ({} excluded)", number(excluded as f64)) };
    let from = zero_point_text(zero_point);
    method([("from ", &from), ("", &format!("{population}{excluded}"))]).join(" · ")
}

/// Those that have a text.
fn method<const N: usize>(parts: [(&str, &String); N]) -> Vec<String> {
    let stated = parts.into_iter().filter(|(_, text)| !text.is_empty());
    stated.map(|(name, text)| format!("{name}{text}")).collect()
}

/// A number as tables show it.
pub(crate) fn cell(value: Option<f64>) -> String {
    value.map_or_else(|| "n/a".to_owned(), number)
}

/// The interval from a single run, or why it is missing. Results of earlier versions have no interval of the mean, and
/// their interval of p99 is too narrow: they are not shown.
fn interval(metric: &Metric) -> Option<String> {
    let reason = metric.no_interval.as_deref();
    if metric.mean_interval.is_none() {
        return reason.map(|reason| format!("no 95 % interval from this run alone: {reason}"));
    }
    let intervals = [
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
    let intervals: Vec<String> = intervals.into_iter().filter_map(text).collect();
    let rest = reason.map_or_else(String::new, |reason| format!("; no further one: {reason}"));
    Some(format!("95 % intervals from this run alone: {}{rest}", intervals.join(", ")))
}
