//! Lengths in tokens: the laws that they are drawn by.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::harness::HarnessError;

/// A length in tokens.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Length {
    /// As the data say.
    Given,
    Fixed(u32),
    /// Both ends included.
    Uniform {
        min: u32,
        max: u32,
    },
    /// Rounded and kept within min and max.
    Normal {
        mean: f64,
        stddev: f64,
        min: u32,
        max: u32,
    },
    /// Rounded and kept within min and max; mean and stddev are those of the lengths, not of their logarithms.
    Lognormal {
        mean: f64,
        stddev: f64,
        min: u32,
        max: u32,
    },
    /// Values with weights.
    Empirical(Arc<[Weighted]>),
}

impl Length {
    pub(in crate::harness) fn check(&self, what: &str) -> Result<(), HarnessError> {
        let refuse = |why: &str| Err(HarnessError::Spec(format!("{what}: {why}")));
        match self {
            Self::Fixed(0)
            | Self::Uniform { min: 0, .. }
            | Self::Normal { min: 0, .. }
            | Self::Lognormal { min: 0, .. } => refuse("must be at least 1"),
            Self::Uniform { min, max } | Self::Normal { min, max, .. } | Self::Lognormal { min, max, .. }
                if min > max =>
            {
                refuse("min is above max")
            }
            Self::Normal { mean, stddev, .. } | Self::Lognormal { mean, stddev, .. }
                if !mean.is_finite() || !stddev.is_finite() || *stddev < 0.0 =>
            {
                refuse("mean and stddev must be finite, stddev at least 0")
            }
            Self::Lognormal { mean, .. } if *mean <= 0.0 => refuse("the mean of a lognormal law must be above 0"),
            Self::Empirical(values) => empirical_fault(values).map_or(Ok(()), refuse),
            _ => Ok(()),
        }
    }
}

/// A length and how often it comes, in any unit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Weighted {
    pub tokens: u32,
    pub weight: f64,
}

fn empirical_fault(values: &[Weighted]) -> Option<&'static str> {
    let wrong = |value: &Weighted| value.tokens == 0 || !value.weight.is_finite() || value.weight < 0.0;
    if values.iter().any(wrong) {
        return Some("every value must be at least 1 and its weight not negative");
    }
    (values.iter().map(|value| value.weight).sum::<f64>() <= 0.0).then_some("no value has a weight")
}
