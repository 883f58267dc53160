//! The results of each host in a distributed run.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::metric::MetricLabel;
use super::request_times::{FULL, tpot, ttft};
use crate::{BenchSpec, LatencyMetrics, Metric, Rates, RequestEnd, RequestRecord, RequestRecords};
use base::event::Endpoint;
use triton::ServerMetrics;

/// The part of one host. Its requests are those that went to its servers; rates are over the window of the whole run, so that
/// they add up.
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

/// A part for each host, in the order of the servers; none where all are on one.
pub(crate) fn by_host(
    spec: &BenchSpec,
    latency: &LatencyMetrics,
    rates: &Rates,
    records: &RequestRecords,
) -> Vec<HostShare> {
    let mut hosts: Vec<&str> = Vec::new();
    for endpoint in &spec.endpoints {
        if !hosts.contains(&host_of(endpoint)) {
            hosts.push(host_of(endpoint));
        }
    }
    if hosts.len() < 2 {
        return Vec::new();
    }
    hosts.into_iter().map(|host| share(spec, latency, rates, records, host)).collect()
}

fn share(spec: &BenchSpec, latency: &LatencyMetrics, rates: &Rates, records: &RequestRecords, host: &str) -> HostShare {
    let is_its =
        |record: &RequestRecord| spec.endpoints.get(record.endpoint as usize).is_some_and(|one| host_of(one) == host);
    let own = records.filtered(is_its);
    let good = own.ok().count() as u64;
    let tokens: u64 = own.ok().map(|record| u64::from(record.tokens)).sum();
    let window = rates.window_s;
    let per_s = |count: u64| (window > 0.0).then(|| count as f64 / window);
    let metric = |label: &MetricLabel<'_>, value: fn(&RequestRecord) -> Option<f64>| {
        let mut ns: Vec<f64> = own.ok().filter_map(|record| value(&record)).collect();
        let excluded = good - ns.len() as u64;
        Metric::exact(label, &mut ns, excluded)
    };
    let (first, later) = (
        MetricLabel {
            population: "successful requests of this host",
            zero_point: spec.scenario.zero_point(),
            window: FULL,
            token_source: &latency.ttft.token_source,
        },
        MetricLabel {
            population: "successful requests of this host with more tokens than their first chunk has",
            zero_point: "first_chunk",
            window: FULL,
            token_source: &latency.tpot.token_source,
        },
    );
    HostShare {
        host: host.to_owned(),
        servers: spec.endpoints.iter().filter(|one| host_of(one) == host).map(ToString::to_string).collect(),
        issued: own.len() as u64,
        ok: good,
        failed: own.iter().filter(|record| matches!(record.ended, RequestEnd::Failed { .. })).count() as u64,
        output_tokens: tokens,
        requests_per_s: per_s(good),
        output_tokens_per_s: per_s(tokens),
        ttft: metric(&first, ttft),
        tpot: metric(&later, tpot),
        server_metrics: None,
    }
}
