//! Metrics of parts of the requests: of each host and each server where there are several, of first and later turns, of
//! requests that the server stamped, of requests that were cancelled early.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::measure::latency::{FULL, LatencyMetric, TPOT, TTFT, tpot, ttft};
use crate::measure::metric::{MetricLabel, percentile};
use crate::measure::steady::answered_in_order;
use crate::{
    BenchSpec, Cancellations, Metric, RequestEnd, RequestRecord, RequestRecords, RunResult, ServerSide, ServerStamps,
    VerdictCheck,
};
use base::event::Endpoint;
use base::stats::rank_errors_in_order;
use triton::ServerMetrics;

/// The part of one host, or of one server. Its requests are those that went to its servers; rates are over the window
/// of the whole run, so that they add up.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct HostShare {
    /// As the manifest names it, else its address.
    pub host: String,
    /// `host:port` of each of its servers.
    pub servers: Vec<String>,
    /// Sent to it, whatever their outcome.
    pub issued: u64,
    pub ok: u64,
    pub failed: u64,
    /// Of successful requests, as `tokens.source` of the result counts them.
    pub output_tokens: u64,
    /// Successful requests / `rates.window_s`.
    pub requests_per_s: Option<f64>,
    /// Output tokens of successful requests / `rates.window_s`.
    pub output_tokens_per_s: Option<f64>,
    pub ttft: Metric,
    pub tpot: Metric,
    /// What the `/metrics` of its servers reported, without the series; absent where none has a metrics port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_metrics: Option<ServerMetrics>,
}

/// What a person calls the host of a server.
pub fn host_of(endpoint: &Endpoint) -> &str {
    endpoint.name.as_deref().unwrap_or(&endpoint.host)
}

/// A part for each name that the servers have, in their order; none where all have one.
pub(crate) fn by_name(
    spec: &BenchSpec,
    name: impl Fn(&Endpoint) -> String,
    result: &RunResult,
    records: &RequestRecords,
) -> Vec<HostShare> {
    let mut servers: Vec<(String, Vec<u32>)> = Vec::new();
    for (at, endpoint) in (0_u32..).zip(&spec.endpoints) {
        let name = name(endpoint);
        match servers.iter_mut().find(|(listed, _)| *listed == name) {
            Some((_, places)) => places.push(at),
            None => servers.push((name, vec![at])),
        }
    }
    let part = |(name, places): &(String, Vec<u32>)| share(spec, result, records, name, places);
    if servers.len() < 2 { Vec::new() } else { servers.iter().map(part).collect() }
}

/// `servers`: positions in `BenchSpec::endpoints`.
fn share(
    spec: &BenchSpec,
    RunResult { latency, rates, .. }: &RunResult,
    records: &RequestRecords,
    name: &str,
    servers: &[u32],
) -> HostShare {
    let records_of_host = records.filtered(|record| servers.contains(&record.endpoint));
    let good = records_of_host.ok().count() as u64;
    let tokens: u64 = records_of_host.ok().map(|record| u64::from(record.tokens)).sum();
    let window = rates.window_s;
    let per_s = |count: u64| (window > 0.0).then(|| count as f64 / window);
    let metric = |row: &LatencyMetric, token_source: &str, value: fn(&RequestRecord) -> Option<f64>| {
        let mut ns: Vec<f64> = records_of_host.ok().filter_map(|record| value(&record)).collect();
        let excluded = good - ns.len() as u64;
        let population = row.population.replacen("requests", "requests of this part", 1);
        let label = row.label(spec.scenario.zero_point(), FULL, token_source);
        Metric::exact(&MetricLabel { population: &population, ..label }, &mut ns, excluded)
    };
    HostShare {
        host: name.to_owned(),
        servers: servers.iter().map(|at| spec.endpoints[*at as usize].to_string()).collect(),
        issued: records_of_host.len() as u64,
        ok: good,
        failed: records_of_host.iter().filter(|record| matches!(record.ended, RequestEnd::Failed { .. })).count()
            as u64,
        output_tokens: tokens,
        requests_per_s: per_s(good),
        output_tokens_per_s: per_s(tokens),
        ttft: metric(&TTFT, &latency.ttft.token_source, ttft),
        tpot: metric(&TPOT, &latency.tpot.token_source, tpot),
        server_metrics: None,
    }
}

