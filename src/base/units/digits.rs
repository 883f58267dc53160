//! Numbers as text: with thousands apart, with as many digits as they deserve, with the noun that they count; and sizes
//! in bytes, with the most that there can be.

use std::fmt::Display;
use std::time::Duration;

// Large numbers with their thousands apart.

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

// A number with no more digits than its interval supports.

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

// Two numbers of which a text says that they differ.

const MOST_DECIMALS: usize = 9;

/// Both with the fewest decimals, `least` or more, that do not print them alike.
pub fn distinct_decimals(one: f64, other: f64, least: usize) -> (String, String) {
    let at = |decimals: usize| (format!("{one:.decimals$}"), format!("{other:.decimals$}"));
    let distinct = (least..MOST_DECIMALS).map(at).find(|(one, other)| one != other);
    distinct.unwrap_or_else(|| at(MOST_DECIMALS))
}

// Rates that can be read, and typed again.

/// To four digits. Of a number other than 0.
pub fn four_digits(number: f64) -> f64 {
    let scale = four_digit_scale(number);
    (number * scale).round() / scale
}

/// To the power of ten that is at most half of the distance to the next such number: numbers so far apart stay apart.
pub fn rounded_within(number: f64, distance: f64) -> f64 {
    let unit = 10f64.powf((distance / 2.0).log10().floor());
    four_digits((number / unit).round() * unit)
}

/// Times this, a number has four digits before the point.
pub fn four_digit_scale(number: f64) -> f64 {
    10f64.powi(3 - number.abs().log10().floor() as i32)
}

// Numbers for a table or a line of text.

/// Three digits that matter, or all of a larger whole number: `1,234`, `12.3`, `0.012`. At most three decimals.
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

