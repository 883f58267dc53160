//! The highest rate at which all limits hold: what a search found, and which rate to try next where each test only passes or
//! fails, as LoadGen's do. Pure.
//!
//! Doubling from the lowest rate until one misses, then halving the gap until it is within the requested precision, then
//! the best rate once more with other seeds, because a server just after an overload, or a lucky minute, may pass once.
//! The answer is an interval: the limits held at its lower end, twice, and were missed at its upper end. A search by the limits
//! of the stage is another one, since it measures how near each probe is to them: its interval is that of the estimate of
//! [`base::stats::RateSearcher`].

mod limit_margin;
mod report;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use base::stats::RateEstimate;
use base::units::four_digits;

pub use report::{
    EarlierSearch, LimitJudgement, LimitSearch, LoadgenJudgement, ProbeJudgement, SearchGoal, SearchJudge, SearchProbe,
    SearchReport, SearchRules,
};

/// Between which rates, and how narrow the answer is to be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RateBounds {
    /// The first rate that is tried, requests per second.
    pub low: f64,
    /// The highest rate that is tried.
    pub high: f64,
    /// Stop when the interval is this share of its lower end, for example 0.02.
    pub precision: f64,
}

/// One rate that was tried.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RateProbe {
    pub rate: f64,
    /// Every limit held.
    pub met: bool,
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ProbeStep {
    Probe(f64),
    Found(FoundRate),
    /// The limits are missed even at the lowest rate.
    NotEvenLow,
}

/// The answer, requests per second: the 95 % interval of an estimate, or without one, as by LoadGen's rules, two rates that were
/// tried.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FoundRate {
    /// The lower end. By LoadGen's rules a test held here.
    pub at_least: f64,
    /// The upper end. By LoadGen's rules a test was missed here. Null when it is not below the highest rate that was allowed.
    pub below: Option<f64>,
}

impl FoundRate {
    /// The rate of the estimate, within the ends of its interval as they were rounded for this answer, and not above the highest
    /// rate that may be tried.
    pub fn estimated(&self, estimate: &RateEstimate, bounds: &RateBounds) -> f64 {
        // Those of a file may be in any order, with which `clamp` would panic.
        estimate.rate.max(self.at_least).min(self.below.unwrap_or(bounds.high)).min(bounds.high)
    }
}

