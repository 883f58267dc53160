//! The highest rate at which a limit holds, estimated from all probes of a search: which rate to try next, and what is
//! known. Pure.
//!
//! A probe measures its margin: ln(tail wait / allowed tail wait), below 0 where the limit held. One margin is noise of
//! 20 to 50 %, so that bisection by held and missed ends beside the true rate.
//!
//! # Which rates
//!
//! First a bracket: rates double until a probe misses, or fall until one holds, and then lie between the highest that
//! held and the lowest that missed until these are within a factor of 1.5. After that, probes are placed to both sides
//! of the estimate. No rate is tried a third time: a server with a step in its curve answers the same there every time.
//!
//! # The law
//!
//! In the bracket and a factor of 1.3 beyond it, `margin = slope · ln(rate / r) − shortfall + noise`, where r is the
//! rate at which the limit holds in the long run. It is assumed that the curve of the server is a line there, that the
//! noise of probes is independent (each has arrivals of its own) and normal with one variance, and that the shortfall
//! is common to them.
//!
//! - The shortfall: a finite probe begins with an empty queue, so its tail is too short. The margin of its first half
//!   is shorter still, and 2.5 times the mean difference of the two is added as what a longer run would add. The size
//!   of that difference and its own noise count as uncertainty.
//! - Slope and variance are regressions with weak priors, of the weight of a few probes: two probes that agree by
//!   chance do not look exact, and the interval of two that do not agree has an end.
//! - The interval is Fieller's: all rates at which the line is not significantly (5 %, Student's t) different from 0.
//!   Where the slope is not significant it has no end, rightly: such probes do not show a rate.
//!
//! Two probes bound it, too: the interval does not reach below a rate whose limit held clearly, or above one that
//! missed clearly (by about three standard deviations of a probe). Of a server that holds up to a step, these are all
//! that is known. And its lower end is not above what the server completed per second in an overload: a short probe can
//! hold beyond that, and nothing in the long run.
//!
//! The estimate itself is never outside the highest rate that held and the lowest that missed. Where probes are short
//! for their queue, most of them hold a little above r, so this makes the estimate a few percent too high; the interval
//! reaches below.
//!
//! An interval whose upper end is more than twice its lower end is of no use, and then only the bracket is reported.
//!
//! # Validation
//!
//! `tests/it/rate_search.rs` searches twelve systems in virtual time and sets bounds on coverage and width;
//! `cargo bench --bench verdicts` prints the table. The constants were chosen on systems of the same kinds with another
//! generator and other seeds. Of 200 searches of each at 1,000 requests a probe, 97 to 100 % of the intervals hold r,
//! with a median ratio of their ends of 1.1 to 1.6 and an estimate 1 to 9 % too high; 4.5 % of the searches only
//! bracket (25 % with service times of two very different kinds). At 3,000 requests it is 1 %. At 300 requests 71 to
//! 100 % hold r, 93 % together, and 22 % of the searches only bracket.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::student::critical;
use crate::units::four_digits;

/// The bracket is narrowed until its ends are within this factor.
const NARROW_BRACKET: f64 = 1.5;
/// Beyond the bracket by this factor, probes still count for the line.
const NEAR: f64 = 1.3;
/// Slope of margin over ln(rate), before anything is known: queues have 2 to 10.
const PRIOR_SLOPE: f64 = 4.0;
/// How much that weighs, as spread of ln(rate)²: as much as eight probes at a distance of 10 %.
const PRIOR_WEIGHT: f64 = 0.08;
const LEAST_SLOPE: f64 = 1.0;
/// Variance of one margin, and of the difference between the whole probe and its first half, before anything is known.
const PRIOR_VARIANCE: f64 = 0.12;
/// How much that weighs, in probes.
const PRIOR_PROBES: f64 = 4.0;
/// Of the difference between the whole probe and its first half, that a longer run would add: 1 to 4.5 by queue.
const CORRECTION: f64 = 2.5;
/// Beyond these a margin reads only "far below" or "far above".
const LARGEST_MARGIN: f64 = 2.0;
/// A margin that is not on its side of the limit by chance.
const CLEAR: f64 = 1.2;
/// A margin that is not near the limit, however much the probe was too short.
const FAR: f64 = 2.5;
/// Probes are tried to either side of the estimate, so that they show the slope, too: as far as the interval reaches,
/// within these distances in ln(rate). Wide where little is known, and narrow where the curve of a queue is not linear.
const ASIDE: (f64, f64) = (0.03, 0.1);
/// Of a server's capacity, where its overload was measured: the next rate to try.
const OF_CAPACITY: f64 = 0.88;
/// Probes near the estimate before a search may end.
const LEAST_NEAR: usize = 4;
/// Upper end of an interval over its lower one, beyond which it is of no use.
const WIDEST: f64 = 2.0;
/// How often one rate may be tried.
pub const MOST_TRIES: usize = 2;

