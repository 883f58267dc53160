//! The servers' own `/metrics`, polled beside a measurement.

use std::time::Duration;

use crate::event::{Endpoint, Failure, FailureKind};
use crate::harness::Measured;
use crate::triton::{HttpAddress, Scraper, summarise};

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

/// Ends it; all that was told goes beside the measurement, and its sum into the result.
pub async fn finish(scraper: Scraper, measured: &mut Measured) {
    let scrape = scraper.finish().await;
    let window = Duration::try_from_secs_f64(measured.result.rates.window_s).unwrap_or_default();
    measured.result.server_metrics = Some(summarise(&scrape, measured.zero, window));
    measured.scrape = Some(scrape);
}
