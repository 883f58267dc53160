//! Lengths of prompts and answers.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A length in tokens.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Length {
    /// As in the data: the default.
    #[default]
    #[serde(skip)]
    Data,
    /// Always the same.
    Fixed(u32),
    /// Evenly between the two, both included.
    Uniform { min: u32, max: u32 },
    /// Rounded and kept within min and max.
    Normal { mean: f64, stddev: f64, min: u32, max: u32 },
    /// The same for a distribution with a long tail; mean and stddev are those of the lengths.
    Lognormal { mean: f64, stddev: f64, min: u32, max: u32 },
    /// Observed lengths with their weights: `[{ tokens: 128, weight: 3 }]`.
    Empirical(Vec<Weighted>),
}

/// A length and how often it comes, in any unit.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Weighted {
    pub tokens: u32,
    pub weight: f64,
}

impl Length {
    pub(super) const fn is_data(&self) -> bool {
        matches!(self, Self::Data)
    }
}
