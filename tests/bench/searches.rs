//! Searches for the highest rate on queues whose true rate is known, in virtual time: how often the interval holds the true rate, and
//! how wide it is. Both count: an interval from 0 to infinity always holds it.

use regatta::stats::{Growth, ProbeOutcome, RateSearcher, RateStep, VisitsInOrder};

use super::simulated_queue::{ServerPool, ServiceTime, SimulatedQueue, Visit};
use super::systems::{Kind, System};

/// The least margin of a probe whose queue grew all the time, as the load test has it.
const OVERLOAD: f64 = 1.5;

/// A system and its limit. Rates are in what the system can do.
pub struct SearchedSystem {
    pub name: String,
    /// The highest rate at which the p99 of the wait is within the limit in the long run.
    pub true_rate: f64,
    /// The limit, in mean service times.
    allowed: f64,
    visits: VisitsAtRate,
}

/// The visits at a rate, for a number of requests and a seed.
type VisitsAtRate = Box<dyn Fn(f64, usize, u64) -> Vec<Visit> + Send + Sync>;

/// What searches found.
#[derive(Default)]
pub struct SearchTally {
    pub searches: usize,
    /// Intervals that hold the true rate.
    pub covered: usize,
    /// Upper end of each interval over its lower one.
    pub widths: Vec<f64>,
    /// ln(estimate / true rate).
    pub errors: Vec<f64>,
    pub bracketed: usize,
    /// Brackets that hold the true rate.
    pub bracket_covered: usize,
    pub probes: usize,
}

impl SearchTally {
    /// Of those that ended with an estimate.
    pub fn coverage(&self) -> f64 {
        self.covered as f64 / self.widths.len().max(1) as f64
    }

    pub fn share_bracketed(&self) -> f64 {
        self.bracketed as f64 / self.searches as f64
    }

    /// Of all searches.
    pub fn share_wider_than(&self, factor: f64) -> f64 {
        self.widths.iter().filter(|width| **width > factor).count() as f64 / self.searches as f64
    }

    pub fn median_width(&self) -> f64 {
        let mut widths = self.widths.clone();
        widths.sort_by(f64::total_cmp);
        widths.get(widths.len() / 2).copied().unwrap_or(f64::NAN)
    }

    pub fn bias(&self) -> f64 {
        self.errors.iter().sum::<f64>() / self.errors.len().max(1) as f64
    }

    pub fn spread(&self) -> f64 {
        (self.errors.iter().map(|error| error * error).sum::<f64>() / self.errors.len().max(1) as f64).sqrt()
    }

    pub const HEAD: &str =
        "system        requests  cover %  wider ×3 %  width (median)  bracketed %  (hold %)  probes  bias %  error %";

    pub fn row(&self, name: &str, requests: usize) -> String {
        format!(
            "{name:<13} {requests:>8} {:>8.1} {:>11.1} {:>15.2} {:>12.1} {:>9.0} {:>7.1} {:>7.1} {:>8.1}",
            100.0 * self.coverage(),
            100.0 * self.share_wider_than(3.0),
            self.median_width(),
            100.0 * self.share_bracketed(),
            100.0 * self.bracket_covered as f64 / self.bracketed.max(1) as f64,
            self.probes as f64 / self.searches as f64,
            100.0 * self.bias(),
            100.0 * self.spread(),
        )
    }
}

/// Twelve systems, from a wait that grows slowly to one that is 0 up to what the server can do. The limit is the p99 of the waits of
/// four million requests (seed 99) at the load named, so that this load is the true rate.
pub fn searched_systems() -> Vec<SearchedSystem> {
    let queues = [
        ("M/D/1", 1, ServiceTime::Fixed, 0.9, 21.45),
        ("M/D/8", 8, ServiceTime::Fixed, 0.9, 2.557),
        ("M/D/64", 64, ServiceTime::Fixed, 0.95, 0.6405),
        ("M/M/1", 1, ServiceTime::Exponential, 0.8, 22.21),
        ("M/M/4", 4, ServiceTime::Exponential, 0.8, 5.185),
        ("M/M/8", 8, ServiceTime::Exponential, 0.8, 2.430),
    ];
    let queues = queues.map(|(name, servers, service, true_rate, allowed)| {
        SearchedSystem::new(name, true_rate, allowed, move |rate, requests, seed| {
            SimulatedQueue::new(servers, service, rate).starting_empty(requests, seed)
        })
    });
    let others = [
        (Kind::Lognormal, 7.278),
        (Kind::Batches, 1.115),
        (Kind::TwoKinds, 15.04),
        (Kind::Steps, 0.9452),
        (Kind::Bursts, 20.09),
    ];
    let others = others.map(|(kind, allowed)| {
        SearchedSystem::new(kind.name(), 0.8, allowed, move |load, requests, seed| {
            System { kind, load }.run(requests, 0, seed)
        })
    });
    let even = |rate: f64, requests: usize, _| {
        let mut pool = ServerPool::new(8);
        (1..=requests).map(|request| pool.serve(request as f64 / (8.0 * rate), 1.0)).collect()
    };
    // Any limit holds up to what the servers can do, and no further.
    let step = SearchedSystem::new("D/D/8", 1.0, 2.0, even);
    queues.into_iter().chain(others).chain([step]).collect()
}

