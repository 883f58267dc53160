//! Polls `/metrics` of several servers on a thread of its own, while other work runs.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use serde_json::{Map, json};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

use super::parse::{Exposition, MetricKind, MetricValue, MetricsError};
use crate::triton::client::ClientErrorKind;
use crate::triton::http::{HttpAddress, HttpClient};

/// A server that takes longer than this is missed in this round.
const PATIENCE: Duration = Duration::from_secs(5);

/// Bytes of memory that all polls of a run may hold together: the series of eight large servers for half a day. A server may give its
/// series other names at each poll.
const MOST_BYTES: usize = 4 << 30;
/// What a series, and each of its labels, takes beside three copies of its key: entries in lists and maps.
const SERIES_BYTES: usize = 256;
const LABEL_BYTES: usize = 64;

/// A poller. Dropping it ends it.
pub struct Scraper {
    stop: oneshot::Sender<()>,
    scrape: oneshot::Receiver<Scrape>,
}

/// Everything that was polled.
#[derive(Debug, Default)]
pub struct Scrape {
    pub servers: Vec<HttpAddress>,
    pub interval: Duration,
    /// The series that the numbers of [`ServerPoll::values`] belong to.
    pub series: Vec<MetricSeries>,
    pub ticks: Vec<ServerPoll>,
    /// CPU that polling and reading took, all of it.
    pub cpu: Duration,
}

/// Places in [`Scrape::series`] by key, and what all that is kept takes in memory, in bytes.
#[derive(Default)]
struct KnownSeries {
    places: HashMap<String, u32>,
    held: usize,
}

/// One number over time, at every server that has it.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricSeries {
    /// As Prometheus writes it.
    pub key: String,
    pub name: String,
    pub labels: BTreeMap<String, String>,
    pub kind: MetricKind,
}

/// Why one poll has no values.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ScrapeError {
    #[error(transparent)]
    Query(ClientErrorKind),
    #[error(transparent)]
    Metrics(MetricsError),
    #[error("the metrics of this run take more than {} GiB of memory, the limit", MOST_BYTES >> 30)]
    Full,
}

/// One poll of one server.
#[derive(Debug)]
pub struct ServerPoll {
    /// All servers are polled at once in each round.
    pub round: u32,
    /// Place in [`Scrape::servers`].
    pub server: usize,
    /// When it was polled.
    pub at: Instant,
    pub took: Duration,
    /// Place in [`Scrape::series`] and value; or why there are none.
    pub values: Result<Vec<(u32, f64)>, ScrapeError>,
}

impl Scrape {
    /// The part of the scrape for some of the servers.
    #[must_use]
    pub fn part(&self, is_its: impl Fn(&HttpAddress) -> bool) -> Self {
        let own: Vec<usize> = (0..self.servers.len()).filter(|server| is_its(&self.servers[*server])).collect();
        let tick = |tick: &ServerPoll| {
            let server = own.iter().position(|own| *own == tick.server)?;
            Some(ServerPoll { server, values: tick.values.clone(), ..*tick })
        };
        Self {
            servers: own.iter().map(|server| self.servers[*server].clone()).collect(),
            interval: self.interval,
            series: self.series.clone(),
            ticks: self.ticks.iter().filter_map(tick).collect(),
            cpu: self.cpu,
        }
    }
}

impl Scraper {
    /// Polls at once, and then every `interval`.
    pub fn start(servers: Vec<HttpAddress>, interval: Duration) -> std::io::Result<Self> {
        let (stop, stopped) = oneshot::channel();
        let (sender, scrape) = oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        std::thread::Builder::new().name("metrics".to_owned()).spawn(move || {
            let scrape = runtime.block_on(poll(servers, interval, stopped));
            // The receiver is gone when the poller was dropped.
            let _ = sender.send(scrape);
        })?;
        Ok(Self { stop, scrape })
    }

    /// Polls a last time and returns all answers; none if its thread has died.
    pub async fn finish(self) -> Scrape {
        let _ = self.stop.send(());
        self.scrape.await.unwrap_or_default()
    }
}