impl RateBounds {
    /// What is wrong with them, if anything is.
    pub fn problem(&self) -> Option<&'static str> {
        let ok = |value: f64| value.is_finite() && value > 0.0;
        if !ok(self.low) || !ok(self.high) || self.low >= self.high {
            Some("the lowest rate must be above 0 and below the highest")
        } else if !ok(self.precision) || self.precision >= 1.0 {
            Some("precision is a share between 0 and 1, for example 0.02")
        } else {
            None
        }
    }

    /// How many probes it takes if none contradicts another: doublings, halvings, and the confirmation.
    pub fn probes(&self) -> u32 {
        let doublings = (self.high / self.low).log2().ceil() as u32 + 1;
        let halvings = (1.0 / self.precision).log2().ceil() as u32;
        doublings + halvings + 1
    }

    /// The same history gives the same step, so a search that was cut off goes on where it was.
    pub fn next(&self, probes: &[RateProbe]) -> ProbeStep {
        let latest = |rate: f64| probes.iter().rev().find(|probe| probe.rate.total_cmp(&rate).is_eq());
        let rates = |met: bool| {
            probes.iter().map(|probe| probe.rate).filter(move |rate| latest(*rate).is_some_and(|last| last.met == met))
        };
        let missed = rates(false).min_by(f64::total_cmp);
        let held = rates(true).filter(|rate| missed.is_none_or(|missed| *rate < missed)).max_by(f64::total_cmp);
        match (held, missed) {
            (None, Some(missed)) if missed <= self.low => ProbeStep::NotEvenLow,
            // The beginning; or something higher held once and was contradicted: begin again from below.
            (None, _) => ProbeStep::Probe(self.low),
            (Some(held), None) if held < self.high => ProbeStep::Probe(four_digits(held * 2.0).min(self.high)),
            (Some(held), missed) => {
                let gap = missed.map_or(0.0, |missed| missed - held);
                let middle = four_digits(held + gap / 2.0);
                let is_narrow = gap <= self.precision * held || middle <= held || missed.is_some_and(|m| middle >= m);
                if !is_narrow {
                    return ProbeStep::Probe(middle);
                }
                let times = probes.iter().filter(|probe| probe.rate.total_cmp(&held).is_eq()).count();
                if times < 2 {
                    ProbeStep::Probe(held)
                } else {
                    ProbeStep::Found(FoundRate { at_least: held, below: missed })
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BOUNDS: RateBounds = RateBounds { low: 1.0, high: 1000.0, precision: 0.02 };

    /// Searches a server that holds its limits up to `capacity`, and beyond it as `luck` decides for the n-th probe.
    fn search(bounds: &RateBounds, mut is_met: impl FnMut(f64, usize) -> bool) -> (ProbeStep, Vec<RateProbe>) {
        let mut probes = Vec::new();
        loop {
            match bounds.next(&probes) {
                ProbeStep::Probe(rate) => {
                    assert!(rate >= bounds.low && rate <= bounds.high, "{rate}");
                    let met = is_met(rate, probes.len());
                    probes.push(RateProbe { rate, met });
                    assert!(probes.len() < 500, "it never ends: {probes:?}");
                }
                done => return (done, probes),
            }
        }
    }

    #[test]
    fn the_answer_is_an_interval_around_the_capacity() {
        let (step, probes) = search(&BOUNDS, |rate, _| rate <= 41.9);
        let ProbeStep::Found(FoundRate { at_least, below: Some(below) }) = step else { panic!("{step:?}") };
        assert!(at_least <= 41.9 && below > 41.9 && (below - at_least) / at_least <= 0.02, "{step:?}");
        assert_eq!(probes.iter().filter(|probe| probe.rate.total_cmp(&at_least).is_eq()).count(), 2, "confirmed");
        assert!(probes.len() as u32 <= BOUNDS.probes(), "{} probes", probes.len());
    }

    #[test]
    fn ends_are_said() {
        assert_eq!(search(&BOUNDS, |_, _| false).0, ProbeStep::NotEvenLow);
        let (step, _) = search(&BOUNDS, |_, _| true);
        assert_eq!(step, ProbeStep::Found(FoundRate { at_least: 1000.0, below: None }));
        assert!(RateBounds { low: 5.0, high: 5.0, ..BOUNDS }.problem().is_some());
        assert!(RateBounds { precision: 0.0, ..BOUNDS }.problem().is_some());
        assert_eq!(BOUNDS.problem(), None);
    }

    #[test]
    fn a_lucky_probe_is_found_out() {
        let mut lucky = true;
        // 60 holds once, and never again.
        let bounds = RateBounds { low: 60.0, high: 120.0, precision: 0.1 };
        let (step, probes) = search(&bounds, |rate, _| rate <= 40.0 || (rate < 70.0 && std::mem::take(&mut lucky)));
        assert_eq!(step, ProbeStep::NotEvenLow, "{probes:?}");
    }

    proptest! {
        #[test]
        fn every_capacity_is_found_in_the_probes_that_were_announced(capacity in 1.0f64..2000.0, precision in 0.005f64..0.5) {
            let bounds = RateBounds { precision, ..BOUNDS };
            let (step, probes) = search(&bounds, |rate, _| rate <= capacity);
            let ProbeStep::Found(found) = step else { return Err(TestCaseError::fail(format!("{step:?}"))) };
            prop_assert!(found.at_least <= capacity);
            prop_assert!(found.below.is_none_or(|below| below > capacity));
            prop_assert!(probes.len() as u32 <= bounds.probes(), "{} of {}", probes.len(), bounds.probes());
        }

        #[test]
        fn a_search_ends_whatever_the_server_says(answers in proptest::collection::vec(any::<bool>(), 1..40)) {
            search(&BOUNDS, |_, n| answers[n % answers.len()]);
        }

        #[test]
        fn a_search_that_was_cut_off_goes_on_where_it_was(capacity in 1.0f64..1000.0, cut in 0usize..12) {
            let (_, probes) = search(&BOUNDS, |rate, _| rate <= capacity);
            let cut = cut.min(probes.len() - 1);
            prop_assert_eq!(BOUNDS.next(&probes[..cut]), ProbeStep::Probe(probes[cut].rate));
        }
    }
}