/// A number whose small changes matter: `5644.85`, `0.1565`; a very large one has no decimals.
pub fn two_decimals(value: f64) -> String {
    match value.abs() {
        size if size >= 1e6 => format!("{value:.0}"),
        size if size >= 1.0 || size == 0.0 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}

// A number with the noun that it counts.

/// `1 task`, `3 tasks`.
#[expect(clippy::needless_pass_by_value, reason = "numbers are copied")]
pub fn counted<N: Display + PartialEq + From<u8>>(n: N, noun: &str) -> String {
    let plural = if n == N::from(1) { "" } else { "s" };
    format!("{n} {noun}{plural}")
}

/// Of files together: more than any file system holds. Sums of sizes that others state stay far below what a number can
/// hold.
pub const MOST_FILES_BYTES: u64 = 1 << 60;

/// The first item with which those up to it have more than [`MOST_FILES_BYTES`] together.
pub fn first_beyond_limit<T>(items: impl IntoIterator<Item = T>, size: impl Fn(&T) -> u64) -> Option<T> {
    let mut bytes = 0_u64;
    items.into_iter().find(|item| {
        bytes = bytes.saturating_add(size(item));
        bytes > MOST_FILES_BYTES
    })
}

/// `512 B`, `39.8 GB`, `141 GB`: decimal units, as disks and data sheets have them.
pub fn size(bytes: u64) -> String {
    if bytes < 1000 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1000.0;
    for unit in ["kB", "MB", "GB"] {
        // What rounds to 1,000 is one of the next unit.
        if value < 999.5 {
            return if value < 99.95 { format!("{value:.1} {unit}") } else { format!("{value:.0} {unit}") };
        }
        value /= 1000.0;
    }
    format!("{value:.1} TB")
}

// Durations as people write them: `90s`, `30m`, `2h`, `1h30m`, `250ms`.

/// The text is not a duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a duration")]
pub struct DurationError(pub String);

/// Reads a duration. Units: `ms, s, m, h, d`, largest first, each at most once; a fraction is allowed (`1.5h`).
/// The error is a fragment that fits after the text in a message.
pub fn parse_duration(text: &str) -> Result<Duration, DurationError> {
    const UNITS: [(&str, f64); 5] = [("d", 86_400.0), ("h", 3_600.0), ("m", 60.0), ("s", 1.0), ("ms", 0.001)];
    let wrong = || DurationError(text.to_owned());
    let mut rest = text.trim();
    let mut seconds = 0.0;
    let mut next = 0;
    if rest.is_empty() {
        return Err(wrong());
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(wrong)?;
        let (number, tail) = rest.split_at(digits);
        let letters = tail.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(letters);
        let number: f64 = number.parse().map_err(|_| wrong())?;
        let place =
            UNITS.iter().position(|(name, _)| *name == unit).filter(|place| *place >= next).ok_or_else(wrong)?;
        next = place + 1;
        seconds += number * UNITS.get(place).map_or(0.0, |(_, factor)| *factor);
        rest = tail;
    }
    Duration::try_from_secs_f64(seconds).map_err(|_| wrong())
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

    #[test]
    fn a_wide_interval_leaves_few_digits() {
        let shown = |number, low, high| digits_of_interval(number, low, high).to_string();
        assert_eq!(shown(132.7, 102.1, 172.4), "133");
        assert_eq!(shown(1_327.4, 1_021.0, 1_724.0), "1330");
        assert_eq!(shown(0.0412, 0.038, 0.045), "0.0412");
        assert_eq!(shown(115.24, 115.1, 115.4), "115.24");
        assert_eq!(shown(115.24, 115.24, 115.24), "115.24");
    }

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

    #[test]
    fn four_digits_are_left_of_any_number() {
        let numbers = [123_456.0, 1.234_56, -0.001_234_56, 7.0];
        assert_eq!(numbers.map(|number| four_digits(number).to_string()), ["123500", "1.235", "-0.001235", "7"]);
    }

    #[test]
    fn levels_are_as_round_as_their_distance_allows() {
        let numbers = [(26.37, 12.0), (26.37, 25.0), (3.817, 0.3), (2_049.0, 2_048.0), (0.0317, 0.004)];
        let rounded = numbers.map(|(number, distance)| rounded_within(number, distance).to_string());
        assert_eq!(rounded, ["26", "30", "3.8", "2000", "0.032"]);
    }

    #[test]
    fn three_digits_are_left_and_thousands_are_apart() {
        let texts = [0.0, 0.012_34, 0.099_6, 0.123, 9.84, 9.996, 99.94, 99.96, 212.4, 1_204.4, 1_234_567.0];
        let short = ["0.00", "0.012", "0.10", "0.12", "9.84", "10.0", "99.9", "100", "212", "1,204", "1,234,567"];
        assert_eq!(texts.map(three_digits), short);
        assert_eq!([-1_071.0, -9.84, -0.001].map(three_digits), ["-1,071", "-9.84", "-0.001"]);
    }

    #[test]
    fn one_is_singular() {
        let texts = [0_u64, 1, 2].map(|n| counted(n, "task"));
        assert_eq!(texts, ["0 tasks", "1 task", "2 tasks"]);
    }
}

#[cfg(test)]
mod byte_size_tests {
    use super::*;

    #[test]
    fn sizes_have_three_digits_at_most() {
        let shown =
            [0, 999, 1000, 99_949, 99_950, 999_499, 999_500, 39_800_000_000, 141_000_000_000, 1_500_000_000_000];
        let expected =
            ["0 B", "999 B", "1.0 kB", "99.9 kB", "100 kB", "999 kB", "1.0 MB", "39.8 GB", "141 GB", "1.5 TB"];
        assert_eq!(shown.map(size), expected);
    }

    #[test]
    fn people_write_them_like_this() {
        let ms = |text: &str| parse_duration(text).map(|d| d.as_millis()).ok();
        assert_eq!(ms("90s"), Some(90_000));
        assert_eq!(ms("1h30m"), Some(5_400_000));
        assert_eq!(ms("250ms"), Some(250));
        assert_eq!(ms("1.5h"), Some(5_400_000));
        for wrong in ["", "90", "s", "1m1h", "-1s", "1s1s", "1e9s", "99999999999999999999d", "."] {
            assert_eq!(ms(wrong), None, "{wrong}");
        }
    }
}
