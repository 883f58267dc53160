//! The servers' own `/metrics`, polled beside a measurement.

use std::collections::BTreeMap;
use std::time::Duration;

use super::measurement::failure;
use crate::task_context::TaskContext;
use base::event::{Endpoint, Failure, FailureKind};
use harness::{Api, BenchSpec, SentHeaders, ServerIdentity, Transport, UnjudgedRun, host_of};
use triton::{HttpAddress, HttpClient, Scraper, ServerMetrics, summarize, summarize_part};

/// Often enough for minutes of load, and seldom enough to cost nothing that can be measured.
const EVERY: Duration = Duration::from_secs(1);

/// The servers of a measurement with their ports for metrics: where none is known, those with OpenAI's interfaces have them beside these,
/// if they could be read there. `described`: what each server reported of itself.
pub fn polled(context: &TaskContext, spec: &BenchSpec, described: &[ServerIdentity]) -> Vec<Endpoint> {
    let is_openai = matches!(&spec.protocol, Transport::Http(http) if http.api != Api::Generate);
    let with_metrics = |(endpoint, server): (&Endpoint, &ServerIdentity)| {
        if let Some(why) = server.metrics_not_read.as_ref().filter(|_| server.has_usual_metrics()) {
            context.lease.notice(format!("the numbers of {endpoint}'s /metrics are not in the result: {why}"));
        }
        let has_metrics = is_openai && server.is_known() && server.metrics_not_read.is_none();
        Endpoint { metrics: endpoint.metrics.or(has_metrics.then(|| http_port(endpoint))), ..endpoint.clone() }
    };
    spec.endpoints.iter().zip(described).map(with_metrics).collect()
}

fn http_port(endpoint: &Endpoint) -> u16 {
    endpoint.http.unwrap_or(endpoint.grpc)
}

/// Starts polling where there is something to poll.
pub fn start(spec: &BenchSpec, endpoints: &[Endpoint]) -> Result<Option<Scraper>, Failure> {
    let headers = SentHeaders::of_run(spec).map_err(|error| failure(&error))?.map();
    let client = |endpoint: &Endpoint| {
        let port = endpoint.metrics?;
        let client = HttpClient::new(HttpAddress { host: endpoint.host.clone(), port });
        // A key is for the port of the requests alone.
        let is_beside = matches!(spec.protocol, Transport::Http(_)) && port == http_port(endpoint);
        Some(if is_beside { client.headers(headers.clone()) } else { client })
    };
    let clients: Vec<HttpClient> = endpoints.iter().filter_map(client).collect();
    if clients.is_empty() {
        return Ok(None);
    }
    Scraper::start(clients, EVERY)
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