/// What one probe showed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProbeOutcome {
    /// Requests per second.
    pub rate: f64,
    /// ln(tail wait / allowed tail wait) of all its requests.
    pub whole: f64,
    /// The same of the first half of its requests.
    pub first_half: f64,
    /// Completions per second, where fewer were completed than arrived.
    pub capacity: Option<f64>,
}

impl ProbeOutcome {
    fn held(&self) -> bool {
        self.whole < 0.0
    }

    fn margin(&self) -> f64 {
        self.whole.clamp(-LARGEST_MARGIN, LARGEST_MARGIN)
    }

    /// By how much the margin of the whole probe is above that of its first half.
    fn growth(&self) -> f64 {
        self.margin() - self.first_half.clamp(-LARGEST_MARGIN, LARGEST_MARGIN)
    }
}

/// Between which rates to search, and when to stop.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateSearcher {
    /// The lowest and the highest rate that may be tried, requests per second.
    pub low: f64,
    pub high: f64,
    /// The first rate that is tried.
    pub start: f64,
    /// The rate after it, where the limit held at the first one and was near. Left out, the next one is a fixed factor
    /// higher.
    pub second: Option<f64>,
    /// Stop when the interval is narrower than this share of the rate.
    pub precision: f64,
    /// Stop after this many probes.
    pub most: usize,
}

/// The rate at which the margin is 0, with its 95 % interval, requests per second.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RateEstimate {
    /// Not outside the highest rate that held and the lowest that missed.
    pub rate: f64,
    pub low: f64,
    pub high: f64,
    /// Probes that the line was fitted to.
    pub probes: u64,
    /// Of the margin over ln(rate).
    pub slope: f64,
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RateStep {
    Probe(f64),
    Estimated(RateEstimate),
    /// The probes do not show the rate well enough for an estimate: the highest rate that held, or the lowest that may
    /// be tried, and the lowest that missed, where one did. Where chance made a rate hold above one that missed, both
    /// ends are beyond these two.
    Bracketed {
        low: f64,
        high: Option<f64>,
    },
    /// The limit held at the highest rate, twice.
    HeldAtHighest,
    /// The limit was missed at the lowest rate, twice.
    MissedAtLowest,
}

impl RateSearcher {
    /// Begins at both ends of a bracket around an estimate of another search. That search's probes are not used, since
    /// the server may have changed: where the bracket misses the rate, the probes in it lead away from it like all
    /// others.
    #[must_use]
    pub fn near(self, earlier: &RateEstimate) -> Self {
        let aside = probe_spacing(earlier.low, earlier.high).exp();
        let within = |rate: f64| four_digits(rate).clamp(self.low, self.high);
        Self { start: within(earlier.rate / aside), second: Some(within(earlier.rate * aside)), ..self }
    }

    /// The same history gives the same step, so a search that was cut off goes on where it was.
    pub fn next(&self, probes: &[ProbeOutcome]) -> RateStep {
        let rate = self.proposal(probes).filter(|_| probes.len() < self.most);
        rate.and_then(|rate| self.untried(probes, rate)).map_or_else(|| self.end(probes), RateStep::Probe)
    }

