//! A histogram with the bucket limits of Prometheus: of each limit, how many values are at most so large.

/// Values so far.
#[derive(Clone, Debug)]
pub struct Histogram {
    /// Rising; the last bucket, without a limit, is not among them.
    limits: Vec<f64>,
    /// One for each limit, and one for what is above them all.
    counts: Vec<u64>,
    sum: f64,
}

impl Histogram {
    pub(super) fn new(limits: Vec<f64>) -> Self {
        Self { counts: vec![0; limits.len() + 1], limits, sum: 0.0 }
    }

    /// 1, 2 and 5 times the powers of ten, up to `most`: vLLM's limits for tokens.
    pub(super) fn of_tokens(most: u64) -> Self {
        let powers = std::iter::successors(Some(1), |power: &u64| power.checked_mul(10));
        let limits = powers.flat_map(|power| [1, 2, 5].map(|times: u64| times.saturating_mul(power)));
        Self::new(limits.take_while(|limit| *limit <= most).map(|limit| limit as f64).collect())
    }

    pub(super) fn observe(&mut self, value: f64) {
        self.counts[self.limits.partition_point(|limit| *limit < value)] += 1;
        self.sum += value;
    }

    pub const fn sum(&self) -> f64 {
        self.sum
    }

    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Each limit, infinity at last, and the values that are at most so large.
    pub fn cumulative(&self) -> impl Iterator<Item = (f64, u64)> {
        let limits = self.limits.iter().copied().chain([f64::INFINITY]);
        limits.zip(self.counts.iter().scan(0, |below, count| {
            *below += count;
            Some(*below)
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;

    #[test]
    fn a_value_is_in_each_bucket_whose_limit_it_does_not_exceed() {
        let mut histogram = Histogram::new(vec![1.0, 2.0]);
        for value in [1.0, 1.5, 7.0] {
            histogram.observe(value);
        }
        assert_eq!(histogram.cumulative().collect::<Vec<_>>(), [(1.0, 1), (2.0, 2), (f64::INFINITY, 3)]);
        assert_eq!((histogram.count(), histogram.sum()), (3, 9.5));
    }

    #[test]
    fn limits_of_tokens_end_at_the_longest_sequence() {
        let limits = |most| Histogram::of_tokens(most).limits;
        assert_eq!(limits(100), [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0]);
        assert_eq!(limits(99).last(), Some(&50.0));
        assert_eq!(limits(131_072).last(), Some(&100_000.0));
    }
}
