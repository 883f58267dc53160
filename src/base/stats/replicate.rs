//! Two sets of runs: by how many percent they differ, and what may be concluded.
//!
//! - Unpaired: the runs of one side have nothing to do with those of the other.
//! - Paired: run k of one side had the same requests at the same times as run k of the other, so that the effect of the
//!   arrivals cancels out.
//!
//! Equivalence is two one-sided tests (Schuirmann 1987). Differences and equivalences are corrected by Holm over all
//! rows of a family, each for itself; a row of more weight needs less evidence.

use serde::Serialize;

use super::student;

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
    /// Neither is shown.
    CannotTell,
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
    /// The smallest change, percent of the first side, that as many runs like these show in nine of ten cases, if no
    /// other row shows one; absent without a test.
    pub detectable_percent: Option<f64>,
    /// Runs on each side that show a change of [`COMMON_CHANGE`] in nine of ten cases; absent where these runs do,
    /// where a thousand do not, and where so small a change does not matter. Few runs often show too little scatter:
    /// the number is large enough that it holds nonetheless, and becomes smaller with more runs.
    pub runs_needed: Option<u32>,
}

/// A change that is often looked for, as a share of the first side.
pub const COMMON_CHANGE: f64 = 0.05;

/// One number of the runs of both sides.
#[derive(Clone, Debug, PartialEq)]
pub struct ComparedSamples {
    pub a: RunValues,
    pub b: RunValues,
    /// The share of the error probability that its row gets, in that of the family.
    pub weight: f64,
    /// ln(b / a) of each pair of runs.
    log_ratios: Option<RunValues>,
}

impl ComparedSamples {
    /// Runs that have nothing to do with each other. `None` without values, and where one is not a number.
    pub fn unpaired(a: &[f64], b: &[f64]) -> Option<Self> {
        Some(Self { a: RunValues::new(a)?, b: RunValues::new(b)?, weight: 1.0, log_ratios: None })
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
        match (self.a.mean == 0.0, self.b.mean == 0.0) {
            (true, true) => Some(0.0),
            (true, false) => None,
            (false, _) => Some((self.ratio() - 1.0) * 100.0),
        }
    }

    fn is_replicated(&self) -> bool {
        self.a.n > 1 && self.b.n > 1 && self.a.mean > 0.0
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
    let (t, dof) = sides.at(limit);
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
    let tested: Vec<&ComparedSamples> = rows.iter().filter(|row| row.is_replicated()).collect();
    let weights: Vec<f64> = tested.iter().map(|row| row.weight).collect();
    let margin = smallest_percent / 100.0;
    let differ = student::holm_adjusted(&tested.iter().map(|test| test.p_same()).collect::<Vec<_>>(), &weights);
    let alike = student::holm_adjusted(&tested.iter().map(|test| test.p_apart(margin)).collect::<Vec<_>>(), &weights);
    let levels = weights.iter().map(|weight| ALPHA * weight / weights.iter().sum::<f64>());
    let percent = |ratio: f64| (ratio - 1.0) * 100.0;
    let judged = tested.iter().zip(levels).zip(differ.iter().zip(&alike));
    let mut verdicts = judged.map(|((test, level), (differ, alike))| JudgedRow {
        interval: test.interval().map(|(low, high)| Percents { low: percent(low), high: percent(high) }),
        p: Some(*differ),
        conclusion: if *alike <= ALPHA {
            Conclusion::Equivalent
        } else if *differ <= ALPHA && (test.ratio() - 1.0).abs() >= margin {
            Conclusion::Different
        } else {
            Conclusion::CannotTell
        },
        detectable_percent: Some(test.smallest_seen(test.runs() as u32, level).max(margin) * 100.0),
        runs_needed: if margin <= COMMON_CHANGE { test.runs_needed(COMMON_CHANGE, level) } else { None },
    });
    let untested = |ComparedSamples { a, b, .. }: &ComparedSamples| {
        // Of zero there are no percent; two zeros are the same.
        let conclusion = match () {
            () if a.n < 2 || b.n < 2 => Conclusion::OneRun,
            () if a.mean == 0.0 && b.mean == 0.0 => Conclusion::Equivalent,
            () => Conclusion::CannotTell,
        };
        JudgedRow { interval: None, p: None, conclusion, detectable_percent: None, runs_needed: None }
    };
    rows.iter()
        .map(|row| if row.is_replicated() { verdicts.next() } else { None }.unwrap_or_else(|| untested(row)))
        .collect()
}

// Tests of the ratio of the second side to the first.
//
// Of pairs of runs with the same requests at the same times: Student's test of the logarithms of the pairs' ratios b/a.
// A queue that is busy in a pair is busy on both sides, so that the ratio varies much less than either side, and less
// than the difference b − a, which is larger where the queue is longer. The estimate is the geometric mean of the
// ratios.
//
// Of unrelated runs the estimate is the ratio r of the two means: b − r·a is tested against zero with Welch's standard
// error √(s_b²/n_b + r²·s_a²/n_a) and Satterthwaite's degrees of freedom (Tamhane and Logan 2004); the 95 % interval
// holds the ratios that this test does not reject (Fieller 1954).

/// How sure a conclusion is, over all rows together.
const ALPHA: f64 = 0.05;

const MOST_RUNS: u32 = 1_000;

impl ComparedSamples {
    /// The estimate.
    fn ratio(&self) -> f64 {
        self.log_ratios.map_or(self.b.mean / self.a.mean, |ratios| ratios.mean.exp())
    }

