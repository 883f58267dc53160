//! Whether a server falls behind in a run that is over before its queue can be compared with itself. Pure.
//!
//! [`Growth`](super::Growth) needs a window of several times in the system. The larger an overload, the sooner the wait
//! itself is longer than that: at three times what a server does, no window is long enough. But then each second of
//! arrivals adds ρ − 1 seconds to the time in the system, and a server that only fills, however slow it is, adds none.
//! This compares the requests that arrived in the first third of the window with those of its last third: how much
//! longer they took for each second that they came later, and whether more than chance is in it (ranks, Mann and
//! Whitney 1947).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A window shorter than this many times the usual time in the system shows only how a server fills.
pub(super) const TIMES_IN_SYSTEM: f64 = 4.0;

/// The visits of a run that may be too many to be in memory: each of its sequences can be read several times.
pub struct VisitsInOrder<'v> {
    pub count: usize,
    /// (arrival, end) in seconds, in the order of arrivals.
    pub visits: &'v dyn Fn() -> Box<dyn Iterator<Item = (f64, f64)> + 'v>,
    /// Their ends, in the order of time.
    pub ends: &'v dyn Fn() -> Box<dyn Iterator<Item = f64> + 'v>,
}

impl VisitsInOrder<'_> {
    /// The first and the last arrival; `None`: all at once, or fewer than `least`.
    pub(super) fn window(&self, least: usize) -> Option<(f64, f64)> {
        let (from, to) = ((self.visits)().next()?.0, (self.visits)().last()?.0);
        (self.count >= least && to > from).then_some((from, to))
    }
}

/// Fewer arrivals show nothing: of 150 queues at ρ = 0.9 with 30 arrivals up to 7 % of M/M/1 would be called likely.
const LEAST_ARRIVALS: usize = 50;
/// Standard errors of the rank sum.
pub(super) const NOT_BY_CHANCE: f64 = 3.0;
/// Seconds longer for each second later. A server at 1.5 times what it does adds 0.5, at twice that 1.
const LIKELY: f64 = 0.5;
const CERTAIN: f64 = 1.0;
/// An overload of less than this adds little to a window that is over before the server has filled.
const RISING: f64 = 0.1;
/// This many of each third are compared, evenly taken, where it has more.
const COMPARED: usize = 10_000;
/// As many independent values must be in a series: one or two long busy periods show nothing of their server.
const FEWEST_INDEPENDENT: f64 = 5.0;
/// The highest correlation of neighbors that is believed: beyond it no number of values shows anything.
const MOST_ALIKE: f64 = 0.99;

/// How much longer requests of the last third took than those of the first: for windows too short for `Growth`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LatencyTrend {
    pub arrivals_per_s: f64,
    /// First to last arrival.
    pub window_s: f64,
    /// Mean time in the system of the requests that arrived in the first third.
    pub usual_s: f64,
    /// Median time in the system of the requests of the first third.
    pub first_third_s: f64,
    /// Median time in the system of the requests of the last third.
    pub last_third_s: f64,
    /// How much the time in the system rose for each second of arrivals: about ρ − 1 of a server with a queue.
    pub rise: f64,
    /// By which the last third took longer, from their ranks.
    pub standard_errors: f64,
}

