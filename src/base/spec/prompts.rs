//! How prompts are put together: the order of records, shared prefixes, sessions of several turns.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::load::ThinkTime;
use super::schema_format::MOST_USERS;

/// The order of records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RecordOrder {
    /// As in the file.
    #[default]
    Given,
    /// Each once, in an order drawn with the seed.
    Shuffled,
    /// Any record, drawn with the seed each time.
    Random,
}

/// What the `delay` of a record means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DelayPlace {
    /// A pause before its turn, as in AIPerf's files.
    #[default]
    BeforeTurn,
    /// A pause after its answer, as in GenAI-Perf's files, and always in perf_analyzer's.
    AfterAnswer,
}

/// Shared beginnings, added in front of each prompt's own length.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Prefixes {
    /// How many different ones.
    #[schemars(range(min = 1, max = MOST_USERS))]
    pub count: u32,
    /// Tokens of each.
    #[schemars(range(min = 1, max = LONGEST_LENGTH))]
    pub tokens: u32,
    /// Exponent of a Zipf law. [default: all equally often]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zipf: Option<f64>,
}

/// Conversations: each turn follows the previous answer and a pause (`turn_delay` or `think_time`). Over `openai-chat`
/// earlier turns are messages of `user` and `assistant`; elsewhere one text.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Sessions {
    /// Turns of each. With data: at most this many.
    pub turns: Length,
    #[serde(default)]
    pub history: History,
    /// Pause before each turn but the first; `think_time` then applies only before a session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn_delay: Option<ThinkTime>,
}

/// What precedes a later turn's own prompt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum History {
    /// Nothing.
    None,
    /// Earlier turns with answers from the data, or synthetic ones of the requested length.
    #[default]
    Planned,
    /// Earlier turns with the received answers.
    Answers,
}

impl Prefixes {
    /// What is wrong with them.
    pub fn fault(&self) -> Option<&'static str> {
        if self.count == 0 || self.tokens == 0 {
            return Some("prefixes: count and tokens must be at least 1");
        }
        let is_wrong = self.zipf.is_some_and(|exponent| !exponent.is_finite() || exponent < 0.0);
        is_wrong.then_some("prefixes: the exponent of zipf must be 0 or more")
    }
}

// Lengths of prompts and answers in tokens: the distributions that they are drawn from.

/// A length in tokens.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(deny_unknown_fields)]
pub enum Length {
    /// As in the data: the default.
    #[default]
    Given,
    /// Always the same.
    Fixed(u32),
    /// Uniformly from min to max, both included.
    Uniform { min: u32, max: u32 },
    /// Normal, rounded and clipped to min and max.
    Normal { mean: f64, stddev: f64, min: u32, max: u32 },
    /// Log-normal, rounded and clipped to min and max; mean and stddev are those of the lengths.
    Lognormal { mean: f64, stddev: f64, min: u32, max: u32 },
    /// Observed lengths with their weights: `[{ tokens: 128, weight: 3 }]`.
    Empirical(Vec<Weighted>),
}

/// A length and how often it comes, in any unit.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Weighted {
    #[schemars(range(max = LONGEST_LENGTH))]
    pub tokens: u32,
    pub weight: f64,
}

/// Ten million tokens is the longest context that a model of today has.
pub const LONGEST_LENGTH: u32 = 1 << 24;

/// As a sentence has it: `128`, `200 ± 100 (lognormal, 16 to 512)`.
impl fmt::Display for Length {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Given => f.write_str("as in the data"),
            Self::Fixed(tokens) => write!(f, "{tokens}"),
            Self::Uniform { min, max } => write!(f, "{min} to {max}"),
            // Without limits it has the largest number as its upper one.
            Self::Normal { mean, stddev, min, max } if *max > LONGEST_LENGTH => {
                write!(f, "{mean} ± {stddev} (at least {min})")
            }
            Self::Normal { mean, stddev, min, max } => write!(f, "{mean} ± {stddev} ({min} to {max})"),
            Self::Lognormal { mean, stddev, min, max } => {
                write!(f, "{mean} ± {stddev} (lognormal, {min} to {max})")
            }
            Self::Empirical(values) => write!(f, "of {} observed lengths", values.len()),
        }
    }
}

impl Length {
    pub const fn is_given(&self) -> bool {
        matches!(self, Self::Given)
    }

    /// What is wrong with it.
    pub fn fault(&self) -> Option<&'static str> {
        match self {
            Self::Fixed(0)
            | Self::Uniform { min: 0, .. }
            | Self::Normal { min: 0, .. }
            | Self::Lognormal { min: 0, .. } => Some("must be at least 1"),
            Self::Uniform { min, max } | Self::Normal { min, max, .. } | Self::Lognormal { min, max, .. }
                if min > max =>
            {
                Some("min is above max")
            }
            Self::Normal { mean, stddev, .. } | Self::Lognormal { mean, stddev, .. }
                if !mean.is_finite() || !stddev.is_finite() || *stddev < 0.0 =>
            {
                Some("mean and stddev must be finite, stddev at least 0")
            }
            Self::Lognormal { mean, .. } if *mean <= 0.0 => Some("the mean of a lognormal law must be above 0"),
            _ if self.longest() > LONGEST_LENGTH => Some("must be at most 16777216 tokens, more than any model takes"),
            Self::Empirical(values) => empirical_fault(values),
            _ => None,
        }
    }

    /// About as many tokens as it gives; 0 where the data decides.
    pub fn mean(&self) -> f64 {
        match self {
            Self::Given => 0.0,
            Self::Fixed(tokens) => f64::from(*tokens),
            Self::Uniform { min, max } => f64::midpoint(f64::from(*min), f64::from(*max)),
            Self::Normal { mean, min, max, .. } | Self::Lognormal { mean, min, max, .. } => {
                mean.max(f64::from(*min)).min(f64::from(*max))
            }
            Self::Empirical(values) => {
                let weights: f64 = values.iter().map(|value| value.weight).sum();
                values.iter().map(|value| f64::from(value.tokens) * value.weight).sum::<f64>() / weights
            }
        }
    }

    /// The most tokens that it gives; 0 where the data decides.
    pub fn longest(&self) -> u32 {
        match self {
            Self::Given => 0,
            Self::Fixed(tokens) => *tokens,
            Self::Uniform { max, .. } | Self::Normal { max, .. } | Self::Lognormal { max, .. } => *max,
            Self::Empirical(values) => values.iter().map(|value| value.tokens).max().unwrap_or(0),
        }
    }
}

fn empirical_fault(values: &[Weighted]) -> Option<&'static str> {
    let wrong = |value: &Weighted| value.tokens == 0 || !value.weight.is_finite() || value.weight < 0.0;
    if values.iter().any(wrong) {
        return Some("every value must be at least 1 and its weight not negative");
    }
    (values.iter().map(|value| value.weight).sum::<f64>() <= 0.0).then_some("no value has a weight")
}
