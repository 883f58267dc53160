//! The requests that reach one balancer.

use std::collections::VecDeque;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use super::replica::Replica;
use crate::core::EngineLimits;
use crate::virtual_load::{LengthSampler, VirtualWorkload};
use base::spec::Prefixes;

/// One request. `prefix`: which of the shared beginnings its prompt has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FleetArrival {
    /// Nanoseconds.
    pub(crate) at: u64,
    pub(crate) isl: u64,
    pub(crate) osl: u64,
    pub(crate) prefix: Option<u32>,
    pub(crate) adapter: Option<u64>,
}

/// Poisson arrivals at a rate that changes: those of its highest rate, thinned.
pub(super) struct FleetArrivals<'a> {
    rate: &'a RateOverTime,
    /// The balancers that share the rate.
    share: f64,
    highest: f64,
    seconds: f64,
    random: Pcg64,
    lengths: LengthSampler<'a>,
    workload: &'a VirtualWorkload,
    count: usize,
    prefixes: Option<(Prefixes, Vec<f64>)>,
}

impl<'a> FleetArrivals<'a> {
    pub(super) fn new(
        rate: &'a RateOverTime,
        balancers: usize,
        workload: &'a VirtualWorkload,
        prefixes: Option<Prefixes>,
        seed: u64,
    ) -> Self {
        Self {
            rate,
            share: balancers as f64,
            highest: rate.highest() / balancers as f64,
            seconds: 0.0,
            random: Pcg64::seed_from_u64(seed ^ 0x6172_7269_7665),
            lengths: workload.lengths(seed),
            workload,
            count: 0,
            prefixes: prefixes.map(|prefixes| (prefixes, cumulated(prefixes))),
        }
    }
}

/// The shares of the first, the first two, … prefixes.
fn cumulated(prefixes: Prefixes) -> Vec<f64> {
    let exponent = prefixes.zipf.unwrap_or(0.0);
    let mut sum = 0.0;
    let mut shares: Vec<f64> = (1..=prefixes.count)
        .map(|rank| {
            sum += libm::pow(f64::from(rank), -exponent);
            sum
        })
        .collect();
    for share in &mut shares {
        *share /= sum;
    }
    shares
}

impl Iterator for FleetArrivals<'_> {
    type Item = FleetArrival;

    fn next(&mut self) -> Option<FleetArrival> {
        loop {
            // 1 − u is above 0.
            self.seconds -= libm::log(1.0 - self.random.random::<f64>()) / self.highest;
            if self.seconds >= self.rate.seconds() {
                return None;
            }
            if self.random.random::<f64>() * self.highest < self.rate.at(self.seconds) / self.share {
                break;
            }
        }
        let (isl, osl) = self.lengths.next();
        let adapter = self.workload.adapter(self.count);
        self.count += 1;
        let mut request = FleetArrival { at: (self.seconds * 1e9) as u64, isl, osl, prefix: None, adapter };
        if let Some((prefixes, shares)) = &self.prefixes {
            let drawn = self.random.random::<f64>();
            let prefix = shares.partition_point(|share| *share <= drawn).min(shares.len() - 1);
            request.prefix = Some(prefix as u32);
            request.isl += u64::from(prefixes.tokens);
        }
        Some(request)
    }
}

// To which replica a request goes.

base::named! {
    /// The policy of a balancer. It knows which replicas are up and how many requests it has given to each that have
    /// not ended.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Deserialize)]
    pub enum Balancer {
        /// Each replica in turn.
        RoundRobin = "round-robin",
        /// The one with the fewest requests.
        LeastLoad = "least-load",
        /// One with the KV cache of the prefix, unless it is much busier.
        PrefixAware = "prefix-aware",
    }
}

/// A replica with the prefix is taken up to this multiple of the least load, and this many requests more.
const MORE_LOAD: f64 = 1.25;
const MORE_REQUESTS: f64 = 4.0;

