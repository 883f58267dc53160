//! Sides with unrelated runs.
//!
//! The estimate is the ratio r of the two means: b − r·a is tested against zero with Welch's standard error
//! √(s_b²/n_b + r²·s_a²/n_a) and Satterthwaite's degrees of freedom (Tamhane and Logan 2004); the 95 % interval holds the
//! ratios that this test does not reject (Fieller 1954).

use super::super::student;
use super::{ALPHA, RatioTest, RunValues, detectable};

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
