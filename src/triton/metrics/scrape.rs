//! Polls `/metrics` of several servers on a thread of its own, while other work runs.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use serde_json::{Map, json};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

use super::parse::{CREATED, Exposition, MetricKind, MetricValue};
use super::summary::{MOST_POINT_BYTES, POINTS, is_summarized};
use crate::client::ClientErrorKind;
use crate::http::{HttpAddress, HttpClient};
use base::diag::ErrorText;

/// A server that takes longer than this is missed in this round.
const QUERY_TIMEOUT: Duration = Duration::from_secs(5);

/// Bytes of memory that all polls of a run, and summarizing them, may take together: a poll each second of eight
/// servers with ten thousand series each for ten minutes, or with eight hundred for two hours. Beyond that every second
/// poll is dropped.
const MOST_POLLS_BYTES: usize = 1 << 30;
/// The part of it for what is kept, and for its summary.
const MOST_KEPT: usize = MOST_POLLS_BYTES - MOST_POINT_BYTES;
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
    /// Between polls that are kept; the longest where it had to grow.
    pub interval: Duration,
    /// The series that the numbers of [`ServerPoll::values`] belong to.
    pub series: Vec<MetricSeries>,
    pub ticks: Vec<ServerPoll>,
    /// CPU that polling and reading took, all of it.
    pub cpu: Duration,
}

/// Places in [`Scrape::series`] by key, and what all that is kept takes in memory with its summary, in bytes.
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
    Metrics(ErrorText),
    #[error("two polls of the servers' metrics take more than {} GiB of memory, the limit", MOST_POLLS_BYTES >> 30)]
    Full,
}

/// One poll of one server.
#[derive(Debug)]
pub struct ServerPoll {
    /// All servers are polled at once in each round. Numbered as they are kept.
    pub round: u32,
    /// Place in [`Scrape::servers`].
    pub server: usize,
    /// When it was polled.
    pub at: Instant,
    pub took: Duration,
    /// Place in [`Scrape::series`] and value of each series; or why they could not be read.
    pub values: Result<Vec<(u32, f64)>, ScrapeError>,
}

impl Scraper {
    /// Polls at once, and then every `interval`.
    pub fn start(servers: Vec<HttpClient>, interval: Duration) -> std::io::Result<Self> {
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

async fn poll(clients: Vec<HttpClient>, interval: Duration, mut receiver: oneshot::Receiver<()>) -> Scrape {
    let servers = clients.iter().map(|client| client.address().clone()).collect();
    let mut clients: Vec<Option<HttpClient>> =
        clients.into_iter().map(|client| Some(client.deadline(QUERY_TIMEOUT))).collect();
    let mut scrape = Scrape { servers, interval, ..Scrape::default() };
    let mut series = KnownSeries::default();
    let mut clock = tokio::time::interval(interval);
    // A late round is not made up for: two at once would add no information.
    clock.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut polled_every = interval;
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
        let mut queries = JoinSet::new();
        for (server, client) in clients.iter_mut().enumerate() {
            let Some(mut client) = client.take() else { continue };
            queries.spawn(async move {
                let at = Instant::now();
                let text = client.page("/metrics").await;
                (server, client, at, at.elapsed(), text)
            });
        }
        while let Some(joined) = queries.join_next().await {
            let Ok((server, client, at, took, text)) = joined else { continue };
            clients[server] = Some(client);
            let text = text.map_err(|error| ScrapeError::Query(error.why));
            let exposition = text.and_then(|text| Exposition::parse(&text).map_err(ScrapeError::Metrics));
            round = scrape.keep(round, (server, at, took), &exposition, &mut series, MOST_KEPT);
        }
        round += 1;
        if last {
            break;
        }
        if polled_every != scrape.interval {
            polled_every = scrape.interval;
            clock = tokio::time::interval_at(tokio::time::Instant::now() + polled_every, polled_every);
            clock.set_missed_tick_behavior(MissedTickBehavior::Skip);
        }
    }
    let cpu = clock_gettime(ClockId::ThreadCPUTime);
    scrape.cpu = Duration::new(cpu.tv_sec.unsigned_abs(), cpu.tv_nsec as u32);
    scrape
}

impl Scrape {
    /// Keeps one poll. Where all would take more than `most` bytes, every second round before it is dropped, and the
    /// interval doubles: what is kept spans the run. Returns the number that its round then has.
    fn keep(
        &mut self,
        mut round: u32,
        (server, at, took): (usize, Instant, Duration),
        exposition: &Result<Exposition, ScrapeError>,
        known: &mut KnownSeries,
        most: usize,
    ) -> u32 {
        loop {
            let values = match exposition {
                Ok(exposition) => self.take(exposition, known, most),
                Err(why) => Err(why.clone()),
            };
            let poll = ServerPoll { round, server, at, took, values };
            let bytes = bytes_of_poll(&poll);
            let is_full = matches!(poll.values, Err(ScrapeError::Full)) || known.held + bytes > most;
            // Two rounds are always kept: the first one, and this one.
            if !is_full || round <= 1 {
                known.held += bytes;
                self.ticks.push(poll);
                return round;
            }
            round = self.thin(round, known);
        }
    }

