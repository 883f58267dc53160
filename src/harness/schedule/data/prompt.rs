//! A prompt: the parts that it is planned as, and the form in which it is sent.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::json;

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
    Chat(Vec<ChatMessage>),
}

/// A message of a chat, as OpenAI's interfaces take it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ChatMessage {
    pub role: Arc<str>,
    pub content: String,
}

impl Prompt {
    /// Ids, or bytes of text.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Ids(ids) => ids.len(),
            Self::Text(text) => text.len(),
            Self::Chat(messages) => messages.iter().map(|message| message.content.len()).sum(),
        }
    }

    /// None for text.
    pub(crate) fn as_ids(&self) -> &[i32] {
        match self {
            Self::Ids(ids) => ids,
            Self::Text(_) | Self::Chat(_) => &[],
        }
    }

    /// None for ids, and for messages of a chat.
    pub(crate) fn as_text(&self) -> &str {
        match self {
            Self::Text(text) => text,
            Self::Ids(_) | Self::Chat(_) => "",
        }
    }

    pub(crate) fn to_json(&self) -> serde_json::Value {
        match self {
            Self::Ids(ids) => ids.as_slice().into(),
            Self::Text(text) => text.as_str().into(),
            Self::Chat(messages) => json!(messages),
        }
    }
}

/// One part of a prompt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum PromptPart {
    Drawn {
        stream: RandomStream,
        number: u64,
        tokens: u32,
    },
    Ids(Arc<[i32]>),
    Text(Arc<str>),
    /// A message of the data, with its own role.
    Message {
        role: Arc<str>,
        text: Arc<str>,
    },
    /// An answer that the data have.
    RecordedAnswer(Arc<str>),
    /// The answer to this turn of the session, as it came.
    PreviousAnswer {
        turn: u32,
    },
}

/// Which purpose tokens are drawn for; each has numbers of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RandomStream {
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
