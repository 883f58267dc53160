//! What the simulator says of a day of a fleet: a table of the whole day, one of its hours, or JSON.

use hdrhistogram::Histogram;
use serde_json::{Value, json};

use crate::document::{Block, Cell, Document, Section, Table, TableColumn};
use crate::styler::TextRole;
use crate::what_if::{
    WhatIfProblem, distinct, latency, latency_columns, setting_cells, setting_columns, settings_json, settings_text,
};
use base::spec::{LatencyLimit, LimitedMetric};
use base::units::{grouped, three_digits};
use sim::{FleetHour, FleetResult};

/// One fleet. What was simulated of it may be a part.
#[derive(Clone, Debug, PartialEq)]
pub struct FleetRow {
    pub settings: Vec<(String, String)>,
    /// The benchmark's task.
    pub task: String,
    /// The policy of its balancers.
    pub balancer: &'static str,
    pub balancers: u64,
    /// Of all balancers.
    pub replicas: u64,
    pub gpus: u64,
    /// Length of the load.
    pub seconds: f64,
    pub limits: Vec<LatencyLimit>,
    pub result: Result<FleetResult, WhatIfProblem>,
}

impl FleetRow {
    /// From what was simulated to all.
    fn scale(&self, result: &FleetResult) -> f64 {
        self.replicas as f64 / result.replicas.max(1) as f64
    }

    /// Of the answers that ended within the load, as in each of its hours. Over the time to the last answer one that
    /// began again after a failure would count as a slow fleet.
    fn tokens_per_second(&self, result: &FleetResult) -> f64 {
        let tokens: u64 = result.hours.iter().map(|hour| hour.output_tokens).sum();
        tokens as f64 * self.scale(result) / self.seconds
    }

    /// Hours in which every limit on TTFT and TPOT holds. A latency that no request of the hour has holds no limit,
    /// as in a measurement. `None`: no such limit was set.
    fn hours_within(&self, result: &FleetResult) -> Option<usize> {
        let limits: Vec<_> =
            self.limits.iter().filter(|limit| latencies_of(&result.hours[0], limit).is_some()).collect();
        let holds = |hour: &&FleetHour| {
            let value = |limit| statistic(latencies_of(hour, limit)?, limit);
            hour.requests == 0 || limits.iter().all(|limit| value(limit).is_some_and(|ms| ms <= limit.ms))
        };
        (!limits.is_empty()).then(|| result.hours.iter().filter(holds).count())
    }
}

/// `None`: the hours do not keep this metric.
const fn latencies_of<'h>(hour: &'h FleetHour, limit: &LatencyLimit) -> Option<&'h Histogram<u64>> {
    match limit.metric {
        LimitedMetric::Ttft => Some(&hour.ttft),
        LimitedMetric::Tpot => Some(&hour.tpot),
        _ => None,
    }
}

/// ms.
fn statistic(histogram: &Histogram<u64>, limit: &LatencyLimit) -> Option<f64> {
    let mean = || (!histogram.is_empty()).then(|| histogram.mean() / 1e3);
    limit.statistic.quantile().map_or_else(mean, |share| quantile(histogram, share))
}

/// ms. `None`: no request has this latency, as answers of one token have no TPOT.
fn quantile(histogram: &Histogram<u64>, share: f64) -> Option<f64> {
    (!histogram.is_empty()).then(|| histogram.value_at_quantile(share) as f64 / 1e3)
}

/// The day, and the hours of each fleet.
pub fn fleet(rows: &[FleetRow]) -> Document {
    let hours = rows.first().map_or(0.0, |row| row.seconds / 3600.0);
    let model = format!("A model, not a measurement: a fleet for {} h", three_digits(hours));
    let answered = rows.iter().filter_map(|row| Some((row, row.result.as_ref().ok()?)));
    let sections = std::iter::once(Section::default().with([Block::table(day(rows))]));
    Document {
        head: vec![Block::text(TextRole::Plain, model)],
        sections: sections.chain(answered.map(|(row, result)| hours_of(row, result))).collect(),
        ..Document::default()
    }
}

