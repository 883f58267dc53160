//! What the simulator says of a day of a fleet: a table of the whole day, one of its hours, or JSON.

use std::fmt::Write as _;

use hdrhistogram::Histogram;
use serde_json::{Value, json};

use super::what_if::WhatIfProblem;
use crate::report::terminal::styler::{Styler, TextRole, table};
use crate::sim::{FleetHour, FleetResult};
use crate::spec::{LatencyLimit, LimitedMetric};
use crate::units::grouped;

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

    fn tokens_per_second(&self, result: &FleetResult) -> f64 {
        result.output_tokens as f64 * self.scale(result) / self.seconds
    }

    /// Hours in which every limit on TTFT and TPOT holds. `None`: there is no such limit.
    fn hours_within(&self, result: &FleetResult) -> Option<usize> {
        let limits: Vec<_> = self.limits.iter().filter(|limit| of_hour(&result.hours[0], limit).is_some()).collect();
        let holds = |hour: &&FleetHour| {
            limits.iter().all(|limit| of_hour(hour, limit).is_some_and(|ms| ms <= limit.ms)) || hour.requests == 0
        };
        (!limits.is_empty()).then(|| result.hours.iter().filter(holds).count())
    }
}

fn of_hour(hour: &FleetHour, limit: &LatencyLimit) -> Option<f64> {
    let histogram = match limit.metric {
        LimitedMetric::Ttft => &hour.ttft,
        LimitedMetric::Tpot => &hour.tpot,
        _ => return None,
    };
    Some(limit.statistic.quantile().map_or_else(|| histogram.mean() / 1e3, |share| quantile(histogram, share)))
}

/// ms.
fn quantile(histogram: &Histogram<u64>, share: f64) -> f64 {
    if histogram.is_empty() { 0.0 } else { histogram.value_at_quantile(share) as f64 / 1e3 }
}

