//! How requests arrive, and a level over time (requests per second, or users at work): one number, or pieces of
//! straight lines.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::HarnessError;
use base::spec::{Ramp, TimeSpan};

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LoadPattern {
    /// All requests at once; the metric is tokens/s.
    #[default]
    Offline,
    /// Open loop: arrivals at a mean rate, per second.
    Server { rate: LoadLevel },
    /// Open loop: arrivals at the time stamps of the data, this many times as fast.
    Trace { speed: f64 },
    /// Closed loop: this many users, each sending its next request when its last one has ended.
    Concurrency { users: LoadLevel },
    /// An external driver issues the requests during the run: MLPerf's LoadGen.
    #[serde(rename = "outside")]
    External(CallSource),
}

impl LoadPattern {
    /// What `t_sched` is, for metrics.
    pub(crate) const fn zero_point(&self) -> &'static str {
        match self {
            Self::Offline | Self::Server { .. } | Self::Trace { .. } => "schedule",
            Self::Concurrency { .. } => "user_idle",
            Self::External(_) => "external_call",
        }
    }

    /// Arrivals have times that do not depend on answers, and are not all at once.
    pub const fn is_open_loop(&self) -> bool {
        matches!(self, Self::Server { .. } | Self::Trace { .. } | Self::External(CallSource::AtTimes))
    }

    /// The most users of a closed loop; 0: not a closed loop.
    pub(crate) fn users(&self) -> usize {
        match self {
            Self::Concurrency { users } => users.highest().floor().max(1.0) as usize,
            _ => 0,
        }
    }

    /// One rate or one number of users all the time.
    pub(crate) const fn is_constant(&self) -> bool {
        matches!(self, Self::Server { rate: LoadLevel::Fixed(_) } | Self::Concurrency { users: LoadLevel::Fixed(_) })
    }
}

/// How the calls of an external driver come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CallSource {
    /// All in one call. They wait in the client for streams, as they would wait in the server.
    AllAtOnce,
    /// At times that do not depend on answers.
    AtTimes,
    /// Each after the answer to the one before.
    OneByOne,
}

/// After the last piece the level stays where it ends.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum LoadLevel {
    Fixed(f64),
    Ramp(Vec<LoadSegment>),
}

/// A straight line; a step is one whose ends are equal.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LoadSegment {
    pub from: f64,
    pub to: f64,
    pub seconds: f64,
}

impl From<f64> for LoadLevel {
    fn from(level: f64) -> Self {
        Self::Fixed(level)
    }
}

impl From<&Ramp> for LoadLevel {
    fn from(ramp: &Ramp) -> Self {
        let seconds = |time: &TimeSpan| time.time().as_secs_f64();
        Self::Ramp(match ramp {
            Ramp::Linear { from, to, over } => vec![LoadSegment { from: *from, to: *to, seconds: seconds(over) }],
            Ramp::Steps(steps) => steps
                .iter()
                .map(|step| LoadSegment { from: step.level, to: step.level, seconds: seconds(&step.lasts) })
                .collect(),
        })
    }
}

impl LoadSegment {
    fn slope(&self) -> f64 {
        (self.to - self.from) / self.seconds
    }

    fn area(&self, upto: f64) -> f64 {
        self.from * upto + self.slope() * upto * upto / 2.0
    }
}

impl LoadLevel {
    fn pieces(&self) -> &[LoadSegment] {
        match self {
            Self::Fixed(_) => &[],
            Self::Ramp(pieces) => pieces,
        }
    }

    fn last(&self) -> f64 {
        match self {
            Self::Fixed(level) => *level,
            Self::Ramp(pieces) => pieces.last().map_or(0.0, |piece| piece.to),
        }
    }

    /// The highest it ever is.
    pub fn highest(&self) -> f64 {
        self.pieces().iter().map(|piece| piece.from.max(piece.to)).fold(self.last(), f64::max)
    }

    /// Its integral from 0 to `at`, seconds.
    pub(crate) fn area(&self, at: f64) -> f64 {
        let (mut area, mut start) = (0.0, 0.0);
        for piece in self.pieces() {
            if at < start + piece.seconds {
                return area + piece.area(at - start);
            }
            area += piece.area(piece.seconds);
            start += piece.seconds;
        }
        area + self.last() * (at - start)
    }

