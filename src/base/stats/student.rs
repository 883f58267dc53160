//! Student's t and the binomial distribution, from the regularised incomplete beta function; Holm's correction of
//! several such tests.

/// P(T > t) for `dof` degrees of freedom, which need not be whole (Welch).
pub(super) fn upper_tail(t: f64, dof: f64) -> f64 {
    let half = 0.5 * incomplete_beta(0.5 * dof, 0.5, dof / (dof + t * t));
    if t >= 0.0 { half } else { 1.0 - half }
}

/// The t with P(T > t) = `tail`, for 0 < tail < 0.5.
pub(super) fn critical(tail: f64, dof: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    while upper_tail(high, dof) > tail && high < 1e12 {
        high *= 2.0;
    }
    // Sixty halvings reach the precision of the number itself.
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        if upper_tail(middle, dof) > tail {
            low = middle;
        } else {
            high = middle;
        }
    }
    0.5 * (low + high)
}

/// The value that Student's noncentral t is below in nine of ten cases: (Z + `shift`) / √(χ²/`dof`). By the moments of
/// the root, as if it were normal (Johnson and Welch 1940): up to 4 % too large from 3 degrees of freedom on, 12 % with
/// 2, and far too large with 1, where no such value is of use.
pub(super) fn upper_decile(shift: f64, dof: f64) -> f64 {
    const Z: f64 = 1.281_552;
    let mean = (libm::lgamma(0.5 * (dof + 1.0)) - libm::lgamma(0.5 * dof)).exp() / (0.5 * dof).sqrt();
    let variance = 1.0 - mean * mean;
    let root = (mean * mean + variance * (shift * shift - Z * Z)).sqrt();
    (shift * mean + Z * root) / (mean * mean - Z * Z * variance)
}

/// P(X ≥ `count`) of `n` independent cases, each with this probability.
pub fn binomial_tail(count: u64, n: u64, probability: f64) -> f64 {
    match count {
        0 => 1.0,
        count if count > n => 0.0,
        count => incomplete_beta(count as f64, (n - count) as f64 + 1.0, probability),
    }
}

/// I_x(a, b), by the continued fraction of DLMF 8.17.22 on the side where it converges quickly.
fn incomplete_beta(a: f64, b: f64, x: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if x >= 1.0 {
        return 1.0;
    }
    let ln_beta = libm::lgamma(a) + libm::lgamma(b) - libm::lgamma(a + b);
    let front = (a * x.ln() + b * (-x).ln_1p() - ln_beta).exp();
    if x < (a + 1.0) / (a + b + 2.0) {
        front * fraction(a, b, x) / a
    } else {
        1.0 - front * fraction(b, a, 1.0 - x) / b
    }
}

/// Lentz's method.
fn fraction(a: f64, b: f64, x: f64) -> f64 {
    const TINY: f64 = 1e-300;
    const MOST_STEPS: u32 = 10_000;
    let away_from_zero = |value: f64| if value.abs() < TINY { TINY } else { value };
    let mut numerator = 1.0;
    let mut denominator = 1.0 / away_from_zero(1.0 - (a + b) * x / (a + 1.0));
    let mut result = denominator;
    for step in (1..=MOST_STEPS).map(f64::from) {
        let even = step * (b - step) * x / ((a + 2.0 * step - 1.0) * (a + 2.0 * step));
        denominator = 1.0 / away_from_zero(1.0 + even * denominator);
        numerator = away_from_zero(1.0 + even / numerator);
        result *= denominator * numerator;
        let odd = -(a + step) * (a + b + step) * x / ((a + 2.0 * step) * (a + 2.0 * step + 1.0));
        denominator = 1.0 / away_from_zero(1.0 + odd * denominator);
        numerator = away_from_zero(1.0 + odd / numerator);
        result *= denominator * numerator;
        if (denominator * numerator - 1.0).abs() < 1e-15 {
            break;
        }
    }
    result
}

// Holm's correction for several tests at once, with weights: S. Holm, "A simple sequentially rejective multiple test
// procedure", Scandinavian Journal of Statistics 6 (1979). No assumption on how the tests depend on each other; the
// weights must not depend on the values.

