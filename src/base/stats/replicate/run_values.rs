//! One number of several runs: its mean, and how much it varies.

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
    pub fn of(values: &[f64]) -> Option<Self> {
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
