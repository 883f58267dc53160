//! Where prompts come from: drawn, or read from a file; shared prefixes; sessions of several turns, and the pauses
//! between them.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::HarnessError;
use base::spec::{DelayPlace, Prefixes, RecordOrder, Sessions, ThinkTime};

/// Where prompts come from, beside the lengths that the spec draws.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PromptSource {
    pub data: Option<PromptFile>,
    /// In front of every prompt, on top of its length.
    pub prefixes: Option<Prefixes>,
    /// This many different prompts, each request carrying one of them.
    pub distinct: Option<u64>,
    /// A `tokenizer.json`.
    pub tokenizer: Option<PathBuf>,
    /// Several turns, each sent after the answer to the one before.
    pub sessions: Option<Sessions>,
}

/// A file of prompts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PromptFile {
    pub kind: DataKind,
    pub file: PathBuf,
    /// `.npy` of prompt lengths, for padded `input_ids`.
    pub lengths: Option<PathBuf>,
    /// `.npy` of output lengths.
    pub output_lengths: Option<PathBuf>,
    /// Only this many records from the top of the file.
    pub first: Option<u64>,
    /// Records with a longer prompt are left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_input_tokens: Option<u32>,
    pub order: RecordOrder,
    /// Begin again where the data end.
    pub repeat: bool,
    /// Tokens that one hash id of a Mooncake trace represents.
    pub block_tokens: u32,
    #[serde(default)]
    pub delay: DelayPlace,
}

base::named! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    pub enum DataKind {
        Jsonl = "jsonl",
        Sharegpt = "sharegpt",
        Mooncake = "mooncake",
        InputIds = "input_ids",
        /// A `plan.jsonl` of another run, to be sent again.
        Plan = "plan",
    }
}

impl PromptSource {
    /// The pause between the turns of a session, where that is not the think time.
    pub(crate) fn turn_delay(&self) -> Option<Pause> {
        self.sessions.as_ref()?.turn_delay.as_ref().map(Pause::from)
    }

    pub(crate) fn check(&self) -> Result<(), HarnessError> {
        let refuse = |what: &str| Err(HarnessError::spec(what));
        if let Some(fault) = self.prefixes.and_then(|prefixes| prefixes.fault()) {
            return refuse(fault);
        }
        if self.distinct == Some(0) {
            return refuse("distinct prompts must be at least 1");
        }
        if let Some(data) = &self.data {
            if data.block_tokens == 0 {
                return refuse("block_tokens must be at least 1");
            }
            if self.distinct.is_some() {
                return refuse("distinct prompts are drawn, and here prompts come from data: use `first` and `repeat`");
            }
        }
        match self.sessions.as_ref().and_then(|sessions| sessions.turns.fault()) {
            Some(fault) => refuse(&format!("turns of a session: {fault}")),
            None => Ok(()),
        }
    }
}

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

impl From<&ThinkTime> for Pause {
    fn from(given: &ThinkTime) -> Self {
        match given {
            ThinkTime::Fixed(time) => Self::Fixed(time.ms()),
            ThinkTime::Exponential(mean) => Self::Exponential(mean.ms()),
            ThinkTime::Uniform { min, max } => Self::Uniform { min: min.ms(), max: max.ms() },
        }
    }
}

impl Pause {
    /// What is wrong with it.
    pub(crate) fn problem(self) -> Option<&'static str> {
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
