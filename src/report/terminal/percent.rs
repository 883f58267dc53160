//! Differences in percent, as all tables print them.

/// With its sign and one digit. What rounds to nothing has no sign: `-0.0 %` reads like a difference.
pub fn signed_percent(percent: f64) -> String {
    let rounded = (percent * 10.0).round() / 10.0;
    if rounded == 0.0 { "0.0".to_owned() } else { format!("{rounded:+.1}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_has_no_sign() {
        let shown = [-0.04, 0.04, -0.0, 0.05, -0.06, 12.34].map(signed_percent);
        assert_eq!(shown, ["0.0", "0.0", "0.0", "+0.1", "-0.1", "+12.3"]);
    }
}
