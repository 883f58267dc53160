//! The servers' own `/metrics` beside a benchmark: `server-metrics.jsonl`, and a summary in its result.

use std::io::{BufWriter, Write as _};
use std::path::Path;
use std::time::Duration;

use crate::event::{Endpoint, Failure, FailureKind};
use crate::harness::Measured;
use crate::triton::{HttpAddress, Scraper, summarise};

/// Often enough for minutes of load, and seldom enough to cost nothing that can be measured.
const EVERY: Duration = Duration::from_secs(1);
const FILE: &str = "server-metrics.jsonl";

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

/// Ends it; writes all that was told, and sums it up in the result.
pub async fn finish(scraper: Scraper, measured: &mut Measured, out: &Path) -> Result<(), Failure> {
    let scrape = scraper.finish().await;
    let path = out.join(FILE);
    let write = || {
        let mut file = BufWriter::new(std::fs::File::create(&path)?);
        for line in scrape.lines(measured.zero) {
            writeln!(file, "{line}")?;
        }
        file.flush()
    };
    write().map_err(|error: std::io::Error| {
        Failure::new(FailureKind::System, format!("cannot write {}: {error}", path.display()))
    })?;
    let window = Duration::try_from_secs_f64(measured.result.rates.window_s).unwrap_or_default();
    measured.result.server_metrics = Some(summarise(&scrape, measured.zero, window));
    Ok(())
}
