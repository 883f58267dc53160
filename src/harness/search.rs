//! The highest rate at which all limits hold: what a search found, which rate to try next where each test only passes
//! or fails, as LoadGen's do, and how near a measurement is to its limits, as one number that a search can fit a line
//! to. Pure.
//!
//! Doubling from the lowest rate until one misses, then halving the gap until it is within the requested precision,
//! then the best rate once more with other seeds, because a server just after an overload, or a lucky minute, may pass
//! once. The answer is an interval: the limits held at its lower end, twice, and were missed at its upper end. A search
//! by the limits of the stage is another one, since it measures how near each probe is to them: its interval is that of
//! the estimate of [`base::stats::RateSearcher`].
//!
//! `search.json`: what a search for the highest rate found, by the limits of the stage or by LoadGen's rules.
//!
//! Fields that files of earlier versions lack have defaults.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use crate::measure::latency::LatencyMetric;
use crate::measure::metric::percentile;
use crate::{BenchSpec, Measured, Reason, ReasonSeverity, VerdictCheck};
use base::event::Verdict;
use base::files::Digest;
use base::spec::{GoodputLimit, LatencyLimit};
use base::stats::{ProbeOutcome, RateEstimate};
use base::units::four_digits;

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

/// The answer, requests per second: the 95 % interval of an estimate, or without one, as by LoadGen's rules, two rates
/// that were tried.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FoundRate {
    /// The lower end. By LoadGen's rules a test held here.
    pub at_least: f64,
    /// The upper end. By LoadGen's rules a test was missed here. Null when it is not below the highest rate that was
    /// allowed.
    pub below: Option<f64>,
}

impl FoundRate {
    /// The rate of the estimate, within the ends of its interval as they were rounded for this answer, and not above
    /// the highest rate that may be tried.
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
            // The start of the search, or a higher rate passed once and then failed: start again from the lowest rate.
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

/// Far beyond any limit, either way.
const LARGEST_MARGIN: f64 = 3.0;
/// The queue grew all the time: the limit was missed clearly, since it held only because the probe was short.
const OVERLOADED: f64 = 1.5;
/// Barely held, or barely missed.
const NEAR: f64 = 0.01;

impl Measured {
    /// The margin of the limit that is nearest to being missed, or missed most, at this rate. Below 0: all held. A
    /// latency counts without the quickest value of its metric, which no lower rate takes away.
    pub fn margin(&self, spec: &BenchSpec, rate: f64) -> ProbeOutcome {
        let requests = self.requests.sorted_by_key(|record| record.t_sched);
        let first_half = requests.ok().count() / 2;
        let (mut whole, mut half) = (-LARGEST_MARGIN, -LARGEST_MARGIN);
        for limit in spec.limits.latencies() {
            let Some(metric) = self.result.latency.limited(limit.metric) else { continue };
            let quickest = metric.min.unwrap_or(0.0);
            let of_all = margin(&limit, quickest, metric.statistic(limit.statistic));
            let of_half =
                LatencyMetric::limited(limit.metric).and_then(LatencyMetric::of_request).map_or(of_all, |value| {
                    let values = requests.ok().take(first_half).filter_map(|record| value(&record)).map(|ns| ns / 1e6);
                    margin(&limit, quickest, statistic(&limit, values.collect()))
                });
            whole = f64::max(whole, of_all);
            half = f64::max(half, of_half);
        }
        if let (Some(limit), Some(goodput)) = (spec.limits.goodput, &self.result.goodput) {
            let margin_of_goodput = match limit {
                GoodputLimit::Share(share) => of_share(goodput.attainment.unwrap_or(0.0), share.share()),
                GoodputLimit::PerSecond(least) => (least / goodput.requests.unwrap_or(0.0).max(1e-9)).ln(),
            };
            whole = f64::max(whole, margin_of_goodput.clamp(-LARGEST_MARGIN, LARGEST_MARGIN));
            half = f64::max(half, margin_of_goodput.clamp(-LARGEST_MARGIN, LARGEST_MARGIN));
        }
        if self.result.stability.is_certainly_overloaded() {
            whole = whole.max(OVERLOADED);
        }
        // Problems that no limit measures: failures beyond their budget, a lost server.
        let is_other =
            |reason: &Reason| reason.check != VerdictCheck::Overload && reason.severity != ReasonSeverity::Warning;
        if whole < 0.0 && self.result.reasons().iter().any(is_other) {
            (whole, half) = (LARGEST_MARGIN, LARGEST_MARGIN);
        }
        ProbeOutcome { rate, whole, first_half: half, capacity: self.result.stability.capacity_per_s() }
    }
}

/// Near 100 % both shares of missed limits are clamped to the smallest distinguishable one; the side of the limit stays
/// exact.
fn of_share(attained: f64, least: f64) -> f64 {
    let margin = ((1.0 - attained).max(1e-3) / (1.0 - least).max(1e-3)).ln();
    if attained >= least { margin.min(-NEAR) } else { margin.max(NEAR) }
}

fn margin(limit: &LatencyLimit, quickest: f64, found: Option<f64>) -> f64 {
    let allowed = limit.ms - quickest;
    let Some(found) = found else { return LARGEST_MARGIN };
    if allowed <= 0.0 {
        return LARGEST_MARGIN;
    }
    ((found - quickest) / allowed).max(f64::MIN_POSITIVE).ln().clamp(-LARGEST_MARGIN, LARGEST_MARGIN)
}

fn statistic(limit: &LatencyLimit, mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    match limit.statistic.quantile() {
        Some(quantile) => percentile(&values, quantile),
        None => (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64),
    }
}

/// The content of `search.json`. `J` is what decided about its probes; a reader does not know which it was.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SearchReport<J = ProbeJudgement> {
    #[serde(flatten)]
    pub rules: SearchRules,
    #[serde(default)]
    pub bounds: RateBounds,
    pub ttft_p99_limit_ms: Option<f64>,
    pub tpot_p99_limit_ms: Option<f64>,
    /// Probes in the order in which they ran.
    #[serde(default = "Vec::new")]
    pub probes: Vec<SearchProbe<J>>,
    /// Per second: the interval of the highest rate at which all limits hold, within the rates that may be tried.
    pub found: FoundRate,
}

