//! A summary of the polled metrics: growth and rate of counters, mean and range of gauges, over a run's window.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::MetricKind;
use super::scrape::{MetricSeries, Point, Scrape, ServerPoll, baseline, tracks};
use crate::http::HttpAddress;

/// `/metrics` of the servers during a run, as the servers count: it explains the measurement and does not enter into
/// it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ServerMetrics {
    /// `host:port` of each metrics endpoint.
    pub servers: Vec<String>,
    /// Between polls: 1 s, and twice as much each time that all of them take too much memory and every second one is
    /// dropped.
    pub interval_s: f64,
    /// Answers of `/metrics` that were read, without those that were dropped.
    pub scrapes: u64,
    /// Times that a server did not answer, or not in Prometheus' format.
    pub missed: u64,
    /// Why, the first time.
    pub first_miss: Option<String>,
    pub scrape_ms_max: Option<f64>,
    /// CPU that polling took in the client, on a thread of its own.
    pub cpu_ms: f64,
    /// Counters grow from the last poll before the run's start (s from the start, so 0 or less) …
    pub from_s: Option<f64>,
    /// … to the last poll of all.
    pub to_s: Option<f64>,
    /// Series that were 0 all the time and are left out.
    pub silent: u64,
    pub metrics: Vec<ServerMetric>,
    pub derived: Vec<Derived>,
    /// (s from the run's start, value) of gauges, and of the rates of counters (`rate of …`), at most 300 points.
    pub series: BTreeMap<String, Vec<(f64, f64)>>,
}

/// One series over the run, of all servers together.
#[base::omit_empty(except(labels))]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ServerMetric {
    pub name: String,
    pub labels: BTreeMap<String, String>,
    /// `counter` or `gauge`.
    pub kind: String,
    /// Servers that have it, and whether their values were added (`sum`) or averaged (`mean`).
    pub servers: u64,
    pub over_servers: String,
    /// Counters: growth from `from_s` to `to_s`, and the same per second.
    pub increase: Option<f64>,
    pub per_second: Option<f64>,
    /// Counters: how often it fell, which means that a server started anew.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub resets: u64,
    /// Gauges: over the polls within the run's window.
    pub mean: Option<f64>,
    pub min: Option<f64>,
    pub max: Option<f64>,
    /// At the last poll.
    pub last: f64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde requires it")]
const fn is_zero(n: &u64) -> bool {
    *n == 0
}

/// A number made of two counters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Derived {
    pub name: String,
    pub model: String,
    pub value: f64,
    pub unit: String,
    pub definition: String,
}

/// Sums a poll up. `zero` is the run's start, `window` how long it took.
pub fn summarize(scrape: &Scrape, zero: Instant, window: Duration) -> ServerMetrics {
    summarize_part(scrape, |_| true, zero, window)
}

/// Like `summarize`, for some of the servers.
pub fn summarize_part(
    scrape: &Scrape,
    is_its: impl Fn(&HttpAddress) -> bool,
    zero: Instant,
    window: Duration,
) -> ServerMetrics {
    let is_included: Vec<bool> = scrape.servers.iter().map(is_its).collect();
    let ticks: Vec<&ServerPoll> = scrape.ticks.iter().filter(|tick| is_included[tick.server]).collect();
    let read = ticks.iter().filter(|tick| tick.values.is_ok()).count() as u64;
    let took = ticks.iter().filter(|tick| tick.values.is_ok()).map(|tick| tick.took.as_secs_f64() * 1e3);
    let mut out = ServerMetrics {
        servers: scrape
            .servers
            .iter()
            .zip(&is_included)
            .filter(|(_, is_own)| **is_own)
            .map(|(server, _)| server.to_string())
            .collect(),
        interval_s: scrape.interval.as_secs_f64(),
        scrapes: read,
        missed: ticks.len() as u64 - read,
        first_miss: ticks.iter().find_map(|tick| tick.values.as_ref().err().map(ToString::to_string)),
        scrape_ms_max: took.max_by(f64::total_cmp),
        cpu_ms: scrape.cpu.as_secs_f64() * 1e3,
        ..ServerMetrics::default()
    };
    let mut growths = CounterIncreases::default();
    let (mut from, mut to) = (None::<f64>, None::<f64>);
    let tracks = tracks(&ticks, scrape.series.len(), is_included.len(), zero);
    for (series, servers) in scrape.series.iter().zip(tracks) {
        let servers = servers.as_slice();
        for track in servers.iter().filter(|track| !track.is_empty()) {
            let (first, last) = (baseline(track)[0].at, track[track.len() - 1].at);
            from = Some(from.map_or(first, |known| known.min(first)));
            to = Some(to.map_or(last, |known| known.max(last)));
        }
        if !is_summarized(&series.name, &series.labels) {
            continue;
        }
        let is_counter = series.kind == MetricKind::Counter;
        let (metric, line) = if is_counter { counter(series, servers) } else { gauge(series, servers, window) };
        if is_counter {
            growths.add(&metric);
        }
        if servers.iter().flatten().all(|point| point.value == 0.0) {
            out.silent += 1;
            continue;
        }
        if line.len() > 1 {
            let rate = if is_counter { "rate of " } else { "" };
            out.series.insert(format!("{rate}{}", series.key), thinned(&line));
        }
        out.metrics.push(metric);
    }
    (out.from_s, out.to_s) = (from, to);
    out.derived = growths.derived();
    out
}