/// Adjusted p-values in the order given. Rejecting what is at most α makes a false rejection anywhere at most α likely.
/// A test gets its weight's share of α; what is rejected leaves its share to the others.
pub(super) fn holm_adjusted(p: &[f64], weights: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|one, other| (p[*one] / weights[*one]).total_cmp(&(p[*other] / weights[*other])));
    let mut adjusted = vec![1.0; p.len()];
    let (mut largest, mut remaining) = (0.0_f64, weights.iter().sum::<f64>());
    for index in order {
        largest = largest.max(remaining * p[index] / weights[index]).min(1.0);
        adjusted[index] = largest;
        remaining -= weights[index];
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;

    /// NIST/SEMATECH e-Handbook of Statistical Methods, 1.3.6.7.2: upper critical values.
    #[test]
    fn critical_values_are_those_of_the_published_table() {
        for (dof, tail, published) in [
            (1.0, 0.025, 12.706),
            (2.0, 0.05, 2.920),
            (4.0, 0.025, 2.776),
            (8.0, 0.001, 4.501),
            (30.0, 0.10, 1.310),
            (100.0, 0.005, 2.626),
        ] {
            let value = critical(tail, dof);
            assert!((value - published).abs() < 6e-4, "t({tail}, {dof}) = {value}, published {published}");
        }
    }

    /// `qt(0.9, dof, ncp)` of R; and with many degrees the quantile of the normal law.
    #[test]
    fn deciles_of_the_noncentral_law_are_slightly_above_those_of_r() {
        for (dof, shift, exact) in [(2.0, 4.302_65, 13.537), (4.0, 2.776_45, 5.973), (8.0, 2.751_5, 4.884)] {
            let value = upper_decile(shift, dof) / exact;
            assert!((1.0..1.13).contains(&value), "{dof}: {value}");
        }
        assert!((upper_decile(2.0, 1e6) - 3.281_552).abs() < 1e-4);
    }

    /// With one degree of freedom it is Cauchy's, with two it is ½ − t / (2 √(2 + t²)).
    #[test]
    fn tails_agree_with_closed_forms() {
        for t in [-3.0_f64, -0.2, 0.0, 0.5, 1.0, 7.0, 900.0] {
            let cauchy = 0.5 - t.atan() / std::f64::consts::PI;
            assert!((upper_tail(t, 1.0) - cauchy).abs() < 1e-12, "{t}");
            let two = 0.5 - t / (2.0 * (2.0 + t * t).sqrt());
            assert!((upper_tail(t, 2.0) - two).abs() < 1e-12, "{t}");
        }
    }

    #[test]
    fn the_binomial_tail_is_the_sum_of_its_cases() {
        let second = 1.0 - 0.99_f64.powi(15) - 15.0 * 0.01 * 0.99_f64.powi(14);
        for (count, n, expected) in [(0, 9, 1.0), (10, 9, 0.0), (1, 15, 1.0 - 0.99_f64.powi(15)), (2, 15, second)] {
            assert!((binomial_tail(count, n, 0.01) - expected).abs() < 1e-12, "{count} of {n}");
        }
        assert!((binomial_tail(9, 9, 0.5) - 0.5_f64.powi(9)).abs() < 1e-12);
    }

    /// `p.adjust(c(0.01, 0.04, 0.03, 0.005), "holm")` of R: 0.03 0.06 0.06 0.02.
    #[test]
    fn values_are_those_of_r() {
        let p_values = holm_adjusted(&[0.01, 0.04, 0.03, 0.005], &[1.0; 4]);
        for (value, expected) in p_values.iter().zip([0.03, 0.06, 0.06, 0.02]) {
            assert!((value - expected).abs() < 1e-12, "{value} {expected}");
        }
        assert_eq!(holm_adjusted(&[0.6, 0.9], &[1.0; 2]), [1.0, 1.0]);
        assert!(holm_adjusted(&[], &[]).is_empty());
        // 0.03 · 4 / 3 comes before 0.02 · 4 / 1, which then has all that remains, and is not below its predecessor.
        let weighted = holm_adjusted(&[0.02, 0.03], &[1.0, 3.0]);
        assert!(weighted.iter().all(|p| (p - 0.04).abs() < 1e-12), "{weighted:?}");
    }
}
