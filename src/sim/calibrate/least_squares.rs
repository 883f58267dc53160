//! Non-negative least squares for a handful of columns.

/// The coefficients ≥ 0 that make Σ weight·(row·x − value)² least, by coordinate descent on the normal equations. The same
/// input gives the same bits.
pub(super) fn non_negative<const N: usize>(rows: &[([f64; N], f64, f64)]) -> [f64; N] {
    let mut scale = [0.0_f64; N];
    for (row, ..) in rows {
        for (most, value) in scale.iter_mut().zip(row) {
            *most = most.max(value.abs());
        }
    }
    for most in scale.iter_mut().filter(|most| **most == 0.0) {
        *most = 1.0;
    }
    let (mut products, mut targets) = ([[0.0; N]; N], [0.0; N]);
    for (row, value, weight) in rows {
        for i in 0..N {
            let left = row[i] / scale[i] * weight;
            targets[i] += left * value;
            for j in 0..N {
                products[i][j] += left * row[j] / scale[j];
            }
        }
    }
    let mut found = [0.0_f64; N];
    for _ in 0..MOST_ROUNDS {
        let mut change = 0.0_f64;
        for i in 0..N {
            if products[i][i] == 0.0 {
                continue;
            }
            let sum: f64 = (0..N).map(|j| products[i][j] * found[j]).sum();
            let next = (found[i] - (sum - targets[i]) / products[i][i]).max(0.0);
            change = change.max((next - found[i]).abs());
            found[i] = next;
        }
        if change < 1e-13 {
            break;
        }
    }
    for (value, scale) in found.iter_mut().zip(scale) {
        *value /= scale;
    }
    found
}

const MOST_ROUNDS: usize = 20_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_finds_what_made_the_values_and_never_goes_below_zero() {
        let rows: Vec<([f64; 3], f64, f64)> = (0..40)
            .map(|i| {
                let x = [1.0, f64::from(i % 7), f64::from(i * i % 11)];
                (x, 3.0 * x[0] + 0.5 * x[1] - 0.01 * x[2], 1.0)
            })
            .collect();
        let found = non_negative(&rows);
        assert!((found[0] - 3.0).abs() < 0.1 && (found[1] - 0.5).abs() < 0.02, "{found:?}");
        assert_eq!(found[2].to_bits(), 0, "{found:?}");
    }
}
