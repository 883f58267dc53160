//! Two sets of runs: by how many percent they differ, and what may be concluded.
//!
//! - `UnpairedTest`: the runs of one side have nothing to do with those of the other.
//! - `PairedTest`: run k of one side had the same requests at the same times as run k of the other, so that the
//!   effect of the arrivals cancels out.
//!
//! Equivalence is two one-sided tests (Schuirmann 1987). Differences and equivalences are corrected by Holm over all
//! rows of a family, each for itself.

mod ratio_test;

use serde::Serialize;

use super::student;
pub use ratio_test::RunValues;
use ratio_test::{ALPHA, PairedTest, RatioTest, UnpairedTest};

/// 95 % interval of the mean over runs; `None` for fewer than two.
pub fn mean_interval(values: &[f64]) -> Option<(f64, f64)> {
    let runs = RunValues::new(values).filter(|of| of.n > 1)?;
    let half = student::critical(ALPHA / 2.0, (runs.n - 1) as f64) * (runs.variance / runs.n as f64).sqrt();
    Some((runs.mean - half, runs.mean + half))
}

/// Ends of an interval, in percent of the first side.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Percents {
    pub low: f64,
    pub high: f64,
}

/// The result of runs on both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conclusion {
    /// They differ, and the estimate of it is at least the smallest effect that matters.
    Different,
    /// They differ by less than that.
    Equivalent,
    /// Neither is shown; with this many runs on each side a difference as large as this one, or as the smallest that
    /// matters, would be shown in four of five cases. `None`: not with a thousand.
    CannotTell { runs: Option<u32> },
    /// Fewer than two runs on a side: how much runs vary is not known.
    OneRun,
}

/// One row of a comparison.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct JudgedRow {
    /// 95 %, of this row alone; absent with one run on a side, and where the first mean is hardly above zero.
    pub interval: Option<Percents>,
    /// Two-sided, of no difference, after Holm's correction.
    pub p: Option<f64>,
    pub conclusion: Conclusion,
}

/// One number of the runs of both sides.
#[derive(Clone, Debug, PartialEq)]
pub struct ComparedSamples {
    pub a: RunValues,
    pub b: RunValues,
    /// ln(b / a) of each pair of runs.
    log_ratios: Option<RunValues>,
}

impl ComparedSamples {
    /// Runs that have nothing to do with each other. `None` without values, and where one is not a number.
    pub fn unpaired(a: &[f64], b: &[f64]) -> Option<Self> {
        Some(Self { a: RunValues::new(a)?, b: RunValues::new(b)?, log_ratios: None })
    }

    /// The k-th of one side belongs to the k-th of the other. A ratio needs values above 0: with others the sides are
    /// judged unpaired.
    pub fn paired(a: &[f64], b: &[f64]) -> Option<Self> {
        let unpaired = Self::unpaired(a, b)?;
        let is_positive = a.len() == b.len() && a.iter().chain(b).all(|value| *value > 0.0);
        let ratios = || a.iter().zip(b).map(|(one, other)| (other / one).ln()).collect::<Vec<_>>();
        let log_ratios = if is_positive { RunValues::new(&ratios()) } else { None };
        Some(Self { log_ratios, ..unpaired })
    }

    pub const fn is_paired(&self) -> bool {
        self.log_ratios.is_some()
    }

    /// (b − a) / a in percent: of the means, or for pairs from the geometric mean of their ratios. If a is 0 it is
    /// undefined, unless b is 0 too.
    pub fn percent(&self) -> Option<f64> {
        match (self.log_ratios, self.a.mean == 0.0, self.b.mean == 0.0) {
            (Some(ratios), ..) => Some(ratios.mean.exp_m1() * 100.0),
            (None, true, true) => Some(0.0),
            (None, true, false) => None,
            (None, false, _) => Some((self.b.mean / self.a.mean - 1.0) * 100.0),
        }
    }