impl Balancer {
    /// `turn` counts up; it decides between replicas that are alike. `None`: no replica is up.
    pub(super) fn choose(self, replicas: &[Replica], prefix: Option<u32>, turn: &mut usize) -> Option<usize> {
        let count = replicas.len();
        let from = *turn;
        let in_turn = || (0..count).map(|step| (from + step) % count).filter(|&at| replicas[at].is_up());
        let least = || in_turn().min_by_key(|&at| replicas[at].requests());
        let choice = match self {
            Self::RoundRobin => in_turn().next(),
            Self::LeastLoad => least(),
            Self::PrefixAware => {
                let most = least().map_or(0.0, |at| replicas[at].requests() as f64 * MORE_LOAD + MORE_REQUESTS);
                let has = |at: &usize| prefix.is_some_and(|prefix| replicas[*at].has_prefix(prefix));
                let warm = in_turn().filter(has).min_by_key(|&at| replicas[at].requests());
                warm.filter(|&at| replicas[at].requests() as f64 <= most).or_else(least)
            }
        };
        if let Some(choice) = choice {
            *turn = choice + 1;
        }
        choice
    }
}

// Which shared prefixes a replica has in its KV cache.

/// The prefixes that were used last. Their blocks are taken out of the pool of the requests.
#[derive(Clone, Debug, Default)]
pub(super) struct PrefixCache {
    /// The one that was used last is the first.
    kept: VecDeque<u32>,
    room: usize,
    tokens: u64,
}

impl PrefixCache {
    /// As many prefixes as there are, in at most half of the pool; and the limits of what is left.
    pub(super) fn new(limits: &EngineLimits, prefixes: Option<Prefixes>) -> (Self, EngineLimits) {
        let Some(prefixes) = prefixes else { return (Self::default(), limits.clone()) };
        let tokens = u64::from(prefixes.tokens);
        let each = tokens.div_ceil(limits.tokens_per_block).max(1);
        let room = (limits.blocks / 2 / each).min(u64::from(prefixes.count));
        let left = EngineLimits { blocks: limits.blocks - room * each, ..limits.clone() };
        (Self { kept: VecDeque::new(), room: room as usize, tokens }, left)
    }

    pub(super) fn has(&self, prefix: u32) -> bool {
        self.kept.contains(&prefix)
    }

    /// A request with this prefix comes: the tokens that it need not compute. The prefix is there for the next one.
    pub(super) fn use_prefix(&mut self, prefix: u32) -> u64 {
        let place = self.kept.iter().position(|kept| *kept == prefix);
        if let Some(place) = place {
            self.kept.remove(place);
        }
        self.kept.push_front(prefix);
        self.kept.truncate(self.room);
        if place.is_some() { self.tokens } else { 0 }
    }

    pub(super) fn clear(&mut self) {
        self.kept.clear();
    }
}

// Replicas that fail and come back.

/// Every replica fails at random, independently of the others. Its requests begin again on other ones.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Failures {
    /// Mean time from a start to the next failure, seconds.
    pub mean_time_between: f64,
    /// From a failure until it takes requests again, seconds.
    pub repair: f64,
}

/// When one replica fails or comes back next, nanoseconds.
pub(super) struct FailureTimes {
    failures: Option<Failures>,
    random: Pcg64,
    next: u64,
}

impl FailureTimes {
    pub(super) fn new(failures: Option<Failures>, seed: u64) -> Self {
        let mut times = Self { failures, random: Pcg64::seed_from_u64(seed ^ 0x6661_696c), next: u64::MAX };
        times.runs_from(0);
        times
    }

    pub(super) const fn next(&self) -> u64 {
        self.next
    }

    /// It is up from now on: draws its next failure.
    pub(super) fn runs_from(&mut self, now: u64) {
        if let Some(failures) = self.failures {
            let seconds = -libm::log(1.0 - self.random.random::<f64>()) * failures.mean_time_between;
            self.next = now.saturating_add((seconds * 1e9) as u64);
        }
    }

    /// It fails now.
    pub(super) fn fails_at(&mut self, now: u64) {
        if let Some(failures) = self.failures {
            self.next = now.saturating_add((failures.repair * 1e9) as u64);
        }
    }
}

// How many requests arrive each second, over a day.

/// Requests per second at points of time, linear in between. The load ends at the last point.
#[derive(Clone, Debug, PartialEq)]
pub struct RateOverTime {
    /// Seconds, in order from 0, and requests per second.
    points: Vec<(f64, f64)>,
}

/// What is wrong with points of a rate.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum RateOverTimeError {
    #[error("line {line}: `{text}` is not `SECONDS,REQUESTS_PER_SECOND`")]
    Line { line: usize, text: String },
    #[error("line {line}: {seconds} s is not after the point before")]
    Order { line: usize, seconds: f64 },
    #[error("a rate over time has at least two points, the first at 0 s, and a rate above 0")]
    TooFew,
}