    /// Drops every second round but not `current`, and the series that no other has. Returns the new number of
    /// `current`.
    fn thin(&mut self, current: u32, known: &mut KnownSeries) -> u32 {
        self.interval = self.interval.saturating_mul(2);
        self.ticks.retain(|tick| tick.round % 2 == 0 || tick.round == current);
        let mut places = vec![None; self.series.len()];
        for (place, _) in self.ticks.iter().filter_map(|tick| tick.values.as_ref().ok()).flatten() {
            places[*place as usize] = Some(0);
        }
        for (number, place) in places.iter_mut().flatten().enumerate() {
            *place = number as u32;
        }
        let mut has_polls = places.iter().map(Option::is_some);
        self.series.retain(|_| has_polls.next() == Some(true));
        self.series.shrink_to_fit();
        known.places = self.series.iter().map(|series| series.key.clone()).zip(0..).collect();
        known.held = self.series.iter().map(|series| bytes_of_series(series, self.servers.len())).sum();
        for tick in &mut self.ticks {
            tick.round = tick.round.div_ceil(2);
            for (place, _) in tick.values.iter_mut().flatten() {
                *place = places[*place as usize].unwrap_or_default();
            }
            known.held += bytes_of_poll(tick);
        }
        current.div_ceil(2)
    }

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
            let of_values = (values.len() + 1) * size_of::<(u32, f64)>();
            let place = match known.places.get(&key) {
                Some(place) if known.held + of_values <= most => *place,
                Some(_) => return Err(ScrapeError::Full),
                None => {
                    let series = MetricSeries {
                        key: key.clone(),
                        name: sample.name.clone(),
                        labels: sample.labels.clone(),
                        // The parts of a histogram or a summary only grow; its quantiles do not.
                        kind: match family.kind {
                            // When it was made, as OpenMetrics has it in the family.
                            _ if sample.name != family.name && sample.name.ends_with(CREATED) => MetricKind::Gauge,
                            MetricKind::Histogram | MetricKind::Summary if sample.name != family.name => {
                                MetricKind::Counter
                            }
                            MetricKind::Summary => MetricKind::Gauge,
                            kind => kind,
                        },
                    };
                    let bytes = bytes_of_series(&series, self.servers.len());
                    if known.held + bytes + of_values > most {
                        return Err(ScrapeError::Full);
                    }
                    known.held += bytes;
                    let place = self.series.len() as u32;
                    self.series.push(series);
                    known.places.insert(key, place);
                    place
                }
            };
            values.push((place, sample.value.0));
        }
        values.shrink_to_fit();
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

/// What a series takes: here, and in the summaries of the run and of each server's host.
fn bytes_of_series(series: &MetricSeries, servers: usize) -> usize {
    let once = 3 * series.key.len() + SERIES_BYTES + series.labels.len() * LABEL_BYTES;
    if is_summarized(&series.name, &series.labels) {
        once * (servers + 2) + POINTS * size_of::<(f64, f64)>()
    } else {
        once
    }
}

fn bytes_of_poll(poll: &ServerPoll) -> usize {
    let values = match &poll.values {
        Ok(values) => size_of_val(values.as_slice()),
        Err(why) => why.to_string().len(),
    };
    size_of::<ServerPoll>() + values
}

/// Seconds from `zero`, negative before it.
pub fn since(at: Instant, zero: Instant) -> f64 {
    match at.checked_duration_since(zero) {
        Some(after) => after.as_secs_f64(),
        None => -zero.duration_since(at).as_secs_f64(),
    }
}

// What was polled, series by series: the values of each server in time.

/// Points of all series that are summarized at once: lists have room for up to twice as many as they hold.
const MOST_POINTS: usize = MOST_POINT_BYTES / (2 * size_of::<Point>());

/// One value of one server.
#[derive(Clone, Copy, Debug)]
pub(super) struct Point {
    pub round: u32,
    /// s from the run's start.
    pub at: f64,
    pub value: f64,
}

/// Of each series, one after the other: the points of each server. Those of some series at a time are in memory.
pub(super) fn tracks(
    ticks: &[&ServerPoll],
    series: usize,
    servers: usize,
    zero: Instant,
) -> impl Iterator<Item = Vec<Vec<Point>>> {
    let batches = batches(&points_of(series, ticks), servers, MOST_POINTS);
    batches.into_iter().flat_map(move |places| tracks_of(ticks, places, servers, zero))
}

/// Values of each series.
fn points_of(series: usize, ticks: &[&ServerPoll]) -> Vec<usize> {
    let mut counts = vec![0; series];
    for (place, _) in ticks.iter().filter_map(|tick| tick.values.as_ref().ok()).flatten() {
        counts[*place as usize] += 1;
    }
    counts
}

/// Places of the series whose points are in memory at once: at most `most` points together, with the list of each
/// server counted as one. A series that has more is alone.
fn batches(points: &[usize], servers: usize, most: usize) -> Vec<Range<usize>> {
    let (mut batches, mut begun, mut held) = (Vec::new(), 0, 0);
    for (place, points) in points.iter().enumerate() {
        let points = points + servers + 1;
        if held + points > most && place > begun {
            batches.push(begun..place);
            (begun, held) = (place, 0);
        }
        held += points;
    }
    batches.push(begun..points.len());
    batches
}

/// The points in time of each of these series on each server. Values that are not finite are left out, and so is a
/// second value in one answer.
fn tracks_of(ticks: &[&ServerPoll], places: Range<usize>, servers: usize, zero: Instant) -> Vec<Vec<Vec<Point>>> {
    let mut tracks = vec![vec![Vec::<Point>::new(); servers]; places.len()];
    for tick in ticks {
        for (place, value) in tick.values.iter().flatten().filter(|(_, value)| value.is_finite()) {
            let place = *place as usize;
            if !places.contains(&place) {
                continue;
            }
            let track = &mut tracks[place - places.start][tick.server];
            if track.last().is_none_or(|last| last.round != tick.round) {
                track.push(Point { round: tick.round, at: since(tick.at, zero), value: *value });
            }
        }
    }
    tracks
}

/// The points from the last one before the run's start on; all of them if the first comes later.
pub(super) fn baseline(track: &[Point]) -> &[Point] {
    let before = track.iter().take_while(|point| point.at <= 0.0).count();
    &track[before.saturating_sub(1)..]
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    /// Polls one server, and returns the rounds that are kept: when each was polled, in rounds, and its number of
    /// values.
    fn kept(rounds: u32, most: usize, text: impl Fn(u32) -> String) -> (Scrape, Vec<(u64, usize)>) {
        let address = HttpAddress { host: "h".to_owned(), port: 1 };
        let mut scrape = Scrape { servers: vec![address], interval: Duration::from_secs(1), ..Scrape::default() };
        let (mut known, mut round, begun) = (KnownSeries::default(), 0, Instant::now());
        for polled in 0..rounds {
            let exposition = Exposition::parse(&text(polled)).map_err(ScrapeError::Metrics);
            let at = begun + Duration::from_secs(polled.into());
            round = scrape.keep(round, (0, at, Duration::ZERO), &exposition, &mut known, most) + 1;
            assert!(known.held <= most, "{} bytes after {polled}", known.held);
            let counted: usize = scrape.series.iter().map(|series| bytes_of_series(series, 1)).sum();
            assert_eq!(known.held, counted + scrape.ticks.iter().map(bytes_of_poll).sum::<usize>());
        }
        let numbers: Vec<u32> = scrape.ticks.iter().map(|tick| tick.round).collect();
        assert_eq!(numbers, (0..round).collect::<Vec<_>>());
        let kept = scrape.ticks.iter().map(|tick| ((tick.at - begun).as_secs(), tick.values.as_ref().unwrap().len()));
        let kept = kept.collect();
        (scrape, kept)
    }

    #[test]
    fn polls_that_fill_memory_are_thinned_and_span_the_run() {
        let (scrape, kept) = kept(1_000, 10_000, |polled| format!("a_total {polled}\n"));
        assert!((10..100).contains(&kept.len()), "{kept:?}");
        assert_eq!((kept[0].0, kept[kept.len() - 1].0), (0, 999));
        assert!(kept.windows(2).all(|pair| Duration::from_secs(pair[1].0 - pair[0].0) <= scrape.interval), "{kept:?}");
    }

    #[test]
    fn a_server_that_renames_its_series_at_each_poll_does_not_fill_memory() {
        let (scrape, kept) = kept(1_000, 10_000, |polled| format!("a{{round=\"{polled}\"}} 1\nb 2\n"));
        assert!((4..40).contains(&kept.len()), "{kept:?}");
        assert_eq!((kept[0].0, kept[kept.len() - 1].0), (0, 999));
        assert!(scrape.series.len() <= kept.len() + 1);
        let last = scrape.lines(Instant::now()).last().unwrap();
        assert!(last.contains(r#""a{round=\"999\"}":1.0"#) && last.contains(r#""b":2.0"#), "{last}");
    }

    #[test]
    fn a_poll_that_is_larger_than_memory_is_missed() {
        let mut scrape = Scrape::default();
        let large = (0..100).map(|number| format!("a{number} 1")).collect::<Vec<_>>().join("\n") + "\n";
        let exposition = Exposition::parse(&large).map_err(ScrapeError::Metrics);
        scrape.keep(0, (0, Instant::now(), Duration::ZERO), &exposition, &mut KnownSeries::default(), 10_000);
        let reason = scrape.ticks[0].values.as_ref().unwrap_err().to_string();
        assert_eq!(reason, "two polls of the servers' metrics take more than 1 GiB of memory, the limit");
    }

    #[test]
    fn series_are_summarized_in_batches_that_fit_into_memory() {
        // Each has one point more for the list of its one server, and one for the list of lists.
        assert_eq!(batches(&[1, 1, 1, 9, 1], 1, 7), [0..2, 2..3, 3..4, 4..5]);
        let batch_ends = |batches: Vec<Range<usize>>| batches.iter().map(|batch| batch.end).collect::<Vec<_>>();
        assert_eq!((batch_ends(batches(&[1, 1], 1, 7)), batch_ends(batches(&[], 1, 7))), (vec![2], vec![0]));
        let begun = Instant::now();
        let poll = |round, server, value| ServerPoll {
            round,
            server,
            at: begun,
            took: Duration::ZERO,
            // A server that sends a value twice has sent the first one.
            values: Ok(vec![(0, value), (1, value + 0.5), (2, f64::NAN), (3, -value), (3, 7.0)]),
        };
        let polls = [poll(0, 0, 1.0), poll(0, 1, 2.0), poll(1, 0, 3.0)];
        let ticks: Vec<&ServerPoll> = polls.iter().collect();
        assert_eq!(points_of(4, &ticks), [3, 3, 3, 6]);
        let values = |places| {
            let tracks = tracks_of(&ticks, places, 2, begun);
            tracks
                .iter()
                .map(|servers| servers.iter().map(|track| track.iter().map(|point| point.value).collect()).collect())
                .collect::<Vec<Vec<Vec<f64>>>>()
        };
        assert_eq!(values(0..1), [[vec![1.0, 3.0], vec![2.0]]]);
        assert_eq!(values(2..4), [[vec![], vec![]], [vec![-1.0, -3.0], vec![-2.0]]]);
        assert_eq!(tracks(&ticks, 4, 2, begun).count(), 4);
    }
}