    /// The next rate to try. `None`: the search has ended.
    fn proposal(&self, probes: &[ProbeOutcome]) -> Option<f64> {
        let Some(latest) = probes.last() else { return Some(self.start) };
        let capacity = probes.iter().filter_map(|probe| probe.capacity).min_by(f64::total_cmp);
        let capacity = capacity.map(|capacity| OF_CAPACITY * capacity);
        match (highest_held(probes), lowest_missed(probes)) {
            (_, None) => {
                let factor = match latest.whole {
                    far if far < -0.9 * LARGEST_MARGIN => 4.0,
                    far if far < -0.2 * LARGEST_MARGIN => 2.0,
                    _ => match self.second.filter(|second| probes.len() == 1 && *second > latest.rate) {
                        Some(second) => return Some(second),
                        None => 1.4,
                    },
                };
                (tries(probes, self.high) < MOST_TRIES).then_some(latest.rate * factor)
            }
            (None, Some(missed)) => {
                let lower = missed.rate / 2f64.powi(probes.len() as i32);
                let lower = lower.max(capacity.map_or(0.0, |capacity| capacity.min(missed.rate / 1.1)));
                (tries(probes, self.low) < MOST_TRIES).then_some(lower)
            }
            (Some(held), Some(missed)) if missed.rate > NARROW_BRACKET * held.rate => {
                let gap = (missed.rate / held.rate).ln();
                let crossing = -held.whole / (missed.whole - held.whole) * gap;
                let distance = capacity.map_or(crossing, |capacity| (capacity / held.rate).ln());
                Some(held.rate * distance.clamp(0.25 * gap, 0.75 * gap).exp())
            }
            (Some(held), Some(missed)) => {
                let line = Line::through(probes, held.rate.min(missed.rate), held.rate.max(missed.rate));
                let (low, high) = line.interval();
                if line.near >= LEAST_NEAR && high - low <= self.precision * line.estimate().rate {
                    return None;
                }
                let aside = probe_spacing(low, high);
                let rate = line.root.exp() * if line.near.is_multiple_of(2) { aside.exp() } else { (-aside).exp() };
                let rate = rate.max(line.bracket.0 / 1.2).min(line.bracket.1 * 1.2);
                // Within clear ends, and a little inside: there is nothing to learn from a probe at them.
                let (low, high) = line.clear;
                let inside = if low > 0.0 && high.is_finite() { (high / low).powf(0.1) } else { 1.0 };
                Some(rate.max(low * inside).min(high / inside))
            }
        }
    }

    /// This rate, or the nearest one in steps of a percent that may still be tried.
    fn untried(&self, probes: &[ProbeOutcome], rate: f64) -> Option<f64> {
        (0..2 * self.most as i32)
            .map(|step| rate * 1.01f64.powi(if step % 2 == 0 { step / 2 } else { -step / 2 - 1 }))
            .map(|rate| four_digits(rate).clamp(self.low, self.high))
            .find(|rate| tries(probes, *rate) < MOST_TRIES)
    }

    /// What all these probes show.
    fn end(&self, probes: &[ProbeOutcome]) -> RateStep {
        match (highest_held(probes), lowest_missed(probes)) {
            (_, None) if tries(probes, self.high) >= MOST_TRIES => RateStep::HeldAtHighest,
            (held, None) => RateStep::Bracketed { low: held.map_or(self.low, |held| held.rate), high: None },
            (None, Some(_)) if tries(probes, self.low) >= MOST_TRIES => RateStep::MissedAtLowest,
            (None, Some(missed)) => RateStep::Bracketed { low: self.low, high: Some(missed.rate) },
            (Some(held), Some(missed)) => {
                let is_narrow = missed.rate <= NARROW_BRACKET * held.rate;
                let line = Line::through(probes, held.rate.min(missed.rate), held.rate.max(missed.rate));
                let estimate = line.estimate();
                if is_narrow && estimate.high <= WIDEST * estimate.low {
                    return RateStep::Estimated(estimate);
                }
                let below = probes.iter().filter(|probe| probe.held() && probe.rate < missed.rate);
                let above = probes.iter().filter(|probe| !probe.held() && probe.rate > held.rate);
                RateStep::Bracketed {
                    low: below.map(|probe| probe.rate).fold(self.low, f64::max),
                    high: Some(above.map(|probe| probe.rate).fold(self.high, f64::min)),
                }
            }
        }
    }
}

