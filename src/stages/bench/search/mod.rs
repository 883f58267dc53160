//! `bench.search:` — the highest rate at which all limits hold, estimated from all probes. Every probe is a whole measurement
//! with arrivals of its own, kept in `probes/<n>-<rate>` with its margin; one that was finished is not measured again when the
//! search was cut off. The last probe is at the lower end of the interval, unless that rate was tried twice before; the files of the
//! last probe there are the result of the stage.

pub mod loadgen;
mod output;
mod phases;
mod probe;
mod start_point;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use self::start_point::{StartPoint, goal_of};
use super::resume::{self, ended_without_result};
use super::saved_run::copy;
use crate::task_context::TaskContext;
use base::event::{Done, Failure, FailureKind, Verdict};
use base::spec::TimeSpan;
use base::stats::{MOST_TRIES, ProbeOutcome, RateEstimate, RateSearcher, RateStep};
use base::units::{counted, digits_of_interval, four_digit_scale};
use harness::{BenchSpec, FoundRate, LimitSearch, RateBounds, Reason, SearchReport, SearchRules};
use output::{FILE, PROBES, with_identity};
use plan::manifest::model::{self, Telemetry};
use probe::{LimitProbe, Prober, measured_again};
use runner::store::WithPath as _;

/// Probes that estimate the rate. One more is made at the lower end of the interval.
const ESTIMATING: usize = 11;

pub async fn perform(
    context: &TaskContext,
    spec: BenchSpec,
    search: &model::RateSearch,
    watched: Telemetry,
) -> Result<Done, Failure> {
    let &model::RateSearch { low, high, start, precision, .. } = search;
    let bounds = RateBounds { low, high, precision };
    if let Some(wrong) = bounds.problem() {
        return Err(Failure::new(FailureKind::Refused, format!("`bench.search`: {wrong}")));
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
    let prober = Prober { context, spec: &spec, watched, servers: &servers };
    let mut tried: Vec<LimitProbe> = Vec::new();
    let end = loop {
        let margins: Vec<ProbeOutcome> = tried.iter().map(|tried| tried.judgement.margin).collect();
        match search.next(&margins) {
            RateStep::Probe(rate) => {
                tried.push(Box::pin(prober.probe(rate, tried.len())).await?);
            }
            end @ (RateStep::Estimated(_) | RateStep::Bracketed { .. } | RateStep::HeldAtHighest) => break end,
            RateStep::MissedAtLowest => {
                let why = tried.last().and_then(|last| last.why.clone()).unwrap_or_default();
                let what = format!("the limits are missed even at {low} req/s");
                let failure = Failure::new(FailureKind::Invalid(Verdict::InvalidLoad), what).cause(why);
                let failure = failure.hint("begin lower (`search.low`), or allow more (`limits`)");
                return Err(ended_without_result(&context.lease.out, PROBES, failure));
            }
        }
    };
    let (found, estimate) = found_at(end, &bounds);
    let mut warnings = Vec::new();
    let is_there = |probe: &&LimitProbe| probe.probe.rate.total_cmp(&found.at_least).is_eq();
    if tried.iter().filter(is_there).count() < MOST_TRIES {
        let last = Box::pin(prober.probe(found.at_least, tried.len())).await?;
        if !last.probe.met {
            let why = last.why.as_deref().unwrap_or("a limit was missed");
            warnings.push(format!(
                "search: at {} req/s, the lower end of the interval, the last probe missed: {why}",
                found.at_least
            ));
        }
        tried.push(last);
    }
    let search_report = SearchReport {
        rules: SearchRules::Limits(LimitSearch {
            goal: Some(goal),
            started_from: started_from.map(StartPoint::into_earlier),
            estimate,
        }),
        bounds,
        ttft_p99_limit_ms: spec.limits.ttft_p99.as_ref().map(TimeSpan::ms),
        tpot_p99_limit_ms: spec.limits.tpot_p99.as_ref().map(TimeSpan::ms),
        probes: tried,
        found,
    };
    let write = |path: PathBuf, bytes: Vec<u8>| fs::write(&path, bytes).at("write", &path);
    let tried = &search_report.probes;
    // The result of this stage is the last measurement at the rate that was found.
    if let Some(best) = tried.iter().rev().find(|tried| tried.probe.rate.total_cmp(&found.at_least).is_eq()) {
        Box::pin(copy(&context.lease.out.join(&best.folder), &context.lease.out, true)).await?;
    }
    write(context.lease.out.join(FILE), serde_json::to_vec_pretty(&search_report).unwrap_or_default())?;
    warnings.extend(tried.iter().filter_map(measured_again));
    warnings.extend(warnings_of(tried, found.at_least));
    let done = with_identity(
        &context.lease.out,
        &headline(&found, estimate.as_ref(), &bounds, &start_point::limits(&spec), tried.len()),
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
        "searching from {} to {} req/s to {} %: at most {probes} probes, {} to {} of arrivals each; all of them take at most {}",
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
                "bracketed, not estimated: between {at_least} and {below} req/s at {limits}  (an interval would be wider than a \
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

#[cfg(test)]
mod tests {
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
            "bracketed, not estimated: between 40 and 80 req/s at TTFT p99 ≤ 400ms  (an interval would be wider than a factor of 2, 7 probes)"
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
