//! Messages of records: those of a request as they are sent, and those of a recorded conversation as questions and
//! answers.

use std::sync::Arc;

use rand::RngExt;
use serde_json::{Map, Value, json};

use super::corpus::CorpusTurn;
use super::record_reader::{MESSAGE_KEYS, MESSAGE_METADATA, has_name};
use super::row::{ChatMessage, PreviousAnswers, Prompt, PromptPart, RandomStream};
use super::tokenizer::PromptTokenizer;
use crate::schedule::arrivals;
use crate::schedule::arrivals::generator;
use crate::{BenchSpec, HarnessError, PromptSource};
use base::diag::ErrorText;

/// A message as OpenAI's interfaces have it, or as ShareGPT has it (`from` and `value`).
pub(super) type MessageFields = Map<String, Value>;

pub(super) struct Message {
    role: String,
    text: String,
    /// All members that are sent, where there are more than these.
    whole: Option<MessageFields>,
}

/// The messages; fields of them that are not sent are added to `unsent`. Those of a request are sent `as_they_are`:
/// with parts of their content, and with calls of tools.
pub(super) fn messages(
    all: Vec<MessageFields>,
    as_they_are: bool,
    unsent: &mut Vec<(String, Value)>,
) -> Result<Vec<Message>, ErrorText> {
    let message = |(number, mut fields): (usize, MessageFields)| {
        let mut value = |names: [&str; 2]| names.into_iter().find_map(|name| fields.shift_remove(name));
        let (role, content) = (value(["role", "from"]), value(["content", "value"]));
        fields.retain(|name, value| !value.is_null() && !has_name(MESSAGE_METADATA, name));
        let is_more = !fields.is_empty();
        let is_sent = |name: &str| as_they_are && has_name(MESSAGE_KEYS, name);
        let (sent, others): (MessageFields, MessageFields) = fields.into_iter().partition(|(name, _)| is_sent(name));
        unsent.extend(others.into_iter().map(|(name, value)| (format!("messages[].{name}"), value)));
        let Some(Value::String(role)) = role else {
            return Err(ErrorText::new(format_args!("message {number} has no `role`")));
        };
        let text = match &content {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Array(parts)) if as_they_are => text_of_parts(parts, number)?,
            // A call of a tool.
            None | Some(Value::Null) if is_more => String::new(),
            _ => return Err(ErrorText::new(format_args!("message {number} has no text in `content`"))),
        };
        let whole = (as_they_are && (is_more || !content.as_ref().is_some_and(Value::is_string))).then(|| {
            let members = [("role", Some(role.as_str().into())), ("content", content)].into_iter();
            members.filter_map(|(name, value)| Some((name.to_owned(), value?))).chain(sent).collect()
        });
        Ok(Message { role, text, whole })
    };
    (1..).zip(all).map(message).collect()
}

/// The texts of a message that has images, too.
fn text_of_parts(parts: &[Value], number: usize) -> Result<String, ErrorText> {
    if parts.iter().any(|part| !part["type"].is_string()) {
        let missing = "has no `type`: `text`, `image_url`";
        return Err(ErrorText::new(format_args!("a part in `content` of message {number} {missing}")));
    }
    Ok(parts.iter().filter_map(|part| part["text"].as_str()).collect::<Vec<_>>().join("\n"))
}

/// Messages as the parts of a prompt, and their tokens.
pub(super) fn message_parts(
    messages: Vec<Message>,
    tokenizer: Option<&PromptTokenizer>,
) -> Result<(Vec<PromptPart>, u32), HarnessError> {
    let mut tokens = 0u32;
    let mut parts = Vec::with_capacity(messages.len());
    for Message { role, text, whole } in messages {
        tokens = tokens.saturating_add(count(&text, tokenizer)?);
        parts.push(PromptPart::Message { role: role.into(), text: text.into(), whole: whole.map(Arc::new) });
    }
    Ok((parts, tokens))
}

