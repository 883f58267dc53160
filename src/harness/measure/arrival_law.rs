//! Whether real arrivals follow the law that they were drawn from.

use crate::LoadLevel;
use base::spec::Arrivals;

const NS: f64 = 1e9;

/// The distance between the observed gaps of `count` arrivals (sorted) and the distribution they were drawn from, with
/// the critical distance of the test. `None` without a distribution: equal gaps, traces, fewer than two arrivals.
pub(crate) fn distance(
    rate: &LoadLevel,
    arrivals: Arrivals,
    at_ns: impl Iterator<Item = u64>,
    count: usize,
) -> Option<(f64, f64)> {
    let shape = match arrivals {
        Arrivals::Poisson | Arrivals::PoissonScaled => 1.0,
        Arrivals::Gamma { cv } => 1.0 / (cv * cv),
        Arrivals::Constant => return None,
    };
    let mut before: Option<f64> = None;
    // To grow a vector of millions copies it, and holds both.
    let mut gaps: Vec<f64> = Vec::with_capacity(count);
    gaps.extend(
        at_ns
            .map(|at| rate.area(at as f64 / NS))
            .filter_map(|at| before.replace(at).map(|before| (at - before).max(0.0))),
    );
    let critical = ks_critical(gaps.len());
    // Stamps are whole ns, and bursts have gaps that are shorter.
    let from = gaps.iter().sum::<f64>() / gaps.len() as f64 * 1e-4;
    Some((ks_distance(gaps, from, |gap| gamma_law(shape, gap * shape))?, critical))
}

/// Largest distance between a sample and a law, given as its cumulative function (Kolmogorov and Smirnov), from the
/// value `from` on: below it the sample was rounded. None for no sample.
fn ks_distance(mut sample: Vec<f64>, from: f64, law: impl Fn(f64) -> f64) -> Option<f64> {
    sample.sort_unstable_by(f64::total_cmp);
    let n = sample.len() as f64;
    let distances = sample.iter().enumerate().filter(|(_, value)| **value >= from).map(|(rank, value)| {
        let law = law(*value);
        (law - rank as f64 / n).abs().max((law - (rank as f64 + 1.0) / n).abs())
    });
    distances.max_by(f64::total_cmp)
}

/// Critical distance at 0.1 %: a correct process fails one run in a thousand.
fn ks_critical(gaps: usize) -> f64 {
    1.949 / (gaps as f64).sqrt()
}

/// The gamma law of this shape and scale 1, cumulative: the regularised lower incomplete gamma function. Shape 1 is
/// exponential.
fn gamma_law(shape: f64, x: f64) -> f64 {
    const TERMS: usize = 10_000;
    const ENOUGH: f64 = 1e-12;
    if x <= 0.0 {
        return 0.0;
    }
    let front = (shape * x.ln() - x - libm::lgamma(shape)).exp();
    if x < shape + 1.0 {
        let mut term = 1.0 / shape;
        let mut sum = term;
        for step in 1..TERMS {
            term *= x / (shape + step as f64);
            sum += term;
            if term < sum * ENOUGH {
                break;
            }
        }
        return front * sum;
    }
    // Beyond its middle the continued fraction of the other tail is the one that converges (Lentz).
    let mut denominator = x + 1.0 - shape;
    let mut upper = f64::MAX;
    let mut lower = 1.0 / denominator;
    let mut fraction = lower;
    for step in 1..TERMS {
        let factor = step as f64 * (shape - step as f64);
        denominator += 2.0;
        lower = 1.0 / (factor * lower + denominator);
        upper = denominator + factor / upper;
        fraction *= upper * lower;
        if (upper * lower - 1.0).abs() < ENOUGH {
            break;
        }
    }
    1.0 - front * fraction
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_gaps_are_not_exponential() {
        let distance = ks_distance(vec![1.0; 999], 0.0, |gap| gamma_law(1.0, gap)).unwrap();
        assert!((distance - 0.632).abs() < 0.001 && distance > ks_critical(999));
        assert_eq!(ks_distance(Vec::new(), 0.0, |gap| gap), None);
    }

    #[test]
    fn the_gamma_law_agrees_with_tables() {
        // P(1, x) = 1 − e⁻ˣ; P(½, x) = erf(√x); P(3, x) by its finite sum; chi-squared with 4 degrees at 9.488 is 95 %.
        for x in [0.01, 0.7, 1.9, 2.1, 6.0, 40.0] {
            assert!((gamma_law(1.0, x) + (-x).exp_m1()).abs() < 1e-10, "{x}");
            assert!((gamma_law(0.5, x) - libm::erf(x.sqrt())).abs() < 1e-10, "{x}");
            assert!((gamma_law(3.0, x) - (1.0 - (-x).exp() * (1.0 + x + x * x / 2.0))).abs() < 1e-10, "{x}");
        }
        assert!((gamma_law(2.0, 9.488 / 2.0) - 0.95).abs() < 1e-4);
    }
}
