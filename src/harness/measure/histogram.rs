//! Many values of one kind in a histogram, for pools of tokens.

use hdrhistogram::Histogram;

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
            let found = pool.percentile(p).unwrap() as f64;
            assert!((found - exact).abs() <= exact / 1_000.0, "p{p}: {found} is not {exact}");
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
                let found = pool.percentile(p).unwrap();
                assert!((min..=max).contains(&found), "p{p} of {value}: {found} is not in {min}..={max}");
            }
        }
    }
}
