//! How many requests arrive each second, over a day.

/// Requests per second at points of time, linear in between. The load ends at the last point.
#[derive(Clone, Debug, PartialEq)]
pub struct RateOverTime {
    /// Seconds, in order from 0, and requests per second.
    points: Vec<(f64, f64)>,
}

/// What is wrong with points of a rate.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum RateOverTimeError {
    #[error("line {line}: `{text}` is not `SECONDS,REQUESTS_PER_SECOND`")]
    Line { line: usize, text: String },
    #[error("line {line}: {seconds} s is not after the point before")]
    Order { line: usize, seconds: f64 },
    #[error("a rate over time has at least two points, the first at 0 s, and a rate above 0")]
    TooFew,
}

const DAY: f64 = 86_400.0;

impl RateOverTime {
    /// A day with its lowest rate at 4 o'clock and its highest one at 16 o'clock, in points of a quarter of an hour.
    pub fn day(low: f64, high: f64) -> Self {
        const POINTS: u32 = 96;
        let points = (0..=POINTS)
            .map(|point| {
                let seconds = DAY * f64::from(point) / f64::from(POINTS);
                let turn = std::f64::consts::TAU * (seconds / DAY - 1.0 / 6.0);
                // Not the C library's: the same bits on every machine.
                (seconds, low + (high - low) * (1.0 - libm::cos(turn)) / 2.0)
            })
            .collect();
        Self { points }
    }

    /// Lines `SECONDS,REQUESTS_PER_SECOND`; a first line of words and lines with `#` are left out.
    pub fn parse(text: &str) -> Result<Self, RateOverTimeError> {
        let mut points: Vec<(f64, f64)> = Vec::new();
        for (at, text) in text.lines().enumerate() {
            let line = at + 1;
            let text = text.trim();
            if text.is_empty() || text.starts_with('#') || at == 0 && text.starts_with(|c: char| c.is_alphabetic()) {
                continue;
            }
            let wrong = || RateOverTimeError::Line { line, text: text.to_owned() };
            let (seconds, rate) = text.split_once(',').ok_or_else(wrong)?;
            let number =
                |text: &str| text.trim().parse::<f64>().ok().filter(|value| value.is_finite() && *value >= 0.0);
            let (seconds, rate) = (number(seconds).ok_or_else(wrong)?, number(rate).ok_or_else(wrong)?);
            if points.last().is_some_and(|(before, _)| seconds <= *before) {
                return Err(RateOverTimeError::Order { line, seconds });
            }
            points.push((seconds, rate));
        }
        let begins = points.first().is_some_and(|(seconds, _)| *seconds == 0.0);
        if points.len() < 2 || !begins || points.iter().all(|(_, rate)| *rate == 0.0) {
            return Err(RateOverTimeError::TooFew);
        }
        Ok(Self { points })
    }

    /// Its length, seconds.
    pub fn seconds(&self) -> f64 {
        self.points.last().map_or(0.0, |(seconds, _)| *seconds)
    }

    pub fn highest(&self) -> f64 {
        self.points.iter().fold(0.0, |most, (_, rate)| most.max(*rate))
    }

    /// The mean over the whole time.
    pub fn mean(&self) -> f64 {
        let area: f64 =
            self.points.windows(2).map(|pair| (pair[1].0 - pair[0].0) * f64::midpoint(pair[0].1, pair[1].1)).sum();
        area / self.seconds()
    }

    /// Requests per second at a time.
    pub(super) fn at(&self, seconds: f64) -> f64 {
        let behind = self.points.partition_point(|(point, _)| *point <= seconds);
        match (self.points.get(behind.wrapping_sub(1)), self.points.get(behind)) {
            (Some((from, low)), Some((to, high))) => low + (high - low) * (seconds - from) / (to - from),
            (Some((_, rate)), None) => *rate,
            _ => 0.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_has_its_rates_and_a_file_its_lines() {
        let day = RateOverTime::day(100.0, 500.0);
        assert_eq!((day.at(4.0 * 3600.0).round(), day.at(16.0 * 3600.0).round()), (100.0, 500.0));
        assert!((day.mean() - 300.0).abs() < 1.0 && (day.seconds() - DAY).abs() < 1e-9);
        let file = RateOverTime::parse("seconds,rate\n0,10\n# noon\n100,30\n").unwrap();
        assert!((file.at(50.0) - 20.0).abs() < 1e-9 && (file.mean() - 20.0).abs() < 1e-9);
        assert!(matches!(RateOverTime::parse("0,1\n0,2"), Err(RateOverTimeError::Order { line: 2, .. })));
        assert!(matches!(RateOverTime::parse("0,1\nx"), Err(RateOverTimeError::Line { line: 2, .. })));
        assert_eq!(RateOverTime::parse("0,0\n9,0"), Err(RateOverTimeError::TooFew));
    }
}
