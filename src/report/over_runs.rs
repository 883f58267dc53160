//! A mean over runs with its interval, as tables have it.

/// `722 ±31`, half of the interval; `68.3 (0 … 445)` where it is not of equal length on both sides, because it ends at 0.
pub(crate) fn mean_text(value: f64, (low, high): (f64, f64), number: impl Fn(f64) -> String) -> String {
    let (below, above) = (value - low, high - value);
    if (above - below).abs() > 1e-6 * above.abs() {
        return format!("{} ({} … {})", number(value), number(low), number(high));
    }
    format!("{} ±{}", number(value), number(above))
}

#[cfg(test)]
mod tests {
    use super::mean_text;
    use base::units::three_digits;

    #[test]
    fn an_interval_that_was_cut_has_its_ends() {
        assert_eq!(mean_text(722.0, (691.0, 753.0), three_digits), "722 ±31.0");
        assert_eq!(mean_text(68.3, (0.0, 444.9), three_digits), "68.3 (0.00 … 445)");
        assert_eq!(mean_text(5.0, (5.0, 5.0), three_digits), "5.00 ±0.00");
    }
}
