//! The highest rate at which a limit holds, estimated from all probes of a search: which rate to try next, and what is known. Pure.
//!
//! A probe measures its margin: ln(tail wait / allowed tail wait), below 0 where the limit held. One margin is noise of 20 to
//! 30 %, so that bisection by held and missed ends beside the true rate. Here a line is fitted to the margins over ln(rate) of
//! all probes near the limit, and the rate is where the line is 0:
//!
//! - The slope is a regression with a weak prior, and positive by construction: a higher rate never has a lower margin.
//! - A probe begins with an empty queue and is finite, so its tail is too short. The margin of its first half is shorter still, and
//!   the difference of the two, 1.5 times, is added as what a longer run would add. Its own size counts as uncertainty.
//! - The interval is Student's, from the spread of the corrected margins, with the uncertainty of slope and correction in it.
//!
//! Of 200 nominal 95 % intervals on M/D/1 at ρ = 0.7 and 0.9, M/D/8 at 0.7 and 0.9 and M/M/4 at 0.8, 89 to 100 % hold the true rate
//! at 300, 1,000 and 3,000 requests a probe; on M/D/1 at ρ = 0.5 with 300 requests 88 % do. They are wide: about 47, 23 and 17 % of the
//! rate (M/M/4: 82, 32 and 22 %), and a quarter narrower where the first rate is near. `tests/bench/verdicts.rs` prints the table.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::units::four_digits;

/// Rates that the line is fitted to, as distance from its root in ln(rate).
const NEAR: f64 = 0.17;
/// Slope of margin over ln(rate), before anything is known: queues have 3 at ρ = 0.7 and 15 at 0.95.
const PRIOR_SLOPE: f64 = 7.0;
/// How much the prior weighs, as spread of ln(rate)².
const PRIOR_WEIGHT: f64 = 0.004;
const SLOPES: (f64, f64) = (2.0, 30.0);
/// Variance of one margin about the line, for the uncertainty of the slope.
const MARGIN_VARIANCE: f64 = 0.12;
/// Error of the line where the margins bend, as a share of the squared slope and the spread of ln(rate)².
const BEND: f64 = 0.2;
/// Beyond these a margin reads only "far below" or "far above".
const LARGEST_MARGIN: f64 = 2.0;
/// Of the difference between the whole probe and its first half, that a longer run would add.
const CORRECTION: f64 = 1.5;
/// Variance of that difference, where there is one probe.
const LONGER_VARIANCE: f64 = 0.1;
/// The smallest variance of margins that is believed.
const LEAST_VARIANCE: f64 = 0.01;
/// Probes are tried to either side of the root, so that they show the slope, too: as far as the interval reaches, within these
/// distances in ln(rate). Wide where little is known, and narrow where the curve of a queue is no line.
const ASIDE: (f64, f64) = (0.03, 0.08);
/// Of a server's capacity, where its overload was measured: the next rate to try.
const OF_CAPACITY: f64 = 0.88;
/// Probes near the root before a search may end.
const LEAST_NEAR: usize = 4;
/// Student's 97.5 % quantiles for 1, 2, … degrees of freedom.
const STUDENT: [f64; 12] = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179];

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

/// Between which rates to search, and when to stop.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateSearcher {
    /// The lowest and the highest rate that may be tried, requests per second.
    pub low: f64,
    pub high: f64,
    /// The first rate that is tried.
    pub start: f64,
    /// The rate after it, where the limit held at the first one and was near. Left out, the next one is a fixed factor higher.
    pub second: Option<f64>,
    /// Stop when the interval is narrower than this share of the rate.
    pub precision: f64,
    /// Stop after this many probes.
    pub most: usize,
}

