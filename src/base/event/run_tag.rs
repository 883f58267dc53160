//! A name that a user gives to a run.

use std::fmt;
use std::str::FromStr;

use crate::diag::ErrorText;
use serde::Serialize;

/// Letters, digits, `.`, `_` and `-`; at most 64. Not only digits and `-`, which the names of runs are made of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct RunTag(String);

/// The text is no tag.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{}",
    ErrorText::new(format_args!("`{}` cannot be a tag", .0))
        .hint("at most 64 letters, digits, `.`, `_` and `-`, with a letter in it: `before-upgrade`, `v1.2`")
)]
pub struct NotTag(String);

impl FromStr for RunTag {
    type Err = NotTag;

    fn from_str(text: &str) -> Result<Self, NotTag> {
        let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        let is_good = (1..=64).contains(&text.len())
            && text.chars().all(is_allowed)
            && text.contains(|c: char| c.is_ascii_alphabetic())
            && text.starts_with(|c: char| c.is_ascii_alphanumeric());
        if is_good { Ok(Self(text.to_owned())) } else { Err(NotTag(text.to_owned())) }
    }
}

impl RunTag {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RunTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_a_short_word_that_is_no_run() {
        for good in ["v1.2", "before-upgrade", "a"] {
            assert_eq!(good.parse::<RunTag>().map(|tag| tag.to_string()), Ok(good.to_owned()));
        }
        for bad in ["", "20261120-224301.017-4711", "a b", "../x", "-x", &"a".repeat(65)] {
            assert!(bad.parse::<RunTag>().is_err(), "{bad}");
        }
    }
}
