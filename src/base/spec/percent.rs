//! A share as a manifest has it: `0.5%`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::text_schema::{PERCENT, text_schema};

/// From 0 % to 100 %.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct Percent(f64);

/// The text is no share.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a share from 0% to 100%, such as `0.5%`")]
pub struct PercentError(String);

impl Percent {
    /// Of 1: `0.5%` is 0.005.
    pub fn share(self) -> f64 {
        self.0 / 100.0
    }
}

impl FromStr for Percent {
    type Err = PercentError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let number = text.trim().strip_suffix('%').and_then(|number| number.trim().parse::<f64>().ok());
        let percent = number.filter(|percent| (0.0..=100.0).contains(percent));
        percent.map(Self).ok_or_else(|| PercentError(text.to_owned()))
    }
}

impl TryFrom<String> for Percent {
    type Error = PercentError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%", self.0)
    }
}

impl From<Percent> for String {
    fn from(percent: Percent) -> Self {
        percent.to_string()
    }
}

text_schema!(Percent, PERCENT);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_has_its_unit() {
        assert_eq!("0.5%".parse().map(Percent::share), Ok(0.005));
        assert_eq!(" 95 % ".parse::<Percent>().map(String::from), Ok("95%".to_owned()));
        for wrong in ["0.5", "-1%", "101%", "NaN%", "%", ""] {
            assert!(wrong.parse::<Percent>().is_err(), "{wrong}");
        }
    }
}
