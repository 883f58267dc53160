//! Numbers for a table or a line of text.

use super::grouped;

/// Three digits that matter, or all of a larger whole number: `1,234`, `12.3`, `0.012`. At most three behind the point.
pub fn three_digits(value: f64) -> String {
    let decimals = match value.abs() {
        // The bounds are where a number with the decimals of its row is rounded up to one digit more.
        size if size >= 99.95 => 0,
        size if size >= 9.995 => 1,
        size if size >= 0.099_5 || size == 0.0 => 2,
        _ => 3,
    };
    grouped(value, decimals)
}

#[cfg(test)]
mod tests {
    use super::three_digits;

    #[test]
    fn three_digits_are_left_and_thousands_are_apart() {
        let texts = [0.0, 0.012_34, 0.099_6, 0.123, 9.84, 9.996, 99.94, 99.96, 212.4, 1_204.4, 1_234_567.0];
        let short = ["0.00", "0.012", "0.10", "0.12", "9.84", "10.0", "99.9", "100", "212", "1,204", "1,234,567"];
        assert_eq!(texts.map(three_digits), short);
        assert_eq!([-1_071.0, -9.84, -0.001].map(three_digits), ["-1,071", "-9.84", "-0.001"]);
    }
}
