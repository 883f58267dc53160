//! The servers' own `/metrics`, polled beside a measurement.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::event::{Endpoint, Failure, FailureKind};
use crate::harness::{UnjudgedRun, host_of};
use crate::triton::{HttpAddress, Scraper, ServerMetrics, summarize, summarize_part};

/// Often enough for minutes of load, and seldom enough to cost nothing that can be measured.
const EVERY: Duration = Duration::from_secs(1);

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
