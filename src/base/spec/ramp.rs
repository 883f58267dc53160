//! `bench.ramp:` — a rate, or a number of users, that changes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::time_span::TimeSpan;

/// A rate, or a number of users, that changes. After the last step it stays.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(deny_unknown_fields)]
pub enum Ramp {
    /// One level after the other.
    Steps(Vec<RampStep>),
    /// A straight line from one level to the other.
    Linear {
        /// The first level: requests per second, or users.
        from: f64,
        /// The last level.
        to: f64,
        /// How long it takes: `60s`.
        over: TimeSpan,
    },
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct RampStep {
    /// Requests per second, or users.
    pub level: f64,
    /// How long: `30s`.
    pub lasts: TimeSpan,
}
