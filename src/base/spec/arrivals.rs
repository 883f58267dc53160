//! The distribution of arrivals at a rate.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(deny_unknown_fields)]
pub enum Arrivals {
    /// Exponential gaps.
    #[default]
    Poisson,
    /// Equal gaps.
    Constant,
    /// Gamma gaps with this coefficient of variation: 1 is Poisson, 2 is bursty. vLLM's burstiness is 1/cv².
    Gamma { cv: f64 },
}