const DAY: f64 = 86_400.0;

impl RateOverTime {
    /// A day with its lowest rate at 4 o'clock and its highest one at 16 o'clock, in points of a quarter of an hour.
    pub fn day(low: f64, high: f64) -> Self {
        const POINTS: u32 = 96;
        let points = (0..=POINTS)
            .map(|point| {
                let seconds = DAY * f64::from(point) / f64::from(POINTS);
                let turn = std::f64::consts::TAU * (seconds / DAY - 1.0 / 6.0);
                // Not the C library's: the same bits on every machine.
                (seconds, low + (high - low) * (1.0 - libm::cos(turn)) / 2.0)
            })
            .collect();
        Self { points }
    }

    /// Lines `SECONDS,REQUESTS_PER_SECOND`; a first line of words and lines with `#` are left out.
    pub fn parse(text: &str) -> Result<Self, RateOverTimeError> {
        let mut points: Vec<(f64, f64)> = Vec::new();
        for (at, text) in text.lines().enumerate() {
            let line = at + 1;
            let text = text.trim();
            if text.is_empty() || text.starts_with('#') || at == 0 && text.starts_with(|c: char| c.is_alphabetic()) {
                continue;
            }
            let wrong = || RateOverTimeError::Line { line, text: text.to_owned() };
            let (seconds, rate) = text.split_once(',').ok_or_else(wrong)?;
            let number =
                |text: &str| text.trim().parse::<f64>().ok().filter(|value| value.is_finite() && *value >= 0.0);
            let (seconds, rate) = (number(seconds).ok_or_else(wrong)?, number(rate).ok_or_else(wrong)?);
            if points.last().is_some_and(|(before, _)| seconds <= *before) {
                return Err(RateOverTimeError::Order { line, seconds });
            }
            points.push((seconds, rate));
        }
        let begins = points.first().is_some_and(|(seconds, _)| *seconds == 0.0);
        if points.len() < 2 || !begins || points.iter().all(|(_, rate)| *rate == 0.0) {
            return Err(RateOverTimeError::TooFew);
        }
        Ok(Self { points })
    }

    /// Its length, seconds.
    pub fn seconds(&self) -> f64 {
        self.points.last().map_or(0.0, |(seconds, _)| *seconds)
    }

    pub fn highest(&self) -> f64 {
        self.points.iter().fold(0.0, |most, (_, rate)| most.max(*rate))
    }

    /// The mean over the whole time.
    pub fn mean(&self) -> f64 {
        let area: f64 =
            self.points.windows(2).map(|pair| (pair[1].0 - pair[0].0) * f64::midpoint(pair[0].1, pair[1].1)).sum();
        area / self.seconds()
    }

    /// Requests per second at a time.
    pub(super) fn at(&self, seconds: f64) -> f64 {
        let behind = self.points.partition_point(|(point, _)| *point <= seconds);
        match (self.points.get(behind.wrapping_sub(1)), self.points.get(behind)) {
            (Some((from, low)), Some((to, high))) => low + (high - low) * (seconds - from) / (to - from),
            (Some((_, rate)), None) => *rate,
            _ => 0.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_has_its_rates_and_a_file_its_lines() {
        let day = RateOverTime::day(100.0, 500.0);
        assert_eq!((day.at(4.0 * 3600.0).round(), day.at(16.0 * 3600.0).round()), (100.0, 500.0));
        assert!((day.mean() - 300.0).abs() < 1.0 && (day.seconds() - DAY).abs() < 1e-9);
        let file = RateOverTime::parse("seconds,rate\n0,10\n# noon\n100,30\n").unwrap();
        assert!((file.at(50.0) - 20.0).abs() < 1e-9 && (file.mean() - 20.0).abs() < 1e-9);
        assert!(matches!(RateOverTime::parse("0,1\n0,2"), Err(RateOverTimeError::Order { line: 2, .. })));
        assert!(matches!(RateOverTime::parse("0,1\nx"), Err(RateOverTimeError::Line { line: 2, .. })));
        assert_eq!(RateOverTime::parse("0,0\n9,0"), Err(RateOverTimeError::TooFew));
    }
}
