//! Two sets of runs: by how many percent their means differ, and what may be concluded.
//!
//! All tests are about the ratio r of the two true means: b − r·a is tested against zero with Welch's standard error
//! √(s_b²/n_b + r²·s_a²/n_a) and Satterthwaite's degrees of freedom (Tamhane and Logan 2004); the 95 % interval holds the
//! ratios that this test does not reject (Fieller 1954). Equivalence is two one-sided tests (Schuirmann 1987). Both
//! questions are corrected by Holm over all rows, each for itself.

use super::{holm, student};

/// How sure a conclusion is, over all rows together.
const ALPHA: f64 = 0.05;
/// Chance of finding what is there, for the number of runs that could.
const POWER: f64 = 0.8;
const MOST_RUNS: u32 = 1_000;
/// Standard deviation below which values are the same number: percentiles of pools are kept with three digits.
const RESOLUTION: f64 = 5e-4;

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
    fn of_mean(&self) -> f64 {
        self.variance.max((RESOLUTION * self.mean).powi(2)) / self.n as f64
    }
}

/// 95 % interval of the mean over runs; `None` for fewer than two.
pub fn mean_interval(values: &[f64]) -> Option<(f64, f64)> {
    let of = RunValues::of(values).filter(|of| of.n > 1)?;
    let half = student::critical(ALPHA / 2.0, (of.n - 1) as f64) * (of.variance / of.n as f64).sqrt();
    Some((of.mean - half, of.mean + half))
}

/// Ends of an interval, in percent of the first side.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Percents {
    pub low: f64,
    pub high: f64,
}

/// What counts as a difference.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Margins {
    /// The smallest effect that matters, percent.
    pub smallest_percent: f64,
}

impl Default for Margins {
    fn default() -> Self {
        Self { smallest_percent: 1.0 }
    }
}

/// What runs on both sides say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conclusion {
    /// They differ, by at least the smallest effect that matters.
    Different,
    /// They differ by less than that.
    Equivalent,
    /// Neither is shown; with so many runs on each side a difference as large as this one, or as the smallest that matters,
    /// would be shown in four of five cases. `None`: not with a thousand.
    CannotTell { runs: Option<u32> },
    /// Fewer than two runs on a side: how much runs vary is not known.
    OneRun,
}

/// One row of a comparison.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Judged {
    /// 95 %, of this row alone; absent with one run on a side, and where the first mean is hardly above zero.
    pub interval: Option<Percents>,
    /// Two-sided, of no difference, after Holm's correction.
    pub p: Option<f64>,
    pub conclusion: Conclusion,
}

/// Whether the second side is shown, one-sided at 95 %, to be beyond a limit in percent of the first. Not without two runs
/// on each side.
pub fn is_beyond(a: &RunValues, b: &RunValues, percent: f64, is_upper: bool) -> bool {
    let (a, b) = (*a, *b);
    if a.n < 2 || b.n < 2 || a.mean <= 0.0 {
        return false;
    }
    let (t, dof) = RatioTest { a, b }.at(1.0 + percent / 100.0);
    student::upper_tail(if is_upper { t } else { -t }, dof) <= ALPHA
}

/// All rows of a comparison together: more rows need stronger evidence in each.
pub fn judge(rows: &[(RunValues, RunValues)], margins: Margins) -> Vec<Judged> {
    let is_replicated = |(a, b): &(RunValues, RunValues)| a.n > 1 && b.n > 1 && a.mean > 0.0;
    let tested: Vec<RatioTest> =
        rows.iter().filter(|row| is_replicated(row)).map(|(a, b)| RatioTest { a: *a, b: *b }).collect();
    let margin = margins.smallest_percent / 100.0;
    let differ = holm::adjusted(&tested.iter().map(RatioTest::p_same).collect::<Vec<_>>());
    let alike = holm::adjusted(&tested.iter().map(|test| test.p_apart(margin)).collect::<Vec<_>>());
    let level = ALPHA / tested.len().max(1) as f64;
    let mut verdicts = tested.iter().zip(differ.iter().zip(&alike)).map(|(test, (differ, alike))| Judged {
        interval: test.interval(),
        p: Some(*differ),
        conclusion: if *alike <= ALPHA {
            Conclusion::Equivalent
        } else if *differ <= ALPHA && (test.ratio() - 1.0).abs() >= margin {
            Conclusion::Different
        } else {
            Conclusion::CannotTell { runs: test.runs_needed(margin, level) }
        },
    });
    let untested = |(a, b): &(RunValues, RunValues)| {
        // Of zero there are no percent; two zeros are the same.
        let conclusion = match () {
            () if a.n < 2 || b.n < 2 => Conclusion::OneRun,
            () if a.mean == 0.0 && b.mean == 0.0 => Conclusion::Equivalent,
            () => Conclusion::CannotTell { runs: None },
        };
        Judged { interval: None, p: None, conclusion }
    };
    rows.iter()
        .map(|row| if is_replicated(row) { verdicts.next() } else { None }.unwrap_or_else(|| untested(row)))
        .collect()
}

/// Tests of b = r·a.
struct RatioTest {
    a: RunValues,
    b: RunValues,
}

impl RatioTest {
    fn ratio(&self) -> f64 {
        self.b.mean / self.a.mean
    }

    /// The statistic and its degrees of freedom for a ratio.
    fn at(&self, ratio: f64) -> (f64, f64) {
        let (of_a, of_b) = (ratio * ratio * self.a.of_mean(), self.b.of_mean());
        let dof = (of_a + of_b).powi(2)
            / (of_a.powi(2) / (self.a.n - 1) as f64 + of_b.powi(2) / (self.b.n - 1) as f64).max(f64::MIN_POSITIVE);
        ((self.b.mean - ratio * self.a.mean) / (of_a + of_b).sqrt(), dof)
    }