/// The questions of a conversation with their recorded answers, up to the first that has none.
pub(super) fn answered_turns(
    conversation: Vec<Message>,
    output_length: Option<u32>,
    tokenizer: Option<&PromptTokenizer>,
) -> Result<Vec<CorpusTurn>, HarnessError> {
    let mut turns = Vec::new();
    let mut messages = conversation.into_iter().peekable();
    // The system message precedes the first question.
    let mut before = messages.next_if(|message| message.role == "system").map(|message| message.text);
    while let (Some(question), Some(answer)) = (messages.next(), messages.next()) {
        let is_question = matches!(question.role.as_str(), "human" | "user");
        let is_answer = matches!(answer.role.as_str(), "gpt" | "assistant" | "chatgpt" | "bing" | "bard");
        if !is_question || !is_answer || question.text.trim().is_empty() || answer.text.trim().is_empty() {
            break;
        }
        let text = match before.take() {
            Some(system) => format!("{system}\n{}", question.text),
            None => question.text,
        };
        // Without a tokenizer the number of tokens in the answer is unknown.
        let counted = tokenizer.map(|tokenizer| tokenizer.count(&answer.text)).transpose()?.map(|n| n.max(1));
        turns.push(CorpusTurn {
            tokens: Some(count(&text, tokenizer)?),
            output_tokens: output_length.or(counted),
            parts: Arc::from([PromptPart::Text(text.into())]),
            answer: Some(answer.text.into()),
            ..CorpusTurn::default()
        });
    }
    Ok(turns)
}

/// Tokens of a text; without a tokenizer its words.
pub(super) fn count(text: &str, tokenizer: Option<&PromptTokenizer>) -> Result<u32, HarnessError> {
    tokenizer.map_or_else(|| Ok(words_of(text)), |tokenizer| tokenizer.count(text))
}

// Writes a prompt out of its parts, as ids or as text.

/// Everything that drawn parts are drawn from. A pure function of it and the parts.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PromptRenderer {
    pub seed: u64,
    pub vocab_size: u32,
    /// Never part of a drawn prompt.
    pub end_id: i32,
    pub tokenizer: Option<Arc<PromptTokenizer>>,
}

impl PromptRenderer {
    /// Reads the tokenizer, if the spec names one.
    pub fn new(spec: &BenchSpec) -> Result<Self, HarnessError> {
        let prompt_tokenizer = match &spec.content {
            PromptSource { tokenizer: Some(file), data, prefixes, sessions, .. } => {
                let tokenizer = PromptTokenizer::load(file)?;
                // Counting the words of given texts needs no drawn words.
                if data.is_none() || prefixes.is_some() || sessions.is_some() {
                    tokenizer.check(file)?;
                }
                Some(Arc::new(tokenizer))
            }
            _ => None,
        };
        Ok(Self { seed: spec.seed, vocab_size: spec.vocab_size, end_id: spec.end_id, tokenizer: prompt_tokenizer })
    }

    /// For a target that takes token ids.
    pub fn ids(&self, parts: &[PromptPart], previous: &PreviousAnswers) -> Result<Vec<i32>, HarnessError> {
        if self.tokenizer.is_some()
            && parts.iter().any(|part| !matches!(part, PromptPart::Ids(_) | PromptPart::PreviousAnswer { .. }))
        {
            // One source for both kinds of target: the ids are those of the text.
            let text = self.text(parts, previous)?;
            return self.tokenizer()?.encode(&text);
        }
        let mut ids = Vec::new();
        for part in parts {
            match part {
                PromptPart::Drawn { stream, number, tokens } => {
                    ids.extend(arrivals::prompt(
                        stream.as_str(),
                        self.seed,
                        *number,
                        *tokens,
                        self.vocab_size,
                        self.end_id,
                    ));
                }
                PromptPart::Ids(given) => ids.extend_from_slice(given),
                PromptPart::Text(text) | PromptPart::Message { text, .. } | PromptPart::RecordedAnswer(text) => {
                    ids.extend(self.tokenizer()?.encode(text)?);
                }
                PromptPart::PreviousAnswer { turn } => {
                    match previous.answers.get(*turn as usize).and_then(Option::as_ref) {
                        Some(Prompt::Ids(answer)) => ids.extend_from_slice(answer),
                        Some(Prompt::Text(answer)) => ids.extend(self.tokenizer()?.encode(answer)?),
                        Some(Prompt::Chat(_)) | None => {}
                    }
                }
            }
        }
        Ok(ids)
    }

