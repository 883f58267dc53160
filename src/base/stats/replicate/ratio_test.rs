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

    /// Whether this many runs on each side would show this effect, a share of the first side, at this level in four of five
    /// cases.
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