/// Fewer answers of a server show nothing.
pub(crate) const LEAST_OF_SERVER: usize = 10;
/// Times the median of the other servers.
pub(crate) const SLOWER: f64 = 1.5;
/// Standard errors of the ranks: 0.1 % for all comparisons of four to eight servers together.
pub(crate) const SLOWER_ERRORS: f64 = 4.0;

/// One of several servers that answers more slowly than the others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SlowServer {
    /// `host:port`.
    pub server: String,
    /// `TTFT` or `TPOT`.
    pub metric: String,
    pub median_ms: f64,
    /// Of the requests to all other servers.
    pub others_median_ms: f64,
}

/// A latency of one request, ns.
type Latency = fn(&RequestRecord) -> Option<f64>;

impl SlowServer {
    /// The slowest by its factor. Its quickest tenth is slower, too: a server whose queue happened to be longer has
    /// quick answers again and again.
    pub(super) fn from_records(spec: &BenchSpec, records: &RequestRecords) -> Option<Self> {
        if spec.endpoints.len() < 2 {
            return None;
        }
        let answered = answered_in_order(records);
        let metrics: [(&str, Latency); 2] = [("TTFT", ttft), ("TPOT", tpot)];
        let servers = (0_u32..).zip(&spec.endpoints);
        let pairs = servers.flat_map(|(at, server)| metrics.map(|(name, value)| (at, server, name, value)));
        let slow = pairs.filter_map(|(at, server, name, value)| {
            let part = |is_its: bool| -> Vec<f64> {
                let chosen = answered.borrowed().filter(|record| (record.endpoint == at) == is_its);
                chosen.filter_map(|record| value(&record)).collect()
            };
            let (median, others) = slower_medians(&part(true), part(false))?;
            let (server, metric) = (server.to_string(), name.to_owned());
            Some(Self { server, metric, median_ms: median / 1e6, others_median_ms: others / 1e6 })
        });
        slow.max_by(|a, b| a.factor().total_cmp(&b.factor()))
    }

    fn factor(&self) -> f64 {
        self.median_ms / self.others_median_ms
    }

    pub(super) fn text(&self) -> String {
        format!(
            "{} took {:.1} times as long as the other servers: {} median {:.1} ms, the others {:.1} ms; the results \
             mix both: {}",
            self.server,
            self.factor(),
            self.metric,
            self.median_ms,
            self.others_median_ms,
            VerdictCheck::Endpoint.cure()
        )
    }
}

/// The medians of one server's values, in the order of time, and of the others', if the former are slower beyond
/// chance.
fn slower_medians(series: &[f64], mut others: Vec<f64>) -> Option<(f64, f64)> {
    if series.len().min(others.len()) < LEAST_OF_SERVER {
        return None;
    }
    let mut sorted = series.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    others.sort_unstable_by(f64::total_cmp);
    let at = |share: f64| Some((percentile(&sorted, share)?, percentile(&others, share)?));
    let is_slower = |(value, other): (f64, f64)| other > 0.0 && value > SLOWER * other;
    let errors = || rank_errors_in_order(&others, series);
    (is_slower(at(0.5)?) && is_slower(at(0.1)?) && errors() > SLOWER_ERRORS).then(|| at(0.5)).flatten()
}

/// Later turns wait for answers, so a slow server slows their arrivals down: they are counted separately.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SessionsSummary {
    /// With at least one request issued.
    pub count: u64,
    pub turns_mean: f64,
    pub turns_max: u32,
    /// Of first turns.
    pub ttft_first: Metric,
    /// Of later turns, from the time at which each was due.
    pub ttft_later: Metric,
}