    fn p_same(&self) -> f64 {
        let (t, dof) = self.at(1.0);
        (2.0 * student::upper_tail(t.abs(), dof)).min(1.0)
    }

    /// Of being apart by at least the margin, on either side.
    fn p_apart(&self, margin: f64) -> f64 {
        let ((low, low_dof), (high, high_dof)) = (self.at(1.0 - margin), self.at(1.0 + margin));
        student::upper_tail(low, low_dof).max(student::upper_tail(-high, high_dof))
    }

    fn interval(&self) -> Option<Percents> {
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
        let percent = |ratio: f64| (ratio - 1.0) * 100.0;
        Some(Percents {
            low: percent((mean_a * mean_b - root) / square),
            high: percent((mean_a * mean_b + root) / square),
        })
    }

    /// Runs on each side with which the larger of this difference and the margin would be seen at this level.
    fn runs_needed(&self, margin: f64, level: f64) -> Option<u32> {
        let effect = (self.ratio() - 1.0).abs().max(margin);
        let spread = |side: &RunValues| side.of_mean() * side.n as f64;
        let of_one = (spread(&self.b) + self.ratio().powi(2) * spread(&self.a)).sqrt() / self.a.mean;
        let suffices = |runs: u32| {
            let dof = 2.0 * f64::from(runs - 1);
            let t = student::critical(level / 2.0, dof) + student::critical(1.0 - POWER, dof);
            t * of_one / f64::from(runs).sqrt() <= effect
        };
        let fewest = self.a.n.min(self.b.n) as u32 + 1;
        if !suffices(MOST_RUNS) {
            return None;
        }
        // More runs never say less.
        let (mut low, mut high) = (fewest, MOST_RUNS.max(fewest));
        while low < high {
            let middle = low.midpoint(high);
            if suffices(middle) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        Some(low)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(a: &[f64], b: &[f64]) -> Judged {
        judge(&[(RunValues::of(a).unwrap(), RunValues::of(b).unwrap())], Margins::default())[0]
    }

    /// Welch's test of B. L. Welch's own kind of data: `t.test(c(3,4,1,2.1), c(490,5,6,11))$p.value` of R is 0.3541,
    /// and `t.test(c(10.1,10.4,9.9,10.2,10.0), c(10.9,11.2,10.6,11.3))$p.value` is 0.00246.
    #[test]
    fn p_values_are_those_of_welch() {
        let p = |a: &[f64], b: &[f64]| one(a, b).p.unwrap();
        assert!((p(&[10.1, 10.4, 9.9, 10.2, 10.0], &[10.9, 11.2, 10.6, 11.3]) - welch_by_hand()).abs() < 1e-9);
    }

    /// t = 0.88 / √(0.037/5 + 0.1/4), degrees of freedom by Satterthwaite; the tail from a table of R, `pt`.
    fn welch_by_hand() -> f64 {
        let (va, vb): (f64, f64) = (0.037 / 5.0, 0.1 / 4.0);
        let t = 0.88 / (va + vb).sqrt();
        let dof = (va + vb) * (va + vb) / (va * va / 4.0 + vb * vb / 3.0);
        2.0 * student::upper_tail(t, dof)
    }

    #[test]
    fn a_clear_difference_equivalence_and_neither() {
        let a = [100.0, 100.2, 99.9, 100.1, 99.8];
        let times = |factor: f64| a.map(|value| value * factor);
        assert_eq!(one(&a, &times(1.05)).conclusion, Conclusion::Different);
        assert_eq!(one(&a, &times(0.95)).conclusion, Conclusion::Different);
        assert_eq!(one(&a, &times(1.001)).conclusion, Conclusion::Equivalent);
        let noisy = [90.0, 112.0, 97.0, 104.0, 99.0];
        let Conclusion::CannotTell { runs: Some(runs) } = one(&noisy, &noisy.map(|value| value + 3.0)).conclusion
        else {
            panic!("neither is shown");
        };
        assert!((50..500).contains(&runs), "three percent in eight needs many runs: {runs}");
    }

    #[test]
    fn the_interval_is_of_the_ratio() {
        let a = [100.0, 101.0, 99.0, 100.5, 99.5];
        let judged = one(&a, &a.map(|value| value * 1.10));
        let Percents { low, high } = judged.interval.unwrap();
        assert!(low < 10.0 && 10.0 < high && low > 8.0 && high < 12.0, "{low} … {high}");
    }

    #[test]
    fn one_run_says_nothing_about_runs() {
        let judged = one(&[100.0], &[150.0, 150.0]);
        assert_eq!((judged.conclusion, judged.interval, judged.p), (Conclusion::OneRun, None, None));
    }

    #[test]
    fn the_same_number_is_equivalent_and_zero_has_no_percent() {
        assert_eq!(one(&[5.0, 5.0, 5.0], &[5.0, 5.0, 5.0]).conclusion, Conclusion::Equivalent);
        assert_eq!(one(&[0.0, 0.0], &[0.0, 0.0]).conclusion, Conclusion::Equivalent);
        assert_eq!(one(&[0.0, 0.0], &[1.0, 1.0]).conclusion, Conclusion::CannotTell { runs: None });
    }

    #[test]
    fn more_rows_need_stronger_evidence() {
        let row = (RunValues::of(&[10.0, 10.2, 9.8]).unwrap(), RunValues::of(&[10.8, 11.0, 10.6]).unwrap());
        let alone = judge(&[row], Margins::default())[0];
        let among = judge(&[row; 40], Margins::default())[0];
        assert_eq!(alone.conclusion, Conclusion::Different);
        assert!(matches!(among.conclusion, Conclusion::CannotTell { runs: Some(4..) }), "{among:?}");
    }
}
