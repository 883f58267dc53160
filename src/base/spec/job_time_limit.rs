//! How long a job of Slurm's may run.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::text_schema::{JOB_TIME_LIMIT, text_schema};
use super::time_span::TimeSpan;
use crate::units::DurationError;

/// `90m`, `2h`, or as Slurm writes it: `30:00`, `1-12:00:00`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub enum JobTimeLimit {
    Span(TimeSpan),
    /// Slurm's own notation. Slurm itself checks it.
    Slurm(String),
}

impl JobTimeLimit {
    /// As `sbatch --time` wants it: minutes, rounded up, or Slurm's own notation as it was written.
    pub fn sbatch(&self) -> String {
        match self {
            Self::Span(span) => span.time().as_nanos().div_ceil(60_000_000_000).max(1).to_string(),
            Self::Slurm(text) => text.clone(),
        }
    }
}

impl FromStr for JobTimeLimit {
    type Err = DurationError;

    /// # Errors
    /// The text is neither a duration nor in Slurm's notation. A bare number is neither: of what?
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_slurms = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b':' || byte == b'-');
        if is_slurms && text.contains([':', '-']) {
            return Ok(Self::Slurm(text.to_owned()));
        }
        TimeSpan::parse(text).map(Self::Span)
    }
}

impl TryFrom<String> for JobTimeLimit {
    type Error = DurationError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl fmt::Display for JobTimeLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Span(span) => span.fmt(f),
            Self::Slurm(text) => f.write_str(text),
        }
    }
}

impl From<JobTimeLimit> for String {
    fn from(limit: JobTimeLimit) -> Self {
        limit.to_string()
    }
}

text_schema!(JobTimeLimit, JOB_TIME_LIMIT);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sbatch_gets_minutes_that_are_enough() {
        let sbatch = |text: &str| text.parse::<JobTimeLimit>().map(|limit| limit.sbatch());
        assert_eq!(sbatch("2h"), Ok("120".to_owned()));
        assert_eq!(sbatch("90s"), Ok("2".to_owned()));
        assert_eq!(sbatch("10s"), Ok("1".to_owned()));
        assert_eq!(sbatch("1-12:00:00"), Ok("1-12:00:00".to_owned()));
        assert!(sbatch("90").is_err(), "90 of what?");
        assert_eq!("2h".parse::<JobTimeLimit>().unwrap().to_string(), "2h");
    }
}