/// The rate at which the margin is 0, with its 95 % interval, requests per second.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RateEstimate {
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
    /// No probe is near the limit, so that nothing can be estimated: the highest rate that held, or the lowest that may be tried,
    /// and the lowest that missed, where one did.
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
    /// Begins at both ends of a bracket around an estimate of another search. That search's probes are not used, since the server
    /// may have changed: where the bracket misses the rate, the probes in it lead away from it like all others.
    #[must_use]
    pub fn near(self, earlier: &RateEstimate) -> Self {
        let aside = probe_spacing(earlier).exp();
        let within = |rate: f64| four_digits(rate).clamp(self.low, self.high);
        Self { start: within(earlier.rate / aside), second: Some(within(earlier.rate * aside)), ..self }
    }

    /// The same history gives the same step, so a search that was cut off goes on where it was.
    pub fn next(&self, probes: &[ProbeOutcome]) -> RateStep {
        let Some(latest) = probes.last() else { return self.probe(self.start) };
        let at = |rate: f64| probes.iter().filter(move |probe| probe.rate.total_cmp(&rate).is_eq());
        let highest_held =
            probes.iter().filter(|probe| probe.whole < 0.0).map(|probe| probe.rate).max_by(f64::total_cmp);
        let lowest_missed = probes.iter().filter(|probe| probe.whole >= 0.0).min_by(|a, b| a.rate.total_cmp(&b.rate));
        let Some(missed) = lowest_missed else {
            if at(self.high).count() >= 2 {
                return RateStep::HeldAtHighest;
            }
            if probes.len() >= self.most {
                return self.step(probes, self.high);
            }
            let factor = match latest.whole {
                far if far < -0.9 * LARGEST_MARGIN => 4.0,
                far if far < -0.45 * LARGEST_MARGIN => 2.0,
                _ => match self.second.filter(|second| probes.len() == 1 && *second > latest.rate) {
                    Some(second) => return self.probe(second),
                    None => 1.3,
                },
            };
            return self.probe(latest.rate * factor);
        };
        if at(self.low).count() >= 2 && at(self.low).all(|probe| probe.whole >= 0.0) {
            return RateStep::MissedAtLowest;
        }
        let center = center(probes, missed, highest_held.unwrap_or(self.low));
        let Some(estimate) = estimate(probes, center) else { return self.step(probes, center.exp()) };
        let is_narrow = estimate.probes as usize >= LEAST_NEAR
            && estimate.high - estimate.low <= self.precision * estimate.rate
            && (self.low..=self.high).contains(&estimate.rate);
        if is_narrow || probes.len() >= self.most {
            return RateStep::Estimated(estimate);
        }
        if estimate.probes < 2 {
            return self.step(probes, center.exp());
        }
        let aside = probe_spacing(&estimate);
        let side = if estimate.probes % 2 == 0 { aside } else { -aside };
        self.step(probes, estimate.rate * side.exp())
    }

    fn probe(&self, rate: f64) -> RateStep {
        RateStep::Probe(four_digits(rate).clamp(self.low, self.high))
    }

    /// A probe, unless all have been made.
    fn step(&self, probes: &[ProbeOutcome], rate: f64) -> RateStep {
        if probes.len() < self.most {
            return self.probe(rate);
        }
        let held = probes.iter().filter(|probe| probe.whole < 0.0).map(|probe| probe.rate).fold(self.low, f64::max);
        let missed = probes.iter().filter(|probe| probe.whole >= 0.0).map(|probe| probe.rate).min_by(f64::total_cmp);
        // Chance can make a higher rate hold than one that missed.
        RateStep::Bracketed {
            low: missed.map_or(held, |missed| held.min(missed)),
            high: missed.map(|missed| held.max(missed)),
        }
    }
}

/// How far from the rate of an estimate the next probes are, in ln(rate).
fn probe_spacing(estimate: &RateEstimate) -> f64 {
    (0.5 * (estimate.high / estimate.low).ln()).clamp(ASIDE.0, ASIDE.1)
}

/// Where the line is looked for first: ln(rate).
fn center(probes: &[ProbeOutcome], missed: &ProbeOutcome, held: f64) -> f64 {
    let near = probes.iter().filter(|probe| probe.whole.abs() < 0.95 * LARGEST_MARGIN);
    if let Some(nearest) = near.min_by(|a, b| a.whole.abs().total_cmp(&b.whole.abs())) {
        return nearest.rate.ln() - nearest.whole / PRIOR_SLOPE;
    }
    match missed.capacity {
        Some(capacity) => (OF_CAPACITY * capacity).max(held * 1.02).ln(),
        None => f64::midpoint(held.ln(), missed.rate.ln()),
    }
}

/// The root of the line, looked for from ln(rate) = `center` on. `None`: no probe is near.
fn estimate(probes: &[ProbeOutcome], center: f64) -> Option<RateEstimate> {
    let (mut center, mut found) = (center, None);
    for _ in 0..5 {
        let near: Vec<&ProbeOutcome> = probes.iter().filter(|probe| (probe.rate.ln() - center).abs() < NEAR).collect();
        if near.is_empty() {
            break;
        }
        let (root, estimate) = fitted(&near);
        found = Some(estimate);
        // The set of near probes changes with the root, so it moves in steps.
        let next = root.clamp(center - 0.2, center + 0.2);
        if (next - center).abs() < 1e-6 {
            break;
        }
        center = next;
    }
    found
}

