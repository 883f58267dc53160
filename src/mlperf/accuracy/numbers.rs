//! Means, rounding and formatting of numbers as in Python, NumPy and pandas: `accuracy.txt` matches theirs to the last digit.

/// NumPy's sum: pairwise, in blocks of 128 with eight running sums each.
fn sum(values: &[f64]) -> f64 {
    match values.len() {
        0..8 => values.iter().fold(-0.0, |sum, value| sum + value),
        8..=128 => {
            let (eights, rest) = values.as_chunks::<8>();
            let mut sums = [-0.0; 8];
            sums.copy_from_slice(&eights[0]);
            for eight in &eights[1..] {
                for (sum, value) in sums.iter_mut().zip(eight) {
                    *sum += value;
                }
            }
            let all = ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
            rest.iter().fold(all, |sum, value| sum + value)
        }
        length => {
            let half = length / 2 - (length / 2) % 8;
            sum(&values[..half]) + sum(&values[half..])
        }
    }
}

/// `numpy.mean`. None: of nothing.
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| (0.0 + sum(values)) / values.len() as f64)
}

/// pandas' mean of a column in which some rows have no value: those are summed as zero and not counted.
pub fn mean_of_some(values: &[Option<f64>]) -> Option<f64> {
    let count = values.iter().flatten().count();
    let filled: Vec<f64> = values.iter().map(|value| value.unwrap_or(0.0)).collect();
    (count > 0).then(|| (0.0 + sum(&filled)) / count as f64)
}

/// `round` of a NumPy number: scaled, rounded half to even, scaled back.
pub fn numpy_round(value: f64, digits: i32) -> f64 {
    let scale = 10f64.powi(digits);
    (value * scale).round_ties_even() / scale
}

/// `round` of a Python number: the nearest decimal.
pub fn python_round(value: f64, digits: usize) -> f64 {
    format!("{value:.digits$}").parse().unwrap_or(value)
}

/// `repr` of a Python number.
pub fn repr(value: f64) -> String {
    if value != 0.0 && (value.abs() < 1e-4 || value.abs() >= 1e16) {
        let text = format!("{value:e}");
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |exponent| ('-', exponent));
        return format!("{digits}e{sign}{exponent:0>2}");
    }
    format!("{value:?}")
}

#[cfg(test)]
mod tests {
    use super::{mean, mean_of_some, numpy_round, python_round, repr};

    #[test]
    fn numbers_look_as_in_python() {
        for (value, text) in [
            (44.0, "44.0"),
            (44.4312, "44.4312"),
            (0.0, "0.0"),
            (1e-5, "1e-05"),
            (0.0001, "0.0001"),
            (90.086_985_440_105_89, "90.08698544010589"),
            (1e16, "1e+16"),
        ] {
            assert_eq!(repr(value), text);
        }
        assert_eq!((python_round(2.675, 2), python_round(0.25, 1)), (2.67, 0.2));
        assert_eq!(repr(numpy_round(2.675, 2)), "2.68");
        assert_eq!((mean(&[]), mean_of_some(&[None])), (None, None));
        assert_eq!(mean_of_some(&[Some(1.0), None, Some(2.0)]), Some(1.5));
    }
}