impl SessionsSummary {
    /// `first`: from when first turns count.
    pub(super) fn from_records(records: &RequestRecords, first: &'static str, token_source: &str) -> Self {
        let metric = |is_later: bool, population, zero_point| {
            let chosen = || records.ok().filter(|record| (record.turn > 0) == is_later);
            let mut ns: Vec<f64> = chosen().filter_map(|record| ttft(&record)).collect();
            let excluded = chosen().count() as u64 - ns.len() as u64;
            Metric::exact(&MetricLabel { population, zero_point, window: FULL, token_source }, &mut ns, excluded)
        };
        let mut turns: Vec<u64> = records.borrowed().map(|record| record.session).collect();
        turns.sort_unstable();
        turns.dedup();
        let count = turns.len() as u64;
        Self {
            count,
            turns_mean: records.len() as f64 / count.max(1) as f64,
            turns_max: records.borrowed().map(|record| record.turn + 1).max().unwrap_or(0),
            ttft_first: metric(false, "successful first turns", first),
            ttft_later: metric(true, "successful later turns", "end_of_turn_and_pause"),
        }
    }
}

const ARRIVAL: &str = "arrival_time_ns, as the server stamps";

/// None unless stamps were requested.
pub(crate) fn server_side(spec: &BenchSpec, records: &RequestRecords) -> Option<ServerSide> {
    if !spec.request.return_perf_metrics {
        return None;
    }
    let requests = records.ok().count() as u64;
    let stamped = || records.ok().filter_map(|record| Some((*record.server.as_deref()?, record)));
    let metric = |zero_point: &'static str, value: &dyn Fn(&RequestRecord, &ServerStamps) -> Option<f64>| {
        let population = "successful requests that the server stamped";
        let label = MetricLabel { population, zero_point, window: FULL, token_source: "" };
        let mut ns: Vec<f64> = stamped().filter_map(|(stamps, record)| value(&record, &stamps)).collect();
        let excluded = requests - ns.len() as u64;
        Metric::exact(&label, &mut ns, excluded)
    };
    // A stamp of 0 is unset.
    let since = |from: i64, to: i64| (from > 0 && to >= from).then(|| (to - from) as f64);
    let sum = |of: fn(&ServerStamps) -> i32| stamped().map(|(stamps, _)| i64::from(of(&stamps))).sum();
    Some(ServerSide {
        queue: metric(ARRIVAL, &|_, stamps| since(stamps.arrival_time_ns, stamps.first_scheduled_time_ns)),
        ttft: metric(ARRIVAL, &|_, stamps| since(stamps.arrival_time_ns, stamps.first_token_time_ns)),
        e2e: metric(ARRIVAL, &|_, stamps| since(stamps.arrival_time_ns, stamps.last_token_time_ns)),
        ttft_outside: metric("issue, less what the server stamps", &|record, stamps| {
            let ours = record.t_first?.saturating_sub(record.t_issue) as f64;
            Some(ours - since(stamps.arrival_time_ns, stamps.first_token_time_ns)?)
        }),
        kv_cache_alloc_new_blocks: sum(|stamps| stamps.kv_cache_alloc_new_blocks),
        kv_cache_reused_blocks: sum(|stamps| stamps.kv_cache_reused_blocks),
        kv_cache_alloc_total_blocks: sum(|stamps| stamps.kv_cache_alloc_total_blocks),
        without: requests - stamped().count() as u64,
    })
}

/// None unless `cancel` was requested.
pub(crate) fn cancellations(spec: &BenchSpec, records: &RequestRecords) -> Option<Cancellations> {
    let cancel = spec.request.cancel?;
    let cancelled = || records.borrowed().filter(|record| record.ended == RequestEnd::CancelledEarly);
    let population = "requests that were cancelled early";
    let label = MetricLabel { population, zero_point: "cancel", window: FULL, token_source: "" };
    let ends = cancelled().filter_map(|record| Some(record.t_end.saturating_sub(record.t_cancel?) as f64));
    Some(Cancellations {
        by: cancel.by,
        after_tokens: cancel.after_tokens,
        share: cancel.share,
        requests: cancelled().count() as u64,
        tokens: cancelled().map(|record| u64::from(record.tokens)).sum(),
        end_after_cancel: Metric::exact(&label, &mut ends.collect::<Vec<_>>(), 0),
    })
}