fn counter(series: &MetricSeries, servers: &[Vec<Point>]) -> (ServerMetric, Vec<(f64, f64)>) {
    let (mut increase, mut per_second, mut resets, mut last) = (0.0, 0.0, 0, 0.0);
    let mut rates: BTreeMap<u32, (f64, f64)> = BTreeMap::new();
    for track in servers.iter().filter(|track| !track.is_empty()) {
        let track = baseline(track);
        let mut grown = 0.0;
        for pair in track.windows(2) {
            // A counter that fell began anew at 0.
            let fell = pair[1].value < pair[0].value;
            resets += u64::from(fell);
            let step = if fell { pair[1].value } else { pair[1].value - pair[0].value };
            grown += step;
            let time = pair[1].at - pair[0].at;
            if time > 0.0 {
                let rate = rates.entry(pair[1].round).or_insert((pair[1].at, 0.0));
                rate.1 += step / time;
            }
        }
        let time = track[track.len() - 1].at - track[0].at;
        increase += grown;
        per_second += if time > 0.0 { grown / time } else { 0.0 };
        last += track[track.len() - 1].value;
    }
    let metric = ServerMetric {
        kind: "counter".to_owned(),
        over_servers: "sum".to_owned(),
        increase: Some(increase),
        per_second: Some(per_second),
        resets,
        last,
        ..named(series, servers)
    };
    (metric, rates.into_values().collect())
}

fn gauge(series: &MetricSeries, servers: &[Vec<Point>], window: Duration) -> (ServerMetric, Vec<(f64, f64)>) {
    let mean_over = is_share(series);
    let mut rounds: BTreeMap<u32, (f64, f64, usize)> = BTreeMap::new();
    for point in servers.iter().flat_map(|track| baseline(track)) {
        let round = rounds.entry(point.round).or_insert((point.at, 0.0, 0));
        round.1 += point.value;
        round.2 += 1;
    }
    // A round in which a server is missing would show its share as a dip.
    let server_count = servers.iter().filter(|track| !track.is_empty()).count();
    let line: Vec<(f64, f64)> = rounds
        .into_values()
        .filter(|(_, _, count)| *count == server_count)
        .map(|(at, sum, count)| (at, if mean_over { sum / count as f64 } else { sum }))
        .collect();
    let inside: Vec<f64> =
        line.iter().filter(|(at, _)| (0.0..=window.as_secs_f64()).contains(at)).map(|(_, value)| *value).collect();
    let mean = (!inside.is_empty()).then(|| inside.iter().sum::<f64>() / inside.len() as f64);
    let metric = ServerMetric {
        kind: "gauge".to_owned(),
        over_servers: if mean_over { "mean" } else { "sum" }.to_owned(),
        mean,
        min: inside.iter().copied().min_by(f64::total_cmp),
        max: inside.iter().copied().max_by(f64::total_cmp),
        last: line.last().map_or(0.0, |(_, value)| *value),
        ..named(series, servers)
    };
    (metric, line)
}

/// In the names of gauges, or as a label's value: shares, means, times and numbers that count steps. Written out as far
/// as `_usage` and `_rate` say too little: `nv_gpu_power_usage` is in watts, and `generation` contains `ratio`. First
/// those of Triton with TensorRT-LLM, then of vLLM, and from `token_usage` on of SGLang.
const NO_SUMS: &str = "fraction tokens_per utilization cache_util timestamp iteration_counter micro_batch_id \
    kv_cache_transfer_ms usage_perc acceptance_rate spec_decode_efficiency token_usage mamba_usage hit_rate \
    accept_rate accept_length token_ratio is_cuda_graph transfer_speed transfer_latency transfer_bootstrap \
    transfer_alloc engine_startup_time engine_load_weights_time";

