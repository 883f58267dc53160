//! `bench.think_time:` — the pause between an answer and the next request.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::time_span::TimeSpan;

/// A pause of a user.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(deny_unknown_fields)]
pub enum ThinkTime {
    Fixed(TimeSpan),
    /// Exponential with this mean.
    Exponential(TimeSpan),
    Uniform {
        min: TimeSpan,
        max: TimeSpan,
    },
}
