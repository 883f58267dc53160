//! Two numbers of which a text says that they differ.

const MOST_DECIMALS: usize = 9;

/// Both with the fewest decimals, `least` or more, that do not print them alike.
pub fn distinct_decimals(one: f64, other: f64, least: usize) -> (String, String) {
    let at = |decimals: usize| (format!("{one:.decimals$}"), format!("{other:.decimals$}"));
    let found = (least..MOST_DECIMALS).map(at).find(|(one, other)| one != other);
    found.unwrap_or_else(|| at(MOST_DECIMALS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_differ_are_printed_differently() {
        let texts = |one, other| {
            let (one, other) = distinct_decimals(one, other, 1);
            format!("{one} {other}")
        };
        assert_eq!(texts(21.24, 21.2), "21.24 21.20");
        assert_eq!(texts(30.0, 20.0), "30.0 20.0");
        assert_eq!(texts(1.0, 1.0), "1.000000000 1.000000000");
    }
}
