//! Values and how they are spread: mean, deviation, percentiles by a named rule.

use super::tool_definitions::PercentileRule;
use harness::Metric;

/// Sorted values, finite ones only.
#[derive(Clone, Debug, PartialEq)]
pub struct SortedValues {
    sorted: Vec<f64>,
    rule: PercentileRule,
}

impl SortedValues {
    pub fn new(mut values: Vec<f64>, rule: PercentileRule) -> Self {
        values.retain(|value| value.is_finite());
        values.sort_by(f64::total_cmp);
        Self { sorted: values, rule }
    }

    pub fn n(&self) -> usize {
        self.sorted.len()
    }

    pub fn values(&self) -> &[f64] {
        &self.sorted
    }

    pub fn sum(&self) -> f64 {
        self.sorted.iter().sum()
    }

    pub fn mean(&self) -> Option<f64> {
        (!self.sorted.is_empty()).then(|| self.sum() / self.n() as f64)
    }

    /// Of the values themselves (divided by N), or as an estimate for more of their kind (by N − 1).
    pub fn deviation(&self, divisor: DeviationRule) -> Option<f64> {
        let mean = self.mean()?;
        let n = match divisor {
            DeviationRule::Population => self.n(),
            DeviationRule::Sample => self.n().checked_sub(1).filter(|n| *n > 0)?,
        };
        Some((self.sorted.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / n as f64).sqrt())
    }

    pub fn min(&self) -> Option<f64> {
        self.sorted.first().copied()
    }

    pub fn max(&self) -> Option<f64> {
        self.sorted.last().copied()
    }

    /// The statistics in ms, without what they are of.
    pub fn metric(&self) -> Metric {
        Metric {
            unit: "ms".to_owned(),
            n: self.n() as u64,
            mean: self.mean(),
            p50: self.at(0.50),
            p75: self.at(0.75),
            p90: self.at(0.90),
            p95: self.at(0.95),
            p99: self.at(0.99),
            min: self.min(),
            max: self.max(),
            ..Metric::default()
        }
    }

    /// `p` from 0 to 1.
    pub fn at(&self, p: f64) -> Option<f64> {
        let last = self.n().checked_sub(1)?;
        let (place, last) = (self.rule.place(self.n(), p), last as f64);
        let (below, above) = (self.sorted[place.floor() as usize], self.sorted[place.ceil().min(last) as usize]);
        Some(below + (above - below) * place.fract())
    }
}

impl PercentileRule {
    /// The position of the percentile among `n` sorted values, from 0; a fraction lies between two of them. `n` is at
    /// least 1.
    pub fn place(self, n: usize, p: f64) -> f64 {
        let last = (n - 1) as f64;
        let place = match self {
            Self::Floor => (n as f64 * p).floor(),
            // A product that should be whole may be a hair above it.
            Self::Ceiling => (n as f64 * p - 1e-9).ceil() - 1.0,
            Self::Nearest => (last * p).round(),
            Self::Linear => last * p,
        };
        place.clamp(0.0, last)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviationRule {
    Population,
    Sample,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_two_rules_differ_by_up_to_a_rank() {
        let values: Vec<f64> = (1..=5).map(f64::from).collect();
        let floor = SortedValues::new(values.clone(), PercentileRule::Floor);
        let linear = SortedValues::new(values, PercentileRule::Linear);
        assert_eq!((floor.at(0.5), linear.at(0.5)), (Some(3.0), Some(3.0)));
        let ceiling = SortedValues::new((1..=10).map(f64::from).collect(), PercentileRule::Ceiling);
        assert_eq!([0.0, 0.5, 0.7, 0.91, 1.0].map(|p| ceiling.at(p).unwrap() as u32), [1, 5, 7, 10, 10]);
        // perf_analyzer 2.51 printed the 33rd of 37 latencies as p90.
        let nearest = SortedValues::new((1..=37).map(f64::from).collect(), PercentileRule::Nearest);
        assert_eq!([0.5, 0.9, 0.95, 0.99].map(|p| nearest.at(p).unwrap() as u32), [19, 33, 35, 37]);
        assert_eq!((floor.at(0.9), linear.at(0.9)), (Some(5.0), Some(4.6)));
        assert_eq!(linear.deviation(DeviationRule::Population), Some(2f64.sqrt()));
        assert_eq!(linear.deviation(DeviationRule::Sample), Some(2.5f64.sqrt()));
        let none = SortedValues::new(vec![f64::NAN], PercentileRule::Linear);
        assert_eq!((none.n(), none.at(0.5), none.mean(), none.min()), (0, None, None, None));
    }
}