    /// The statistic of a ratio above 0, positive where the estimate is above it, and its degrees of freedom.
    fn at(&self, ratio: f64) -> (f64, f64) {
        if let Some(ratios) = self.log_ratios {
            return ((ratios.mean - ratio.ln()) / ratios.error_of_logs(ratios.n), (ratios.n - 1) as f64);
        }
        let (of_a, of_b) = (ratio * ratio * self.a.of_mean(), self.b.of_mean());
        let dof = (of_a + of_b).powi(2)
            / (of_a.powi(2) / (self.a.n - 1) as f64 + of_b.powi(2) / (self.b.n - 1) as f64).max(f64::MIN_POSITIVE);
        ((self.b.mean - ratio * self.a.mean) / (of_a + of_b).sqrt(), dof)
    }

    /// 95 % interval of the ratio.
    fn interval(&self) -> Option<(f64, f64)> {
        let (_, dof) = self.at(self.ratio());
        let t = student::critical(ALPHA / 2.0, dof);
        if let Some(ratios) = self.log_ratios {
            let half = t * ratios.error_of_logs(ratios.n);
            return Some(((ratios.mean - half).exp(), (ratios.mean + half).exp()));
        }
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

    /// Runs on each side, at least.
    fn runs(&self) -> usize {
        self.log_ratios.map_or(self.a.n.min(self.b.n), |ratios| ratios.n)
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

    /// The smallest effect, a share of the first side, that this many runs on each side show at this level in nine of
    /// ten cases. Its standard error is known from the runs that are there alone, with few degrees of freedom: an
    /// effect is shown if effect / σ + Z is above the critical value, and σ² is the measured variance · dof / χ².
    fn smallest_seen(&self, runs: u32, level: f64) -> f64 {
        let (_, dof) = self.at(self.ratio());
        let later_dof = dof * f64::from(runs - 1) / (self.runs() - 1) as f64;
        let errors = student::upper_decile(student::critical(level / 2.0, later_dof), dof);
        if let Some(ratios) = self.log_ratios {
            return (errors * ratios.error_of_logs(runs as usize)).exp_m1();
        }
        let spread = |side: &RunValues| side.of_mean() * side.n as f64;
        let of_one = (spread(&self.b) + self.ratio().powi(2) * spread(&self.a)).sqrt() / self.a.mean;
        errors * of_one / f64::from(runs).sqrt()
    }

    /// Runs on each side with which a change of this share would be seen at this level, if these do not show it.
    fn runs_needed(&self, effect: f64, level: f64) -> Option<u32> {
        let runs: Vec<u32> = (self.runs() as u32..=MOST_RUNS).collect();
        // More runs never show less.
        runs.get(runs.partition_point(|runs| self.smallest_seen(*runs, level) > effect))
            .copied()
            .filter(|more| *more > runs[0])
    }
}

// One number of several runs: its mean, and how much it varies.

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
    pub fn new(values: &[f64]) -> Option<Self> {
        if values.is_empty() || values.iter().any(|value| !value.is_finite()) {
            return None;
        }
        let n = values.len();
        let mean = values.iter().sum::<f64>() / n as f64;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        Some(Self { n, mean, variance: if n > 1 { squares / (n - 1) as f64 } else { 0.0 } })
    }

    /// Standard error of the mean of this many logarithms, not below what two values can resolve.
    fn error_of_logs(&self, n: usize) -> f64 {
        (self.variance.max(2.0 * RESOLUTION * RESOLUTION) / n as f64).sqrt()
    }

    /// Variance of the mean, not below what the values can resolve.
    fn of_mean(&self) -> f64 {
        self.variance.max((RESOLUTION * self.mean).powi(2)) / self.n as f64
    }
}

#[cfg(test)]
mod tests {
    //! Values of R where it has the test, and what may be concluded from a few made-up runs.

