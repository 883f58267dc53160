//! The servers' own metrics during a benchmark: a table and the few curves that explain a measurement.

use std::fmt::Write as _;

use serde::Serialize;

use super::plot::Plot;
use super::svg::number;
use triton::{ServerMetric, ServerMetrics};

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

/// At most this many rows; the file has all.
const ROWS: usize = 60;

/// Part of a series' key, and what to call its curve.
const CURVES: [(&str, &str); 18] = [
    ("kv_cache_block_type=\"used\"", "KV cache blocks in use"),
    ("kv_cache_block_type=\"fraction\"", "KV cache, share in use"),
    ("request_type=\"active\"", "Requests active in the server"),
    ("request_type=\"waiting\"", "Requests waiting in the server"),
    ("inflight_batcher_specific_metric=\"generation_requests\"", "Requests in generation"),
    ("inflight_batcher_specific_metric=\"paused_requests\"", "Requests paused"),
    ("nv_inference_pending_request_count", "Requests pending (accepted, not executing)"),
    ("nv_gpu_utilization", "GPU utilization"),
    ("rate of nv_inference_request_success", "Requests per second that the server calls successes"),
    ("vllm:num_requests_running", "Requests running in the engine"),
    ("vllm:num_requests_waiting{", "Requests waiting in the engine"),
    ("vllm:kv_cache_usage_perc", "KV cache, share in use"),
    ("rate of vllm:generation_tokens_total", "Output tokens per second, as the server counts"),
    ("rate of vllm:prompt_tokens_total", "Prompt tokens per second, as the server counts"),
    ("rate of vllm:num_preemptions_total", "Preemptions per second"),
    ("sglang:num_running_reqs", "Requests running in the engine"),
    ("sglang:num_queue_reqs", "Requests waiting in the engine"),
    ("sglang:token_usage", "KV cache, share in use"),
];

pub(super) fn section(server_metrics: &ServerMetrics) -> ServerSection {
    let mut about = format!(
        "/metrics of {}, every {} s: {} answers, {} missed; polling took {} ms of CPU in the client, on a thread of its own.",
        server_metrics.servers.join(", "),
        number(server_metrics.interval_s),
        number(server_metrics.scrapes as f64),
        number(server_metrics.missed as f64),
        number(server_metrics.cpu_ms),
    );
    if let Some(why) = &server_metrics.first_miss {
        let _ = write!(about, " The first miss: {why}.");
    }
    if let (Some(from), Some(to)) = (server_metrics.from_s, server_metrics.to_s) {
        let _ = write!(
            about,
            " Counters grew from {from:.1} s to {to:.1} s of the run, so warm-up requests may be among them."
        );
    }
    let derived = server_metrics.derived.iter().map(|one| {
        let value = format!("{} {}", number(one.value), one.unit);
        [one.model.clone(), one.name.clone(), value, one.definition.clone()]
    });
    ServerSection {
        about,
        derived: derived.collect(),
        rows: server_metrics.metrics.iter().take(ROWS).map(row).collect(),
        plots: plots(server_metrics),
    }
}

fn row(one: &ServerMetric) -> [String; 4] {
    let labels = one.labels.iter().filter(|(name, _)| *name != "version");
    let labels: Vec<String> = labels.map(|(name, value)| format!("{name}={value}")).collect();
    let (what, more) = if one.kind == "counter" {
        (
            one.increase.map(|grown| format!("+{}", number(grown))),
            one.per_second.map(|rate| format!("{} per second", number(rate))),
        )
    } else {
        let range = one.min.zip(one.max).map(|(min, max)| format!("{} … {}", number(min), number(max)));
        (one.mean.map(|mean| format!("mean {}", number(mean))), range)
    };
    [
        format!("{} {}", one.name, labels.join(" ")),
        what.unwrap_or_else(|| "n/a".to_owned()),
        more.unwrap_or_default(),
        number(one.last),
    ]
}

fn plots(server_metrics: &ServerMetrics) -> Vec<String> {
    let mut plots = Vec::new();
    for (part, title) in CURVES {
        for (key, line) in server_metrics.series.iter().filter(|(key, _)| key.contains(part)) {
            // The picture begins with the run.
            let points: Vec<(f64, f64)> = line.iter().copied().filter(|(at, _)| *at >= 0.0).collect();
            let model = key
                .split_once("model=\"")
                .or_else(|| key.split_once("model_name=\""))
                .and_then(|(_, rest)| rest.split('"').next());
            let title = model.map_or_else(|| title.to_owned(), |model| format!("{title}: {model}"));
            let across = "seconds from the start, as the server counts";
            plots.extend(
                Plot { title: &title, across, points: &points, top: None, marks: &[], is_sampled: true }.draw(),
            );
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
        let metrics = json!({
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
        });
        let server_section = section(&serde_json::from_value(metrics).unwrap());
        assert!(
            server_section.about.contains("12 answers, 1 missed") && server_section.about.contains("no connection"),
            "{}",
            server_section.about
        );
        assert_eq!(server_section.rows[0], ["nv_inference_count model=m", "+40", "4 per second", "140"]);
        assert_eq!(server_section.rows[1][1..3], ["mean 50", "10 … 90"]);
        assert_eq!(server_section.derived[0], ["m", "mean batch size", "2 requests", "a / b"]);
        assert!(server_section.plots.len() == 1 && server_section.plots[0].contains("KV cache blocks in use"));
    }
}
