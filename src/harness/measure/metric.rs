//! A printed number with everything that defines its meaning, the percentile rule, percentiles that failures cannot
//! improve, and the histogram for pools of tokens.

use hdrhistogram::Histogram;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use base::spec::Statistic;
use base::stats::{IntervalBounds, NoInterval, RunSeries};
use base::units::grouped;

pub(crate) const RULE: &str = "nearest rank, sorted element floor(N·p)";
pub(crate) const POOL_RULE: &str =
    "nearest rank, sorted element floor(N·p), from a histogram of 3 digits; mean, min and max exact";
const NS_PER_MS: f64 = 1e6;

/// One metric. Absent numbers have no population.
#[base::omit_empty(except(mean, p50, p75, p90, p95, p99, min, max, p99_interval))]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Metric {
    pub unit: String,
    /// How many values; 0 also where another tool's file does not state it.
    #[serde(deserialize_with = "count")]
    pub n: u64,
    /// Of another tool's number: its definition.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub definition: String,
    /// What one value measures, and which requests are excluded.
    pub population: String,
    /// Successful requests that have no such value (one-token answers have no TPOT).
    pub excluded: u64,
    /// Where its clock starts: `schedule`, `issue`, `first_chunk`, `previous_chunk`.
    #[serde(deserialize_with = "zero_point")]
    pub zero_point: String,
    /// What the tokens were counted by. Empty where no tokens are counted.
    pub token_source: String,
    pub window: String,
    pub percentile_rule: String,
    pub mean: Option<f64>,
    pub p50: Option<f64>,
    pub p75: Option<f64>,
    pub p90: Option<f64>,
    pub p95: Option<f64>,
    pub p99: Option<f64>,
    pub min: Option<f64>,
    pub max: Option<f64>,
    /// Why the metric has no value, if that needs an explanation.
    pub absent: Option<String>,
    /// 95 % intervals from this run alone, for how much its requests depend on each other. They are about this server
    /// in this state: only `repeats` show how much runs differ from each other. Absent where the run is too short for
    /// one.
    pub mean_interval: Option<ConfidenceInterval>,
    pub p50_interval: Option<ConfidenceInterval>,
    pub p90_interval: Option<ConfidenceInterval>,
    pub p95_interval: Option<ConfidenceInterval>,
    pub p99_interval: Option<ConfidenceInterval>,
    /// Which of the intervals is the first that is not there, and why.
    pub no_interval: Option<String>,
    /// About how many requests an interval of p99 takes, estimated from this run; absent where there is one, or where
    /// the run is too short to see how much its requests depend on each other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99_interval_requests: Option<f64>,
}

/// Earlier versions wrote null for a count that another tool's file did not state.
fn count<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// By the name of this version: two had others before.
fn zero_point<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let name = String::deserialize(deserializer)?;
    Ok(match name.as_str() {
        "user_free" => "user_idle".to_owned(),
        "call_from_outside" => "external_call".to_owned(),
        _ => name,
    })
}

/// A zero point as a sentence has it: `schedule`, `when the user became idle`, `external call`.
pub fn zero_point_text(name: &str) -> String {
    name.replace("user_idle", "when the user became idle").replace('_', " ")
}

/// Ends of a confidence interval; an end may be null in results of earlier versions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ConfidenceInterval {
    pub low: Option<f64>,
    pub high: Option<f64>,
}

pub(crate) struct MetricLabel<'t> {
    pub population: &'t str,
    pub zero_point: &'static str,
    pub window: &'static str,
    /// Empty where no tokens are counted.
    pub token_source: &'t str,
}

impl Metric {
    /// `None` also for a statistic that the result does not have.
    pub const fn statistic(&self, statistic: Statistic) -> Option<f64> {
        match statistic {
            Statistic::Mean => self.mean,
            Statistic::P50 => self.p50,
            Statistic::P75 => self.p75,
            Statistic::P90 => self.p90,
            Statistic::P95 => self.p95,
            Statistic::P99 => self.p99,
            Statistic::Max => self.max,
        }
    }

