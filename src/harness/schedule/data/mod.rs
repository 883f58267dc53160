//! What requests carry: prompts drawn from the seed, or read from files.
//!
//! A prompt is a list of parts. Every part is either a recipe (so many tokens of a numbered stream: equal recipes are equal
//! tokens, which is what a server's prefix cache sees) or content of a file. From the same parts a target that takes token
//! ids gets ids, and one that takes text gets text.

mod corpus;
mod empirical;
mod errors;
mod jsonl;
mod npy;
mod prompt_renderer;
mod sharegpt;
mod tokenizer;

use std::path::PathBuf;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::harness::{HarnessError, Length};
pub(in crate::harness) use corpus::digest as file_digest;
pub(in crate::harness) use corpus::{Corpus, CorpusOrder, CorpusRecord, CorpusTurn};
pub use empirical::Weighted;
pub(in crate::harness) use empirical::{draw as empirical_draw, fault as empirical_fault};
pub(in crate::harness) use errors::DataErrors;
pub(in crate::harness) use errors::fault;
pub(in crate::harness) use prompt_renderer::PromptRenderer;
pub(in crate::harness) use tokenizer::PromptTokenizer;

/// Where prompts come from, beside the lengths that the spec draws.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PromptSource {
    pub data: Option<PromptFile>,
    /// In front of every prompt, on top of its length.
    pub prefixes: Option<Prefixes>,
    /// So many different prompts, each request carrying one of them.
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
    /// Only so many records from the top of the file.
    pub first: Option<u64>,
    pub order: RecordOrder,
    /// Begin again where the data end.
    pub repeat: bool,
    /// Tokens that a hash id of a Mooncake trace stands for.
    pub block_tokens: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DataKind {
    Jsonl,
    Sharegpt,
    Mooncake,
    InputIds,
    /// A `plan.jsonl` of another run, to be sent again.
    Plan,
}

/// In which order records are taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RecordOrder {
    /// As in the file.
    #[default]
    Given,
    /// Each once, in an order drawn with the seed.
    Shuffled,
    /// Drawn with replacement.
    Random,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Prefixes {
    pub count: u32,
    /// Of each.
    pub tokens: u32,
    /// Exponent of a Zipf law; null: all equally often.
    pub zipf: Option<f64>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sessions {
    /// Turns of a session; of data with conversations, at most so many.
    pub turns: Length,
    pub history: History,
}

/// What stands in front of a later turn's own prompt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum History {
    /// Nothing.
    None,
    /// The turns before and their answers as planned: recorded ones, or drawn ones of the length that was asked for.
    #[default]
    Planned,
    /// The turns before and their answers as they came.
    Answers,
}

/// One part of a prompt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::harness) enum PromptPart {
    Drawn {
        stream: RandomStream,
        number: u64,
        tokens: u32,
    },
    Ids(Arc<[i32]>),
    Text(Arc<str>),
    /// The answer to this turn of the session, as it came.
    Heard {
        turn: u32,
    },
}

/// Which purpose tokens are drawn for; each has numbers of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::harness) enum RandomStream {
    Prompt,
    Prefix,
    Block,
    Answer,
    Warmup,
}

impl RandomStream {
    pub const fn purpose(self) -> &'static str {
        match self {
            Self::Prompt => "prompt",
            Self::Prefix => "prefix",
            Self::Block => "block",
            Self::Answer => "answer",
            Self::Warmup => "warmup",
        }
    }
}

/// Answers of the turns before, for a history that is made of them.
#[derive(Clone, Debug, Default)]
pub struct PreviousAnswers {
    /// By turn; none of one that failed.
    pub answers: Vec<Option<Prompt>>,
}

/// A prompt, or an answer, in the form that a target speaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Prompt {
    Ids(Vec<i32>),
    Text(String),
}

impl Prompt {
    /// Ids, or bytes of text.
    pub(in crate::harness) fn len(&self) -> usize {
        match self {
            Self::Ids(ids) => ids.len(),
            Self::Text(text) => text.len(),
        }
    }

    /// None for a text.
    pub(in crate::harness) fn as_ids(&self) -> &[i32] {
        match self {
            Self::Ids(ids) => ids,
            Self::Text(_) => &[],
        }
    }

    /// None for ids.
    pub(in crate::harness) fn as_text(&self) -> &str {
        match self {
            Self::Text(text) => text,
            Self::Ids(_) => "",
        }
    }

    pub(in crate::harness) fn to_json(&self) -> serde_json::Value {
        match self {
            Self::Ids(ids) => ids.as_slice().into(),
            Self::Text(text) => text.as_str().into(),
        }
    }
}

impl PromptSource {
    pub(in crate::harness) fn check(&self) -> Result<(), HarnessError> {
        let refuse = |what: &str| Err(HarnessError::Spec(what.to_owned()));
        if let Some(Prefixes { count, tokens, zipf }) = self.prefixes {
            if count == 0 || tokens == 0 {
                return refuse("prefixes: count and tokens must be at least 1");
            }
            if zipf.is_some_and(|exponent| !exponent.is_finite() || exponent < 0.0) {
                return refuse("prefixes: the exponent of zipf must be 0 or more");
            }
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
        match &self.sessions {
            Some(sessions) => sessions.turns.check("turns of a session"),
            None => Ok(()),
        }
    }
}

/// What a file gave, for the result.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DataSummary {
    pub file: String,
    /// BLAKE3 of its bytes.
    pub digest: String,
    /// In the file, as far as it was read.
    pub records: u64,
    /// Left out, with why.
    pub skipped: Vec<String>,
    /// How many sessions or requests were planned from it.
    pub taken: u64,
    /// Records that were taken more than once, or again after the end.
    pub repeated: bool,
}
