//! Rates that can be read, and typed again.

/// To four digits. Of a number other than 0.
pub fn four_digits(number: f64) -> f64 {
    let scale = four_digit_scale(number);
    (number * scale).round() / scale
}

/// Times this, a number has four digits before the point.
pub fn four_digit_scale(number: f64) -> f64 {
    10f64.powi(3 - number.abs().log10().floor() as i32)
}

#[cfg(test)]
mod tests {
    use super::four_digits;

    #[test]
    fn four_digits_are_left_of_any_number() {
        let numbers = [123_456.0, 1.234_56, -0.001_234_56, 7.0];
        assert_eq!(numbers.map(|number| four_digits(number).to_string()), ["123500", "1.235", "-0.001235", "7"]);
    }
}