async fn poll(servers: Vec<HttpAddress>, interval: Duration, mut receiver: oneshot::Receiver<()>) -> Scrape {
    let mut clients: Vec<Option<HttpClient>> =
        servers.iter().map(|address| Some(HttpClient::new(address.clone()).deadline(PATIENCE))).collect();
    let mut scrape = Scrape { servers, interval, ..Scrape::default() };
    let mut known = KnownSeries::default();
    let mut clock = tokio::time::interval(interval);
    // A late round is not made up for: two at once would add no information.
    clock.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut round = 0;
    loop {
        let last = tokio::select! {
            biased;
            stop = &mut receiver => match stop {
                Ok(()) => true,
                Err(_) => return scrape,
            },
            _ = clock.tick() => false,
        };
        let mut asking = JoinSet::new();
        for (server, client) in clients.iter_mut().enumerate() {
            let Some(mut client) = client.take() else { continue };
            asking.spawn(async move {
                let at = Instant::now();
                let text = client.text("/metrics").await;
                (server, client, at, at.elapsed(), text)
            });
        }
        while let Some(joined) = asking.join_next().await {
            let Ok((server, client, at, took, text)) = joined else { continue };
            clients[server] = Some(client);
            let text = text.map_err(|error| ScrapeError::Query(error.why));
            let exposition = text.and_then(|text| Exposition::parse(&text).map_err(ScrapeError::Metrics));
            let values = exposition.and_then(|exposition| scrape.take(&exposition, &mut known, MOST_BYTES));
            scrape.ticks.push(ServerPoll { round, server, at, took, values });
        }
        round += 1;
        if last {
            break;
        }
    }
    let cpu = clock_gettime(ClockId::ThreadCPUTime);
    scrape.cpu = Duration::new(cpu.tv_sec.unsigned_abs(), cpu.tv_nsec as u32);
    scrape
}

impl Scrape {
    /// Err: with these values all polls would take more than `most` bytes. They are not kept.
    fn take(
        &mut self,
        exposition: &Exposition,
        known: &mut KnownSeries,
        most: usize,
    ) -> Result<Vec<(u32, f64)>, ScrapeError> {
        let mut values = Vec::new();
        for (family, sample) in exposition.samples() {
            let key = sample.key();
            let before = known.places.get(&key).copied();
            let series = match before {
                Some(_) => 0,
                None => 3 * key.len() + SERIES_BYTES + sample.labels.len() * LABEL_BYTES,
            };
            let of_values = (values.len() + 1) * size_of::<(u32, f64)>();
            if known.held + series + of_values > most {
                return Err(ScrapeError::Full);
            }
            known.held += series;
            let place = before.unwrap_or_else(|| {
                let place = self.series.len() as u32;
                self.series.push(MetricSeries {
                    key: key.clone(),
                    name: sample.name.clone(),
                    labels: sample.labels.clone(),
                    // The parts of a histogram or a summary only grow; its quantiles do not.
                    kind: match family.kind {
                        MetricKind::Histogram | MetricKind::Summary if sample.name != family.name => {
                            MetricKind::Counter
                        }
                        MetricKind::Summary => MetricKind::Gauge,
                        kind => kind,
                    },
                });
                known.places.insert(key, place);
                place
            });
            values.push((place, sample.value.0));
        }
        values.shrink_to_fit();
        known.held += size_of_val(values.as_slice());
        Ok(values)
    }

    /// One JSON object for each server in each round; `at_s` counts from `zero`, and is negative before it.
    pub fn lines(&self, zero: Instant) -> impl Iterator<Item = String> {
        self.ticks.iter().map(move |tick| {
            let head = json!({
                "server": self.servers[tick.server].to_string(),
                "at_s": since(tick.at, zero),
                "took_ms": tick.took.as_secs_f64() * 1e3,
            });
            let mut line = head.as_object().cloned().unwrap_or_default();
            match &tick.values {
                Ok(values) => {
                    let values: Map<String, serde_json::Value> = values
                        .iter()
                        .map(|(place, value)| (self.series[*place as usize].key.clone(), json!(MetricValue(*value))))
                        .collect();
                    line.insert("values".to_owned(), values.into());
                }
                Err(why) => drop(line.insert("missed".to_owned(), why.to_string().into())),
            }
            serde_json::Value::Object(line).to_string()
        })
    }
}

/// Seconds from `zero`, negative before it.
pub(super) fn since(at: Instant, zero: Instant) -> f64 {
    match at.checked_duration_since(zero) {
        Some(after) => after.as_secs_f64(),
        None => -zero.duration_since(at).as_secs_f64(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_renames_its_series_at_each_poll_does_not_fill_memory() {
        const MOST: usize = 10_000;
        let (mut scrape, mut known) = (Scrape::default(), KnownSeries::default());
        let mut poll = |text: String| scrape.take(&Exposition::parse(&text).unwrap(), &mut known, MOST);
        let named = |round: usize| format!("a{{round=\"{round}\"}} 1\nb 2\n");
        let rounds = (0..1_000).take_while(|round| poll(named(*round)).is_ok()).count();
        assert!((10..40).contains(&rounds), "{rounds}");
        let why = poll(named(2_000)).unwrap_err().to_string();
        assert_eq!(why, "the metrics of this run take more than 4 GiB of memory, the limit");
        assert!(known.held <= MOST, "{}", known.held);
        assert!(scrape.series.len() <= rounds + 3);
    }
}
