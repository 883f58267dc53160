//! Whether a queue grows because more arrives than is served. Pure.
//!
//! A trend test on waiting times has too many false alarms: near saturation a stationary queue wanders as slowly as a
//! run is long. This test compares two rates instead. While many requests are in flight the server is busy, and the
//! rate of departures then is its capacity. A stationary queue leaves a high level as often as it reaches it, so that
//! this rate is above the arrival rate by the headroom: ln(arrivals / capacity) is about ln ρ. With overload it is
//! above 0.
//!
//! The rate of arrivals is the scheduled one, which is known: in a run of a few bursts more may arrive than on
//! average, and then its queue grows although the server holds the rate. Where fewer arrived, their own rate counts.
//!
//! A queue grows if ln(arrivals / capacity) is above a bound that widens with its standard error, and more requests are
//! in flight late in the window: more than early, or, with stronger evidence from the rates, more than a server without
//! a queue holds. And requests that arrive late must take longer than early ones: of a server that never queues the
//! rates alone would say nothing. The window must be long enough for the server to have filled; what a shorter one
//! shows is a [`LatencyTrend`]. `tests/bench/verdicts.rs` prints the rates of false alarms and the power.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::latency_trend::{LatencyTrend, NOT_BY_CHANCE, TIMES_IN_SYSTEM, VisitsInOrder};

/// ln(arrivals / capacity) above which growth is likely where the level has risen within the window, and how many
/// standard errors are added.
const LIKELY: (f64, f64) = (-0.085, 2.25);
/// Bound for a backlog: the level is above that of a server without a queue, though it may not have risen in the
/// window.
const LIKELY_BACKLOG: (f64, f64) = (-0.065, 2.25);
/// Bound beyond which growth makes a search count a probe as missed.
const CERTAIN: (f64, f64) = (-0.02, 1.5);
/// How many times the square root of the early level the late level must be above it.
const RISE: f64 = 1.75;
/// How many times the level without a queue the late level must be.
const BACKLOG: f64 = 2.0;
/// Parts for the mean time in the system without a queue; also the fewest parts whose departures are counted.
const PARTS: usize = 10;
/// With more departures the window has more parts, up to this many. Ten counts estimate their dispersion only to within
/// a half: with service times that differ tenfold, one stationary run in ten would look twice as even as it is.
const MOST_PARTS: usize = 40;
/// The fewest departures in a part, if there are more than `PARTS`.
const DEPARTURES_OF_PART: usize = 50;
/// The least dispersion that is believed of so few parts.
const LEAST_DISPERSION: f64 = 0.3;
/// The dispersion of departures that is believed of any count, unless services differ more: a server of batches empties
/// many slots at once, which says nothing about longer times.
const MOST_OF_DEPARTURES: f64 = 2.0;
/// The accepted dispersion rises by 1 for this many departures in each tenth of the window: batches even out in long
/// parts, and answers of very different lengths do not.
const DEPARTURES_FOR_MORE: f64 = 12.0;
/// Standard errors that an overload must be above the bound, to be seen in nine of ten runs: a little more than the
/// quantile of the normal law, because the level must show it, too.
const SEEN: f64 = 1.65;
/// Standard errors that the level must be above its bound: about half of the arrivals and departures that make up the
/// standard error move.
const SEEN_IN_LEVEL: f64 = 1.1;
/// Of the window, before the middle of its last quarter.
const BEFORE_LATE: f64 = 0.875;
/// Fewer arrivals show nothing.
const LEAST_ARRIVALS: usize = 100;

/// Arrivals and departures of a window of arrivals, compared. The window is first to last arrival.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Growth {
    pub arrivals_per_s: f64,
    pub departures_per_s: f64,
    /// Departures per second while the number in the system was at its median or above.
    pub capacity_per_s: f64,
    /// ln(arrivals / capacity), of scheduled arrivals unless fewer came: about ln ρ of a stationary queue, above 0 with
    /// overload.
    pub log_ratio: f64,
    /// Of `log_ratio`, from how evenly departures came.
    pub standard_error: f64,
    /// By how many standard errors requests of the last third of the arrivals took longer than those of the first, from
    /// their ranks.
    #[serde(default)]
    pub last_third_longer: f64,
    /// Mean number in the system that arrivals without a wait would give.
    pub without_queue: f64,
    /// Mean number in the system in the second quarter of the window.
    pub early: f64,
    /// Mean number in the system in the last quarter.
    pub late: f64,
    /// The smallest arrivals / capacity that a run like this one shows in about nine of ten cases.
    pub least_overload_seen: f64,
}

