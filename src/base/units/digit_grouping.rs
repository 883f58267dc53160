//! Large numbers with their thousands apart.

/// `73,728`; `-1,234.50` with two decimals.
pub fn grouped(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    let (sign, digits) = text.strip_prefix('-').map_or(("", text.as_str()), |digits| ("-", digits));
    let (whole, fraction) = digits.split_at(digits.find('.').unwrap_or(digits.len()));
    let mut grouped = String::from(sign);
    for (place, digit) in whole.chars().enumerate() {
        if place > 0 && (whole.len() - place).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped + fraction
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_apart() {
        assert_eq!(grouped(1234.5, 2), "1,234.50");
        assert_eq!(grouped(-123_456.0, 0), "-123,456");
        assert_eq!(grouped(999.0, 1), "999.0");
        assert_eq!(grouped(1_000_000.4, 0), "1,000,000");
    }
}
