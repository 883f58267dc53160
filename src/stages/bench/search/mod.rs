//! `bench.search:` — the highest rate at which all limits hold, estimated from all probes. Every probe is a whole
//! measurement with arrivals of its own, kept in `probes/<n>-<rate>` with its margin; one that was finished is not
//! measured again when the search was cut off. The last probe is at the lower end of the interval, unless that rate
//! was tried twice before; the files of the last probe there are the result of the stage.
//!
//! By LoadGen's rules a search has two phases. A short test passes more easily than a whole one, because queues grow
//! slowly. So the rate that short ones found is tried whole. Where that misses, only whole tests count from then on:
//! down in growing steps until one holds, then half-way between.

pub mod loadgen;
mod probe;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

use super::measurement::headline_details;
use super::resume::{self, copy, ended_without_result};
use crate::task_context::TaskContext;
use base::event::{Done, Failure, FailureKind, Verdict};
use base::spec::TimeSpan;
use base::stats::{MOST_TRIES, ProbeOutcome, RateEstimate, RateSearcher, RateStep};
use base::units::{counted, digits_of_interval, four_digit_scale, four_digits};
use harness::{
    BenchSpec, FoundRate, LimitSearch, ProbeStep, RateBounds, RateProbe, Reason, RunResult, SearchReport, SearchRules,
};
use plan::manifest::model::{Bench, RateSearch};
use probe::{LimitProbe, Prober, StartPoint, goal_of, measured_again};

/// Probes that estimate the rate. One more is made at the lower end of the interval.
const ESTIMATING: usize = 11;

pub async fn perform(
    context: &TaskContext,
    bench: &Bench,
    spec: BenchSpec,
    search: &RateSearch,
) -> Result<Done, Failure> {
    let &RateSearch { low, high, start, precision, .. } = search;
    let bounds = RateBounds { low, high, precision };
    if let Some(wrong) = bounds.problem() {
        return Err(Failure::refused(format!("`bench.search`: {wrong}")));
    }
    let goal = goal_of(&spec);
    let earlier = search.start_from.as_deref().map(|path| StartPoint::read(path, &context.lease.project, &goal));
    let started_from = earlier.transpose()?;
    context.lease.notice(cost_estimate(&spec, &bounds));
    if let Some(earlier) = &started_from {
        context.lease.notice(earlier.notice());
    }
    let servers = resume::begin(context, &spec, &context.lease.out.join(FILE), PROBES).await?;
    let search = RateSearcher { low, high, start: start.unwrap_or(low), second: None, precision, most: ESTIMATING };
    let search = started_from.as_ref().map_or(search, |earlier| earlier.begin(search));
    let prober = Prober { context, spec: &spec, bench, servers: &servers };
    let mut tried: Vec<LimitProbe> = Vec::new();
    let end = loop {
        let margins: Vec<ProbeOutcome> = tried.iter().map(|tried| tried.judgement.margin).collect();
        match search.next(&margins) {
            RateStep::Probe(rate) => match Box::pin(prober.probe(rate, tried.len())).await? {
                ControlFlow::Continue(probe) => tried.push(probe),
                ControlFlow::Break(done) => return Ok(done),
            },
            end @ (RateStep::Estimated(_) | RateStep::Bracketed { .. } | RateStep::HeldAtHighest) => break end,
            RateStep::MissedAtLowest => {
                let reason = tried.last().and_then(|last| last.why.clone()).unwrap_or_default();
                let message = format!("the limits are missed even at {low} req/s");
                let failure = Failure::new(FailureKind::Invalid(Verdict::LimitMissed), message).cause(reason);
                let failure = failure.hint("begin lower (`search.low`), or allow more (`limits`)");
                return Err(ended_without_result(&context.lease.out, PROBES, failure));
            }
        }
    };
    let (found, estimate) = found_at(end, &bounds);
    let mut warnings = Vec::new();
    let is_there = |probe: &&LimitProbe| probe.probe.rate.total_cmp(&found.at_least).is_eq();
    if tried.iter().filter(is_there).count() < MOST_TRIES {
        let last = match Box::pin(prober.probe(found.at_least, tried.len())).await? {
            ControlFlow::Continue(probe) => probe,
            ControlFlow::Break(done) => return Ok(done),
        };
        if !last.probe.met {
            let reason = last.why.as_deref().unwrap_or("a limit was missed");
            warnings.push(format!(
                "search: at {} req/s, the lower end of the interval, the last probe missed: {reason}",
                found.at_least
            ));
        }
        tried.push(last);
    }
    let search_report = SearchReport {
        rules: SearchRules::Limits(LimitSearch {
            goal: Some(goal),
            started_from: started_from.map(|start| start.0),
            estimate,
        }),
        bounds,
        ttft_p99_limit_ms: spec.limits.ttft_p99.as_ref().map(TimeSpan::ms),
        tpot_p99_limit_ms: spec.limits.tpot_p99.as_ref().map(TimeSpan::ms),
        probes: tried,
        found,
    };
    let tried = &search_report.probes;
    // The result of this stage is the last measurement at the rate that was found.
    if let Some(best) = tried.iter().rev().find(|tried| tried.probe.rate.total_cmp(&found.at_least).is_eq()) {
        Box::pin(copy(&context.lease.out.join(&best.folder), &context.lease.out, true)).await?;
    }
    context.write_json(FILE, &search_report)?;
    warnings.extend(tried.iter().filter_map(measured_again));
    warnings.extend(warnings_of(tried, found.at_least));
    let done = with_identity(
        &context.lease.out,
        &headline(&found, estimate.as_ref(), &bounds, &probe::limits(&spec), tried.len()),
    );
    Ok(Done { warnings, ..done })
}