fn highest_held(probes: &[ProbeOutcome]) -> Option<&ProbeOutcome> {
    probes.iter().filter(|probe| probe.held()).max_by(|a, b| a.rate.total_cmp(&b.rate))
}

fn lowest_missed(probes: &[ProbeOutcome]) -> Option<&ProbeOutcome> {
    probes.iter().filter(|probe| !probe.held()).min_by(|a, b| a.rate.total_cmp(&b.rate))
}

fn tries(probes: &[ProbeOutcome], rate: f64) -> usize {
    probes.iter().filter(|probe| probe.rate.total_cmp(&rate).is_eq()).count()
}

/// How far from the rate of an estimate with this interval the next probes are, in ln(rate).
fn probe_spacing(low: f64, high: f64) -> f64 {
    // An interval from 0 to 0, of a file, is as good as none.
    (0.5 * (high / low).ln()).max(ASIDE.0).min(ASIDE.1)
}

/// The line through the margins near a bracket.
struct Line {
    /// ln of the rate at which it is 0, and of the ends of its interval, which may be infinite.
    root: f64,
    ends: (f64, f64),
    slope: f64,
    /// Probes that it is fitted to.
    near: usize,
    bracket: (f64, f64),
    /// The highest rate that held clearly, and the lowest that missed clearly; 0 and infinity without one.
    clear: (f64, f64),
}

impl Line {
    fn through(probes: &[ProbeOutcome], low: f64, high: f64) -> Self {
        let is_near = |probe: &&ProbeOutcome| (low / NEAR..=high * NEAR).contains(&probe.rate);
        let near: Vec<&ProbeOutcome> = probes.iter().filter(is_near).collect();
        let n = near.len() as f64;
        let sum = |value: &dyn Fn(&ProbeOutcome) -> f64| near.iter().map(|probe| value(probe)).sum::<f64>();
        let (x, y) = (sum(&|probe| probe.rate.ln()) / n, sum(&|probe| probe.margin()) / n);
        let distance = |probe: &ProbeOutcome| probe.rate.ln() - x;
        let weight = PRIOR_WEIGHT + sum(&|probe| distance(probe).powi(2));
        let product = PRIOR_WEIGHT * PRIOR_SLOPE + sum(&|probe| distance(probe) * (probe.margin() - y));
        let slope = (product / weight).max(LEAST_SLOPE);
        let freedom = PRIOR_PROBES + (n - 2.0).max(0.0);
        let residuals = sum(&|probe| (probe.margin() - y - slope * distance(probe)).powi(2));
        let variance = (PRIOR_PROBES * PRIOR_VARIANCE + residuals) / freedom;

        let growth = (sum(&ProbeOutcome::growth) / n).max(0.0);
        let spread = sum(&|probe| (probe.growth() - growth).powi(2));
        let growth_variance = (PRIOR_PROBES * PRIOR_VARIANCE + spread) / ((PRIOR_PROBES + n - 1.0) * n);
        // A difference that is small for its noise counts for less.
        let growth = growth.powi(3) / (growth.powi(2) + growth_variance);
        let center = y + CORRECTION * growth;
        let center_variance = variance / n + growth * growth + 2.0 * growth_variance;

        // Fieller: (center + slope · d)² = t² · (center_variance + variance / weight · d²), at a distance d from x.
        let t = critical(0.025, freedom);
        let curvature = slope * slope - t * t * variance / weight;
        let ends = if curvature > 0.0 {
            let constant = center * center - t * t * center_variance;
            let root = ((slope * center).powi(2) - curvature * constant).max(0.0).sqrt();
            (x + (-slope * center - root) / curvature, x + (-slope * center + root) / curvature)
        } else {
            (f64::NEG_INFINITY, f64::INFINITY)
        };

        let rates = |is_end: &dyn Fn(&ProbeOutcome) -> bool| -> Vec<f64> {
            probes.iter().filter(|probe| is_end(probe)).map(|probe| probe.rate).collect()
        };
        let is_clear = |probe: &ProbeOutcome| {
            probe.whole + CORRECTION * growth < -CLEAR || probe.whole.max(probe.first_half) < -FAR
        };
        let held = rates(&is_clear).into_iter().fold(0.0, f64::max);
        let missed = rates(&|probe| probe.whole > CLEAR).into_iter().fold(f64::INFINITY, f64::min);
        let clear = if held < missed { (held, missed) } else { (0.0, f64::INFINITY) };
        let within = |end: f64| end.max(clear.0.ln()).min(clear.1.ln());
        let capacity = probes.iter().filter_map(|probe| probe.capacity).fold(f64::INFINITY, f64::min);
        Self {
            root: within(x - center / slope),
            // In the long run nothing holds above what the server completes, though a short probe may.
            ends: (within(ends.0).min(capacity.ln()), within(ends.1)),
            slope,
            near: near.len(),
            bracket: (low, high),
            clear,
        }
    }