    /// For a target that takes text. Drawn parts are words: of one token each with a tokenizer, of about one without.
    pub fn text(&self, parts: &[PromptPart], previous: &PreviousAnswers) -> Result<String, HarnessError> {
        let mut text = String::new();
        let mut was_drawn = true;
        for part in parts {
            let (piece, is_drawn) = match part {
                PromptPart::Drawn { stream, number, tokens } => {
                    let mut rng = generator(stream.as_str(), self.seed, *number);
                    let piece = match &self.tokenizer {
                        Some(tokenizer) => tokenizer.text_of_tokens(&mut rng, *tokens),
                        None => plain_words(&mut rng, *tokens),
                    };
                    (piece, true)
                }
                PromptPart::Ids(given) => (self.tokenizer()?.decode(given)?, false),
                PromptPart::Text(given)
                | PromptPart::Message { text: given, .. }
                | PromptPart::RecordedAnswer(given) => ((**given).to_owned(), false),
                PromptPart::PreviousAnswer { turn } => {
                    match previous.answers.get(*turn as usize).and_then(Option::as_ref) {
                        Some(Prompt::Ids(answer)) => (self.tokenizer()?.decode(answer)?, false),
                        Some(Prompt::Text(answer)) => (answer.clone(), false),
                        Some(Prompt::Chat(_)) | None => continue,
                    }
                }
            };
            if !text.is_empty() && !piece.is_empty() {
                text.push(if was_drawn || is_drawn { ' ' } else { '\n' });
            }
            was_drawn = is_drawn;
            text.push_str(&piece);
        }
        Ok(text)
    }

    /// For a chat: messages of the data as they are, with a prefix in front of the first one's text; else those of the
    /// user and of the assistant in turn, the user's first and last.
    pub fn chat(&self, parts: &[PromptPart], previous: &PreviousAnswers) -> Result<Vec<ChatMessage>, HarnessError> {
        let message = |role: &str, parts| self.text(parts, previous).map(|text| ChatMessage::new(role, text));
        let mut messages = Vec::new();
        let mut rest = parts;
        let is_end = |part: &PromptPart| matches!(part, PromptPart::Message { .. }) || is_answer(part, previous);
        while let Some(at) = rest.iter().position(is_end) {
            match &rest[at] {
                PromptPart::Message { role, text, whole } => {
                    let mut sent = message(role, &rest[..=at])?;
                    if let Some(whole) = whole {
                        sent.members = with_prefix(whole, &sent.text, text);
                    }
                    messages.push(sent);
                }
                _ => messages.extend([message("user", &rest[..at])?, message("assistant", &rest[at..=at])?]),
            }
            rest = &rest[at + 1..];
        }
        if !rest.is_empty() || !matches!(parts.last(), Some(PromptPart::Message { .. })) {
            messages.push(message("user", rest)?);
        }
        Ok(messages)
    }

    fn tokenizer(&self) -> Result<&PromptTokenizer, HarnessError> {
        let message = "text must become token ids here, or ids text: give `tokenizer`, the path of a tokenizer.json";
        self.tokenizer.as_deref().ok_or_else(|| HarnessError::spec(message))
    }
}

/// A message of the data with what is in front of its text.
fn with_prefix(whole: &MessageFields, content: &str, text: &str) -> MessageFields {
    let mut fields = whole.clone();
    let prefix = content.strip_suffix(text).unwrap_or_default().trim_end();
    match fields.get_mut("content") {
        _ if prefix.is_empty() => {}
        Some(Value::Array(parts)) => parts.insert(0, json!({"type": "text", "text": prefix})),
        _ => drop(fields.insert("content".to_owned(), content.into())),
    }
    fields
}

/// Whether a part is what the assistant answered. A failed answer leaves nothing between the prompts around it.
fn is_answer(part: &PromptPart, previous: &PreviousAnswers) -> bool {
    match part {
        PromptPart::Drawn { stream, .. } => *stream == RandomStream::Answer,
        PromptPart::RecordedAnswer(_) => true,
        PromptPart::PreviousAnswer { turn } => {
            previous.answers.get(*turn as usize).is_some_and(|answer| answer.as_ref().is_some_and(|it| it.len() > 0))
        }
        PromptPart::Ids(_) | PromptPart::Text(_) | PromptPart::Message { .. } => false,
    }
}

/// Tokens of a part as far as they are known; for text without a tokenizer, its words.
pub(in crate::schedule) fn words_of(text: &str) -> u32 {
    text.split_whitespace().count() as u32
}

/// Three letters each: about one token of an English vocabulary.
const WORDS: [&str; 64] = [
    "the", "and", "for", "are", "but", "not", "you", "all", "any", "can", "her", "was", "one", "our", "out", "day",
    "get", "has", "him", "his", "how", "man", "new", "now", "old", "see", "two", "way", "who", "boy", "did", "its",
    "let", "put", "say", "she", "too", "use", "dad", "mom", "act", "bar", "car", "dew", "eat", "far", "god", "hat",
    "ice", "job", "key", "lay", "may", "nor", "off", "pay", "red", "sun", "ten", "war", "yes", "zoo", "air", "big",
];

fn plain_words(rng: &mut impl RngExt, tokens: u32) -> String {
    let words: Vec<&str> = (0..tokens).map(|_| WORDS[rng.random_range(0..WORDS.len())]).collect();
    words.join(" ")
}
