//! One record of a file of prompts, by the table of keys.

use std::sync::Arc;

use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::messages::MessageFields;
use super::record_reader::{RecordKey, record_key};

/// A record as it is written.
#[derive(Debug, Default)]
pub(super) struct PromptRecord {
    pub prompt: Option<Given>,
    pub input_ids: Option<Vec<i32>>,
    pub input: Option<Value>,
    pub instruction: Option<Value>,
    pub output: Option<Value>,
    pub messages: Option<Vec<MessageFields>>,
    pub conversation: Option<Vec<MessageFields>>,
    pub input_length: Option<u32>,
    pub output_length: Option<u32>,
    pub hash_ids: Option<Vec<u64>>,
    /// Tools write times in many forms; in a trace it is a number.
    pub timestamp: Option<Value>,
    pub delay: Option<f64>,
    pub session: Option<Value>,
    /// Keys that are not part of its request, or only of some records'.
    pub others: Vec<(Option<RecordKey>, String, Value)>,
}

#[derive(Debug, Deserialize, PartialEq)]
#[serde(untagged, expecting = "a text or a list of token ids is expected")]
pub(super) enum Given {
    Text(String),
    Ids(Vec<i32>),
}

impl PromptRecord {
    /// Reads a JSON object.
    pub fn read(text: &[u8]) -> Result<Self, serde_json::Error> {
        let mut row = Self::default();
        let mut json = serde_json::Deserializer::from_slice(text);
        DeserializeSeed::deserialize(&mut row, &mut json).and_then(|()| json.end())?;
        Ok(row)
    }

    /// Fields that are not part of its request.
    pub fn take_unsent(&mut self) -> Vec<(String, Value)> {
        let (has_ids, is_conversation) = (self.input_ids.is_some(), self.conversation.is_some());
        let is_unsent = |key: Option<RecordKey>| match key {
            Some(RecordKey::IdsText) => !has_ids,
            Some(RecordKey::ConversationMetadata) => !is_conversation,
            _ => true,
        };
        let others = std::mem::take(&mut self.others).into_iter();
        others.filter(|(key, ..)| is_unsent(*key)).map(|(_, name, value)| (name, value)).collect()
    }
}

impl<'de> DeserializeSeed<'de> for &mut PromptRecord {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for &mut PromptRecord {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(name) = map.next_key::<String>()? {
            let map = &mut map;
            match record_key(&name) {
                Some(RecordKey::Prompt) => set(&mut self.prompt, &name, map)?,
                Some(RecordKey::Ids) => set(&mut self.input_ids, &name, map)?,
                Some(RecordKey::Input) => set(&mut self.input, &name, map)?,
                Some(RecordKey::Instruction) => set(&mut self.instruction, &name, map)?,
                Some(RecordKey::Output) => set(&mut self.output, &name, map)?,
                Some(RecordKey::Messages) => set(&mut self.messages, &name, map)?,
                Some(RecordKey::Conversation) => set(&mut self.conversation, &name, map)?,
                Some(RecordKey::InputLength) => set(&mut self.input_length, &name, map)?,
                Some(RecordKey::OutputLength) => set(&mut self.output_length, &name, map)?,
                Some(RecordKey::HashIds) => set(&mut self.hash_ids, &name, map)?,
                Some(RecordKey::Timestamp) => set(&mut self.timestamp, &name, map)?,
                Some(RecordKey::Delay) => set(&mut self.delay, &name, map)?,
                Some(RecordKey::Session) => set(&mut self.session, &name, map)?,
                Some(RecordKey::Body) => map.next_value_seed(&mut *self)?,
                Some(RecordKey::Metadata) => _ = map.next_value::<IgnoredAny>()?,
                key @ (Some(RecordKey::IdsText | RecordKey::ConversationMetadata) | None) => {
                    let value = map.next_value()?;
                    self.others.push((key, name, value));
                }
            }
        }
        Ok(())
    }
}

/// Several names of a key may be in a record, with one value.
fn set<'de, T: Deserialize<'de> + PartialEq, A: MapAccess<'de>>(
    slot: &mut Option<T>,
    name: &str,
    map: &mut A,
) -> Result<(), A::Error> {
    let value: Option<T> = map.next_value()?;
    if value.is_some() && slot.is_some() && value != *slot {
        return Err(A::Error::custom(format!("`{name}` differs from another key of the same meaning")));
    }
    *slot = value.or(slot.take());
    Ok(())
}

// A prompt: the parts that it is planned as, and the form in which it is sent.

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