    fn empty(label: &MetricLabel<'_>, rule: &str, excluded: u64) -> Self {
        Self {
            unit: "ms".to_owned(),
            population: label.population.to_owned(),
            excluded,
            zero_point: label.zero_point.to_owned(),
            token_source: label.token_source.to_owned(),
            window: label.window.to_owned(),
            percentile_rule: rule.to_owned(),
            ..Self::default()
        }
    }

    /// No number, because of this; `excluded` requests would have had one.
    pub(crate) fn absent(label: &MetricLabel<'_>, rule: &str, excluded: u64, why: String) -> Self {
        Self { absent: Some(why), ..Self::empty(label, rule, excluded) }
    }

    /// From exact values in ns, in the order of their requests, which intervals need; `ns` is sorted on the way.
    pub(crate) fn exact(label: &MetricLabel<'_>, ns: &mut [f64], excluded: u64) -> Self {
        let series = RunSeries::new(ns, NS_PER_MS);
        let (mut no_interval, mut needed) = (None, None);
        let mut interval = |name: &str, ends: Result<IntervalBounds, NoInterval>| match ends {
            Ok((low, high)) => Some(ConfidenceInterval { low: Some(low), high: Some(high) }),
            Err(why) => {
                no_interval.get_or_insert_with(|| format!("{name}: {why}"));
                needed = why.values_needed();
                None
            }
        };
        let mean_interval = interval("mean", series.mean_interval());
        let [p50_interval, p90_interval, p95_interval, p99_interval] =
            [("p50", 0.5), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99)]
                .map(|(name, p)| interval(name, series.percentile_interval(p)));
        // The last that was looked for is that of p99.
        let needed = needed.filter(|_| p99_interval.is_none());
        let estimate = needed.map_or_else(String::new, |needed| {
            format!("; that of p99 takes at least {} requests, estimated from this run", grouped(needed, 0))
        });
        ns.sort_unstable_by(f64::total_cmp);
        let at = |p| percentile(ns, p).map(|value| value / NS_PER_MS);
        Self {
            n: ns.len() as u64,
            mean: (!ns.is_empty()).then(|| ns.iter().sum::<f64>() / ns.len() as f64 / NS_PER_MS),
            min: at(0.0),
            max: at(1.0),
            mean_interval,
            p50_interval,
            p90_interval,
            p95_interval,
            p99_interval,
            p99_interval_requests: needed,
            no_interval: no_interval.filter(|_| !ns.is_empty()).map(|reason| reason + &estimate),
            ..Self::empty(label, RULE, excluded).with_percentiles(at)
        }
    }

    pub(crate) fn pooled(label: &MetricLabel<'_>, pool: &ValueHistogram, excluded: u64) -> Self {
        let at = |p| pool.percentile(p).map(|ns| ns as f64 / NS_PER_MS);
        let range = pool.range();
        Self {
            n: pool.count(),
            mean: pool.mean().map(|ns| ns / NS_PER_MS),
            min: range.map(|(min, _)| min as f64 / NS_PER_MS),
            max: range.map(|(_, max)| max as f64 / NS_PER_MS),
            ..Self::empty(label, POOL_RULE, excluded).with_percentiles(at)
        }
    }

    fn with_percentiles(self, at: impl Fn(f64) -> Option<f64>) -> Self {
        Self { p50: at(0.50), p75: at(0.75), p90: at(0.90), p95: at(0.95), p99: at(0.99), ..self }
    }
}

/// LoadGen's rule: the sorted element floor(N·p), the last one at most.
pub(crate) fn percentile(sorted: &[f64], p: f64) -> Option<f64> {
    Some(sorted[rank(sorted.len(), p)?])
}

/// Its place among this many; `None` of none.
pub(crate) fn rank(n: usize, p: f64) -> Option<usize> {
    Some(((n as f64 * p).floor() as usize).min(n.checked_sub(1)?))
}

/// The nearest-rank percentile of `n` values is their largest one: floor(N·p) is the last index, or beyond it.
pub(crate) fn is_maximum(n: u64, p: f64) -> bool {
    n > 0 && (n as f64 * p).floor() as u64 >= n - 1
}