/// The warnings: of the probe that provides the result, each in full; of the others, how many probes have which.
fn warnings_of(tried: &[LimitProbe], rate: f64) -> Vec<String> {
    let chosen = tried.iter().rposition(|tried| tried.probe.rate.total_cmp(&rate).is_eq());
    let mut of_others: BTreeMap<&str, usize> = BTreeMap::new();
    let mut qualified = 0;
    for (_, tried) in tried.iter().enumerate().filter(|(at, _)| Some(*at) != chosen) {
        let checks: BTreeSet<&str> = tried.judgement.warnings.iter().map(|reason| reason.check.as_str()).collect();
        qualified += usize::from(!checks.is_empty());
        for check in checks {
            *of_others.entry(check).or_default() += 1;
        }
    }
    let of_chosen = chosen.map(|at| tried[at].judgement.warnings.as_slice()).unwrap_or_default();
    let mut lines: Vec<String> = of_chosen.iter().map(Reason::line).collect();
    if qualified > 0 {
        let checks: Vec<String> = of_others.iter().map(|(check, probes)| format!("{check} ({probes})")).collect();
        lines.push(format!(
            "search: {qualified} of {} with warnings of their own, in `search.json`: {}",
            counted(tried.len(), "probe"),
            checks.join(", ")
        ));
    }
    lines
}

/// What a search found that ended with this step, and its estimate.
fn found_at(end: RateStep, bounds: &RateBounds) -> (FoundRate, Option<RateEstimate>) {
    match end {
        RateStep::Estimated(estimate) => (rounded_rates(&estimate, bounds), Some(estimate)),
        RateStep::Bracketed { low, high } => (FoundRate { at_least: low, below: high }, None),
        _ => (FoundRate { at_least: bounds.high, below: None }, None),
    }
}

/// Rates that can be read and typed again, within those that may be tried.
fn rounded_rates(estimate: &RateEstimate, bounds: &RateBounds) -> FoundRate {
    let scale = four_digit_scale(estimate.rate);
    let at_least = ((estimate.low * scale).floor() / scale).clamp(bounds.low, bounds.high);
    let below = (estimate.high * scale).ceil() / scale;
    FoundRate { at_least, below: (below < bounds.high).then_some(below.max(at_least)) }
}

/// What it will cost, before it costs it.
fn cost_estimate(spec: &BenchSpec, bounds: &RateBounds) -> String {
    let probes = ESTIMATING + 1;
    let arrivals = |rate: f64| {
        let by_number = spec.stop.requests.map_or(0.0, |requests| requests as f64 / rate);
        by_number.max(spec.stop.time().map_or(0.0, |time| time.as_secs_f64()))
    };
    // Where requests are counted, slow probes take longest.
    let (quick, slow) = (arrivals(bounds.high), arrivals(bounds.low));
    let shown = |seconds: f64| format!("{:?}", Duration::from_secs(seconds.ceil() as u64));
    format!(
        "searching from {} to {} req/s to {} %: at most {probes} probes, {} to {} of arrivals each; all of them take \
         at most {}",
        bounds.low,
        bounds.high,
        bounds.precision * 100.0,
        shown(quick),
        shown(slow),
        shown(slow * probes as f64),
    )
}

