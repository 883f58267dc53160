//! The servers' own metrics during a benchmark: a table and the few curves that explain a measurement.

use std::fmt::Write as _;

use serde::Serialize;
use serde_json::Value;

use super::plot::Plot;
use super::svg::number;

/// `server_metrics` of a result, ready for the template.
#[derive(Debug, Default, Serialize)]
pub(super) struct ServerSection {
    /// Which endpoint was read, how often, and what it cost.
    pub about: String,
    /// Model, name, value, definition.
    pub derived: Vec<[String; 4]>,
    /// Name and labels, growth or mean, per second or range, last.
    pub rows: Vec<[String; 4]>,
    /// SVG; the page marks it as safe.
    #[serde(skip)]
    pub plots: Vec<String>,
}

/// At most so many rows; the file has all.
const ROWS: usize = 60;

/// Part of a series' key, and what to call its curve.
const CURVES: [(&str, &str); 9] = [
    ("kv_cache_block_type=\"used\"", "KV cache blocks in use"),
    ("kv_cache_block_type=\"fraction\"", "KV cache, share in use"),
    ("request_type=\"active\"", "Requests active in the server"),
    ("request_type=\"waiting\"", "Requests waiting in the server"),
    ("inflight_batcher_specific_metric=\"generation_requests\"", "Requests in generation"),
    ("inflight_batcher_specific_metric=\"paused_requests\"", "Requests paused"),
    ("nv_inference_pending_request_count", "Requests pending (accepted, not executing)"),
    ("nv_gpu_utilization", "GPU utilization"),
    ("rate of nv_inference_request_success", "Requests per second that the server calls successes"),
];

pub(super) fn read(result: &Value) -> Option<ServerSection> {
    let told = result.get("server_metrics")?;
    let count = |key: &str| told.get(key).and_then(Value::as_f64).unwrap_or_default();
    let list = |key: &str| told.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let text = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let servers: Vec<&str> = list("servers").iter().filter_map(Value::as_str).collect();
    let mut about = format!(
        "/metrics of {}, every {} s: {} answers, {} missed; polling took {} ms of CPU in the client, on a thread of its own.",
        servers.join(", "),
        number(count("interval_s")),
        number(count("scrapes")),
        number(count("missed")),
        number(count("cpu_ms")),
    );
    if let Some(why) = told.get("first_miss").and_then(Value::as_str) {
        let _ = write!(about, " The first miss: {why}.");
    }
    if let (Some(from), Some(to)) =
        (told.get("from_s").and_then(Value::as_f64), told.get("to_s").and_then(Value::as_f64))
    {
        let _ = write!(
            about,
            " Counters grew from {from:.1} s to {to:.1} s of the run, so warm-up requests may be among them."
        );
    }
    let derived = list("derived").iter().map(|one| {
        let value =
            format!("{} {}", number(one.get("value").and_then(Value::as_f64).unwrap_or_default()), text(one, "unit"));
        [text(one, "model"), text(one, "name"), value, text(one, "definition")]
    });
    let rows = list("metrics").iter().take(ROWS).map(|one| {
        let shown = |key: &str| one.get(key).and_then(Value::as_f64).map(number);
        let labels: Vec<String> = one
            .get("labels")
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
            .filter(|(name, _)| *name != "version")
            .map(|(name, value)| format!("{name}={}", value.as_str().unwrap_or_default()))
            .collect();
        let (what, more) = if text(one, "kind") == "counter" {
            (
                shown("increase").map(|grown| format!("+{grown}")),
                shown("per_second").map(|rate| format!("{rate} per second")),
            )
        } else {
            let range = shown("min").zip(shown("max")).map(|(min, max)| format!("{min} … {max}"));
            (shown("mean").map(|mean| format!("mean {mean}")), range)
        };
        [
            format!("{} {}", text(one, "name"), labels.join(" ")),
            what.unwrap_or_else(|| "n/a".to_owned()),
            more.unwrap_or_default(),
            shown("last").unwrap_or_default(),
        ]
    });
    Some(ServerSection { about, derived: derived.collect(), rows: rows.collect(), plots: plots(told) })
}

fn plots(told: &Value) -> Vec<String> {
    let Some(series) = told.get("series").and_then(Value::as_object) else { return Vec::new() };
    let mut plots = Vec::new();
    for (part, title) in CURVES {
        for (key, line) in series.iter().filter(|(key, _)| key.contains(part)) {
            let points: Vec<(f64, f64)> = line
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(|point| Some((point.get(0)?.as_f64()?, point.get(1)?.as_f64()?)))
                // The picture begins with the run.
                .filter(|(at, _)| *at >= 0.0)
                .collect();
            let model = key.split("model=\"").nth(1).and_then(|rest| rest.split('"').next());
            let title = model.map_or_else(|| title.to_owned(), |model| format!("{title}: {model}"));
            let across = "seconds from the start, as the server counts";
            plots.extend(Plot { title: &title, across, points: &points, top: None, marks: &[], filled: true }.draw());
        }
    }
    plots
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn counters_are_growth_and_gauges_are_ranges() {
        let result = json!({ "server_metrics": {
            "servers": ["h:8002"], "interval_s": 1.0, "scrapes": 12, "missed": 1, "first_miss": "no connection",
            "cpu_ms": 3.25, "from_s": -0.5, "to_s": 10.5, "silent": 3,
            "metrics": [
                { "name": "nv_inference_count", "labels": { "model": "m", "version": "1" }, "kind": "counter",
                  "increase": 40.0, "per_second": 4.0, "last": 140.0 },
                { "name": "nv_trt_llm_kv_cache_block_metrics", "labels": { "kv_cache_block_type": "used" },
                  "kind": "gauge", "mean": 50.0, "min": 10.0, "max": 90.0, "last": 0.0 },
            ],
            "derived": [{ "model": "m", "name": "mean batch size", "value": 2.0, "unit": "requests", "definition": "a / b" }],
            "series": { "nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type=\"used\"}": [[-0.5, 1.0], [0.5, 10.0], [1.5, 90.0]] },
        }});
        let told = read(&result).expect("metrics");
        assert!(told.about.contains("12 answers, 1 missed") && told.about.contains("no connection"), "{}", told.about);
        assert_eq!(told.rows[0], ["nv_inference_count model=m", "+40", "4 per second", "140"]);
        assert_eq!(told.rows[1][1..3], ["mean 50", "10 … 90"]);
        assert_eq!(told.derived[0], ["m", "mean batch size", "2 requests", "a / b"]);
        assert!(told.plots.len() == 1 && told.plots[0].contains("KV cache blocks in use"));
        assert!(read(&json!({})).is_none());
    }
}
