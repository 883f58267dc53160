//! A metric as the tables of a result have it: its numbers, and what they are of.

use crate::chart::number;
use crate::document::{Block, Cell, Table, TableColumn};
use harness::{ConfidenceInterval, Metric, zero_point_text};
use interop::ImportedMetric;

/// A row of the table, numbers as they are shown.
#[derive(Debug)]
pub(crate) struct MetricRow {
    pub name: String,
    pub unit: String,
    pub n: String,
    pub cells: Vec<String>,
    /// Intervals from this run, or why they are missing.
    pub interval: String,
    pub population: String,
    pub zero_point: String,
    pub token_source: String,
    pub window: String,
    pub rule: String,
    pub excluded: String,
}

/// The columns of [`MetricRow::cells`].
pub(crate) const COLUMNS: [&str; 8] = ["mean", "p50", "p75", "p90", "p95", "p99", "min", "max"];

/// The metrics that have a value, each with what it means below it; and those that have none.
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
        let cells = [Cell::name(format!("{} {}", row.name, row.unit)), (&row.n).into()];
        table.row_like("has-def", cells.into_iter().chain(stated.iter().map(|at| Cell::from(&row.cells[*at]))));
        table.row_like("def", [Cell::default(), Cell::quiet(row.definition())]);
    }
    let names: Vec<&str> = without.iter().map(|row| row.name.as_str()).collect();
    let table = (!table.is_empty()).then(|| Block::table(table));
    let without = (!names.is_empty()).then(|| format!("without a value: {}", names.join(", ")));
    table.into_iter().chain(Block::notes(without)).collect()
}

impl MetricRow {
    fn definition(&self) -> String {
        let part = |name: &str, text: &String| (!text.is_empty()).then(|| format!("{name}{text}"));
        let is_any_excluded = !["", "0"].contains(&self.excluded.as_str());
        let excluded = if is_any_excluded { format!(" ({} excluded)", self.excluded) } else { String::new() };
        let parts = [
            part("from ", &self.zero_point),
            part("", &self.population).map(|population| population + &excluded),
            part("window: ", &self.window),
            part("tokens: ", &self.token_source),
            part("", &self.interval),
            part("percentiles: ", &self.rule),
        ];
        parts.into_iter().flatten().collect::<Vec<_>>().join(" · ")
    }

    /// `None`: the result does not have it.
    pub(crate) fn new(name: &str, metric: &Metric) -> Option<Self> {
        let &Metric { mean, p50, p75, p90, p95, p99, min, max, .. } = metric;
        (!metric.percentile_rule.is_empty()).then(|| Self {
            name: title(name),
            unit: metric.unit.clone(),
            n: number(metric.n as f64),
            cells: [mean, p50, p75, p90, p95, p99, min, max].map(cell).to_vec(),
            interval: interval(metric).unwrap_or_default(),
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
    pub(crate) fn imported(name: &str, metric: &ImportedMetric) -> Self {
        let &ImportedMetric { mean, p50, p90, p95, p99, min, max, .. } = metric;
        Self {
            name: title(name),
            unit: metric.unit.clone(),
            n: metric.n.map(|n| number(n as f64)).unwrap_or_default(),
            cells: [mean, p50, None, p90, p95, p99, min, max].map(cell).to_vec(),
            interval: String::new(),
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
pub(crate) fn cell(value: Option<f64>) -> String {
    value.map_or_else(|| "n/a".to_owned(), number)
}

/// `ttft` → `TTFT`, `max_stall` → `max stall`.
pub(crate) fn title(name: &str) -> String {
    let words: Vec<String> = name
        .split(['_', ' '])
        .map(|word| match word {
            "ttft" | "tpot" | "itl" | "icl" | "e2e" | "ntpot" => word.to_uppercase(),
            other => other.to_owned(),
        })
        .collect();
    words.join(" ")
}

/// Intervals from one run, or why there are none. Results of earlier versions have one of p99 that does not hold what
/// it claims, and none of the mean: theirs is not shown.
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
