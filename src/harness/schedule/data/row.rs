//! One record of a file of prompts, by the table of keys.

use std::sync::Arc;

use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::messages::MessageFields;
use super::record_reader::{OWN_MEMBERS, RecordKey, RecordRules, has_name, record_key};
use base::spec::{RequestField, RequestHeaders, WireForm};

/// A record as the file has it.
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
    /// Keys other than those of the prompt: of its own request, or of no request.
    pub others: Vec<(Option<RecordKey>, String, Value)>,
    /// While its body is read, where every other key is a member of it.
    pub is_in_body: bool,
}

#[derive(Debug, Deserialize, PartialEq)]
#[serde(untagged, expecting = "a text or a list of token ids is expected")]
pub(super) enum Given {
    Text(String),
    Ids(Vec<i32>),
}

impl PromptRecord {
    /// Reads a JSON object, or a text, which is a prompt.
    pub fn read(text: &[u8]) -> Result<Self, serde_json::Error> {
        let mut row = Self::default();
        if text.starts_with(b"\"") {
            row.prompt = Some(Given::Text(serde_json::from_slice(text)?));
            return Ok(row);
        }
        let mut json = serde_json::Deserializer::from_slice(text);
        DeserializeSeed::deserialize(&mut row, &mut json).and_then(|()| json.end())?;
        Ok(row)
    }

    /// The fields other than its prompt that are not those of every request.
    pub fn take_fields(&mut self, rules: &RecordRules) -> RecordFields {
        let mut fields = RecordFields::default();
        for (key, name, value) in std::mem::take(&mut self.others) {
            let name = if key == Some(RecordKey::Model) { "model".to_owned() } else { name };
            match key {
                Some(RecordKey::IdsText) if self.input_ids.is_some() => {}
                Some(RecordKey::ConversationMetadata | RecordKey::Model) if self.conversation.is_some() => {}
                _ if rules.have(&name, &value) => {}
                key if rules.sends_fields => fields.add(key, name, value),
                _ => fields.unsent.push((name, value)),
            }
        }
        fields
    }
}

/// What a record has in addition to its prompt.
#[derive(Debug, Default)]
pub(super) struct RecordFields {
    pub request: OwnRequest,
    /// Not part of its request.
    pub unsent: Vec<(String, Value)>,
    /// What cannot be sent as it is.
    pub faults: Vec<String>,
}

impl RecordFields {
    fn add(&mut self, key: Option<RecordKey>, name: String, value: Value) {
        match (key, value) {
            (Some(RecordKey::Extra), Value::Object(members)) => {
                members.into_iter().for_each(|(name, value)| self.add_member(name, value));
            }
            (Some(RecordKey::Headers), value) => self.add_headers(value),
            (Some(RecordKey::Member | RecordKey::Model), value) => self.add_member(name, value),
            (_, value) => match RequestField::in_record(&name) {
                Some(field) => self.add_member(field.names(WireForm::Openai)[0].to_owned(), value),
                None => self.unsent.push((name, value)),
            },
        }
    }

    fn add_member(&mut self, name: String, value: Value) {
        if has_name(OWN_MEMBERS, &name) {
            return self.unsent.push((name, value));
        }
        let member = match RequestField::with_openai_name(&name) {
            Some(field) if !value.is_null() => field.openai_member(&value),
            _ => Ok(value),
        };
        match member {
            Ok(value) if self.request.body.get(&name).is_some_and(|other| *other != value) => {
                self.faults.push(format!("`{name}` differs from another key of the same meaning"));
            }
            Ok(value) => drop(self.request.body.insert(name, value)),
            Err(fault) => self.faults.push(format!("`{name}` {fault}")),
        }
    }

    fn add_headers(&mut self, value: Value) {
        match serde_json::from_value::<RequestHeaders>(value) {
            Ok(headers) if headers.variables().next().is_none() => {
                self.faults.extend(headers.faults().map(|(key, fault)| format!("`{key}` {fault}")));
                self.request.headers = headers;
            }
            Ok(_) => self.faults.push(
                "`headers` may contain secrets from the environment, and records are kept with the result: set the \
                 header in the benchmark's `request.headers`"
                    .to_owned(),
            ),
            Err(_) => self.faults.push("`headers` must be an object of names and texts".to_owned()),
        }
    }
}

/// What a record sets of its own request, in place of the benchmark's.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct OwnRequest {
    /// Members of the body; null takes one out.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub body: Map<String, Value>,
    #[serde(skip_serializing_if = "RequestHeaders::is_empty")]
    pub headers: RequestHeaders,
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
                Some(RecordKey::Body) if !self.is_in_body => {
                    self.is_in_body = true;
                    map.next_value_seed(&mut *self)?;
                    self.is_in_body = false;
                }
                Some(RecordKey::Metadata) if !self.is_in_body => _ = map.next_value::<IgnoredAny>()?,
                key => {
                    let key = if self.is_in_body { Some(RecordKey::Member) } else { key };
                    self.others.push((key, name, map.next_value()?));
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
#[serde(transparent)]
pub struct ChatMessage {
    /// Its text, of all its parts.
    #[serde(skip)]
    pub text: String,
    pub members: Map<String, Value>,
}

impl ChatMessage {
    pub fn new(role: &str, text: String) -> Self {
        Self {
            members: [("role", role), ("content", &text)]
                .map(|(name, value)| (name.into(), value.into()))
                .into_iter()
                .collect(),
            text,
        }
    }
}

impl Prompt {
    /// Number of token ids, or of bytes of text.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Ids(ids) => ids.len(),
            Self::Text(text) => text.len(),
            Self::Chat(messages) => messages.iter().map(|message| message.text.len()).sum(),
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
        /// Of all its parts.
        text: Arc<str>,
        /// All its members, where there are more than these.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        whole: Option<Arc<Map<String, Value>>>,
    },
    /// An answer that the data have.
    RecordedAnswer(Arc<str>),
    /// The answer to this turn of the session, as it came.
    PreviousAnswer {
        turn: u32,
    },
}

base::named! {
    /// Which purpose tokens are drawn for; each has numbers of its own.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub enum RandomStream {
        Prompt = "prompt",
        Prefix = "prefix",
        Block = "block",
        Answer = "answer",
        Warmup = "warmup",
    }
}