    use rand::{RngExt, SeedableRng};
    use rand_pcg::Pcg64;

    use super::*;

    type Samples = fn(&[f64], &[f64]) -> Option<ComparedSamples>;

    fn one(a: &[f64], b: &[f64]) -> JudgedRow {
        compare_rows(&[ComparedSamples::unpaired(a, b).unwrap()], 1.0)[0]
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
        let judged = one(&noisy, &noisy.map(|value| value + 3.0));
        assert_eq!(judged.conclusion, Conclusion::CannotTell);
        assert!(judged.runs_needed.is_some_and(|runs| (25..250).contains(&runs)), "5 % in 8: {judged:?}");
    }

    /// What a first comparison names is found by a second one in nine of ten cases, on average over many first
    /// comparisons: the change that so many runs show, and 5 % by the number of runs that is printed.
    #[test]
    fn what_is_called_detectable_is_found_in_nine_of_ten_comparisons() {
        let mut random = Pcg64::seed_from_u64(7);
        let mut compare = |samples: Samples, runs: usize, change: f64| {
            let mut run = |mean: f64| {
                let normal = (0..12).map(|_| random.random::<f64>()).sum::<f64>() - 6.0;
                mean * (1.0 + 0.04 * normal)
            };
            let [a, b] = [100.0, 100.0 + change].map(|mean| (0..runs).map(|_| run(mean)).collect::<Vec<f64>>());
            compare_rows(&[samples(&a, &b).unwrap()], 1.0)[0]
        };
        for (samples, runs) in [ComparedSamples::unpaired as Samples, ComparedSamples::paired]
            .into_iter()
            .flat_map(|samples| [(samples, 3), (samples, 5)])
        {
            let mut shown = [(0, 0); 2];
            for _ in 0..150 {
                let first = compare(samples, runs, 0.0);
                let named = [
                    first.detectable_percent.map(|percent| (runs, percent)),
                    first.runs_needed.map(|runs| (runs as usize, 5.0)),
                ];
                for ((found, all), (runs, change)) in shown.iter_mut().zip(named).filter_map(|(c, n)| Some((c, n?))) {
                    *all += 1;
                    *found += u32::from(compare(samples, runs, change).conclusion == Conclusion::Different);
                }
            }
            for (found, all) in shown {
                let percent = 100 * found / all;
                assert!(all > 75 && (84..=98).contains(&percent), "{runs} runs: {percent} % of {all}");
            }
        }
    }

    #[test]
    fn the_interval_is_of_the_ratio() {
        let a = [100.0, 101.0, 99.0, 100.5, 99.5];
        let judged = one(&a, &a.map(|value| value * 1.10));
        let Percents { low, high } = judged.interval.unwrap();
        assert!(low < 10.0 && 10.0 < high && low > 8.0 && high < 12.0, "{low} … {high}");
    }

    /// No ratio is below 0: nothing is 126 % lower.
    #[test]
    fn the_interval_of_values_that_vary_much_ends_at_nothing_at_all() {
        let judged = one(&[1.0, 1.3, 0.9, 1.4, 1.2], &[0.1, 1.9, 0.05]);
        let Percents { low, high } = judged.interval.unwrap();
        assert!((low + 100.0).abs() < 1e-9 && high > 0.0, "{low} … {high}");
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
        assert_eq!(one(&[0.0, 0.0], &[1.0, 1.0]).conclusion, Conclusion::CannotTell);
    }

    #[test]
    fn more_rows_need_stronger_evidence() {
        let row = ComparedSamples::unpaired(&[10.0, 10.2, 9.8], &[10.8, 11.0, 10.6]).unwrap();
        let alone = compare_rows(std::slice::from_ref(&row), 1.0)[0];
        let among = compare_rows(&vec![row.clone(); 40], 1.0)[0];
        assert_eq!(alone.conclusion, Conclusion::Different);
        assert_eq!(among.conclusion, Conclusion::CannotTell);
        assert!(
            among.runs_needed > alone.runs_needed && among.detectable_percent > alone.detectable_percent,
            "{among:?}"
        );
        // In a family of 40 a row that weighs as much as all others together has half of the error probability.
        let mut weighted = vec![row; 40];
        weighted[0].weight = 39.0;
        let [first, second] = [0, 1].map(|place| compare_rows(&weighted, 1.0)[place]);
        assert_eq!((first.conclusion, second.conclusion), (Conclusion::Different, Conclusion::CannotTell));
    }

