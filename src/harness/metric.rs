//! A printed number with everything that says what it means, and the percentile rule.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::collect::Pool;

pub(super) const RULE: &str = "nearest rank, sorted element floor(N·p)";
const POOL_RULE: &str =
    "nearest rank, sorted element floor(N·p), from a histogram of 3 digits; mean, min and max exact";
const NS_PER_MS: f64 = 1e6;

/// One metric. Absent numbers have no population.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Metric {
    pub unit: String,
    /// How many values.
    pub n: u64,
    /// What one value is, and which requests are left out.
    pub population: String,
    /// Successful requests that have no such value (one-token answers have no TPOT).
    pub excluded: u64,
    /// Where its clock starts: `schedule`, `issue`, `first_chunk`, `previous_chunk`.
    pub zero_point: String,
    pub token_source: String,
    pub window: String,
    pub percentile_rule: String,
    pub mean: Option<f64>,
    pub p50: Option<f64>,
    #[serde(default)]
    pub p75: Option<f64>,
    pub p90: Option<f64>,
    pub p95: Option<f64>,
    pub p99: Option<f64>,
    pub min: Option<f64>,
    pub max: Option<f64>,
    /// 95 % order-statistic interval of p99; null for pools, whose values are not independent, and for an empty population.
    pub p99_interval: Option<Interval>,
}

/// Ends of a confidence interval; an end is null when N is too small to have it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Interval {
    pub low: Option<f64>,
    pub high: Option<f64>,
}

pub(super) struct Label {
    pub population: &'static str,
    pub zero_point: &'static str,
    pub window: &'static str,
}

impl Metric {
    fn empty(label: &Label, rule: &str, excluded: u64) -> Self {
        Self {
            unit: "ms".to_owned(),
            n: 0,
            population: label.population.to_owned(),
            excluded,
            zero_point: label.zero_point.to_owned(),
            token_source: "output_ids".to_owned(),
            window: label.window.to_owned(),
            percentile_rule: rule.to_owned(),
            mean: None,
            p50: None,
            p75: None,
            p90: None,
            p95: None,
            p99: None,
            min: None,
            max: None,
            p99_interval: None,
        }
    }

    /// From exact values in ns; `ns` is sorted on the way.
    pub(super) fn exact(label: &Label, ns: &mut [f64], excluded: u64) -> Self {
        ns.sort_by(f64::total_cmp);
        let at = |p| percentile(ns, p).map(|value| value / NS_PER_MS);
        Self {
            n: ns.len() as u64,
            mean: (!ns.is_empty()).then(|| ns.iter().sum::<f64>() / ns.len() as f64 / NS_PER_MS),
            p50: at(0.50),
            p75: at(0.75),
            p90: at(0.90),
            p95: at(0.95),
            p99: at(0.99),
            min: at(0.0),
            max: at(1.0),
            p99_interval: (!ns.is_empty()).then(|| {
                let (low, high) = ranks_95(ns.len(), 0.99);
                let value = |rank: usize| ns[rank - 1] / NS_PER_MS;
                Interval { low: low.map(value), high: high.map(value) }
            }),
            ..Self::empty(label, RULE, excluded)
        }
    }

    pub(super) fn pooled(label: &Label, pool: &Pool, excluded: u64) -> Self {
        let at = |p| pool.percentile(p).map(|ns| ns as f64 / NS_PER_MS);
        let range = pool.range();
        Self {
            n: pool.count(),
            mean: pool.mean().map(|ns| ns / NS_PER_MS),
            p50: at(0.50),
            p75: at(0.75),
            p90: at(0.90),
            p95: at(0.95),
            p99: at(0.99),
            min: range.map(|(min, _)| min as f64 / NS_PER_MS),
            max: range.map(|(_, max)| max as f64 / NS_PER_MS),
            ..Self::empty(label, POOL_RULE, excluded)
        }
    }
}

/// LoadGen's rule: the sorted element floor(N·p), the last one at most.
pub(super) fn percentile(sorted: &[f64], p: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    Some(sorted[((sorted.len() as f64 * p).floor() as usize).min(last)])
}

/// The nearest-rank percentile of `n` values is their largest one: floor(N·p) is the last index, or beyond it.
pub(super) fn is_maximum(n: u64, p: f64) -> bool {
    n > 0 && (n as f64 * p).floor() as u64 >= n - 1
}

/// Ranks (from 1) whose values enclose the true quantile with 95 % confidence, 2.5 % on either side.
///
/// The number of values below the quantile is binomial(n, p): the low rank l has P(B < l) ≤ 2.5 %, the high rank h
/// P(B ≥ h) ≤ 2.5 %. Either may not exist.
fn ranks_95(n: usize, p: f64) -> (Option<usize>, Option<usize>) {
    const TAIL: f64 = 0.025;
    let ln_odds = (p / (1.0 - p)).ln();
    // Walk the masses down from B = n; they underflow harmlessly where they no longer matter.
    let mut ln_mass = n as f64 * p.ln();
    let mut upper_tail = 0.0;
    let mut high = None;
    let mut low = None;
    let mut successes = n;
    loop {
        let above = upper_tail;
        upper_tail += ln_mass.exp();
        if upper_tail <= TAIL {
            high = Some(successes);
        }
        // P(B < successes + 1) = 1 − P(B ≥ successes + 1)
        if 1.0 - above <= TAIL && low.is_none() {
            low = Some(successes + 1);
        }
        if low.is_some() || successes == 0 {
            break;
        }
        ln_mass += (successes as f64 / (n - successes + 1) as f64).ln() - ln_odds;
        successes -= 1;
    }
    // The walk meets falling values of l: the first that satisfies is the largest.
    (low.filter(|rank| (1..=n).contains(rank)), high)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_of_p99_needs_enough_values() {
        assert_eq!(ranks_95(300, 0.99), (Some(293), None));
        assert_eq!(ranks_95(367, 0.99).1, None);
        assert_eq!(ranks_95(368, 0.99).1, Some(368));
        let (low, high) = ranks_95(10_000, 0.99);
        // Normal approximation: 9,900 ± 1.96·√99 ≈ 9,880.5 … 9,919.5.
        assert!((9_879..=9_882).contains(&low.unwrap()) && (9_919..=9_922).contains(&high.unwrap()));
        // One value lies above the quantile in 1 % of all cases only.
        assert_eq!(ranks_95(1, 0.99), (Some(1), None));
        assert_eq!(ranks_95(1, 0.5), (None, None));
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
