//! Pairs of runs with the same requests at the same times.
//!
//! Student's test of the logarithms of the pairs' ratios b/a: a queue that is busy in a pair is busy on both sides, so that the
//! ratio varies much less than either side, and less than the difference b − a, which is larger where the queue is longer.
//! The estimate is the geometric mean of the ratios.

use super::super::student;
use super::{ALPHA, RESOLUTION, RatioTest, RunValues, detectable};

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
