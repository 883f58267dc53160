//! A search for the highest `target_qps` by LoadGen's own rules: what its tests are, and what they cost together.

use std::fmt;

use serde_json::{Value, json};

use super::test_request;
use crate::manifest::model::{Bench, Loadgen, RateSearch};
use rules::conf::conf;
use rules::{Estimate, Round, TestRequest, time};

/// A short test lasts a minute, of a rehearsal a quarter of its whole one,
const SHORT_MS: u64 = 60_000;
/// or until this many queries were issued: with fewer LoadGen cannot be sure of a 99th percentile that one query missed.
const ENOUGH: u64 = 700;
/// By how much a rehearsal's whole test is longer than its short one.
const REHEARSED: u64 = 4;

/// A test as the rules require it.
pub fn full_test(loadgen: &Loadgen, rate: f64) -> Loadgen {
    let mut whole = Loadgen { target_qps: Some(rate), ..loadgen.clone() };
    if whole.rehearse {
        // By the rules there are always enough.
        whole.user_conf.entry("min_query_count".to_owned()).or_insert(json!(ENOUGH));
    }
    whole
}

/// A rehearsal of it, not padded to whole data sets.
pub fn short(loadgen: &Loadgen, rate: f64) -> Loadgen {
    let mut short = Loadgen { target_qps: Some(rate), rehearse: true, ..loadgen.clone() };
    let set = |key: &str| loadgen.user_conf.get(key).and_then(Value::as_u64);
    let lasts = if loadgen.rehearse {
        set("min_duration").unwrap_or(rules::conf::REHEARSAL_DURATION_MS).div_ceil(REHEARSED)
    } else {
        SHORT_MS
    };
    for (key, value) in [
        ("min_duration", lasts.clamp(1, SHORT_MS)),
        ("min_query_count", set("min_query_count").unwrap_or(ENOUGH).min(ENOUGH)),
        ("sample_concatenate_permutation", 0),
    ] {
        short.user_conf.insert(key.to_owned(), json!(value));
    }
    let round = Round::named(&loadgen.round).filter(|_| !loadgen.rehearse);
    if let Some(benchmark) = round.as_ref().and_then(|round| round.benchmarks.get(&loadgen.benchmark)) {
        // The few samples of a rehearsal are not as long, on average, as all of them.
        let drawn = "performance_sample_count_override".to_owned();
        short.user_conf.entry(drawn).or_insert(json!(benchmark.performance_samples));
    }
    short
}

/// What a search takes, in seconds until the last query of a test arrives: servers need longer to start, and to answer it.
#[derive(Clone, Debug, PartialEq)]
pub struct Cost {
    pub bounds: RateSearch,
    /// Short tests, at most, if none contradicts another.
    pub short_tests: u32,
    /// One of them, the shortest and the longest.
    pub short_s: (f64, f64),
    /// The whole one, likewise.
    pub whole_s: (f64, f64),
    /// All short ones and one whole one, at most.
    pub most_s: f64,
}

impl Cost {
    /// None: there is no search, or the rules do not allow its tests.
    pub fn of(bench: &Bench) -> Option<Self> {
        let (bounds, loadgen) = (bench.search.clone()?, bench.loadgen.as_deref()?);
        let seconds = |test: &Loadgen| {
            let bench = Bench { search: None, loadgen: Some(Box::new(test.clone())), ..bench.clone() };
            let request: TestRequest<'_> = test_request(&bench)?;
            let seed = request.find().ok()?.round.loadgen.seeds.schedule;
            Some(Estimate::new(&conf(&request).ok()?.settings, seed).seconds)
        };
        let doublings = (bounds.high / bounds.low).log2().ceil() as u32 + 1;
        let halvings = (1.0 / bounds.precision).log2().ceil() as u32;
        let doubled = (0..doublings).map(|step| (bounds.low * 2f64.powi(step as i32)).min(bounds.high));
        let short: Vec<f64> = doubled.clone().map(|rate| seconds(&short(loadgen, rate))).collect::<Option<_>>()?;
        let whole: Vec<f64> = doubled.map(|rate| seconds(&full_test(loadgen, rate))).collect::<Option<_>>()?;
        let range =
            |all: &[f64]| (all.iter().copied().fold(f64::INFINITY, f64::min), all.iter().copied().fold(0.0, f64::max));
        let (short_s, whole_s) = (range(&short), range(&whole));
        // The gap may be halved near the lowest rate, where tests last longest.
        let most_s = short.iter().sum::<f64>() + f64::from(halvings) * short_s.1 + whole_s.1;
        Some(Self { bounds, short_tests: doublings + halvings, short_s, whole_s, most_s })
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RateSearch { low, high, precision, .. } = self.bounds;
        let between = |(least, most): (f64, f64)| match (time(least), time(most)) {
            (least, most) if least == most => least,
            (least, most) => format!("{least} to {most}"),
        };
        write!(
            f,
            "searching from {low} to {high} qps to {} %: at most {} short tests of {}, then a full one of {}: {} of arrivals at most if they agree; each whole one that misses costs another",
            precision * 100.0,
            self.short_tests,
            between(self.short_s),
            between(self.whole_s),
            time(self.most_s),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bench(loadgen: &str) -> Bench {
        let text = format!(
            "{{ target: 'localhost:1', scenario: server, search: {{ low: 10, high: 80, precision: 0.05 }}, \
             loadgen: {{ library: l, dataset: d, round: v5.1, benchmark: llama2-70b-99.9, {loadgen} }} }}"
        );
        serde_yaml::from_str(&text).unwrap()
    }

    #[test]
    fn the_cost_is_shown_in_tests_and_time() {
        let cost = Cost::of(&bench("")).unwrap();
        let text = cost.to_string();
        assert!(text.starts_with("searching from 10 to 80 qps to 5 %: at most 9 short tests of 1 min"), "{text}");
        assert!(
            text.contains(", then a full one of ") && text.contains(" of arrivals at most if they agree"),
            "{text}"
        );
        // At 10 qps a whole data set takes 41 minutes, at 80 it is gone through twice in ten.
        assert!(cost.whole_s.0 >= 600.0 && (2_300.0..2_600.0).contains(&cost.whole_s.1), "{cost:?}");
        assert!(cost.most_s > cost.whole_s.1 + cost.short_s.0 * f64::from(cost.short_tests));
        assert_eq!(Cost::of(&Bench { search: None, ..bench("") }), None);
    }

    #[test]
    fn rehearsed_tests_are_short_and_have_enough_queries() {
        let bench = bench("rehearse: true, user_conf: { min_duration: 8000 }");
        let loadgen = bench.loadgen.as_deref().unwrap();
        let (short, whole) = (short(loadgen, 20.0), full_test(loadgen, 20.0));
        assert_eq!((short.target_qps, &short.user_conf["min_duration"]), (Some(20.0), &json!(2000)));
        assert_eq!(
            (&short.user_conf["min_query_count"], &whole.user_conf["min_query_count"]),
            (&json!(700), &json!(700))
        );
        assert_eq!(whole.user_conf["min_duration"], json!(8000));
        assert_eq!(whole.user_conf.get("sample_concatenate_permutation"), None);
    }
}
