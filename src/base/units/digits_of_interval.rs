//! A number with no more digits than its interval supports.

/// Rounded to the power of ten that is at most a tenth of the interval's width: what is finer is noise.
pub fn digits_of_interval(number: f64, low: f64, high: f64) -> f64 {
    let width = high - low;
    if !width.is_finite() || width <= 0.0 {
        return number;
    }
    // A division by the inverse leaves 0.0412, and a product with 0.0001 does not.
    let scale = 10f64.powi(-(width / 10.0).log10().floor() as i32);
    (number * scale).round() / scale
}

#[cfg(test)]
mod tests {
    use super::digits_of_interval;

    #[test]
    fn a_wide_interval_leaves_few_digits() {
        let shown = |number, low, high| digits_of_interval(number, low, high).to_string();
        assert_eq!(shown(132.7, 102.1, 172.4), "133");
        assert_eq!(shown(1_327.4, 1_021.0, 1_724.0), "1330");
        assert_eq!(shown(0.0412, 0.038, 0.045), "0.0412");
        assert_eq!(shown(115.24, 115.1, 115.4), "115.24");
        assert_eq!(shown(115.24, 115.24, 115.24), "115.24");
    }
}