/// What a rate had to meet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
#[expect(clippy::large_enum_variant, reason = "a report has one of them")]
pub enum SearchRules {
    /// LoadGen's; the limits are those of the round.
    Loadgen {
        judge: SearchJudge,
        #[serde(default)]
        rehearsal: bool,
    },
    /// The limits of the stage.
    Limits(LimitSearch),
}

/// What decides whether a probe holds, where the limits of the stage do not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SearchJudge {
    Loadgen,
}

/// What only a search by the limits of the stage has.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LimitSearch {
    /// `None`: the file is of a version that did not write it.
    #[serde(flatten)]
    pub goal: Option<SearchGoal>,
    /// The earlier search that set the first rates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_from: Option<EarlierSearch>,
    /// The rate and its 95 % interval, requests per second. Null where the limits held at the highest rate, and where
    /// the probes only bracket the rate: `found` has the bracket.
    #[serde(default, deserialize_with = "of_probes")]
    pub estimate: Option<RateEstimate>,
}

/// Earlier versions wrote the middle between two far rates as an estimate of no probes.
fn of_probes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<RateEstimate>, D::Error> {
    let estimate = Option::<RateEstimate>::deserialize(deserializer)?;
    Ok(estimate.filter(|estimate| estimate.probes > 0))
}

/// What a search is for: with another model or other limits there is another rate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SearchGoal {
    pub model: String,
    /// As they are shown: `TTFT p99 ≤ 400ms`.
    pub limits: Vec<String>,
}

/// The search that another began from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EarlierSearch {
    /// As given.
    pub path: String,
    pub digest: Digest,
    /// What was found there, requests per second.
    pub found: FoundRate,
    /// Null where that search has none.
    #[serde(default, deserialize_with = "of_probes")]
    pub estimate: Option<RateEstimate>,
}

impl EarlierSearch {
    /// Its rate, requests per second: the estimate, or the highest one that held.
    pub fn rate(&self) -> f64 {
        self.estimate.map_or(self.found.at_least, |estimate| estimate.rate)
    }
}

