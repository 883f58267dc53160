//! The servers' own `/metrics`, polled beside a measurement.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::event::{Endpoint, Failure, FailureKind};
use crate::harness::{BenchSpec, ServerIdentity, Transport, UnjudgedRun, host_of};
use crate::triton::{HttpAddress, Scraper, ServerMetrics, summarize, summarize_part};

/// Often enough for minutes of load, and seldom enough to cost nothing that can be measured.
const EVERY: Duration = Duration::from_secs(1);

/// The servers of a measurement with their ports for metrics: where none is known, a vLLM has them beside its interface, and they
/// were read there for its start time. Of an encrypted server they are not read. `described`: what each server reported of itself.
pub fn polled(spec: &BenchSpec, described: &[ServerIdentity]) -> Vec<Endpoint> {
    let is_plain_http = matches!(&spec.protocol, Transport::Http(http) if http.tls.is_none());
    let with_metrics = |(endpoint, server): (&Endpoint, &ServerIdentity)| {
        let has_metrics = server.kind.as_deref() == Some("vllm") && server.start_time_seconds.is_some();
        let beside = (is_plain_http && has_metrics).then(|| endpoint.http.unwrap_or(endpoint.grpc));
        Endpoint { metrics: endpoint.metrics.or(beside), ..endpoint.clone() }
    };
    spec.endpoints.iter().zip(described).map(with_metrics).collect()
}

/// Starts polling where there is something to poll.
pub fn start(endpoints: &[Endpoint]) -> Result<Option<Scraper>, Failure> {
    let servers: Vec<HttpAddress> = endpoints
        .iter()
        .filter_map(|endpoint| Some(HttpAddress { host: endpoint.host.clone(), port: endpoint.metrics? }))
        .collect();
    if servers.is_empty() {
        return Ok(None);
    }
    Scraper::start(servers, EVERY)
        .map(Some)
        .map_err(|error| Failure::new(FailureKind::System, format!("no thread for the servers' metrics: {error}")))
}

/// Ends it; all readings are written beside the measurement, and their summary into the result.
pub async fn finish(scraper: Scraper, endpoints: &[Endpoint], measured: &mut UnjudgedRun) {
    let scrape = scraper.finish().await;
    let (window, zero) = (measured.window(), measured.zero());
    for share in measured.hosts_mut() {
        // The queried servers that are on this host.
        let own = |server: &HttpAddress| {
            endpoints
                .iter()
                .any(|one| host_of(one) == share.host && one.host == server.host && one.metrics == Some(server.port))
        };
        share.server_metrics = scrape
            .servers
            .iter()
            .any(own)
            .then(|| ServerMetrics { series: BTreeMap::new(), ..summarize_part(&scrape, own, zero, window) });
    }
    measured.server_counted(summarize(&scrape, zero, window), scrape);
}