    fn is_replicated(&self) -> bool {
        self.a.n > 1 && self.b.n > 1 && self.a.mean > 0.0
    }

    fn test(&self) -> Box<dyn RatioTest> {
        match self.log_ratios {
            Some(ratios) => Box::new(PairedTest(ratios)),
            None => Box::new(UnpairedTest { a: self.a, b: self.b }),
        }
    }
}

/// Whether the second side is shown, one-sided at 95 %, to be beyond a limit in percent of the first. Not without two
/// runs on each side.
pub fn is_beyond(sides: &ComparedSamples, percent: f64, is_upper: bool) -> bool {
    let limit = 1.0 + percent / 100.0;
    if !sides.is_replicated() {
        return false;
    }
    // No ratio is below 0.
    if limit <= 0.0 {
        return is_upper;
    }
    let (t, dof) = sides.test().at(limit);
    student::upper_tail(if is_upper { t } else { -t }, dof) <= ALPHA
}

/// The last limit, in percent of the first side, that the second side is shown to be beyond, as [`is_beyond`] shows it:
/// the least that the difference is, or where not `is_upper` the most. `None`: it is shown to be beyond no limit.
pub fn beyond_bound(sides: &ComparedSamples, is_upper: bool) -> Option<f64> {
    const FARTHEST: f64 = 1e9;
    let estimate = sides.percent()?;
    // Shown, and not shown.
    let mut shown = if is_upper { -100.0 } else { estimate + 1.0 };
    while !is_beyond(sides, shown, is_upper) {
        if is_upper || shown > FARTHEST {
            return None;
        }
        shown += 2.0 * (shown - estimate);
    }
    let mut not_shown = estimate;
    // Sixty halvings reach the precision of the number itself.
    for _ in 0..60 {
        let middle = f64::midpoint(shown, not_shown);
        if is_beyond(sides, middle, is_upper) {
            shown = middle;
        } else {
            not_shown = middle;
        }
    }
    Some(shown)
}

/// All rows of a family together: more rows need stronger evidence in each. `smallest_percent`: the smallest effect
/// that matters.
pub fn compare_rows(rows: &[ComparedSamples], smallest_percent: f64) -> Vec<JudgedRow> {
    let tested: Vec<_> = rows.iter().filter(|row| row.is_replicated()).map(ComparedSamples::test).collect();
    let margin = smallest_percent / 100.0;
    let differ = student::holm_adjusted(&tested.iter().map(|test| test.p_same()).collect::<Vec<_>>());
    let alike = student::holm_adjusted(&tested.iter().map(|test| test.p_apart(margin)).collect::<Vec<_>>());
    let level = ALPHA / tested.len().max(1) as f64;
    let percent = |ratio: f64| (ratio - 1.0) * 100.0;
    let mut verdicts = tested.iter().zip(differ.iter().zip(&alike)).map(|(test, (differ, alike))| JudgedRow {
        interval: test.interval().map(|(low, high)| Percents { low: percent(low), high: percent(high) }),
        p: Some(*differ),
        conclusion: if *alike <= ALPHA {
            Conclusion::Equivalent
        } else if *differ <= ALPHA && (test.ratio() - 1.0).abs() >= margin {
            Conclusion::Different
        } else {
            Conclusion::CannotTell { runs: test.runs_needed(margin, level) }
        },
    });
    let untested = |ComparedSamples { a, b, .. }: &ComparedSamples| {
        // Of zero there are no percent; two zeros are the same.
        let conclusion = match () {
            () if a.n < 2 || b.n < 2 => Conclusion::OneRun,
            () if a.mean == 0.0 && b.mean == 0.0 => Conclusion::Equivalent,
            () => Conclusion::CannotTell { runs: None },
        };
        JudgedRow { interval: None, p: None, conclusion }
    };
    rows.iter()
        .map(|row| if row.is_replicated() { verdicts.next() } else { None }.unwrap_or_else(|| untested(row)))
        .collect()
}

#[cfg(test)]
mod tests;