impl LatencyTrend {
    /// `None`: too few, or all at once.
    pub fn estimate<'v>(visits: &'v VisitsInOrder<'v>) -> Option<Self> {
        let VisitsInOrder { count, visits: all, .. } = visits;
        let (from, to) = visits.window(LEAST_ARRIVALS)?;
        let third = count / 3;
        let part = |skipped: usize| Part::new(all().skip(skipped).take(third).step_by(third.div_ceil(COMPARED)));
        let (first, last) = (part(0), part(count - third));
        Some(Self {
            arrivals_per_s: (count - 1) as f64 / (to - from),
            window_s: to - from,
            usual_s: first.times.iter().sum::<f64>() / first.times.len() as f64,
            first_third_s: first.median_time(),
            last_third_s: last.median_time(),
            rise: (last.median_time() - first.median_time()) / (last.middle - first.middle).max(f64::MIN_POSITIVE),
            standard_errors: rank_errors(&first.times, &last.times),
        })
    }

    /// Of 150 stationary queues of each of eleven kinds (one to 64 servers, processor sharing, equal, exponential and
    /// lognormal services) at ρ = 0.9, from empty, with 60 arrivals at most 2.7 % say so, and with 99 at most 0.7 %. At
    /// ρ = 3 all of those do that have a queue by then.
    pub fn is_likely(&self) -> bool {
        self.is_above(LIKELY)
    }

    /// None of the same stationary queues did.
    pub fn is_certain(&self) -> bool {
        self.is_above(CERTAIN)
    }

    /// Neither this nor `Growth` can tell whether the server would hold the rate: the window is over before it has
    /// filled.
    pub fn shows_only_filling(&self) -> bool {
        !self.is_likely() && self.window_s < TIMES_IN_SYSTEM * self.usual_s
    }

    /// Late requests took longer, and not by chance.
    pub fn is_rising(&self) -> bool {
        self.is_above(RISING)
    }

    /// What the server completed per second, as the ends of the requests lie apart.
    pub fn served_per_s(&self) -> f64 {
        self.arrivals_per_s / (1.0 + self.rise.max(0.0))
    }

    fn is_above(&self, rise: f64) -> bool {
        self.rise > rise && self.standard_errors > NOT_BY_CHANCE
    }
}

/// Requests that arrived one after the other.
struct Part {
    /// Seconds in the system, the shortest first.
    times: Vec<f64>,
    /// Median of the arrivals.
    middle: f64,
}

impl Part {
    fn new(visits: impl Iterator<Item = (f64, f64)>) -> Self {
        let (arrivals, mut times): (Vec<f64>, Vec<f64>) = visits.map(|(arrival, end)| (arrival, end - arrival)).unzip();
        times.sort_unstable_by(f64::total_cmp);
        Self { times, middle: arrivals[arrivals.len() / 2] }
    }

    fn median_time(&self) -> f64 {
        self.times[self.times.len() / 2]
    }
}

/// By how many standard errors `last` has higher ranks than `first`, which is sorted. Equal values count half.
pub(super) fn rank_errors(first: &[f64], last: &[f64]) -> f64 {
    let (n, m) = (first.len() as f64, last.len() as f64);
    let exceeds: f64 = last.iter().map(|value| rank_among(first, *value)).sum();
    (exceeds - n * m / 2.0) / (n * m * (n + m + 1.0) / 12.0).sqrt()
}

/// Like `rank_errors`, of values in the order of time whose neighbors may be alike, as those of one busy period are:
/// the fewer of them count for themselves (the variance of a mean of a first-order autoregression). `others` is sorted.
pub fn rank_errors_in_order(others: &[f64], series: &[f64]) -> f64 {
    let ranks: Vec<f64> = series.iter().map(|value| rank_among(others, *value)).collect();
    let mean = ranks.iter().sum::<f64>() / ranks.len().max(1) as f64;
    let square =
        |lag: usize| -> f64 { ranks.iter().zip(ranks.iter().skip(lag)).map(|(a, b)| (a - mean) * (b - mean)).sum() };
    let measured = if square(0) > 0.0 { square(1) / square(0) } else { 0.0 };
    // Of few values it is measured too low (Marriott and Pope 1954).
    let bias = if square(0) > 0.0 { (1.0 + 3.0 * measured) / ranks.len() as f64 } else { 0.0 };
    let alike = (measured + bias).clamp(0.0, MOST_ALIKE);
    let independent = (1.0 - alike) / (1.0 + alike);
    let is_enough = ranks.len() as f64 * independent >= FEWEST_INDEPENDENT;
    if is_enough { rank_errors(others, series) * independent.sqrt() } else { 0.0 }
}