impl SearchedSystem {
    fn new(
        name: &str,
        true_rate: f64,
        allowed: f64,
        visits: impl Fn(f64, usize, u64) -> Vec<Visit> + Send + Sync + 'static,
    ) -> Self {
        Self { name: format!("{name} {true_rate}"), true_rate, allowed, visits: Box::new(visits) }
    }

    /// A probe as the load test makes it: from an empty system, with its own arrivals.
    fn probe(&self, rate: f64, requests: usize, seed: u64) -> ProbeOutcome {
        let visits = (self.visits)(rate, requests, seed);
        let mut waits: Vec<f64> = visits.iter().map(Visit::wait).collect();
        let margin = |waits: &mut [f64]| (p99(waits) / self.allowed).max(f64::MIN_POSITIVE).ln().clamp(-3.0, 3.0);
        let first_half = margin(&mut waits[..requests / 2].to_vec());
        let times: Vec<(f64, f64)> = visits.iter().map(|visit| (visit.arrival, visit.end)).collect();
        let growth = in_order(&times, |visits| Growth::estimate(visits, rate));
        let whole = margin(&mut waits);
        let least = if growth.is_some_and(|growth| growth.is_certain()) { OVERLOAD } else { f64::NEG_INFINITY };
        let overload = growth.filter(Growth::is_likely);
        ProbeOutcome {
            rate,
            whole: whole.max(least),
            first_half,
            capacity: overload.map(|growth| growth.capacity_per_s * rate / growth.arrivals_per_s),
        }
    }

    /// Searches from 0.09 to 1.44 times the true rate to 2 %, beginning at `start` times it.
    pub fn search(&self, start: f64, requests: usize, searches: usize) -> SearchTally {
        let searcher = RateSearcher {
            low: 0.09 * self.true_rate,
            high: 1.44 * self.true_rate,
            start: start * self.true_rate,
            second: None,
            precision: 0.02,
            most: 11,
        };
        let mut tally = SearchTally { searches, ..SearchTally::default() };
        for number in 0..searches as u64 {
            let mut probes: Vec<ProbeOutcome> = Vec::new();
            let end = loop {
                match searcher.next(&probes) {
                    RateStep::Probe(rate) => {
                        probes.push(self.probe(rate, requests, 1_000 * number + probes.len() as u64));
                    }
                    end => break end,
                }
            };
            tally.probes += probes.len();
            // The true rate of a step is known to what its finite probes can tell apart.
            let is_held = |low: f64, high: f64| 0.995 * low <= self.true_rate && self.true_rate <= 1.005 * high;
            let (low, high) = match end {
                RateStep::Estimated(found) => {
                    tally.covered += usize::from(is_held(found.low, found.high));
                    tally.widths.push(found.high / found.low);
                    tally.errors.push((found.rate / self.true_rate).ln());
                    continue;
                }
                RateStep::Bracketed { low, high } => (low, high.unwrap_or(f64::INFINITY)),
                RateStep::HeldAtHighest => (searcher.high, f64::INFINITY),
                RateStep::MissedAtLowest => (0.0, searcher.low),
                RateStep::Probe(_) => unreachable!("it is the end"),
            };
            tally.bracketed += 1;
            tally.bracket_covered += usize::from(is_held(low, high));
        }
        tally
    }
}

/// What `read` finds of visits, (arrival, end) in the order of arrivals.
pub fn in_order<Found>(visits: &[(f64, f64)], read: impl for<'v> FnOnce(&'v VisitsInOrder<'v>) -> Found) -> Found {
    let mut ends: Vec<f64> = visits.iter().map(|(_, end)| *end).collect();
    ends.sort_unstable_by(f64::total_cmp);
    read(&VisitsInOrder {
        count: visits.len(),
        visits: &|| Box::new(visits.iter().copied()),
        ends: &|| Box::new(ends.iter().copied()),
    })
}

fn p99(values: &mut [f64]) -> f64 {
    let rank = ((values.len() as f64 * 0.99) as usize).min(values.len() - 1);
    *values.select_nth_unstable_by(rank, f64::total_cmp).1
}
