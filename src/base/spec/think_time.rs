//! `bench.think_time:` — the pause between an answer and the next request.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::time_span::TimeSpan;

/// A pause of a user.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(deny_unknown_fields)]
pub enum ThinkTime {
    /// Always the same: `2s`.
    Fixed(TimeSpan),
    /// Exponential with this mean.
    Exponential(TimeSpan),
    /// Evenly between the two.
    Uniform {
        /// The shortest pause.
        min: TimeSpan,
        /// The longest pause.
        max: TimeSpan,
    },
}
