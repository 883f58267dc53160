//! Durations as people write them: `90s`, `30m`, `2h`, `1h30m`, `250ms`.

use std::time::Duration;

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

// Numbers of bytes: for display, and how many there can be.

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

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn sizes_have_three_digits_at_most() {
        let shown =
            [0, 999, 1000, 99_949, 99_950, 999_499, 999_500, 39_800_000_000, 141_000_000_000, 1_500_000_000_000];
        let expected =
            ["0 B", "999 B", "1.0 kB", "99.9 kB", "100 kB", "999 kB", "1.0 MB", "39.8 GB", "141 GB", "1.5 TB"];
        assert_eq!(shown.map(size), expected);
    }
}
