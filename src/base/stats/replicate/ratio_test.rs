//! What paired and unpaired tests have in common.

use crate::stats::student;

/// How sure a conclusion is, over all rows together.
pub(super) const ALPHA: f64 = 0.05;

/// Chance of finding what is there, for the number of runs that could.
const POWER: f64 = 0.8;

const MOST_RUNS: u32 = 1_000;

/// Tests of the ratio of the second side to the first.
pub(super) trait RatioTest {
    /// The estimate.
    fn ratio(&self) -> f64;

    /// The statistic of a ratio above 0, positive where the estimate is above it, and its degrees of freedom.
    fn at(&self, ratio: f64) -> (f64, f64);

    /// 95 % interval of the ratio.
    fn interval(&self) -> Option<(f64, f64)>;

    /// Whether this many runs on each side would show this effect, a share of the first side, at this level in four of
    /// five cases.
    fn has_power(&self, runs: u32, effect: f64, level: f64) -> bool;

    /// Runs on each side, at least.
    fn runs(&self) -> usize;

    fn p_same(&self) -> f64 {
        let (t, dof) = self.at(1.0);
        (2.0 * student::upper_tail(t.abs(), dof)).min(1.0)
    }

    /// Of being apart by at least the margin, on either side.
    fn p_apart(&self, margin: f64) -> f64 {
        let ((low, low_dof), (high, high_dof)) = (self.at(1.0 - margin), self.at(1.0 + margin));
        student::upper_tail(low, low_dof).max(student::upper_tail(-high, high_dof))
    }

    /// Runs on each side with which the larger of this difference and the margin would be seen at this level.
    fn runs_needed(&self, margin: f64, level: f64) -> Option<u32> {
        let effect = (self.ratio() - 1.0).abs().max(margin);
        if !self.has_power(MOST_RUNS, effect, level) {
            return None;
        }
        // More runs never show less.
        let fewest = self.runs() as u32 + 1;
        let (mut low, mut high) = (fewest, MOST_RUNS.max(fewest));
        while low < high {
            let middle = low.midpoint(high);
            if self.has_power(middle, effect, level) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        Some(low)
    }
}

/// Quantiles that an effect must be above in standard errors, to be shown at this level with the chance of `POWER`.
pub(super) fn detectable(level: f64, dof: f64) -> f64 {
    student::critical(level / 2.0, dof) + student::critical(1.0 - POWER, dof)
}

// Pairs of runs with the same requests at the same times.
//
// Student's test of the logarithms of the pairs' ratios b/a: a queue that is busy in a pair is busy on both sides, so
// that the ratio varies much less than either side, and less than the difference b − a, which is larger where the queue
// is longer. The estimate is the geometric mean of the ratios.

/// The logarithms of the ratios.
pub(super) struct PairedTest(pub RunValues);

impl PairedTest {
    /// Variance of one logarithm, not below what two values can resolve.
    fn variance(&self) -> f64 {
        self.0.variance.max(2.0 * RESOLUTION * RESOLUTION)
    }

    fn error(&self) -> f64 {
        (self.variance() / self.0.n as f64).sqrt()
    }

    fn dof(&self) -> f64 {
        (self.0.n - 1) as f64
    }
}

impl RatioTest for PairedTest {
    fn ratio(&self) -> f64 {
        self.0.mean.exp()
    }

    fn at(&self, ratio: f64) -> (f64, f64) {
        ((self.0.mean - ratio.ln()) / self.error(), self.dof())
    }

    fn interval(&self) -> Option<(f64, f64)> {
        let half = student::critical(ALPHA / 2.0, self.dof()) * self.error();
        Some(((self.0.mean - half).exp(), (self.0.mean + half).exp()))
    }

    fn has_power(&self, runs: u32, effect: f64, level: f64) -> bool {
        detectable(level, f64::from(runs - 1)) * (self.variance() / f64::from(runs)).sqrt() <= effect.ln_1p()
    }

    fn runs(&self) -> usize {
        self.0.n
    }
}

// Sides with unrelated runs.
//
// The estimate is the ratio r of the two means: b − r·a is tested against zero with Welch's standard error
// √(s_b²/n_b + r²·s_a²/n_a) and Satterthwaite's degrees of freedom (Tamhane and Logan 2004); the 95 % interval holds
// the ratios that this test does not reject (Fieller 1954).

pub(super) struct UnpairedTest {
    pub a: RunValues,
    pub b: RunValues,
}

impl RatioTest for UnpairedTest {
    fn ratio(&self) -> f64 {
        self.b.mean / self.a.mean
    }

    fn at(&self, ratio: f64) -> (f64, f64) {
        let (of_a, of_b) = (ratio * ratio * self.a.of_mean(), self.b.of_mean());
        let dof = (of_a + of_b).powi(2)
            / (of_a.powi(2) / (self.a.n - 1) as f64 + of_b.powi(2) / (self.b.n - 1) as f64).max(f64::MIN_POSITIVE);
        ((self.b.mean - ratio * self.a.mean) / (of_a + of_b).sqrt(), dof)
    }

    fn interval(&self) -> Option<(f64, f64)> {
        let (_, dof) = self.at(self.ratio());
        let t = student::critical(ALPHA / 2.0, dof);
        let (of_a, of_b) = (t * t * self.a.of_mean(), t * t * self.b.of_mean());
        let (mean_a, mean_b) = (self.a.mean, self.b.mean);
        // The ratios r with (b − r·a)² ≤ t²·(v_b + r²·v_a): between the roots of a quadratic, if a is clear of zero.
        let square = mean_a * mean_a - of_a;
        if square <= 0.0 {
            return None;
        }
        let root = (mean_a * mean_b).mul_add(mean_a * mean_b, -square * (mean_b * mean_b - of_b)).max(0.0).sqrt();
        // No ratio of two latencies or rates is below 0.
        Some((((mean_a * mean_b - root) / square).max(0.0), (mean_a * mean_b + root) / square))
    }

    fn has_power(&self, runs: u32, effect: f64, level: f64) -> bool {
        let spread = |side: &RunValues| side.of_mean() * side.n as f64;
        let of_one = (spread(&self.b) + self.ratio().powi(2) * spread(&self.a)).sqrt() / self.a.mean;
        detectable(level, 2.0 * f64::from(runs - 1)) * of_one / f64::from(runs).sqrt() <= effect
    }

    fn runs(&self) -> usize {
        self.a.n.min(self.b.n)
    }
}

// One number of several runs: its mean, and how much it varies.

/// Standard deviation below which values are the same number: percentiles of pools are kept with three digits.
pub(super) const RESOLUTION: f64 = 5e-4;

/// One number of several runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RunValues {
    pub n: usize,
    pub mean: f64,
    /// Of the values, with n − 1; 0 for one run.
    pub variance: f64,
}

impl RunValues {
    /// `None` without values, and where one is not a number.
    pub fn new(values: &[f64]) -> Option<Self> {
        if values.is_empty() || values.iter().any(|value| !value.is_finite()) {
            return None;
        }
        let n = values.len();
        let mean = values.iter().sum::<f64>() / n as f64;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        Some(Self { n, mean, variance: if n > 1 { squares / (n - 1) as f64 } else { 0.0 } })
    }

    /// Variance of the mean, not below what the values can resolve.
    pub(super) fn of_mean(&self) -> f64 {
        self.variance.max((RESOLUTION * self.mean).powi(2)) / self.n as f64
    }
}