impl Growth {
    /// `scheduled_per_s`: the rate at which they were to arrive. `None`: too few, or over before the server can have
    /// filled.
    pub fn estimate<'v>(visits: &'v VisitsInOrder<'v>, scheduled_per_s: f64) -> Option<Self> {
        let VisitsInOrder { count, visits: all, ends } = visits;
        let (from, to) = visits.window(LEAST_ARRIVALS)?;
        // Of the first quarter of the arrivals, before a queue has grown long.
        let usual_time = mean_time(all().take(count / 4));
        if to - from < TIMES_IN_SYSTEM * usual_time {
            return None;
        }
        let course = OccupancySteps { visits, from, to };
        let median = course.median().max(1);
        let busy = || course.at_or_above(median);
        let (busy_time, busy_departures) = (busy().last()?.0, busy().filter(|(_, is_left)| *is_left).count());
        if busy_departures == 0 || busy_time <= 0.0 {
            return None;
        }
        let departures = ends().take_while(|end| *end <= to).count();
        let arrivals = (count - 1) as f64 / (to - from);
        let capacity = busy_departures as f64 / busy_time;
        let quarter = |number: f64| from + (to - from) * number / 4.0;
        let believed = busy_departures as f64 / (PARTS as f64 * DEPARTURES_FOR_MORE);
        let without_wait = time_without_wait(visits);
        // Neighbors wait in the same queue: their times differ as their services do.
        let times = || all().map(|(arrival, end)| end - arrival);
        let of_neighbors: f64 = times().zip(times().skip(1)).map(|(one, next)| (one - next).powi(2)).sum();
        let of_services = of_neighbors / (2.0 * *count as f64 * without_wait.powi(2)).max(f64::MIN_POSITIVE);
        let parts = (busy_departures / DEPARTURES_OF_PART).clamp(PARTS, MOST_PARTS);
        let of_departures = dispersion(parts, busy().filter_map(|(at, is_left)| is_left.then_some(at / busy_time)))
            .min(believed.max(MOST_OF_DEPARTURES).max(of_services));
        let standard_error = (of_departures / busy_departures as f64).sqrt();
        let without_queue = arrivals * without_wait;
        let last_third_longer = LatencyTrend::estimate(visits)?.standard_errors;
        Some(Self {
            arrivals_per_s: arrivals,
            departures_per_s: departures as f64 / (to - from),
            capacity_per_s: capacity,
            log_ratio: (arrivals.min(scheduled_per_s) / capacity).ln(),
            standard_error,
            last_third_longer,
            without_queue,
            early: course.mean(quarter(1.0), quarter(2.0)),
            late: course.mean(quarter(3.0), to),
            least_overload_seen: least_overload_seen(*count as f64, standard_error, without_queue),
        })
    }

    /// False alarms among 400 stationary queues at ρ = 0.9 with 300, 1,000 and 3,000 arrivals: at most 1 %, but up to
    /// 3 % where one service in ten is nine times as long (M/H2/1, M/H2/4). At ρ = 1.05 with 3,000 arrivals it finds
    /// 90 % of M/M/4, 99 % of M/D/8, 85 % of M/G/4, 56 % of M/H2/4, and 79 % of bursts. `cargo bench --bench verdicts`
    /// prints this table.
    pub fn is_likely(&self) -> bool {
        let has_backlog = self.late > BACKLOG * self.without_queue.max(1.0);
        self.last_third_longer > NOT_BY_CHANCE
            && ((self.is_above(LIKELY) && self.has_risen()) || (self.is_above(LIKELY_BACKLOG) && has_backlog))
    }

    /// Stricter than `is_likely`: fewer false alarms, and fewer overloads found.
    pub fn is_certain(&self) -> bool {
        self.is_likely() && self.is_above(CERTAIN) && self.has_risen()
    }

    fn is_above(&self, (bound, errors): (f64, f64)) -> bool {
        self.log_ratio > bound + errors * self.standard_error
    }

    fn has_risen(&self) -> bool {
        let early = self.early.max(1.0);
        self.late > early + RISE * early.sqrt()
    }
}

/// The larger of two: what the rates show, and what a backlog shows, which grows with arrivals − departures.
fn least_overload_seen(arrivals: f64, standard_error: f64, without_queue: f64) -> f64 {
    let (bound, errors) = LIKELY_BACKLOG;
    // Arrivals vary, too: as those at random do.
    let of_both = (standard_error.powi(2) + 1.0 / arrivals).sqrt();
    let by_rates = (bound + errors * standard_error + SEEN * of_both).exp();
    let backlog = (BACKLOG - 1.0) * without_queue + SEEN_IN_LEVEL * of_both * arrivals;
    // Above 1 there would be no overload large enough.
    let not_served = (backlog / (BEFORE_LATE * arrivals)).min(0.9);
    by_rates.max(1.0 / (1.0 - not_served)).max(1.0)
}