/// The day, and the hours of each fleet.
pub fn fleet_text(rows: &[FleetRow], paint: Styler) -> String {
    let mut out = String::from("A model, not a measurement: a fleet for ");
    let hours = rows.first().map_or(0.0, |row| row.seconds / 3600.0);
    let _ = writeln!(out, "{} h", short(hours));
    let mut keys: Vec<&String> = Vec::new();
    for (key, _) in rows.iter().flat_map(|row| &row.settings) {
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    let quiet = |text: &str| (TextRole::Quiet, text.to_owned());
    let plain = |text: String| (TextRole::Plain, text);
    let mut head: Vec<_> = keys.iter().map(|key| quiet(key)).collect();
    head.extend(
        [
            "benchmark",
            "balancer",
            "replicas",
            "GPUs",
            "requests",
            "tok/s",
            "of a GPU",
            "busy",
            "TTFT p50",
            "p99",
            "TPOT p50",
            "p99",
        ]
        .map(quiet),
    );
    let mut lines = vec![head];
    for row in rows {
        let mut line: Vec<_> = keys
            .iter()
            .map(|key| {
                let value = row.settings.iter().find(|(name, _)| name == *key);
                plain(value.map(|(_, value)| value.clone()).unwrap_or_default())
            })
            .collect();
        line.extend([plain(row.task.clone()), plain(row.balancer.to_owned())]);
        match &row.result {
            Ok(result) => {
                let tokens = row.tokens_per_second(result);
                line.extend([row.replicas, row.gpus].map(|count| plain(grouped(count as f64, 0))));
                line.push(plain(grouped(result.arrived as f64 * row.scale(result), 0)));
                line.push(plain(grouped(tokens, 0)));
                line.push(plain(short(tokens / row.gpus.max(1) as f64)));
                line.push(plain(format!("{:.0} %", result.busy_share() * 100.0)));
                for histogram in [&result.ttft, &result.tpot] {
                    line.extend([0.5, 0.99].map(|share| plain(format!("{} ms", short(quantile(histogram, share))))));
                }
            }
            Err(why) => line.push(plain(why.to_string())),
        }
        lines.push(line);
    }
    out.push_str(&table(paint, "  ", &lines));
    for row in rows {
        if let Ok(result) = &row.result {
            out.push('\n');
            out.push_str(&hours_text(row, result, rows.len() > 1, paint));
        }
    }
    out
}

fn hours_text(row: &FleetRow, result: &FleetResult, is_named: bool, paint: Styler) -> String {
    let mut out = String::new();
    if is_named {
        let settings: Vec<String> = row.settings.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let _ = writeln!(out, "{} {} {}", settings.join(" "), row.task, row.balancer);
    }
    if result.replicas < row.replicas {
        let _ = writeln!(
            out,
            "{} of the {} replicas were simulated",
            grouped(result.replicas as f64, 0),
            grouped(row.replicas as f64, 0)
        );
    }
    if result.failures > 0 {
        let scale = row.scale(result);
        let _ = writeln!(
            out,
            "{} failures, {} requests began again",
            grouped(result.failures as f64 * scale, 0),
            grouped(result.retried as f64 * scale, 0)
        );
    }
    if result.prefix_hits > 0 {
        let _ = writeln!(
            out,
            "{:.1} % of the requests found their prefix",
            100.0 * result.prefix_hits as f64 / result.arrived.max(1) as f64
        );
    }
    if let Some(within) = row.hours_within(result) {
        let limits: Vec<String> = row.limits.iter().map(|limit| format!("{} ≤ {} ms", limit.key(), limit.ms)).collect();
        let _ = writeln!(out, "{within} of {} hours are within {}", result.hours.len(), limits.join(", "));
    }
    let quiet = |text: &str| (TextRole::Quiet, text.to_owned());
    let mut lines = vec![["hour", "req/s", "tok/s", "TTFT p50", "p99", "TPOT p50", "p99"].map(quiet).to_vec()];
    let scale = row.scale(result);
    for (at, hour) in result.hours.iter().enumerate() {
        let seconds = (row.seconds - at as f64 * 3600.0).clamp(1.0, 3600.0);
        let mut line = vec![(TextRole::Name, at.to_string())];
        line.push((TextRole::Plain, short(hour.requests as f64 * scale / seconds)));
        line.push((TextRole::Plain, grouped(hour.output_tokens as f64 * scale / seconds, 0)));
        for histogram in [&hour.ttft, &hour.tpot] {
            line.extend(
                [0.5, 0.99].map(|share| (TextRole::Plain, format!("{} ms", short(quantile(histogram, share))))),
            );
        }
        lines.push(line);
    }
    out.push_str(&table(paint, "  ", &lines));
    out
}

/// The same as JSON.
pub fn fleet_json(rows: &[FleetRow]) -> String {
    let latency = |histogram: &Histogram<u64>| json!({"p50": quantile(histogram, 0.5), "p90": quantile(histogram, 0.9), "p99": quantile(histogram, 0.99)});
    let fleets: Vec<Value> = rows
        .iter()
        .map(|row| {
            let settings: serde_json::Map<_, _> =
                row.settings.iter().map(|(key, value)| (key.clone(), json!(value))).collect();
            let mut fleet = json!({"settings": settings, "task": row.task, "balancer": row.balancer,
                "balancers": row.balancers, "replicas": row.replicas, "gpus": row.gpus, "seconds": row.seconds});
            match &row.result {
                Ok(result) => {
                    let scale = row.scale(result);
                    let hours: Vec<Value> = result
                        .hours
                        .iter()
                        .map(|hour| {
                            json!({"requests": hour.requests, "output_tokens": hour.output_tokens,
                                "ttft_ms": latency(&hour.ttft), "tpot_ms": latency(&hour.tpot)})
                        })
                        .collect();
                    fleet["simulated"] = json!({"replicas": result.replicas, "requests": result.arrived,
                        "output_tokens": result.output_tokens, "steps": result.steps, "failures": result.failures,
                        "retried": result.retried, "prefix_hits": result.prefix_hits});
                    fleet["requests"] = json!((result.arrived as f64 * scale).round());
                    fleet["tokens_per_second"] = json!(row.tokens_per_second(result));
                    fleet["gpu_hours"] = json!(row.gpus as f64 * row.seconds / 3600.0);
                    fleet["busy_share"] = json!(result.busy_share());
                    fleet["ttft_ms"] = latency(&result.ttft);
                    fleet["tpot_ms"] = latency(&result.tpot);
                    fleet["e2e_ms"] = latency(&result.e2e);
                    fleet["hours_within_limits"] = json!(row.hours_within(result));
                    fleet["hours"] = json!(hours);
                }
                Err(why) => fleet["error"] = json!(why.to_string()),
            }
            fleet
        })
        .collect();
    format!("{:#}\n", json!({"simulated": true, "note": "a model, not a measurement", "fleets": fleets}))
}

/// Three digits that count, or all whole ones.
fn short(value: f64) -> String {
    match value {
        v if v >= 100.0 => format!("{v:.0}"),
        v if v >= 10.0 => format!("{v:.1}"),
        v => format!("{v:.2}"),
    }
}
