//! Values of R where it has the test, and what may be concluded from a few made-up runs.

use super::*;

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
    let Conclusion::CannotTell { runs: Some(runs) } = one(&noisy, &noisy.map(|value| value + 3.0)).conclusion else {
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
    assert_eq!(one(&[0.0, 0.0], &[1.0, 1.0]).conclusion, Conclusion::CannotTell { runs: None });
}

#[test]
fn more_rows_need_stronger_evidence() {
    let row = ComparedSamples::unpaired(&[10.0, 10.2, 9.8], &[10.8, 11.0, 10.6]).unwrap();
    let alone = compare_rows(std::slice::from_ref(&row), 1.0)[0];
    let among = compare_rows(&vec![row; 40], 1.0)[0];
    assert_eq!(alone.conclusion, Conclusion::Different);
    assert!(matches!(among.conclusion, Conclusion::CannotTell { runs: Some(4..) }), "{among:?}");
}

fn pairs(a: &[f64], b: &[f64]) -> JudgedRow {
    compare_rows(&[ComparedSamples::paired(a, b).unwrap()], 1.0)[0]
}

/// Logarithms of the ratios are 0.03, 0.05, 0.04, 0.06, 0.02: mean 0.04, standard error √(0.00025/5) = 0.0070711, t =
/// 5.65685 with 4 degrees of freedom; its quantile t(0.025) is 2.776445. P(|T| > 5.65685) is 0.004813 by the closed
/// form of 4 degrees.
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
    assert!(matches!(one(&a, &b).conclusion, Conclusion::CannotTell { .. }));
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
    assert!(beyond_bound(&ComparedSamples::unpaired(&[1.0], &[2.0]).unwrap(), true).is_none(), "one run shows nothing");
    assert!(is_beyond(&sides, -150.0, true) && !is_beyond(&sides, -150.0, false), "no ratio is below 0");
}

#[test]
fn pairs_can_be_equivalent_and_say_how_many_would_tell() {
    let a = [100.0, 180.0, 60.0, 130.0, 90.0];
    assert_eq!(pairs(&a, &a.map(|value| value * 1.001)).conclusion, Conclusion::Equivalent);
    let b = [104.0, 182.0, 60.0, 140.0, 91.0];
    let Conclusion::CannotTell { runs: Some(paired) } = pairs(&a, &b).conclusion else { panic!("neither is shown") };
    let Conclusion::CannotTell { runs } = one(&a, &b).conclusion else { panic!("neither is shown") };
    assert!(paired > 5 && runs.is_none_or(|runs| paired < runs / 4), "{paired} {runs:?}");
}

#[test]
fn pairs_with_a_zero_are_judged_unpaired() {
    let sides = ComparedSamples::paired(&[0.0, 1.0, 2.0], &[1.0, 1.0, 2.0]).unwrap();
    assert!(!sides.is_paired());
    assert_eq!(pairs(&[0.0, 0.0], &[0.0, 0.0]).conclusion, Conclusion::Equivalent);
    assert_eq!(pairs(&[5.0], &[6.0]).conclusion, Conclusion::OneRun);
}