/// Gauges that do not add up over servers, and quantiles.
fn is_share(series: &MetricSeries) -> bool {
    series.labels.contains_key("quantile")
        || NO_SUMS
            .split(' ')
            .any(|word| series.name.contains(word) || series.labels.values().any(|value| value == word))
}

fn named(series: &MetricSeries, servers: &[Vec<Point>]) -> ServerMetric {
    ServerMetric {
        name: series.name.clone(),
        labels: series.labels.clone(),
        servers: servers.iter().filter(|track| !track.is_empty()).count() as u64,
        ..ServerMetric::default()
    }
}

const FIRST_RESPONSE: &str = "; of a decoupled model it may end with its first response";
/// Counter above counter, of each model: name, numerator, denominator, factor, unit, what to mind.
const RATIOS: [(&str, &str, &str, f64, &str, &str); 4] = [
    ("mean queue time", "nv_inference_queue_duration_us", "nv_inference_count", 1e-3, "ms", ""),
    ("mean compute time", "nv_inference_compute_infer_duration_us", "nv_inference_count", 1e-3, "ms", ""),
    ("mean request time", "nv_inference_request_duration_us", "nv_inference_count", 1e-3, "ms", FIRST_RESPONSE),
    ("mean batch size", "nv_inference_count", "nv_inference_exec_count", 1.0, "requests", ""),
];

/// How much the counters of each model grew. Counters that stayed at 0 are included: 0 differs from absent.
#[derive(Default)]
struct CounterIncreases(BTreeMap<String, BTreeMap<String, CounterIncrease>>);

#[derive(Clone, Copy, Default)]
struct CounterIncrease {
    increase: f64,
    /// Series (servers × versions) that were added.
    series: u64,
}

impl CounterIncreases {
    fn add(&mut self, metric: &ServerMetric) {
        if let (Some(model), Some(increase)) = (metric.labels.get("model"), metric.increase) {
            let growth = self.0.entry(model.clone()).or_default().entry(metric.name.clone()).or_default();
            growth.increase += increase;
            growth.series += metric.servers;
        }
    }

    /// A ratio needs both counters, of the same servers.
    fn derived(&self) -> Vec<Derived> {
        let mut out = Vec::new();
        for (model, growths) in &self.0 {
            for (name, numerator, denominator, factor, unit, mind) in RATIOS {
                let (Some(above), Some(below)) = (growths.get(numerator), growths.get(denominator)) else { continue };
                if above.series == below.series && below.increase > 0.0 {
                    out.push(Derived {
                        name: name.to_owned(),
                        model: model.clone(),
                        value: above.increase / below.increase * factor,
                        unit: unit.to_owned(),
                        definition: format!("{numerator} / {denominator}, both as they grew{mind}"),
                    });
                }
            }
        }
        out
    }
}

/// Evenly, with the last one: as many points as a summary has of a series.
pub fn thinned(line: &[(f64, f64)]) -> Vec<(f64, f64)> {
    if line.len() <= POINTS {
        return line.to_vec();
    }
    (1..=POINTS).map(|point| line[(point * line.len()).div_ceil(POINTS) - 1]).collect()
}

// Which series are in the summary of a run, by how many points, and what making it takes.

/// Prometheus names that concern serving; the rest stays in the file of all numbers.
const SERVING_PREFIXES: &str =
    "nv_inference_ nv_trt_llm_ nv_llm_ nv_gpu_ nv_energy_ nv_cpu_utilization nv_cache_ vllm: sglang:";
/// At most this many points of each series.
pub(super) const POINTS: usize = 300;
/// Bytes that the points of all series that are summarized at once take.
pub(super) const MOST_POINT_BYTES: usize = 128 << 20;

/// It is in the summary, and not only in the file of all numbers.
pub(super) fn is_summarized(name: &str, labels: &BTreeMap<String, String>) -> bool {
    SERVING_PREFIXES.split(' ').any(|start| name.starts_with(start)) && !is_left_out(name, labels)
}