fn day(rows: &[FleetRow]) -> Table {
    let keys = distinct(rows.iter().flat_map(|row| &row.settings).map(|(key, _)| key));
    let mut columns: Vec<TableColumn> = setting_columns(&keys).collect();
    columns.extend(["benchmark", "balancer"].map(TableColumn::new));
    columns.extend(["replicas", "GPUs", "requests", "tok/s", "tok/s/GPU", "busy"].map(TableColumn::number));
    columns.extend(latency_columns());
    let mut table = Table::new("the day of each fleet", columns);
    for row in rows {
        let mut cells = setting_cells(&keys, &row.settings);
        cells.extend([row.task.as_str(), row.balancer].map(Cell::from));
        match &row.result {
            Ok(result) => {
                let tokens = row.tokens_per_second(result);
                let requests = result.arrived as f64 * row.scale(result);
                let counts = [row.replicas as f64, row.gpus as f64, requests, tokens];
                cells.extend(counts.map(|count| Cell::from(grouped(count, 0))));
                cells.push(Cell::number(TextRole::Plain, Some(tokens / row.gpus.max(1) as f64)));
                cells.push(Cell::from(format!("{:.0} %", result.busy_share() * 100.0)));
                cells.extend(latency_cells(&result.ttft, &result.tpot));
            }
            Err(problem) => cells.push(Cell::new(TextRole::Bad, problem.to_string())),
        }
        table.row(cells);
    }
    table
}

/// Median and p99 of both.
fn latency_cells<'h>(ttft: &'h Histogram<u64>, tpot: &'h Histogram<u64>) -> impl Iterator<Item = Cell> + use<'h> {
    let quantiles = |histogram| [0.5, 0.99].map(|share| Cell::from(latency(quantile(histogram, share))));
    [ttft, tpot].into_iter().flat_map(quantiles)
}

fn hours_of(row: &FleetRow, result: &FleetResult) -> Section {
    let scale = row.scale(result);
    let mut lines = Vec::new();
    if result.replicas < row.replicas {
        let [simulated, replicas] = [result.replicas, row.replicas].map(|count| grouped(count as f64, 0));
        lines.push(format!("{simulated} of the {replicas} replicas were simulated"));
    }
    lines.push(format!("the last answer ended {} s after the load", three_digits(result.late_s())));
    if result.failures > 0 {
        let [failures, retried] = [result.failures, result.retried].map(|count| grouped(count as f64 * scale, 0));
        lines.push(format!("{failures} failures, {retried} requests began again"));
    }
    if result.prefix_hits > 0 {
        let share = 100.0 * result.prefix_hits as f64 / result.arrived.max(1) as f64;
        lines.push(format!("{share:.1} % of the requests found their prefix"));
    }
    if let Some(within) = row.hours_within(result) {
        let limits: Vec<String> = row.limits.iter().map(|limit| format!("{} ≤ {} ms", limit.key(), limit.ms)).collect();
        lines.push(format!("{within} of {} hours are within {}", result.hours.len(), limits.join(", ")));
    }
    let columns = [TableColumn::new("hour"), TableColumn::number("req/s"), TableColumn::number("tok/s")];
    let mut table = Table::new("hours", columns.into_iter().chain(latency_columns()));
    for (at, hour) in result.hours.iter().enumerate() {
        let seconds = (row.seconds - at as f64 * 3600.0).clamp(1.0, 3600.0);
        let mut cells = vec![Cell::new(TextRole::Name, at.to_string())];
        cells.push(Cell::number(TextRole::Plain, Some(hour.requests as f64 * scale / seconds)));
        cells.push(Cell::from(grouped(hour.output_tokens as f64 * scale / seconds, 0)));
        cells.extend(latency_cells(&hour.ttft, &hour.tpot));
        table.row(cells);
    }
    let lines = lines.into_iter().map(|line| Block::text(TextRole::Plain, line));
    let heading = format!("{} {} {}", settings_text(&row.settings), row.task, row.balancer);
    Section::new(heading.trim()).with(lines.chain([Block::table(table)]))
}

