//! The least goodput.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::percent::{Percent, PercentError};
use super::text_schema::{GOODPUT, text_schema};

/// At least this much goodput, by `slo`: `95%` or `9/s`.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub enum GoodputLimit {
    /// A share of the scheduled requests.
    Share(Percent),
    /// Requests per second.
    PerSecond(f64),
}

/// The text is no goodput.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GoodputLimitError {
    #[error(transparent)]
    Share(#[from] PercentError),
    #[error("`{0}` is not a number of requests per second above 0, such as `9/s`")]
    PerSecond(String),
}

impl FromStr for GoodputLimit {
    type Err = GoodputLimitError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let Some(rate) = text.trim().strip_suffix("/s") else { return Ok(Self::Share(text.parse()?)) };
        let rate = rate.trim().parse::<f64>().ok().filter(|rate| rate.is_finite() && *rate > 0.0);
        rate.map(Self::PerSecond).ok_or_else(|| GoodputLimitError::PerSecond(text.to_owned()))
    }
}

impl TryFrom<String> for GoodputLimit {
    type Error = GoodputLimitError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl fmt::Display for GoodputLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Share(percent) => percent.fmt(f),
            Self::PerSecond(rate) => write!(f, "{rate}/s"),
        }
    }
}

impl From<GoodputLimit> for String {
    fn from(limit: GoodputLimit) -> Self {
        limit.to_string()
    }
}

text_schema!(GoodputLimit, GOODPUT);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_a_share_or_a_rate() {
        assert_eq!("9/s".parse(), Ok(GoodputLimit::PerSecond(9.0)));
        assert_eq!("95 %".parse::<GoodputLimit>().unwrap().to_string(), "95%");
        for wrong in ["0/s", "9", "-1/s", "101%"] {
            assert!(wrong.parse::<GoodputLimit>().is_err(), "{wrong}");
        }
    }
}