/// The line through these, and its root in ln(rate).
fn fitted(near: &[&ProbeOutcome]) -> (f64, RateEstimate) {
    let n = near.len() as f64;
    let margin = |probe: &ProbeOutcome| probe.whole.clamp(-LARGEST_MARGIN, LARGEST_MARGIN);
    let mean = |value: &dyn Fn(&ProbeOutcome) -> f64| near.iter().map(|probe| value(probe)).sum::<f64>() / n;
    let (x, y) = (mean(&|probe| probe.rate.ln()), mean(&margin));
    let (mut xx, mut xy) = (0.0, 0.0);
    for probe in near {
        let dx = probe.rate.ln() - x;
        xx += dx * dx;
        xy += dx * (margin(probe) - y);
    }
    let slope = ((xy + PRIOR_WEIGHT * PRIOR_SLOPE) / (xx + PRIOR_WEIGHT)).clamp(SLOPES.0, SLOPES.1);
    let longer = |probe: &ProbeOutcome| margin(probe) - probe.first_half.clamp(-LARGEST_MARGIN, LARGEST_MARGIN);
    let growth = {
        let found = mean(&longer).max(0.0);
        let spread = near.iter().map(|probe| (longer(probe) - mean(&longer)).powi(2)).sum::<f64>();
        let variance = if near.len() > 1 { spread / ((n - 1.0) * n) } else { LONGER_VARIANCE };
        found.powi(3) / (found.powi(2) + variance).max(f64::MIN_POSITIVE)
    };
    let root = x - (y + CORRECTION * growth) / slope;
    let corrected =
        |probe: &ProbeOutcome| margin(probe) - y - slope * (probe.rate.ln() - x) + CORRECTION * longer(probe);
    let center = mean(&corrected);
    let spread = near.iter().map(|probe| (corrected(probe) - center).powi(2)).sum::<f64>();
    let variance = if near.len() > 1 { spread / (n - 1.0) } else { 1.0 }.max(LEAST_VARIANCE);
    let slope_variance = MARGIN_VARIANCE / (xx + PRIOR_WEIGHT);
    // A tail wait like 1 / (1 − ρ) bends by about its squared slope.
    let bend = BEND * slope * slope * xx / n;
    let error = (variance / n + growth * growth + bend * bend + (root - x).powi(2) * slope_variance).sqrt() / slope;
    let half_width = error * STUDENT[near.len().saturating_sub(2).min(STUDENT.len() - 1)];
    let estimate = RateEstimate {
        rate: root.exp(),
        low: (root - half_width).exp(),
        high: (root + half_width).exp(),
        probes: near.len() as u64,
        slope,
    };
    (root, estimate)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rand::{RngExt, SeedableRng};
    use rand_pcg::Pcg64;

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
        assert!((found.rate / 115.2 - 1.0).abs() < 0.015, "{found:?} {probes:?}");
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
            let cold = search(&wide);
            for factor in [1.0 / 3.0, 0.8, 1.25, 3.0] {
                let warm = search(&wide.near(&earlier(115.2 * factor)));
                assert!(warm <= cold, "{factor}: off by {warm}, without the earlier estimate by {cold}");
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
        assert!((found.rate / 115.2 - 1.0).abs() < 0.02, "{found:?}");
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
        let (step, probes) = search_by(&slow, |rate, _| far(rate, -0.5));
        assert_eq!((probes.len(), step), (11, RateStep::Bracketed { low: probes[10].rate, high: None }));
        assert!(probes[10].rate < 14.0, "{probes:?}");
        // The last of them misses, far above the others.
        let mut probes: Vec<ProbeOutcome> = (1..=10).map(|rate| far(f64::from(rate), -3.0)).collect();
        probes.push(far(40.0, 3.0));
        assert_eq!(slow.next(&probes), RateStep::Bracketed { low: 10.0, high: Some(40.0) });
    }

    /// FCFS servers with equal service times of 1 s and Poisson arrivals: TTFT − 1 s.
    fn waits(servers: usize, rate: f64, requests: usize, seed: u64) -> (Vec<f64>, f64) {
        let mut random = Pcg64::seed_from_u64(seed);
        let mut free = vec![0.0f64; servers];
        let (mut at, mut ends) = (0.0, Vec::with_capacity(requests));
        let waits = (0..requests)
            .map(|request| {
                at -= (1.0 - random.random::<f64>()).ln() / rate;
                // Equal service times end in the order in which they began.
                let server = &mut free[request % servers];
                let start = server.max(at);
                *server = start + 1.0;
                ends.push(start + 1.0);
                start - at
            })
            .collect();
        (waits, ends.iter().filter(|end| **end <= at).count() as f64 / at)
    }

    fn p99(values: &[f64]) -> f64 {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        sorted[(sorted.len() as f64 * 0.99) as usize]
    }

    #[test]
    fn intervals_hold_the_true_rate_of_a_queue() {
        // The allowed wait is the p99 of four million requests of M/D/8 at ρ = 0.9 (seed 99 of this file's generator): 2.59 s.
        const ALLOWED: f64 = 2.59;
        const TRUE_RATE: f64 = 7.2;
        let mut held = 0;
        for seed in 0..40 {
            let scale = TRUE_RATE / 115.2;
            let (step, _) = search(|rate, number| {
                let (waits, completed) = waits(8, rate * scale, 300, seed * 1_000 + number as u64);
                let margin = |waits: &[f64]| (p99(waits) / ALLOWED).max(1e-3).ln();
                let capacity = (completed < 0.95 * rate * scale).then_some(completed / scale);
                ProbeOutcome { rate, whole: margin(&waits), first_half: margin(&waits[..150]), capacity }
            });
            let RateStep::Estimated(found) = step else { panic!("{step:?}") };
            held += u64::from((found.low..=found.high).contains(&115.2));
        }
        assert!(held >= 36, "{held} of 40 intervals hold the true rate");
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
            if let RateStep::Estimated(found) = step {
                prop_assert!(found.low <= found.rate && found.rate <= found.high && found.slope > 0.0, "{found:?}");
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