/// Variance over mean of the counts in equal parts: 1 at random, 0 where they come evenly. Places are shares of the
/// whole.
fn dispersion(parts: usize, places: impl Iterator<Item = f64>) -> f64 {
    let mut counts = vec![0.0; parts];
    for place in places {
        counts[((place * parts as f64) as usize).min(parts - 1)] += 1.0;
    }
    let mean = counts.iter().sum::<f64>() / parts as f64;
    let variance = counts.iter().map(|count| (count - mean).powi(2)).sum::<f64>() / (parts - 1) as f64;
    (variance / mean).max(LEAST_DISPERSION)
}

/// Mean time in the system of the tenth of the arrivals where it is shortest. Not that of the quickest requests: where
/// answers differ in length, those are short ones.
fn time_without_wait(visits: &VisitsInOrder<'_>) -> f64 {
    let part = (visits.count / PARTS).max(1);
    let mean = |number: usize| mean_time((visits.visits)().skip(number * part).take(part));
    (0..PARTS).map(mean).fold(f64::INFINITY, f64::min)
}

fn mean_time(visits: impl Iterator<Item = (f64, f64)>) -> f64 {
    let (sum, count) = visits.fold((0.0, 0.0), |(sum, count), (arrival, end)| (sum + end - arrival, count + 1.0));
    if count > 0.0 { sum / count } else { 0.0 }
}

/// The number in the system over time, as steps.
struct OccupancySteps<'v> {
    visits: &'v VisitsInOrder<'v>,
    from: f64,
    to: f64,
}

struct Level {
    from: f64,
    seconds: f64,
    number: usize,
    /// It ended with a departure.
    is_left: bool,
}

