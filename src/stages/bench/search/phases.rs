//! A search by LoadGen's rules in two phases: short tests find a rate, whole ones confirm it. Pure.
//!
//! A short test passes more easily than a whole one, because queues grow slowly. So the rate that short ones found is tried
//! whole. Where that misses, only whole tests count from then on: down in growing steps until one holds, then half-way between.

use base::units::four_digits;
use harness::{FoundRate, ProbeStep, RateBounds, RateProbe};

/// One test at a rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct SearchTest {
    pub rate: f64,
    /// As long as the rules require.
    pub is_whole: bool,
    pub met: bool,
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum SearchStep {
    ShortTest(f64),
    FullTest(f64),
    Found(FoundRate),
    NotEvenLow,
}

/// How far below a whole test that missed the next one is, as a share of its rate; doubled with every further miss.
const FIRST_STEP: f64 = 0.04;

/// The same history gives the same step, so a search that was cut off goes on where it was.
pub(super) fn next(bounds: &RateBounds, history: &[SearchTest]) -> SearchStep {
    let whole = || history.iter().filter(|tried| tried.is_whole);
    let missed = whole().filter(|tried| !tried.met).map(|tried| tried.rate).min_by(f64::total_cmp);
    let held = whole().filter(|tried| tried.met).map(|tried| tried.rate).max_by(f64::total_cmp);
    match (held, missed) {
        (None, None) => shortly(bounds, history),
        (None, Some(missed)) if missed <= bounds.low => SearchStep::NotEvenLow,
        (None, Some(missed)) => {
            let misses = whole().count() as i32;
            let step = (FIRST_STEP * 2f64.powi(misses - 1)).min(0.5);
            SearchStep::FullTest(four_digits(missed * (1.0 - step)).max(bounds.low))
        }
        (Some(at_least), None) => {
            let missed = history.iter().filter(|tried| !tried.met && tried.rate > at_least).map(|tried| tried.rate);
            SearchStep::Found(FoundRate { at_least, below: missed.min_by(f64::total_cmp) })
        }
        (Some(held), Some(missed)) => {
            let middle = four_digits(f64::midpoint(held, missed));
            let is_narrow = missed - held <= bounds.precision * held || middle <= held || middle >= missed;
            if is_narrow {
                SearchStep::Found(FoundRate { at_least: held, below: Some(missed) })
            } else {
                SearchStep::FullTest(middle)
            }
        }
    }
}

/// The first phase. The second time that it requests a rate, it requests a confirmation.
fn shortly(bounds: &RateBounds, history: &[SearchTest]) -> SearchStep {
    let probes: Vec<RateProbe> = history.iter().map(|tried| RateProbe { rate: tried.rate, met: tried.met }).collect();
    match bounds.next(&probes) {
        ProbeStep::NotEvenLow => SearchStep::NotEvenLow,
        ProbeStep::Found(found) => SearchStep::FullTest(found.at_least),
        ProbeStep::Probe(rate) if history.iter().any(|tried| tried.met && tried.rate.total_cmp(&rate).is_eq()) => {
            SearchStep::FullTest(rate)
        }
        ProbeStep::Probe(rate) => SearchStep::ShortTest(rate),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{SearchStep, SearchTest, next};
    use harness::RateBounds;

    const BOUNDS: RateBounds = RateBounds { low: 1.0, high: 1000.0, precision: 0.02 };

    /// Searches a system that does `short` in short tests and `whole` in whole ones.
    fn search(short: f64, whole: f64) -> (SearchStep, Vec<SearchTest>) {
        let mut history = Vec::new();
        loop {
            assert!(history.len() < 60, "{history:?}");
            let (rate, is_whole) = match next(&BOUNDS, &history) {
                SearchStep::ShortTest(rate) => (rate, false),
                SearchStep::FullTest(rate) => (rate, true),
                end => return (end, history),
            };
            history.push(SearchTest { rate, is_whole, met: rate <= if is_whole { whole } else { short } });
        }
    }

    #[test]
    fn one_whole_test_confirms_what_short_ones_found() {
        let (end, history) = search(70.0, 70.0);
        let SearchStep::Found(found) = end else { panic!("{end:?}") };
        assert!(found.at_least <= 70.0 && found.at_least > 70.0 * 0.97, "{found:?}");
        assert_eq!(history.iter().filter(|tried| tried.is_whole).count(), 1);
        assert!(history.last().unwrap().is_whole && history.last().unwrap().met);
    }

    #[test]
    fn a_rate_that_only_short_tests_hold_is_not_found() {
        let (end, history) = search(70.0, 61.0);
        let SearchStep::Found(found) = end else { panic!("{end:?}") };
        assert!(found.at_least <= 61.0 && found.at_least > 61.0 * 0.98, "{found:?} {history:?}");
        assert!(history.iter().filter(|tried| tried.is_whole).count() <= 8, "{history:?}");
        assert_eq!(search(0.5, 0.5).0, SearchStep::NotEvenLow);
        assert_eq!(search(70.0, 0.5).0, SearchStep::NotEvenLow);
    }

    #[test]
    fn that_a_system_holds_the_highest_rate_is_reported() {
        let (end, _) = search(1e9, 1e9);
        let SearchStep::Found(found) = end else { panic!("{end:?}") };
        assert_eq!((found.at_least, found.below), (1000.0, None));
    }

    proptest! {
        #[test]
        fn what_is_found_held_in_a_whole_test(short in 1.0f64..2000.0, share in 0.3f64..1.2) {
            let whole = short * share;
            let (end, history) = search(short, whole);
            match end {
                SearchStep::Found(found) => {
                    prop_assert!(found.at_least <= whole);
                    prop_assert!(history.iter().any(|one| one.is_whole && one.met && one.rate.total_cmp(&found.at_least).is_eq()));
                    prop_assert!(found.below.is_none_or(|below| below > found.at_least));
                    prop_assert!(history.iter().filter(|one| one.is_whole).count() <= 12, "{history:?}");
                }
                _ => prop_assert!(whole < 1.0, "{end:?}"),
            }
        }
    }
}
