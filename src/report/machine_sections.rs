//! What machines did during a measurement: the GPUs, the servers' own metrics, and what was tried before it on the
//! client.

use crate::chart::{OverlayCurve, course, held, number};
use crate::metric_row::cell;
use crate::result_sections::{ResultBlock, percent};
use harness::gpu::{GpuUsage, GpusUsage};
use harness::preflight::PreflightResult;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use triton::{ServerMetric, ServerMetrics};

/// The beginning of a series' key, and its picture's title.
const GPU_CURVES: [(&str, &str); 5] = [
    ("power W of ", "Power in W, GPU "),
    ("utilization % of ", "Utilization in %, GPU "),
    ("memory MiB of ", "Memory used in MiB, GPU "),
    ("SM clock MHz of ", "SM clock in MHz, GPU "),
    ("temperature °C of ", "Temperature in °C, GPU "),
];
/// Of each kind.
const PICTURES: usize = 8;

/// A column of a GPU, and its number.
type GpuColumn = (&'static str, fn(&GpuUsage) -> Option<f64>);

const GPU_COLUMNS: [GpuColumn; 10] = [
    ("mean W", |gpu| gpu.mean_power_w),
    ("max W", |gpu| gpu.max_power_w),
    ("energy J", |gpu| gpu.energy_j),
    ("covered s", |gpu| Some(gpu.covered_s)),
    ("mean util. %", |gpu| gpu.mean_utilization_percent),
    ("max util. %", |gpu| gpu.max_utilization_percent),
    ("max memory MiB", |gpu| gpu.max_memory_used_mib),
    ("of MiB", |gpu| gpu.device.memory_total_mib),
    ("max °C", |gpu| gpu.max_temperature_c),
    ("mean SM MHz", |gpu| gpu.mean_sm_clock_mhz),
];

pub(crate) fn gpus(gpus: &GpusUsage) -> ResultBlock {
    let mut block = ResultBlock::new("GPUs", about_gpus(gpus));
    block.head = ["GPU"].into_iter().chain(GPU_COLUMNS.map(|(name, _)| name)).chain(["clocks held down by"]).collect();
    block.plots = gpu_plots(&gpus.series);
    block.fact("energy, J", gpus.energy_j.map(number), format!("of these GPUs; window: {}", gpus.window));
    block.fact("mean power, W", gpus.mean_power_w.map(number), "sum over these GPUs, the same window");
    block.fact("tokens per joule", Some(cell(gpus.tokens_per_joule)), gpus.tokens_per_joule_is.as_str());
    block.rows = gpus.devices.iter().map(gpu_row).collect();
    block
}

fn gpu_row(gpu: &GpuUsage) -> Vec<String> {
    let index = gpu.device.index.map(|index| number(f64::from(index)));
    let name = gpu.device.name.as_ref().unwrap_or(&gpu.device.uuid);
    let name: Vec<String> = index.into_iter().chain(Some(name.clone()).filter(|name| !name.is_empty())).collect();
    let numbers = GPU_COLUMNS.map(|(_, number)| cell(number(gpu)));
    std::iter::once(name.join(" ")).chain(numbers).chain([clock_reasons(gpu)]).collect()
}

/// The source, the devices it covers, and what went wrong.
fn about_gpus(gpus: &GpusUsage) -> String {
    let mut about = format!(
        "From {}, every {} s: {}. Energy is the area under the readings of power within the window. They help to \
         explain the measurement but are not part of it.",
        gpus.source,
        number(gpus.interval_s),
        gpus.population,
    );
    let mut drivers: Vec<&str> = gpus.devices.iter().filter_map(|gpu| gpu.device.driver.as_deref()).collect();
    drivers.sort_unstable();
    drivers.dedup();
    if !drivers.is_empty() {
        let _ = write!(about, " Driver {}.", drivers.join(", "));
    }
    if gpus.malformed > 0 {
        let first = gpus.first_malformed.as_deref().unwrap_or_default();
        let _ = write!(about, " {} lines were not understood; the first: {first}.", number(gpus.malformed as f64));
    }
    for note in &gpus.notes {
        let _ = write!(about, " {note}.");
    }
    about
}

fn clock_reasons(gpu: &GpuUsage) -> String {
    let Some(reasons) = &gpu.throttle_reasons else { return "n/a".to_owned() };
    let seen: Vec<String> =
        reasons.iter().map(|(name, share)| format!("{} {}", name.replace('_', " "), percent(*share))).collect();
    if seen.is_empty() { "nothing".to_owned() } else { format!("{} of readings", seen.join(", ")) }
}

fn gpu_plots(series: &BTreeMap<String, Vec<(f64, f64)>>) -> Vec<String> {
    let mut plots = Vec::new();
    for (key, title) in GPU_CURVES {
        let lines = series.iter().filter_map(|(name, line)| Some((name.strip_prefix(key)?, line)));
        for (gpu, line) in lines.take(PICTURES) {
            let top = if key.starts_with("utilization") { 100.0 } else { 0.0 };
            plots.extend(over_time(&format!("{title}{gpu}"), "seconds from the start", line, top));
        }
    }
    plots
}

/// Samples of a number; the picture begins with the run.
fn over_time(title: &str, across: &str, line: &[(f64, f64)], top: f64) -> Option<String> {
    let points: Vec<(f64, f64)> = line.iter().copied().filter(|(at, _)| *at >= 0.0).collect();
    course(title, across, top, &[OverlayCurve { place: 0, points: held(&points) }])
}

/// At most this many rows; the file has all.
const SERVER_ROWS: usize = 60;

/// Part of a series' key, and what to call its curve.
const SERVER_CURVES: [(&str, &str); 18] = [
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

pub(crate) fn server(server_metrics: &ServerMetrics) -> ResultBlock {
    let mut about = format!(
        "/metrics of {}, every {} s: {} answers, {} missed; polling took {} ms of CPU in the client, on a thread of \
            its own.",
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
    about.push_str(
        " These numbers help to explain the measurement but are not part of it: for decoupled models, Triton counts \
         cancelled and failed requests as successes.",
    );
    let mut block = ResultBlock::new("Server metrics", about);
    block.head = vec!["metric", "during the run", "rate, or least … most", "last"];
    block.rows = server_metrics.metrics.iter().take(SERVER_ROWS).map(server_row).collect();
    block.fold = Some("The counters and gauges");
    block.plots = server_plots(server_metrics);
    block.is_on_page = true;
    for one in &server_metrics.derived {
        let value = format!("{} {}", number(one.value), one.unit);
        block.fact(&format!("{}: {}", one.model, one.name), Some(value), one.definition.as_str());
    }
    block
}

fn server_row(metric: &ServerMetric) -> Vec<String> {
    let labels = metric.labels.iter().filter(|(name, _)| *name != "version");
    let labels: Vec<String> = labels.map(|(name, value)| format!("{name}={value}")).collect();
    let (what, more) = if metric.kind == "counter" {
        (
            metric.increase.map(|grown| format!("+{}", number(grown))),
            metric.per_second.map(|rate| format!("{} per second", number(rate))),
        )
    } else {
        let range = metric.min.zip(metric.max).map(|(min, max)| format!("{} … {}", number(min), number(max)));
        (metric.mean.map(|mean| format!("mean {}", number(mean))), range)
    };
    vec![
        format!("{} {}", metric.name, labels.join(" ")),
        what.unwrap_or_else(|| "n/a".to_owned()),
        more.unwrap_or_default(),
        number(metric.last),
    ]
}

fn server_plots(server_metrics: &ServerMetrics) -> Vec<String> {
    let mut plots = Vec::new();
    for (part, title) in SERVER_CURVES {
        for (key, line) in server_metrics.series.iter().filter(|(key, _)| key.contains(part)) {
            let model = key
                .split_once("model=\"")
                .or_else(|| key.split_once("model_name=\""))
                .and_then(|(_, rest)| rest.split('"').next());
            let title = model.map_or_else(|| title.to_owned(), |model| format!("{title}: {model}"));
            let across = "seconds from the start, as the server counts";
            plots.extend(over_time(&title, across, line, 0.0));
        }
    }
    plots
}

pub(crate) fn preflight(preflight: &PreflightResult) -> ResultBlock {
    let load = match (preflight.rate, preflight.users) {
        (Some(rate), _) => format!("{} req/s", number(rate)),
        (_, Some(users)) => format!("{} users", number(users)),
        _ => "the planned load".to_owned(),
    };
    let tries = if preflight.tries > 1 { " The better of two tries." } else { "" };
    let mut block = ResultBlock::new(
        "Preflight: can this machine generate the load",
        format!(
            "Tested just before the measurement, for {} s: {load} with {} tokens an answer, against {}. The server \
                under test received no requests.{tries}",
            number(preflight.seconds),
            number(f64::from(preflight.tokens_per_answer)),
            preflight.server,
        ),
    );
    block.is_on_page = true;
    block.fact("outcome", Some(preflight.outcome.replace('_', " ")), "of the checks below");
    block.fact(
        "issue behind schedule, p99 ms",
        preflight.lag_p99_ms.map(number),
        format!(
            "of {} issued requests; warning above {}, invalid above {}",
            number(preflight.requests as f64),
            number(preflight.lag_bound_ms),
            number(preflight.lag_hard_bound_ms)
        ),
    );
    block.fact("busiest load worker", Some(percent(preflight.cpu_share_max)), "share of a core during the trial");
    block.fact("CPU ms for 1,000 chunks", preflight.cpu_ms_per_1000_chunks.map(number), "of all load workers");
    let planned = preflight.planned_tokens_per_s.map(number).unwrap_or_default();
    block.fact(
        "a core of each worker, at the planned load",
        preflight.cpu_share_planned.map(percent),
        format!("for {planned} planned tokens/s, from the CPU for 1,000 chunks"),
    );
    block.count("most requests under way", preflight.in_flight_max, "at once, during the trial");
    block
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_gpu_has_a_row_and_what_it_does_not_tell_is_not_made_up() {
        let gpus = json!({
            "source": "nvidia-smi", "population": "the GPUs leased to the servers under test", "window": "full",
                "interval_s": 0.5,
            "malformed": 2, "first_malformed": "oops", "notes": ["nvidia-smi ended early"],
            "energy_j": 1050.0, "mean_power_w": 262.5, "tokens_per_joule": 1.9, "tokens_per_joule_is": "tokens / \
                energy",
            "devices": [
                { "index": 0, "uuid": "GPU-a", "name": "NVIDIA H200", "driver": "570.86", "covered_s": 4.0,
                    "energy_j": 1050.0,
                  "mean_power_w": 262.5, "max_power_w": 300.0, "throttle_reasons": { "sw_power_cap": 0.75 } },
                { "index": 1, "uuid": "GPU-b", "driver": "570.86", "covered_s": 0.0, "throttle_reasons": {} },
            ],
            "series": { "power W of 0": [[-1.0, 90.0], [0.5, 100.0], [1.0, 300.0]], "power W of 1": [[0.0, 1.0]] },
        });
        let block = super::gpus(&serde_json::from_value(gpus).unwrap());
        for text in [
            "From nvidia-smi, every 0.5 s",
            "Driver 570.86.",
            "2 lines were not understood; the first: oops",
            "ended early",
        ] {
            assert!(block.about.contains(text), "{text}: {}", block.about);
        }
        assert_eq!(block.rows[0][..4], ["0 NVIDIA H200", "262", "300", "1,050"]);
        assert_eq!(block.rows[0].last().map(String::as_str), Some("sw power cap 75 % of readings"));
        assert_eq!((block.rows[1][0].as_str(), block.rows[1][1].as_str()), ("1 GPU-b", "n/a"));
        assert_eq!(block.rows[1].last().map(String::as_str), Some("nothing"));
        assert_eq!(block.facts[2], ["tokens per joule", "1.9", "tokens / energy"]);
        assert!(block.plots.len() == 1 && block.plots[0].contains("Power in W, GPU 0"), "{}", block.plots.len());
    }

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
            "derived": [{ "model": "m", "name": "mean batch size", "value": 2.0, "unit": "requests",
                "definition": "a / b" }],
            "series": { "nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type=\"used\"}": [[-0.5, 1.0], [0.5, 10.0],
                [1.5, 90.0]] },
        });
        let server_section = server(&serde_json::from_value(metrics).unwrap());
        assert!(
            server_section.about.contains("12 answers, 1 missed") && server_section.about.contains("no connection"),
            "{}",
            server_section.about
        );
        assert_eq!(server_section.rows[0], ["nv_inference_count model=m", "+40", "4 per second", "140"]);
        assert_eq!(server_section.rows[1][1..3], ["mean 50", "10 … 90"]);
        assert_eq!(server_section.facts[0], ["m: mean batch size", "2 requests", "a / b"]);
        assert!(server_section.plots.len() == 1 && server_section.plots[0].contains("KV cache blocks in use"));
    }

    #[test]
    fn a_reader_sees_what_was_tried_and_against_what() {
        let preflight = json!({
            "server": "a server of ours", "outcome": "invalid_client", "tries": 2, "seconds": 1.8, "requests": 60,
                "rate": 50.0,
            "tokens_per_answer": 100, "lag_p99_ms": 6.5, "lag_bound_ms": 1.0, "lag_hard_bound_ms": 5.0,
                "cpu_share_max": 0.25,
            "in_flight_max": 31,
        });
        let block = super::preflight(&serde_json::from_value(preflight).unwrap());
        assert!(
            block.about.contains("50 req/s with 100 tokens") && block.about.contains("better of two"),
            "{}",
            block.about
        );
        let fact = |name: &str| block.facts.iter().find(|fact| fact[0].starts_with(name)).expect(name).clone();
        assert_eq!(fact("outcome")[1], "invalid client");
        assert_eq!(fact("issue behind")[1..], ["6.5", "of 60 issued requests; warning above 1, invalid above 5"]);
        assert!(!block.facts.iter().any(|fact| fact[0].contains("planned")), "what is not known is not shown");
    }
}
