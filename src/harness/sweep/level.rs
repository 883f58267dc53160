//! Where a point of a sweep is.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The level of one point.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SweepLevel {
    /// Closed loop: this many users.
    Users(u32),
    /// Open loop: requests per second.
    Rate(f64),
    /// Open loop without pauses, and without a limit on requests in flight: more than any rate.
    AllAtOnce,
    InputTokens(u32),
    OutputTokens(u32),
    /// The value of a `foreach` variable, where the points are tasks of their own.
    Value {
        name: String,
        value: String,
    },
}

/// Why a sweep that finds its own levels measured a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PointRole {
    /// One user alone: the latency of a server without load.
    Idle,
    /// Users until the throughput stops growing.
    Saturation,
    /// A rate between the two.
    Between,
}

impl PointRole {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Saturation => "saturation",
            Self::Between => "between",
        }
    }
}

impl SweepLevel {
    /// Whether it is how much load a server has, and not what a request or a setting is.
    pub const fn is_load(&self) -> bool {
        matches!(self, Self::Users(_) | Self::Rate(_) | Self::AllAtOnce)
    }

    /// Its number; none where a value is a name, and of all at once.
    pub fn number(&self) -> Option<f64> {
        match self {
            Self::AllAtOnce => None,
            Self::Users(count) | Self::InputTokens(count) | Self::OutputTokens(count) => Some(f64::from(*count)),
            Self::Rate(rate) => Some(*rate),
            Self::Value { value, .. } => value.parse().ok().filter(|number: &f64| number.is_finite()),
        }
    }

    /// Its name in the folder of the point: `c8`, `r2.5`.
    pub fn short(&self) -> String {
        match self {
            Self::Users(users) => format!("c{users}"),
            Self::Rate(rate) => format!("r{rate}"),
            Self::AllAtOnce => "all-at-once".to_owned(),
            Self::InputTokens(tokens) => format!("in{tokens}"),
            Self::OutputTokens(tokens) => format!("out{tokens}"),
            Self::Value { value, .. } => value.clone(),
        }
    }

    /// The unit of its number: `users`, `req/s`.
    pub fn unit(&self) -> &str {
        match self {
            Self::Users(_) => "users",
            Self::Rate(_) | Self::AllAtOnce => "req/s",
            Self::InputTokens(_) => "input tokens",
            Self::OutputTokens(_) => "output tokens",
            Self::Value { name, .. } => name,
        }
    }

    /// What heads a column of levels: `users`, `rate`.
    pub fn heading(&self) -> &str {
        match self {
            Self::Rate(_) | Self::AllAtOnce => "rate",
            other => other.unit(),
        }
    }

    /// Its value without the unit, as text.
    pub fn amount(&self) -> String {
        match self {
            Self::Users(count) | Self::InputTokens(count) | Self::OutputTokens(count) => count.to_string(),
            Self::Rate(rate) => rate.to_string(),
            Self::AllAtOnce => "all at once".to_owned(),
            Self::Value { value, .. } => value.clone(),
        }
    }
}

impl fmt::Display for SweepLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Users(1) => f.write_str("1 user"),
            Self::AllAtOnce => f.write_str(&self.amount()),
            Self::Value { name, value } => write!(f, "{name}={value}"),
            other => write!(f, "{} {}", other.amount(), other.unit()),
        }
    }
}
