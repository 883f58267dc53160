//! What the simulator says of a day of a fleet: a table of the whole day, one of its hours, or JSON.

use std::fmt::Write as _;

use hdrhistogram::Histogram;
use serde_json::{Value, json};

use super::what_if::{WhatIfProblem, latency};
use crate::terminal::styler::{Styler, TextRole, table};
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

    /// Of the answers that ended within the load, as in each of its hours. Over the time to the last answer one that began again
    /// after a failure would count as a slow fleet.
    fn tokens_per_second(&self, result: &FleetResult) -> f64 {
        let tokens: u64 = result.hours.iter().map(|hour| hour.output_tokens).sum();
        tokens as f64 * self.scale(result) / self.seconds
    }

    /// Hours in which every limit on TTFT and TPOT holds. A latency that no request of the hour has holds no limit, as in a
    /// measurement. `None`: there is no such limit.
    fn hours_within(&self, result: &FleetResult) -> Option<usize> {
        let limits: Vec<_> =
            self.limits.iter().filter(|limit| latencies_of(&result.hours[0], limit).is_some()).collect();
        let holds = |hour: &&FleetHour| {
            let found = |limit| statistic(latencies_of(hour, limit)?, limit);
            hour.requests == 0 || limits.iter().all(|limit| found(limit).is_some_and(|ms| ms <= limit.ms))
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
pub fn fleet_text(rows: &[FleetRow], paint: Styler) -> String {
    let mut out = String::from("A model, not a measurement: a fleet for ");
    let hours = rows.first().map_or(0.0, |row| row.seconds / 3600.0);
    let _ = writeln!(out, "{} h", three_digits(hours));
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
                line.push(plain(three_digits(tokens / row.gpus.max(1) as f64)));
                line.push(plain(format!("{:.0} %", result.busy_share() * 100.0)));
                for histogram in [&result.ttft, &result.tpot] {
                    line.extend([0.5, 0.99].map(|share| plain(latency(quantile(histogram, share)))));
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
    let _ = writeln!(out, "the last answer ended {} s after the load", three_digits(result.late_s()));
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
        line.push((TextRole::Plain, three_digits(hour.requests as f64 * scale / seconds)));
        line.push((TextRole::Plain, grouped(hour.output_tokens as f64 * scale / seconds, 0)));
        for histogram in [&hour.ttft, &hour.tpot] {
            line.extend([0.5, 0.99].map(|share| (TextRole::Plain, latency(quantile(histogram, share)))));
        }
        lines.push(line);
    }
    out.push_str(&table(paint, "  ", &lines));
    out
}

/// All rows as JSON.
pub fn fleet_json(rows: &[FleetRow]) -> String {
    let latencies = |histogram: &Histogram<u64>| json!({"p50": quantile(histogram, 0.5), "p90": quantile(histogram, 0.9), "p99": quantile(histogram, 0.99)});
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
    format!("{:#}\n", json!({"simulated": true, "note": "a model, not a measurement", "fleets": fleets}))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
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
            let json: Value = serde_json::from_str(&fleet_json(std::slice::from_ref(&row))).unwrap();
            let fleet = &json["fleets"][0];
            assert_eq!(fleet["tokens_per_second"], 1000.0);
            assert_eq!(fleet["last_answer_after_load_s"], late_s as f64);
            let text = fleet_text(&[row], Styler::OFF);
            let late = format!("the last answer ended {} s after the load", three_digits(late_s as f64));
            assert!(text.contains(&late), "{text}");
        }
    }

    #[test]
    fn a_latency_that_no_request_has_is_no_number_and_holds_no_limit() {
        let row = row(&[], 7_200_000_000_000);
        let json: Value = serde_json::from_str(&fleet_json(std::slice::from_ref(&row))).unwrap();
        let fleet = &json["fleets"][0];
        assert_eq!((&fleet["tpot_ms"]["p99"], &fleet["hours"][1]["ttft_ms"]["p50"]), (&Value::Null, &Value::Null));
        assert_eq!(fleet["ttft_ms"]["p50"].as_f64().map(f64::round), Some(40.0));
        // Of the hour without requests no limit is missed.
        assert_eq!(fleet["hours_within_limits"], 1);
        let text = fleet_text(&[row], Styler::OFF);
        assert!(text.contains("n/a") && !text.contains(" 0.00 ms"), "{text}");
    }
}