/// All rows as JSON.
pub fn fleet_json(rows: &[FleetRow]) -> Value {
    let latencies = |histogram: &Histogram<u64>| {
        let [p50, p90, p99] = [0.5, 0.9, 0.99].map(|share| quantile(histogram, share));
        json!({"p50": p50, "p90": p90, "p99": p99})
    };
    let fleets: Vec<Value> = rows
        .iter()
        .map(|row| {
            let mut fleet = json!({"settings": settings_json(&row.settings), "task": row.task, "balancer": row.balancer,
                "balancers": row.balancers, "replicas": row.replicas, "gpus": row.gpus, "seconds": row.seconds});
            match &row.result {
                Ok(result) => {
                    let scale = row.scale(result);
                    let hours: Vec<Value> = result
                        .hours
                        .iter()
                        .map(|hour| {
                            json!({"requests": hour.requests, "output_tokens": hour.output_tokens,
                                "ttft_ms": latencies(&hour.ttft), "tpot_ms": latencies(&hour.tpot)})
                        })
                        .collect();
                    fleet["simulated"] = json!({"replicas": result.replicas, "requests": result.arrived,
                        "output_tokens": result.output_tokens, "steps": result.steps, "failures": result.failures,
                        "retried": result.retried, "prefix_hits": result.prefix_hits});
                    fleet["requests"] = json!((result.arrived as f64 * scale).round());
                    fleet["tokens_per_second"] = json!(row.tokens_per_second(result));
                    fleet["last_answer_after_load_s"] = json!(result.late_s());
                    fleet["gpu_hours"] = json!(row.gpus as f64 * row.seconds / 3600.0);
                    fleet["busy_share"] = json!(result.busy_share());
                    fleet["ttft_ms"] = latencies(&result.ttft);
                    fleet["tpot_ms"] = latencies(&result.tpot);
                    fleet["e2e_ms"] = latencies(&result.e2e);
                    fleet["hours_within_limits"] = json!(row.hours_within(result));
                    fleet["hours"] = json!(hours);
                }
                Err(why) => fleet["error"] = json!(why.to_string()),
            }
            fleet
        })
        .collect();
    json!({"simulated": true, "note": "a model, not a measurement", "fleets": fleets})
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::styler::Styler;
    use base::spec::Statistic;

    fn histogram(values_us: &[u64]) -> Histogram<u64> {
        let mut histogram = Histogram::new(3).unwrap();
        for value in values_us {
            histogram.record(*value).unwrap();
        }
        histogram
    }

    /// Two hours of load; in the second no request arrives.
    fn row(tpot_us: &[u64], end: u64) -> FleetRow {
        let (busy, quiet) = (histogram(&[40_000]), histogram(&[]));
        let hour = |requests, output_tokens, ttft: &Histogram<u64>, tpot: &Histogram<u64>| FleetHour {
            requests,
            output_tokens,
            ttft: ttft.clone(),
            tpot: tpot.clone(),
        };
        let tpot = histogram(tpot_us);
        let hours = vec![hour(1, 3_600_000, &busy, &tpot), hour(0, 3_600_000, &quiet, &quiet)];
        let result = FleetResult {
            arrived: 1,
            answered: 1,
            output_tokens: 14_400_000,
            failures: 0,
            retried: 0,
            prefix_hits: 0,
            replicas: 1,
            busy_ns: end,
            steps: 1,
            load_ns: 7_200_000_000_000,
            end,
            ttft: busy.clone(),
            tpot,
            e2e: busy,
            hours,
        };
        let limit = |metric, ms| LatencyLimit { metric, statistic: Statistic::P99, ms };
        FleetRow {
            settings: Vec::new(),
            task: "benchmark".to_owned(),
            balancer: "round-robin",
            balancers: 1,
            replicas: 1,
            gpus: 1,
            seconds: 7_200.0,
            limits: vec![limit(LimitedMetric::Ttft, 100.0), limit(LimitedMetric::Tpot, 10.0)],
            result: Ok(result),
        }
    }

    /// 2,000 tok/s are requested, and the fleet produces 1,000 during the load, whenever the last answer ends.
    #[test]
    fn tokens_per_second_are_those_that_the_fleet_produces_during_the_load() {
        for late_s in [30, 7_200, 28_800] {
            let row = row(&[5_000], (7_200 + late_s) * 1_000_000_000);
            let json = fleet_json(std::slice::from_ref(&row));
            let answer = &json["fleets"][0];
            assert_eq!(answer["tokens_per_second"], 1000.0);
            assert_eq!(answer["last_answer_after_load_s"], late_s as f64);
            let text = fleet(&[row]).terminal(Styler::OFF);
            let late = format!("the last answer ended {} s after the load", three_digits(late_s as f64));
            assert!(text.contains(&late), "{text}");
        }
    }

    #[test]
    fn a_latency_that_no_request_has_is_no_number_and_holds_no_limit() {
        let row = row(&[], 7_200_000_000_000);
        let json = fleet_json(std::slice::from_ref(&row));
        let answer = &json["fleets"][0];
        assert_eq!((&answer["tpot_ms"]["p99"], &answer["hours"][1]["ttft_ms"]["p50"]), (&Value::Null, &Value::Null));
        assert_eq!(answer["ttft_ms"]["p50"].as_f64().map(f64::round), Some(40.0));
        // Of the hour without requests no limit is missed.
        assert_eq!(answer["hours_within_limits"], 1);
        let text = fleet(&[row]).terminal(Styler::OFF);
        assert!(text.contains("n/a") && !text.contains(" 0.00 ms"), "{text}");
    }
}