/// A single bucket of a histogram is of little use, and the client library of vLLM and SGLang adds for each counter
/// when it was made, and settings as labels of a constant. They are all in the file.
fn is_left_out(name: &str, labels: &BTreeMap<String, String>) -> bool {
    labels.contains_key("le") || name.ends_with("_created") || name.ends_with("_info")
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::client::ClientErrorKind;
    use crate::http::HttpAddress;
    use crate::metrics::scrape::{ScrapeError, ServerPoll};

    /// Two servers, polled at −0.5 s, 0.5 s, 1.5 s, …; of each: requests so far and blocks in use. `None` is a miss.
    fn scrape(rounds: &[[Option<(f64, f64)>; 2]]) -> (Scrape, Instant) {
        let begun = Instant::now();
        let address = |port| HttpAddress { host: "h".to_owned(), port };
        let labels = |name: &str, value: &str| BTreeMap::from([(name.to_owned(), value.to_owned())]);
        let series = |name: &str, labels: BTreeMap<String, String>, kind| MetricSeries {
            key: name.to_owned(),
            name: name.to_owned(),
            labels,
            kind,
        };
        let gone = || ScrapeError::Query(ClientErrorKind::Protocol("gone".to_owned()));
        let mut ticks = Vec::new();
        for (round, servers) in rounds.iter().enumerate() {
            for (server, values) in servers.iter().enumerate() {
                let at = begun + Duration::from_secs(round as u64);
                let took = Duration::from_millis(2);
                let values = values.map(|(count, used)| vec![(0, count), (1, used), (2, count / 2.0), (3, 0.0)]);
                ticks.push(ServerPoll { round: round as u32, server, at, took, values: values.ok_or_else(gone) });
            }
        }
        let scrape = Scrape {
            servers: vec![address(1), address(2)],
            interval: Duration::from_secs(1),
            series: vec![
                series("nv_inference_count", labels("model", "m"), MetricKind::Counter),
                series("nv_trt_llm_kv_cache_block_metrics", labels("kv_cache_block_type", "used"), MetricKind::Gauge),
                series("nv_inference_exec_count", labels("model", "m"), MetricKind::Counter),
                series("nv_inference_pending_request_count", labels("model", "m"), MetricKind::Gauge),
            ],
            ticks,
            cpu: Duration::from_millis(7),
        };
        (scrape, begun + Duration::from_millis(500))
    }

    #[test]
    fn counters_grow_from_before_the_start_and_gauges_are_those_of_the_window() {
        let (scrape, zero) = scrape(&[
            [Some((100.0, 9.0)), Some((10.0, 1.0))],
            [Some((110.0, 10.0)), Some((14.0, 20.0))],
            [Some((130.0, 30.0)), Some((18.0, 40.0))],
            [Some((130.0, 0.0)), Some((18.0, 0.0))],
        ]);
        let server_metrics = summarize(&scrape, zero, Duration::from_secs(2));
        assert_eq!(
            (server_metrics.scrapes, server_metrics.missed, server_metrics.silent, server_metrics.cpu_ms),
            (8, 0, 1, 7.0)
        );
        assert_eq!((server_metrics.from_s, server_metrics.to_s), (Some(-0.5), Some(2.5)));
        let count = &server_metrics.metrics[0];
        assert_eq!((count.increase, count.resets, count.servers), (Some(38.0), 0, 2));
        assert!((count.per_second.unwrap() - 38.0 / 3.0).abs() < 1e-9);
        // The polls at 0.5 s and 1.5 s are within the window; the servers are added.
        let used = &server_metrics.metrics[1];
        assert_eq!((used.mean, used.min, used.max, used.last), (Some(50.0), Some(30.0), Some(70.0), 0.0));
        assert_eq!(server_metrics.series["rate of nv_inference_count"], [(0.5, 14.0), (1.5, 24.0), (2.5, 0.0)]);
        let batch = server_metrics.derived.iter().find(|derived| derived.name == "mean batch size").unwrap();
        assert_eq!((batch.value, batch.model.as_str()), (2.0, "m"));
        // The servers have no counters of time.
        let names: Vec<&str> = server_metrics.derived.iter().map(|derived| derived.name.as_str()).collect();
        assert_eq!(names, ["mean batch size"]);
    }

    #[test]
    fn a_host_has_the_metrics_of_its_own_servers() {
        let (scrape, zero) = scrape(&[[Some((1.0, 2.0)), Some((10.0, 20.0))], [Some((3.0, 4.0)), None]]);
        let on_port = |port| summarize_part(&scrape, |server| server.port == port, zero, Duration::from_secs(1));
        let (first, second) = (on_port(1), on_port(2));
        assert_eq!((first.servers, first.scrapes, first.missed), (vec!["h:1".to_owned()], 2, 0));
        assert_eq!((first.metrics[0].increase, first.metrics[0].servers), (Some(2.0), 1));
        assert_eq!((second.servers, second.scrapes, second.missed), (vec!["h:2".to_owned()], 1, 1));
        assert_eq!((second.metrics[0].increase, second.metrics[0].last), (Some(0.0), 10.0));
    }

    #[test]
    fn two_servers_whose_caches_are_nearly_full_are_not_fuller_than_full() {
        let series = |name: &str, labels: &[(&str, &str)]| MetricSeries {
            key: name.to_owned(),
            name: name.to_owned(),
            labels: labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
            kind: MetricKind::Gauge,
        };
        let point = |value| vec![Point { round: 0, at: 0.5, value }];
        let aggregated = |series: &MetricSeries| {
            let (metric, line) = gauge(series, &[point(0.9), point(0.7)], Duration::from_secs(1));
            assert_eq!(metric.mean, Some(line[0].1));
            (metric.over_servers, line[0].1)
        };
        for name in [
            "vllm:kv_cache_usage_perc",
            "vllm:gpu_cache_usage_perc",
            "vllm:gpu_prefix_cache_hit_rate",
            "vllm:spec_decode_draft_acceptance_rate",
            "sglang:token_usage",
            "sglang:swa_token_usage",
            "sglang:cache_hit_rate",
            "sglang:spec_accept_length",
            "sglang:new_token_ratio",
            "nv_gpu_utilization",
        ] {
            assert_eq!(aggregated(&series(name, &[("model_name", "m")])), ("mean".to_owned(), 0.8), "{name}");
        }
        assert_eq!(aggregated(&series("nv_inference_request_summary_us", &[("quantile", "0.99")])).0, "mean");
        let blocks = "nv_trt_llm_kv_cache_block_metrics";
        assert_eq!(aggregated(&series(blocks, &[("kv_cache_block_type", "fraction")])).0, "mean");
        // Watts, requests, tokens per second and flags do.
        for name in [
            "nv_gpu_power_usage",
            "vllm:num_requests_running",
            "vllm:engine_sleep_state",
            "sglang:gen_throughput",
            "sglang:num_used_tokens",
        ] {
            assert_eq!(aggregated(&series(name, &[])), ("sum".to_owned(), 1.6), "{name}");
        }
        let generating = [("inflight_batcher_specific_metric", "generation_requests")];
        assert_eq!(aggregated(&series("nv_trt_llm_inflight_batcher_metrics", &generating)).0, "sum");
    }

    #[test]
    fn a_ratio_needs_both_counters_of_the_same_servers() {
        let growths = |metrics: &[(&str, f64, u64)]| {
            let mut growths = CounterIncreases::default();
            for (name, increase, servers) in metrics {
                growths.add(&ServerMetric {
                    name: (*name).to_owned(),
                    labels: BTreeMap::from([("model".to_owned(), "m".to_owned())]),
                    increase: Some(*increase),
                    servers: *servers,
                    ..ServerMetric::default()
                });
            }
            growths.derived().into_iter().map(|derived| (derived.name, derived.value)).collect::<Vec<_>>()
        };
        let (count, queue) = ("nv_inference_count", "nv_inference_queue_duration_us");
        assert_eq!(growths(&[(count, 10.0, 2)]), []);
        assert_eq!(growths(&[(count, 10.0, 2), (queue, 5_000.0, 1)]), []);
        assert_eq!(growths(&[(count, 0.0, 2), (queue, 0.0, 2)]), []);
        // A queue that stayed empty is a measurement.
        assert_eq!(growths(&[(count, 10.0, 2), (queue, 0.0, 2)]), [("mean queue time".to_owned(), 0.0)]);
        assert_eq!(growths(&[(count, 10.0, 2), (queue, 5_000.0, 2)]), [("mean queue time".to_owned(), 0.5)]);
    }

    #[test]
    fn a_miss_is_counted_and_makes_no_dip() {
        let (scrape, zero) = scrape(&[
            [Some((0.0, 5.0)), Some((0.0, 5.0))],
            [Some((1.0, 5.0)), None],
            [Some((2.0, 5.0)), Some((7.0, 5.0))],
        ]);
        let server_metrics = summarize(&scrape, zero, Duration::from_secs(5));
        assert_eq!((server_metrics.missed, server_metrics.first_miss.as_deref()), (1, Some("gone")));
        assert_eq!(server_metrics.metrics[0].increase, Some(9.0));
        assert_eq!(server_metrics.series["nv_trt_llm_kv_cache_block_metrics"], [(-0.5, 10.0), (1.5, 10.0)]);
    }

    #[test]
    fn a_counter_that_falls_began_anew() {
        let (scrape, zero) = scrape(&[
            [Some((50.0, 1.0)), Some((0.0, 1.0))],
            [Some((3.0, 1.0)), Some((0.0, 1.0))],
            [Some((5.0, 1.0)), Some((0.0, 1.0))],
        ]);
        let server_metrics = summarize(&scrape, zero, Duration::from_secs(5));
        assert_eq!((server_metrics.metrics[0].increase, server_metrics.metrics[0].resets), (Some(5.0), 1));
    }
}