// Percentiles of successful requests flatter a server that fails under load, because its worst answers are missing
// from them. Here every scheduled request counts, and one without an answer counts as infinitely late.

/// Percentiles over all scheduled requests, ms. A null one falls among those without an answer: it is infinite.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Adjusted {
    /// All scheduled requests that were to be answered in full.
    pub n: u64,
    /// Those of them without an answer: failed, or never sent.
    pub unanswered: u64,
    pub p50: Option<f64>,
    pub p90: Option<f64>,
    pub p95: Option<f64>,
    pub p99: Option<f64>,
}

impl Adjusted {
    /// `answered`: latencies of the successful ones, ns, the least first.
    pub(crate) fn new(answered: &[f64], unanswered: u64) -> Self {
        let n = answered.len() + unanswered as usize;
        // Those without an answer come after all others.
        let at = |p| answered.get(rank(n, p)?).filter(|ns| ns.is_finite()).map(|ns| ns / 1e6);
        Self { n: n as u64, unanswered, p50: at(0.5), p90: at(0.9), p95: at(0.95), p99: at(0.99) }
    }
}

const SECOND: u64 = 1_000_000_000;
const HOUR: u64 = 3_600 * SECOND;

const DIGITS: u8 = 3;

/// Many values of one kind: mean, min and max exact, percentiles to 3 digits.
#[derive(Clone, Debug)]
pub(crate) struct ValueHistogram {
    histogram: Histogram<u64>,
    /// Weighted sum, ns.
    sum: f64,
    count: u64,
    min: u64,
    max: u64,
}

impl ValueHistogram {
    pub fn new() -> Self {
        let histogram = Histogram::new_with_bounds(1, HOUR, DIGITS).unwrap_or_else(|_| unreachable!("fixed bounds"));
        Self { histogram, sum: 0.0, count: 0, min: u64::MAX, max: 0 }
    }

    /// `ns`, counted `times` times.
    pub fn add(&mut self, ns: f64, times: u64) {
        let whole = ns.round() as u64;
        self.histogram.saturating_record_n(whole, times);
        self.sum += ns * times as f64;
        self.count += times;
        self.min = self.min.min(whole);
        self.max = self.max.max(whole);
    }

    pub fn merge(&mut self, other: &Self) {
        // Equal bounds, so it cannot be out of range.
        let _ = self.histogram.add(&other.histogram);
        self.sum += other.sum;
        self.count += other.count;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Weighted, ns.
    pub const fn sum(&self) -> f64 {
        self.sum
    }

    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum / self.count as f64)
    }

    pub fn range(&self) -> Option<(u64, u64)> {
        (self.count > 0).then_some((self.min, self.max))
    }

    /// The sorted element floor(N·p), to 3 digits, clamped to [min, max], since a bucket may extend beyond them.
    pub fn percentile(&self, p: f64) -> Option<u64> {
        let rank = ((self.count as f64 * p).floor() as u64).min(self.count.checked_sub(1)?);
        // The histogram's rank is a count from 1; the half keeps rounding from falling to either side.
        let value = self.histogram.value_at_quantile((rank as f64 + 0.5) / self.count as f64);
        Some(value.clamp(self.min, self.max))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 4,000 independent values have intervals; the same in the order of a queue that fills and empties have none.
    #[test]
    fn intervals_are_there_where_the_run_is_long_enough() {
        let label = MetricLabel { population: "all", zero_point: "issue", window: "full", token_source: "" };
        let at = |number: u64| (number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) as f64;
        let mut mixed: Vec<f64> = (0..4_000).map(at).collect();
        let metric = Metric::exact(&label, &mut mixed, 0);
        let p90 = metric.p90_interval.expect("independent values");
        assert!(p90.low < metric.p90 && metric.p90 < p90.high && metric.mean_interval.is_some(), "{metric:?}");
        let mut slow: Vec<f64> =
            (0..4_000).map(|number| f64::from((number / 500) % 2) * 1e6 + at(1) + f64::from(number)).collect();
        let metric = Metric::exact(&label, &mut slow, 0);
        assert_eq!((metric.mean_interval, metric.p99_interval), (None, None));
        let reason = metric.no_interval.expect("a slow series");
        assert!(reason.starts_with("mean: not enough independent values"), "{reason}");
        let needed = grouped(metric.p99_interval_requests.expect("an estimate"), 0);
        assert!(reason.contains(&format!("takes at least {needed} requests")), "{reason}");
        assert!(reason.ends_with(" requests, estimated from this run") && reason.contains("; that of p99"), "{reason}");
        let metric = Metric::exact(&label, &mut [1e6; 30], 0);
        assert_eq!(metric.no_interval.as_deref(), Some("mean: not enough values: 30 of 2000"));
    }

    #[test]
    fn percentiles_take_the_element_at_floor_n_p() {
        let values: Vec<f64> = (0..300).map(f64::from).collect();
        assert_eq!(percentile(&values, 0.99), Some(297.0));
        assert_eq!(percentile(&values, 0.5), Some(150.0));
        assert_eq!(percentile(&values, 1.0), Some(299.0));
        assert_eq!(percentile(&[], 0.5), None);
    }

    #[test]
    fn p99_is_the_maximum_up_to_a_hundred_values() {
        for n in 1..=300_u64 {
            let values: Vec<f64> = (0..n).map(|value| value as f64).collect();
            for p in [0.5, 0.9, 0.99] {
                let is_last = percentile(&values, p) == values.last().copied();
                assert_eq!(is_maximum(n, p), is_last, "p{p} of {n}");
            }
        }
        assert!(is_maximum(100, 0.99) && !is_maximum(101, 0.99) && !is_maximum(0, 0.99));
    }
}