impl OccupancySteps<'_> {
    fn levels(&self) -> impl Iterator<Item = Level> {
        let mut arrivals = (self.visits.visits)().map(|(arrival, _)| arrival).peekable();
        let mut ends = (self.visits.ends)().peekable();
        let (mut number, mut since, to) = (0usize, self.from, self.to);
        std::iter::from_fn(move || {
            // Of two at the same time the arrival is first.
            let is_left = match (arrivals.peek(), ends.peek()) {
                (Some(arrival), Some(end)) => end < arrival,
                (arrival, _) => arrival.is_none(),
            };
            let at = if is_left { ends.next() } else { arrivals.next() }.filter(|at| *at <= to)?;
            let level = Level { from: since, seconds: at - since, number, is_left };
            number = if is_left { number.saturating_sub(1) } else { number + 1 };
            since = at;
            Some(level)
        })
    }

    /// Weighted by time.
    fn median(&self) -> usize {
        let mut seconds_at: Vec<f64> = Vec::new();
        for level in self.levels() {
            if seconds_at.len() <= level.number {
                seconds_at.resize(level.number + 1, 0.0);
            }
            seconds_at[level.number] += level.seconds;
        }
        let half = seconds_at.iter().sum::<f64>() / 2.0;
        let mut sum = 0.0;
        let is_median = |seconds: &f64| {
            sum += seconds;
            *seconds > 0.0 && sum >= half
        };
        seconds_at.iter().position(is_median).unwrap_or(0)
    }

    /// The end of each level with this many or more in the system, in seconds with as many; and whether it ended with a
    /// departure.
    fn at_or_above(&self, number: usize) -> impl Iterator<Item = (f64, bool)> {
        self.levels().filter(move |level| level.number >= number).scan(0.0, |passed, level| {
            *passed += level.seconds;
            Some((*passed, level.is_left))
        })
    }

    /// Mean number in the system between two times.
    fn mean(&self, from: f64, to: f64) -> f64 {
        let area = self.levels().map(|level| {
            let overlap = (level.from + level.seconds).min(to) - level.from.max(from);
            overlap.max(0.0) * level.number as f64
        });
        area.sum::<f64>() / (to - from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::latency_trend::tests::in_order;
    use crate::stats::systems::{Kind, SERVERS, System};

    /// One server, equal gaps of 1 s, and this much service for each.
    fn visits(service: f64) -> Vec<(f64, f64)> {
        let mut free = 0.0f64;
        (0..1_000)
            .map(|at| {
                let arrival = f64::from(at);
                free = free.max(arrival) + service;
                (arrival, free)
            })
            .collect()
    }

    fn growth(visits: &[(f64, f64)]) -> Option<Growth> {
        in_order(visits, |visits| Growth::estimate(visits, f64::INFINITY))
    }

    #[test]
    fn a_server_with_headroom_keeps_its_level_and_one_without_does_not() {
        let held = growth(&visits(0.9)).unwrap();
        assert!(!held.is_likely(), "{held:?}");
        assert!((held.arrivals_per_s - 1.0).abs() < 1e-9 && (held.departures_per_s - 1.0).abs() < 0.01, "{held:?}");
        let grown = growth(&visits(1.3)).unwrap();
        assert!(grown.is_certain(), "{grown:?}");
        // 1 / 1.3 is served, and a backlog of 1 − 1/1.3 of the arrivals stays.
        assert!(
            (grown.capacity_per_s - 1.0 / 1.3).abs() < 0.01 && (grown.departures_per_s - 1.0 / 1.3).abs() < 0.01,
            "{grown:?}"
        );
        assert!((grown.late - 0.2308 * 875.0).abs() < 5.0, "{grown:?}");
    }

    /// A run of 300 requests has about eight bursts. In 35 of 100 of them more arrives than can be served meanwhile, so
    /// that its queue grows: chance, and no overload at the scheduled rate, which the servers hold.
    #[test]
    fn more_arrivals_by_chance_than_were_scheduled_are_no_overload() {
        let alarms = |scheduled_per_s: f64| {
            let is_likely = |seed: &u64| {
                let visits = System { kind: Kind::Bursts, load: 0.9 }.run(300, 0, *seed);
                let visits: Vec<(f64, f64)> = visits.iter().map(|visit| (visit.arrival, visit.end)).collect();
                in_order(&visits, |visits| Growth::estimate(visits, scheduled_per_s))
                    .is_some_and(|growth| growth.is_likely())
            };
            (0..400).filter(is_likely).count()
        };
        let (held, as_they_came) = (alarms(0.9 * SERVERS as f64), alarms(f64::INFINITY));
        assert!(held <= 8 && as_they_came > 20, "{held} and {as_they_came} of 400");
    }

    #[test]
    fn an_overload_needs_the_rates_the_level_and_the_last_third() {
        let seen = |log_ratio: f64, late: f64, last_third_longer: f64| Growth {
            arrivals_per_s: 1.0,
            departures_per_s: 1.0,
            capacity_per_s: 1.0,
            log_ratio,
            standard_error: 0.02,
            last_third_longer,
            without_queue: 4.0,
            early: 4.0,
            late,
            least_overload_seen: 1.0,
        };
        assert!(seen(-0.03, 7.6, 3.1).is_likely() && !seen(-0.03, 7.4, 3.1).is_likely(), "4 + 1.75 · √4");
        assert!(!seen(-0.03, 7.6, 2.9).is_likely() && !seen(-0.05, 7.6, 3.1).is_likely());
        let backlog = |late: f64| Growth { early: 9.0, ..seen(-0.01, late, 3.1) };
        assert!(backlog(8.1).is_likely() && !backlog(7.9).is_likely(), "twice of what is there without a queue");
        assert!(seen(0.02, 7.6, 3.1).is_certain() && !backlog(8.1).is_certain());
    }

    /// A server of batches empties many slots at once, and one of equal services hardly differs from its mean.
    #[test]
    fn few_counts_of_departures_are_believed_within_bounds() {
        let even = |parts: usize| dispersion(parts, (0..1_000).map(|at| f64::from(at) / 1_000.0));
        assert_eq!((even(10), even(40)), (LEAST_DISPERSION, LEAST_DISPERSION));
        let batches: Vec<(f64, f64)> =
            (0..400).map(f64::from).map(|at| (at, (at / 64.0).floor() * 64.0 + 72.0)).collect();
        let in_batches = growth(&batches).unwrap();
        assert!(in_batches.standard_error < 0.11, "{in_batches:?}");
    }

    #[test]
    fn a_longer_run_shows_a_smaller_overload() {
        let all_visits = visits(0.9);
        let seen = |arrivals: usize| growth(&all_visits[..arrivals]).unwrap().least_overload_seen;
        let [short, middle, long] = [100, 300, 1_000].map(seen);
        assert!(long > 1.0 && long < middle && middle < short && short < 1.5, "{short} {middle} {long}");
    }

    #[test]
    fn nothing_is_said_of_few_arrivals_or_of_a_server_that_still_fills() {
        assert_eq!(growth(&visits(0.5)[..99]), None);
        let slow: Vec<(f64, f64)> = (0..1_000).map(|at| (f64::from(at), f64::from(at) + 400.0)).collect();
        assert_eq!(growth(&slow), None);
        assert_eq!(growth(&[]), None);
    }
}
