//! The think time of a user: the pause between an answer and the next request.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use base::spec::ThinkTime;

/// A pause, ms.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Pause {
    Fixed(f64),
    /// Exponential with this mean.
    Exponential(f64),
    /// Both ends included.
    Uniform {
        min: f64,
        max: f64,
    },
}

impl Default for Pause {
    fn default() -> Self {
        Self::Fixed(0.0)
    }
}

impl From<Duration> for Pause {
    fn from(time: Duration) -> Self {
        Self::Fixed(time.as_secs_f64() * 1e3)
    }
}

impl From<&ThinkTime> for Pause {
    fn from(given: &ThinkTime) -> Self {
        match given {
            ThinkTime::Fixed(time) => Self::Fixed(time.ms()),
            ThinkTime::Exponential(mean) => Self::Exponential(mean.ms()),
            ThinkTime::Uniform { min, max } => Self::Uniform { min: min.ms(), max: max.ms() },
        }
    }
}

impl Pause {
    /// What is wrong with it.
    pub(crate) fn problem(self) -> Option<&'static str> {
        let is_time = |ms: f64| ms.is_finite() && ms >= 0.0;
        match self {
            Self::Fixed(ms) | Self::Exponential(ms) if !is_time(ms) => Some("think time must not be negative"),
            Self::Uniform { min, max } if !is_time(min) || !is_time(max) || min > max => {
                Some("think time: min is above max")
            }
            _ => None,
        }
    }
}
