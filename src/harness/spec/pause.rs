//! The think time of a user: the pause between an answer and the next request.

use std::time::Duration;

use rand::RngExt;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::harness::schedule::payload::generator;

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

impl Pause {
    /// The pause before request `index`, ns: a pure function of seed and index.
    pub(in crate::harness) fn before(self, seed: u64, index: u64) -> u64 {
        let ms = match self {
            Self::Fixed(ms) => ms,
            Self::Exponential(mean) => {
                let uniform: f64 = generator("think", seed, index).random();
                -(-uniform).ln_1p() * mean
            }
            Self::Uniform { min, max } => {
                let uniform: f64 = generator("think", seed, index).random();
                min + (max - min) * uniform
            }
        };
        (ms * 1e6).round() as u64
    }

    /// What is wrong with it.
    pub(in crate::harness) fn fault(self) -> Option<&'static str> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_are_a_pure_function_with_the_mean_they_say() {
        for (pause, mean) in [(Pause::Exponential(200.0), 200.0), (Pause::Uniform { min: 100.0, max: 300.0 }, 200.0)] {
            let drawn: Vec<u64> = (0..4_000).map(|index| pause.before(9, index)).collect();
            assert_eq!(drawn[17], pause.before(9, 17));
            let found = drawn.iter().sum::<u64>() as f64 / 4e9;
            // Six standard errors of the exponential one.
            assert!((found - mean).abs() < 6.0 * 200.0 / 4_000f64.sqrt(), "{found}");
        }
        assert_eq!(Pause::from(Duration::from_millis(5)).before(0, 3), 5_000_000);
        assert!(Pause::Uniform { min: 3.0, max: 1.0 }.fault().is_some() && Pause::default().fault().is_none());
    }
}
