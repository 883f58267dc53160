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
}