/// One rate that was tried, as it is shown.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SearchProbe<J = ProbeJudgement> {
    #[serde(flatten)]
    pub probe: RateProbe,
    #[serde(flatten)]
    pub judgement: J,
    pub ttft_p99_ms: Option<f64>,
    pub tpot_p99_ms: Option<f64>,
    pub output_tokens_per_s: Option<f64>,
    /// Why it missed.
    pub why: Option<String>,
    /// Relative to the stage's output.
    #[serde(default)]
    pub folder: PathBuf,
}

/// What decided about a probe.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ProbeJudgement {
    Loadgen(LoadgenJudgement),
    Limits(LimitJudgement),
    /// Of a version that wrote other fields.
    Unknown {},
}

/// By LoadGen's rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadgenJudgement {
    /// As long as the rules require.
    pub is_whole: bool,
}

/// By the limits of the stage.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LimitJudgement {
    pub margin: ProbeOutcome,
    pub verdict: Verdict,
    /// Why a first measurement at this rate does not count. It is kept beside this one, whose folder ends in `-again`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_invalid: Option<String>,
    /// What qualifies its figures.
    #[serde(default)]
    pub warnings: Vec<Reason>,
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
        fn every_capacity_is_found_in_the_probes_that_were_announced(
            capacity in 1.0f64..2000.0, precision in 0.005f64..0.5,
        ) {
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

#[cfg(test)]
mod limit_margin_tests {
    use super::*;

    #[test]
    fn a_share_of_all_requests_can_be_held() {
        assert!(of_share(1.0, 1.0) < 0.0 && of_share(0.9999, 1.0) > 0.0);
        assert!(of_share(0.95, 0.95) < 0.0 && of_share(0.9499, 0.95) > 0.0);
        assert!(of_share(0.99, 0.9) < of_share(0.95, 0.9) && of_share(0.5, 0.9) > of_share(0.8, 0.9));
    }
}

#[cfg(test)]
mod report_tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn both_kinds_are_read_as_they_were_written() {
        let interval = FoundRate { at_least: 110.0, below: Some(121.0) };
        let probe = |judgement| SearchProbe {
            probe: RateProbe { rate: 110.0, met: true },
            judgement,
            ttft_p99_ms: Some(300.0),
            tpot_p99_ms: None,
            output_tokens_per_s: None,
            why: None,
            folder: "probes/01-110".into(),
        };
        let report = |rules, judgement| SearchReport {
            rules,
            bounds: RateBounds { low: 10.0, high: 160.0, precision: 0.02 },
            ttft_p99_limit_ms: Some(400.0),
            tpot_p99_limit_ms: None,
            probes: vec![probe(judgement)],
            found: interval,
        };
        let goal = SearchGoal { model: "tiny".to_owned(), limits: vec!["TTFT p99 ≤ 400ms".to_owned()] };
        let limits = SearchRules::Limits(LimitSearch { goal: Some(goal), started_from: None, estimate: None });
        let margin = ProbeOutcome { rate: 110.0, whole: -0.1, first_half: -0.2, capacity: None };
        let judgement = LimitJudgement { margin, verdict: Verdict::Valid, first_invalid: None, warnings: Vec::new() };
        let loadgen = SearchRules::Loadgen { judge: SearchJudge::Loadgen, rehearsal: true };
        for written in [
            report(limits, ProbeJudgement::Limits(judgement)),
            report(loadgen, ProbeJudgement::Loadgen(LoadgenJudgement { is_whole: true })),
        ] {
            let text = serde_json::to_string(&written).unwrap();
            assert_eq!(serde_json::from_str::<SearchReport>(&text).unwrap(), written, "{text}");
        }
    }

    #[test]
    fn a_file_of_an_earlier_version_lacks_some_fields() {
        let old = json!({ "found": { "at_least": 5.0, "below": null }, "probes": [{ "rate": 5.0, "met": true }] });
        let old: SearchReport = serde_json::from_value(old).unwrap();
        assert!(matches!(&old.rules, SearchRules::Limits(LimitSearch { goal: None, .. })), "{old:?}");
        assert_eq!(old.probes[0].judgement, ProbeJudgement::Unknown {});
        assert!(serde_json::from_str::<SearchReport>(r#"{"verdict": "valid"}"#).is_err());
    }
}