    /// When the integral reaches `total`: the inverse of `area`. None when it never does.
    pub(crate) fn when(&self, total: f64) -> Option<f64> {
        let (mut left, mut start) = (total, 0.0);
        for piece in self.pieces() {
            let area = piece.area(piece.seconds);
            if left < area {
                // The root of from·t + slope·t²/2 = left, in the form that does not cancel.
                let root = (piece.from * piece.from + 2.0 * piece.slope() * left).max(0.0).sqrt();
                return Some(start + 2.0 * left / (piece.from + root));
            }
            left -= area;
            start += piece.seconds;
        }
        (self.last() > 0.0).then(|| start + left / self.last())
    }

    /// The earliest time from `at` on at which it is `least` or more. None when it never is again.
    pub(crate) fn reaches(&self, least: f64, at: f64) -> Option<f64> {
        let mut start = 0.0;
        for piece in self.pieces() {
            let end = start + piece.seconds;
            if at < end {
                let inside = (at - start).max(0.0);
                if piece.from + piece.slope() * inside >= least {
                    return Some(start + inside);
                }
                if piece.to >= least {
                    return Some(start + (least - piece.from) / piece.slope());
                }
            }
            start = end;
        }
        (self.last() >= least).then(|| at.max(start))
    }

    pub(crate) fn scaled(&self, by: f64) -> Self {
        match self {
            Self::Fixed(level) => Self::Fixed(level * by),
            Self::Ramp(pieces) => Self::Ramp(
                pieces.iter().map(|piece| LoadSegment { from: piece.from * by, to: piece.to * by, ..*piece }).collect(),
            ),
        }
    }

    pub(crate) fn check(&self, what: &str) -> Result<(), HarnessError> {
        let numbers = self.pieces().iter().flat_map(|piece| [piece.from, piece.to]).chain([self.last()]);
        let lengths = self.pieces().iter().all(|piece| piece.seconds.is_finite() && piece.seconds > 0.0);
        if numbers.into_iter().any(|level| !level.is_finite() || level < 0.0) || !lengths || self.highest() <= 0.0 {
            return Err(HarnessError::Spec(format!("it needs a {what} above 0")));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ramp(pieces: &[(f64, f64, f64)]) -> LoadLevel {
        LoadLevel::Ramp(
            pieces.iter().map(|(from, to, seconds)| LoadSegment { from: *from, to: *to, seconds: *seconds }).collect(),
        )
    }

    proptest! {
        #[test]
        fn when_is_the_inverse_of_area(
            pieces in prop::collection::vec((0.0f64..50.0, 0.0f64..50.0, 0.1f64..20.0), 0..6),
            last in 1.0f64..50.0,
            total in 0.0f64..5000.0,
        ) {
            let mut pieces = pieces;
            pieces.push((last, last, 1.0));
            let level = ramp(&pieces);
            let at = level.when(total).unwrap();
            prop_assert!((level.area(at) - total).abs() < 1e-6 * total.max(1.0), "{} is not {total}", level.area(at));
        }
    }

    #[test]
    fn users_start_and_stop_with_the_level() {
        let level = ramp(&[(0.0, 10.0, 10.0), (10.0, 10.0, 5.0), (4.0, 4.0, 5.0)]);
        assert_eq!(level.reaches(3.0, 0.0), Some(3.0));
        assert_eq!(level.reaches(3.0, 7.0), Some(7.0));
        assert_eq!(level.reaches(10.0, 0.0), Some(10.0));
        assert_eq!(level.reaches(5.0, 16.0), None);
        assert_eq!(level.reaches(4.0, 100.0), Some(100.0));
        assert_eq!(level.reaches(11.0, 0.0), None);
        assert_eq!((level.highest(), LoadLevel::from(3.0).reaches(3.0, 9.0)), (10.0, Some(9.0)));
    }

    #[test]
    fn what_never_comes_has_no_time() {
        let level = ramp(&[(10.0, 0.0, 2.0)]);
        assert!((level.area(5.0) - 10.0).abs() < 1e-9);
        assert!(level.when(9.99).is_some() && level.when(10.5).is_none());
        assert!(level.check("rate").is_ok());
        assert!(ramp(&[(0.0, 0.0, 2.0)]).check("rate").is_err() && LoadLevel::from(f64::NAN).check("rate").is_err());
    }
}