    fn pairs(a: &[f64], b: &[f64]) -> JudgedRow {
        compare_rows(&[ComparedSamples::paired(a, b).unwrap()], 1.0)[0]
    }

    /// Logarithms of the ratios are 0.03, 0.05, 0.04, 0.06, 0.02: mean 0.04, standard error √(0.00025/5) = 0.0070711,
    /// t = 5.65685 with 4 degrees of freedom; its quantile t(0.025) is 2.776445. P(|T| > 5.65685) is 0.004813 by the
    /// closed form of 4 degrees.
    #[test]
    fn pairs_are_judged_by_their_log_ratios() {
        let a = [100.0_f64, 180.0, 60.0, 130.0, 90.0];
        let logs = [0.03_f64, 0.05, 0.04, 0.06, 0.02];
        let b: Vec<f64> = a.iter().zip(logs).map(|(value, log)| value * log.exp()).collect();
        let judged = pairs(&a, &b);
        let t: f64 = 5.656_854;
        let closed = {
            let s = t / (4.0 + t * t).sqrt();
            1.0 - 1.5 * (s - s.powi(3) / 3.0)
        };
        assert!((judged.p.unwrap() - closed).abs() < 1e-6, "{judged:?} {closed}");
        let Percents { low, high } = judged.interval.unwrap();
        let half: f64 = 2.776_445 * 0.007_071_068;
        let expected = [(0.04 - half).exp_m1() * 100.0, (0.04 + half).exp_m1() * 100.0];
        assert!((low - expected[0]).abs() < 1e-3 && (high - expected[1]).abs() < 1e-3, "{low} … {high}, {expected:?}");
        assert_eq!(judged.conclusion, Conclusion::Different);
        // Unpaired, runs that differ by a factor of three hide it.
        assert_eq!(one(&a, &b).conclusion, Conclusion::CannotTell);
        let sides = ComparedSamples::paired(&a, &b).unwrap();
        assert!((sides.percent().unwrap() - 0.04_f64.exp_m1() * 100.0).abs() < 1e-9);
        assert!(is_beyond(&sides, 2.0, true) && !is_beyond(&sides, 4.0, true) && !is_beyond(&sides, -2.0, false));
        let bounds = [true, false].map(|is_upper| beyond_bound(&sides, is_upper).unwrap());
        for (bound, is_upper, outside) in [(bounds[0], true, 0.01), (bounds[1], false, -0.01)] {
            assert!(
                is_beyond(&sides, bound - outside, is_upper) && !is_beyond(&sides, bound + outside, is_upper),
                "{bounds:?}"
            );
        }
        assert!(
            beyond_bound(&ComparedSamples::unpaired(&[1.0], &[2.0]).unwrap(), true).is_none(),
            "one run shows nothing"
        );
        assert!(is_beyond(&sides, -150.0, true) && !is_beyond(&sides, -150.0, false), "no ratio is below 0");
    }

    #[test]
    fn pairs_can_be_equivalent_and_say_how_many_would_tell() {
        let a = [100.0, 180.0, 60.0, 130.0, 90.0];
        assert_eq!(pairs(&a, &a.map(|value| value * 1.001)).conclusion, Conclusion::Equivalent);
        let b = [104.0, 182.0, 60.0, 140.0, 91.0];
        let judged = [pairs(&a, &b), one(&a, &b)];
        assert!(judged.iter().all(|row| row.conclusion == Conclusion::CannotTell), "{judged:?}");
        let [paired, unpaired] = judged.map(|row| row.runs_needed);
        assert!(paired > Some(5) && unpaired.is_none_or(|runs| paired < Some(runs / 4)), "{paired:?} {unpaired:?}");
        // As many runs of the same scatter show it, and one less does not.
        let test = ComparedSamples::paired(&a, &b).unwrap();
        let seen = |runs: u32| test.smallest_seen(runs, ALPHA) <= COMMON_CHANGE;
        assert!(seen(paired.unwrap()) && !seen(paired.unwrap() - 1));
    }

    #[test]
    fn pairs_with_a_zero_are_judged_unpaired() {
        let sides = ComparedSamples::paired(&[0.0, 1.0, 2.0], &[1.0, 1.0, 2.0]).unwrap();
        assert!(!sides.is_paired());
        assert_eq!(pairs(&[0.0, 0.0], &[0.0, 0.0]).conclusion, Conclusion::Equivalent);
        assert_eq!(pairs(&[5.0], &[6.0]).conclusion, Conclusion::OneRun);
    }
}