/// How many of these sorted values are below it.
fn rank_among(sorted: &[f64], value: f64) -> f64 {
    let (less, up_to) = (sorted.partition_point(|x| *x < value), sorted.partition_point(|x| *x <= value));
    (less + up_to) as f64 / 2.0
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::stats::simulated_queue::{ServiceTime, SimulatedQueue};

    /// What `read` makes of visits, (arrival, end) in the order of arrivals.
    pub fn in_order<T>(visits: &[(f64, f64)], read: impl for<'v> FnOnce(&'v VisitsInOrder<'v>) -> T) -> T {
        let mut ends: Vec<f64> = visits.iter().map(|(_, end)| *end).collect();
        ends.sort_unstable_by(f64::total_cmp);
        read(&VisitsInOrder {
            count: visits.len(),
            visits: &|| Box::new(visits.iter().copied()),
            ends: &|| Box::new(ends.iter().copied()),
        })
    }

    fn trend(visits: &[(f64, f64)]) -> Option<LatencyTrend> {
        in_order(visits, LatencyTrend::estimate)
    }

    /// Equal gaps of 1 s, and this much more time in the system for each that comes later.
    fn rising(rise: f64) -> Vec<(f64, f64)> {
        (0..300).map(f64::from).map(|at| (at, at + 5.0 + rise * at)).collect()
    }

    #[test]
    fn the_rise_is_the_load_above_one() {
        let trend_found = trend(&rising(2.0)).unwrap();
        assert!(
            (trend_found.rise - 2.0).abs() < 1e-9 && (trend_found.served_per_s() - 1.0 / 3.0).abs() < 1e-9,
            "{trend_found:?}"
        );
        assert!(
            trend_found.is_certain() && (trend_found.window_s, trend_found.arrivals_per_s) == (299.0, 1.0),
            "{trend_found:?}"
        );
        let slight = trend(&rising(0.7)).unwrap();
        assert!(slight.is_likely() && !slight.is_certain(), "{slight:?}");
        assert!(!trend(&rising(0.3)).unwrap().is_likely());
    }

    #[test]
    fn a_server_that_only_fills_does_not_fall_behind() {
        let slow: Vec<(f64, f64)> = (0..300).map(|at| (f64::from(at), f64::from(at) + 4_000.0)).collect();
        let trend_found = trend(&slow).unwrap();
        assert_eq!((trend_found.rise, trend_found.standard_errors), (0.0, 0.0));
        assert!(trend_found.shows_only_filling() && !trend(&rising(0.0)).unwrap().shows_only_filling());
        assert!(!trend(&rising(2.0)).unwrap().shows_only_filling());
        assert_eq!((trend(&slow[..49]), trend(&[]), trend(&[(1.0, 2.0); 60])), (None, None, None));
    }

    #[test]
    fn neighbors_that_are_alike_count_for_fewer() {
        let others: Vec<f64> = (0..50).map(f64::from).collect();
        let busy_period: Vec<f64> = (0..30).map(|at| f64::from(at) + 30.0).collect();
        assert!(rank_errors(&others, &busy_period) > 5.0 && rank_errors_in_order(&others, &busy_period) < f64::EPSILON);
        // Without any correlation eight values are worth a little over six: of so few it is measured too low.
        let apart = [51.0, 50.0, 49.0, 50.0, 51.0, 50.0, 49.0, 50.0].map(|value| value - 15.5);
        let worth = rank_errors_in_order(&others, &apart) / rank_errors(&others, &apart);
        assert!((worth - (0.875_f64 / 1.125).sqrt()).abs() < 1e-9, "{worth}");
    }

    #[test]
    fn queues_that_hold_their_load_are_not_called_behind_and_those_at_three_times_it_are() {
        let share = |load: f64, is_found: fn(&LatencyTrend) -> bool| {
            let alarms = (0..200).filter(|seed| {
                let visits = SimulatedQueue::new(4, ServiceTime::Exponential, load).starting_empty(99, *seed);
                let visits: Vec<(f64, f64)> = visits.iter().map(|visit| (visit.arrival, visit.end)).collect();
                is_found(&trend(&visits).unwrap())
            });
            alarms.count() as f64 / 200.0
        };
        assert!(share(0.9, LatencyTrend::is_likely) <= 0.02);
        assert!(share(0.9, LatencyTrend::is_certain) < 0.005);
        assert!(share(3.0, LatencyTrend::is_certain) > 0.9);
    }
}