#[cfg(test)]
mod adjusted_tests {
    use super::*;

    #[test]
    fn failures_move_percentiles_up_and_at_last_to_infinity() {
        let answered = |n: u32| (1..=n).map(|ms| f64::from(ms) * 1e6).collect::<Vec<f64>>();
        assert_eq!(Adjusted::new(&answered(100), 0).p50, Some(51.0));
        let some_failed = Adjusted::new(&answered(90), 10);
        assert_eq!((some_failed.p50, some_failed.p90, some_failed.p99), (Some(51.0), None, None));
        assert_eq!(Adjusted::new(&[], 3).p50, None);
        assert_eq!(Adjusted::new(&[], 0).n, 0);
    }
}

#[cfg(test)]
mod histogram_tests {
    use super::*;

    #[test]
    fn a_pool_agrees_with_sorted_values_to_three_digits() {
        let mut pool = ValueHistogram::new();
        let mut other = ValueHistogram::new();
        let values: Vec<u64> = (1..=1_000u64).map(|i| i * i * 1_000).collect();
        for (position, value) in values.iter().enumerate() {
            if position.is_multiple_of(2) { pool.add(*value as f64, 1) } else { other.add(*value as f64, 1) }
        }
        pool.merge(&other);
        for p in [0.0, 0.1, 0.5, 0.9, 0.99, 0.999] {
            let exact = values[(1_000.0 * p) as usize] as f64;
            let value = pool.percentile(p).unwrap() as f64;
            assert!((value - exact).abs() <= exact / 1_000.0, "p{p}: {value} is not {exact}");
        }
        assert_eq!(pool.range(), Some((1_000, 1_000_000_000)));
        assert_eq!(pool.count(), 1_000);
        assert_eq!((ValueHistogram::new().percentile(0.5), ValueHistogram::new().mean()), (None, None));
    }

    /// Buckets of three digits end beyond the value: without a bound p99 of 20.00001 ms is 20.004863 ms.
    #[test]
    fn a_percentile_never_leaves_the_range() {
        for value in [0.0, 0.4, 1.0, 2_049.0, 20_000_010.0, 7_300.0 * SECOND as f64] {
            let mut pool = ValueHistogram::new();
            pool.add(value, 150);
            let (min, max) = pool.range().unwrap();
            for p in [0.0, 0.5, 0.99, 1.0] {
                let percentile = pool.percentile(p).unwrap();
                assert!((min..=max).contains(&percentile), "p{p} of {value}: {percentile} is not in {min}..={max}");
            }
        }
    }
}
