//! How prompts are put together: the order of records, shared prefixes, sessions of several turns.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::counts::MOST_USERS;
use super::length::{LONGEST_LENGTH, Length};
use super::think_time::ThinkTime;

/// The order in which the records of a file are taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RecordOrder {
    /// As in the file.
    #[default]
    Given,
    /// Each once, in an order drawn with the seed.
    Shuffled,
    /// Any of them, drawn with the seed each time.
    Random,
}

/// Which pause the `delay` of a record is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DelayPlace {
    /// Before its own turn, as in AIPerf's files.
    #[default]
    BeforeTurn,
    /// After its answer, before the next turn of its session, as in GenAI-Perf's files. It is always so in perf_analyzer's.
    AfterAnswer,
}

/// Beginnings that prompts share, in front of each and on top of its length.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Prefixes {
    /// How many different ones.
    #[schemars(range(min = 1, max = MOST_USERS))]
    pub count: u32,
    /// Tokens of each.
    #[schemars(range(min = 1, max = LONGEST_LENGTH))]
    pub tokens: u32,
    /// Exponent of a Zipf law, which makes the first ones more frequent. [default: all equally often]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zipf: Option<f64>,
}

/// Conversations: the next turn is sent after the answer to the one before, and a pause (`turn_delay`, or `think_time`). Over `openai-chat` what came before it are messages of `user` and `assistant` in turn; over other protocols all is one text.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Sessions {
    /// Turns of each; of data with conversations, at most this many, or `given`: all.
    pub turns: Length,
    #[serde(default)]
    pub history: History,
    /// The pause before each turn but the first, in place of `think_time`, which is then the pause before a session only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn_delay: Option<ThinkTime>,
}

/// What stands in front of a later turn's own prompt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum History {
    /// Nothing.
    None,
    /// The turns before with answers as planned: those in the data, or synthetic ones of the requested length.
    #[default]
    Planned,
    /// The turns before with the answers that came.
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