    fn interval(&self) -> (f64, f64) {
        (self.ends.0.exp(), self.ends.1.exp())
    }

    fn estimate(&self) -> RateEstimate {
        let (low, high) = self.interval();
        let rate = self.root.exp().clamp(self.bracket.0, self.bracket.1);
        RateEstimate { rate, low: low.min(rate), high: high.max(rate), probes: self.near as u64, slope: self.slope }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SEARCH: RateSearcher =
        RateSearcher { low: 10.0, high: 160.0, start: 10.0, second: None, precision: 0.02, most: 11 };

    fn search(margin: impl FnMut(f64, usize) -> ProbeOutcome) -> (RateStep, Vec<ProbeOutcome>) {
        search_by(&SEARCH, margin)
    }

    fn search_by(
        search: &RateSearcher,
        mut margin: impl FnMut(f64, usize) -> ProbeOutcome,
    ) -> (RateStep, Vec<ProbeOutcome>) {
        let mut probes = Vec::new();
        loop {
            match search.next(&probes) {
                RateStep::Probe(rate) => {
                    assert!(
                        (search.low..=search.high).contains(&rate) && probes.len() < search.most,
                        "{rate}: {probes:?}"
                    );
                    probes.push(margin(rate, probes.len()));
                }
                end => return (end, probes),
            }
        }
    }

    /// A margin that is what a queue has in the long run, without noise.
    fn exact(rate: f64, capacity: f64, allowed: f64) -> ProbeOutcome {
        let wait = if rate < capacity { 1.0 / (1.0 - rate / capacity) } else { 1e9 };
        let whole = (wait / allowed).ln();
        ProbeOutcome { rate, whole, first_half: whole, capacity: (rate > capacity).then_some(capacity) }
    }

    #[test]
    fn without_noise_the_rate_is_found_and_the_interval_is_narrow() {
        // 1 / (1 − ρ) is 10 at ρ = 0.9.
        let (step, probes) = search(|rate, _| exact(rate, 128.0, 10.0));
        let RateStep::Estimated(found) = step else { panic!("{step:?}") };
        // The curve of a queue is not linear.
        assert!((found.rate / 115.2 - 1.0).abs() < 0.03, "{found:?} {probes:?}");
        assert!(found.low < 115.2 && 115.2 < found.high, "{found:?}");
    }

    /// The estimate of another search, a few percent wide.
    fn earlier(rate: f64) -> RateEstimate {
        RateEstimate { rate, low: rate * 0.96, high: rate * 1.04, probes: 8, slope: 8.0 }
    }

    #[test]
    fn a_search_that_begins_at_an_earlier_estimate_needs_fewer_probes() {
        let wide = RateSearcher { low: 1.0, high: 1000.0, start: 1.0, precision: 0.25, ..SEARCH };
        let (step, cold) = search_by(&wide, |rate, _| exact(rate, 128.0, 10.0));
        assert!(matches!(step, RateStep::Estimated(_)), "{step:?}");
        let (step, warm) = search_by(&wide.near(&earlier(115.2)), |rate, _| exact(rate, 128.0, 10.0));
        let RateStep::Estimated(found) = step else { panic!("{step:?}") };
        assert!(warm.len() + 3 <= cold.len(), "{} and {} probes", warm.len(), cold.len());
        assert!(found.low < 115.2 && 115.2 < found.high, "{found:?}");
        // Around it, and both near enough for the line.
        assert!(warm[0].rate < 115.2 && 115.2 < warm[1].rate, "{warm:?}");
        assert_eq!(found.probes as usize, warm.len(), "{warm:?}");
    }

    #[test]
    fn an_earlier_estimate_that_is_far_off_changes_only_where_the_search_begins() {
        let wide = RateSearcher { low: 1.0, high: 1000.0, start: 1.0, ..SEARCH };
        // A server that reports its overload, and one whose overload is not measured.
        for is_measured in [true, false] {
            let search = |from: &RateSearcher| {
                let (step, probes) = search_by(from, |rate, _| {
                    let margin = exact(rate, 128.0, 10.0);
                    ProbeOutcome { capacity: margin.capacity.filter(|_| is_measured), ..margin }
                });
                let RateStep::Estimated(found) = step else { panic!("{step:?}") };
                assert!(found.low < 115.2 && 115.2 < found.high, "{found:?} {probes:?}");
                (found.rate / 115.2 - 1.0).abs()
            };
            // A line through the curve of a queue is off by a few percent, from wherever the search begins.
            assert!(search(&wide) < 0.06);
            for factor in [1.0 / 3.0, 0.8, 1.25, 3.0] {
                let error = search(&wide.near(&earlier(115.2 * factor)));
                assert!(error < 0.06, "{factor}: off by {error}");
            }
        }
    }

    #[test]
    fn an_earlier_estimate_beyond_the_bounds_begins_at_a_bound() {
        let held = |rate| ProbeOutcome { rate, whole: -0.5, first_half: -0.5, capacity: None };
        let (step, probes) = search_by(&SEARCH.near(&earlier(500.0)), |rate, _| held(rate));
        assert_eq!((step, probes.len()), (RateStep::HeldAtHighest, 2));
        let (step, _) = search_by(&SEARCH.near(&earlier(2.0)), |rate, _| exact(rate, 128.0, 10.0));
        let RateStep::Estimated(found) = step else { panic!("{step:?}") };
        assert!((found.rate / 115.2 - 1.0).abs() < 0.03, "{found:?}");
    }

    #[test]
    fn ends_are_reported() {
        let held = |rate| ProbeOutcome { rate, whole: -1.9, first_half: -1.9, capacity: None };
        assert_eq!(search(|rate, _| held(rate)).0, RateStep::HeldAtHighest);
        let missed = |rate| ProbeOutcome { rate, whole: 3.0, first_half: 2.5, capacity: None };
        assert_eq!(search(|rate, _| missed(rate)).0, RateStep::MissedAtLowest);
    }

    #[test]
    fn a_search_whose_probes_are_used_up_far_from_the_limit_estimates_nothing() {
        let slow = RateSearcher { low: 1.0, high: 200.0, start: 1.0, ..SEARCH };
        let far = |rate: f64, whole: f64| ProbeOutcome { rate, whole, first_half: whole, capacity: None };
        // Each holds, and is near enough for small steps: eleven of them do not reach the highest rate.
        let (step, probes) = search_by(&slow, |rate, _| far(rate, -0.3));
        assert_eq!((probes.len(), step), (11, RateStep::Bracketed { low: probes[10].rate, high: None }));
        assert!(probes[10].rate < 40.0, "{probes:?}");
        // The last of them misses, far above the others.
        let mut probes: Vec<ProbeOutcome> = (1..=10).map(|rate| far(f64::from(rate), -3.0)).collect();
        probes.push(far(40.0, 3.0));
        assert_eq!(slow.next(&probes), RateStep::Bracketed { low: 10.0, high: Some(40.0) });
    }

    /// A server that holds up to a step: even arrivals wait only beyond what it does, and then longer and longer.
    fn step(rate: f64, capacity: f64, allowed: f64, requests: f64) -> ProbeOutcome {
        let margin = |requests: f64| {
            let wait = 0.99 * requests * (1.0 / capacity - 1.0 / rate);
            if wait > 0.0 { (wait / allowed).ln().clamp(-3.0, 3.0) } else { -3.0 }
        };
        let least = if rate > 1.03 * capacity { 1.5 } else { -3.0 };
        let (whole, first_half) = (margin(requests).max(least), margin(requests / 2.0));
        let capacity = (rate > capacity / 0.95).then_some(capacity);
        ProbeOutcome { rate, whole, first_half, capacity }
    }

    #[test]
    fn a_server_that_holds_up_to_a_step_is_found_between_two_probes() {
        for (allowed, requests) in [(0.4, 300.0), (0.05, 1_000.0), (1.0, 1_000.0)] {
            let (end, probes) = search(|rate, _| step(rate, 116.0, allowed, requests));
            let (low, high) = match end {
                RateStep::Estimated(estimate) => (estimate.low, estimate.high),
                RateStep::Bracketed { low, high: Some(high) } => (low, high),
                end => panic!("{end:?} {probes:?}"),
            };
            // The queue of a short probe is within the limit a little beyond the step.
            assert!(low < 116.0 * 1.03 && 116.0 < high && high < 1.25 * low, "{end:?} {probes:?}");
        }
    }

    #[test]
    fn probes_that_contradict_each_other_only_bracket() {
        let at = |rate, whole| ProbeOutcome { rate, whole, first_half: whole, capacity: None };
        // A higher rate held clearly, and lower ones were missed.
        let mut probes: Vec<ProbeOutcome> = (20..30).map(|rate| at(f64::from(rate), 1.9)).collect();
        probes.push(at(31.0, -1.9));
        assert_eq!(SEARCH.next(&probes), RateStep::Bracketed { low: 10.0, high: Some(160.0) });
        probes[0] = at(15.0, -1.0);
        probes[1] = at(32.0, 0.5);
        assert_eq!(SEARCH.next(&probes), RateStep::Bracketed { low: 15.0, high: Some(32.0) });
    }

    proptest! {
        #[test]
        fn a_search_ends_in_its_probes_whatever_the_server_answers(
            margins in proptest::collection::vec((-5.0f64..5.0, -5.0f64..5.0), 1..12)
        ) {
            let (step, probes) = search(|rate, number| {
                let (whole, first_half) = margins[number % margins.len()];
                ProbeOutcome { rate, whole, first_half, capacity: None }
            });
            prop_assert!(probes.len() <= SEARCH.most);
            for probe in &probes {
                prop_assert!(tries(&probes, probe.rate) <= 2, "{probes:?}");
            }
            match step {
                RateStep::Estimated(found) => {
                    prop_assert!(found.low <= found.rate && found.rate <= found.high && found.slope > 0.0, "{found:?}");
                    prop_assert!(found.high <= 2.0 * found.low, "{found:?}");
                    let (held, missed) = (highest_held(&probes).unwrap().rate, lowest_missed(&probes).unwrap().rate);
                    prop_assert!((held.min(missed)..=held.max(missed)).contains(&found.rate), "{found:?} {probes:?}");
                }
                RateStep::Bracketed { low, high: Some(high) } => prop_assert!(low < high, "{low} {high} {probes:?}"),
                _ => {}
            }
        }

        #[test]
        fn a_search_that_was_cut_off_goes_on_where_it_was(capacity in 15.0f64..200.0, cut in 0usize..11) {
            let (_, probes) = search(|rate, _| exact(rate, capacity, 10.0));
            let cut = cut.min(probes.len() - 1);
            prop_assert_eq!(SEARCH.next(&probes[..cut]), RateStep::Probe(probes[cut].rate));
        }
    }
}