/// The estimate, its interval, and what it is the highest rate for; without an estimate the rates between which it is.
fn headline(
    found: &FoundRate,
    estimate: Option<&RateEstimate>,
    bounds: &RateBounds,
    limits: &[String],
    probes: usize,
) -> String {
    let (limits, probes) = (limits.join(", "), counted(probes, "probe"));
    let FoundRate { at_least, below } = found;
    let Some(estimate) = estimate else {
        return if let Some(below) = below {
            format!(
                "bracketed, not estimated: between {at_least} and {below} req/s at {limits}  (an interval would be \
                wider than a \
                 factor of 2, {probes})"
            )
        } else {
            let which = if *at_least < bounds.high { "was" } else { "may be" };
            format!("{at_least} req/s or more at {limits}  (the highest rate that {which} tried, {probes})")
        };
    };
    let rate = digits_of_interval(found.estimated(estimate, bounds), estimate.low, estimate.high);
    let or_more = if estimate.rate > bounds.high { " or more" } else { "" };
    let upper = below.map_or_else(|| "or more".to_owned(), |below| format!("… {below}"));
    format!("{rate} req/s{or_more} at {limits}  (95 % interval {at_least} {upper}, {probes})")
}

/// Where probes are kept, below the stage's output.
pub(super) const PROBES: &str = "probes";

/// Written when all probes were made.
pub(super) const FILE: &str = "search.json";

/// A search's headline with what its last measurement in `out` was of, and `SIMULATED` and `REHEARSAL` before it.
pub(super) fn with_identity(out: &Path, headline: &str) -> Done {
    let result = harness::read_result(&out.join(harness::RESULT)).ok();
    let simulated = if result.as_ref().is_some_and(RunResult::is_simulated) { "SIMULATED  " } else { "" };
    let rehearsal = if result.as_ref().is_some_and(RunResult::is_rehearsal) { "REHEARSAL  " } else { "" };
    Done {
        headline: Some(format!("{simulated}{rehearsal}{headline}")),
        below: result.as_ref().map(|first| headline_details(first, &first.workload())).unwrap_or_default(),
        ..Done::default()
    }
}

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

/// After a full test misses the limits, the next one runs this much slower (a share of the rate). Doubled with every
/// further miss.
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
mod search_tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn only_an_estimate_has_an_interval() {
        let bounds = RateBounds { low: 10.0, high: 160.0, precision: 0.02 };
        let line = |end: RateStep| {
            let limits = ["TTFT p99 ≤ 400ms".to_owned()];
            let (found, estimate) = found_at(end, &bounds);
            headline(&found, estimate.as_ref(), &bounds, &limits, 7)
        };
        let estimate = |rate, low, high| RateEstimate { rate, low, high, probes: 6, slope: 8.0 };
        let estimated = |rate, low, high| line(RateStep::Estimated(estimate(rate, low, high)));
        assert_eq!(
            estimated(115.2, 110.0, 121.0),
            "115 req/s at TTFT p99 ≤ 400ms  (95 % interval 110 … 121, 7 probes)"
        );
        assert_eq!(
            estimated(150.0, 140.0, 170.0),
            "150 req/s at TTFT p99 ≤ 400ms  (95 % interval 140 or more, 7 probes)"
        );
        // The line through the probes may be 0 above all rates that may be tried.
        assert_eq!(
            estimated(170.0, 150.0, 190.0),
            "160 req/s or more at TTFT p99 ≤ 400ms  (95 % interval 150 or more, 7 probes)"
        );
        assert_eq!(
            line(RateStep::Bracketed { low: 13.78, high: None }),
            "13.78 req/s or more at TTFT p99 ≤ 400ms  (the highest rate that was tried, 7 probes)"
        );
        assert_eq!(
            line(RateStep::Bracketed { low: 40.0, high: Some(80.0) }),
            "bracketed, not estimated: between 40 and 80 req/s at TTFT p99 ≤ 400ms  (an interval would be wider than \
             a factor of 2, 7 probes)"
        );
        assert!(
            headline(
                &FoundRate { at_least: 0.038, below: Some(0.045) },
                Some(&estimate(0.0412, 0.038, 0.045)),
                &bounds,
                &[],
                4
            )
            .starts_with("0.0412 req/s")
        );
        assert_eq!(
            line(RateStep::HeldAtHighest),
            "160 req/s or more at TTFT p99 ≤ 400ms  (the highest rate that may be tried, 7 probes)"
        );
    }
}

#[cfg(test)]
mod phases_tests {
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
                    prop_assert!(
                        history.iter().any(|one| one.is_whole && one.met && one.rate.total_cmp(&found.at_least).is_eq())
                    );
                    prop_assert!(found.below.is_none_or(|below| below > found.at_least));
                    prop_assert!(history.iter().filter(|one| one.is_whole).count() <= 12, "{history:?}");
                }
                _ => prop_assert!(whole < 1.0, "{end:?}"),
            }
        }
    }
}
