//! A duration with the text that it was written as.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::text_schema::{TIME_SPAN, text_schema};
use crate::units::{DurationError, parse_duration};

/// `90s`, `1h30m`, `250ms`. It keeps its text, so that an action reads as its manifest does; two are equal when they last
/// equally long.
#[derive(Clone, Debug, Eq)]
pub struct TimeSpan {
    text: String,
    time: Duration,
}

impl TimeSpan {
    /// # Errors
    /// The text is not a duration.
    pub fn parse(text: &str) -> Result<Self, DurationError> {
        Ok(Self { text: text.to_owned(), time: parse_duration(text)? })
    }

    /// `30m`.
    pub fn minutes(minutes: u32) -> Self {
        Self { text: format!("{minutes}m"), time: Duration::from_mins(minutes.into()) }
    }

    pub const fn time(&self) -> Duration {
        self.time
    }

    /// In milliseconds.
    pub fn ms(&self) -> f64 {
        self.time.as_secs_f64() * 1e3
    }
}

impl From<Duration> for TimeSpan {
    fn from(time: Duration) -> Self {
        let text = if time.subsec_nanos() == 0 {
            format!("{}s", time.as_secs())
        } else {
            format!("{}ms", time.as_secs_f64() * 1e3)
        };
        Self { text, time }
    }
}

impl fmt::Display for TimeSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl PartialEq for TimeSpan {
    fn eq(&self, other: &Self) -> bool {
        self.time == other.time
    }
}

impl Serialize for TimeSpan {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for TimeSpan {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        /// Results that were written before durations kept their text have them in parts.
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Text(String),
            Parts { secs: u64, nanos: u32 },
        }
        match Written::deserialize(from)? {
            Written::Text(text) => Self::parse(&text).map_err(de::Error::custom),
            Written::Parts { secs, nanos } if nanos < 1_000_000_000 => Ok(Duration::new(secs, nanos).into()),
            Written::Parts { .. } => Err(de::Error::custom("nanos must be below 1000000000")),
        }
    }
}

text_schema!(TimeSpan, TIME_SPAN);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_written_as_it_was_and_compared_by_its_length() {
        let minute: TimeSpan = serde_json::from_str("\"1m\"").unwrap();
        assert_eq!(serde_json::to_string(&minute).unwrap(), "\"1m\"");
        assert_eq!(minute, TimeSpan::from(Duration::from_mins(1)));
        assert_eq!(minute.to_string(), TimeSpan::minutes(1).to_string());
        for nanos in [0, 1, 1_500_000, 250_000_000, 1_000_000_000, 86_400_000_000_123] {
            let span = TimeSpan::from(Duration::from_nanos(nanos));
            assert_eq!(TimeSpan::parse(&span.text), Ok(span));
        }
        assert!(serde_json::from_str::<TimeSpan>("\"60\"").is_err());
        let earlier = r#"{"secs": 60, "nanos": 0}"#;
        assert_eq!(serde_json::from_str::<TimeSpan>(earlier).unwrap(), minute);
        assert!(serde_json::from_str::<TimeSpan>(r#"{"secs": 18446744073709551615, "nanos": 4000000000}"#).is_err());
    }
}
