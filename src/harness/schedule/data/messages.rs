//! Messages of records: those of a request as they are sent, and those of a recorded conversation as questions and answers.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::corpus_record::CorpusTurn;
use super::prompt::PromptPart;
use super::prompt_renderer::words_of;
use super::record_keys::MESSAGE_METADATA;
use super::tokenizer::PromptTokenizer;
use crate::HarnessError;

/// A message as OpenAI's interfaces have it, or as ShareGPT has it (`from` and `value`).
pub(super) type MessageFields = Map<String, Value>;

pub(super) struct Message {
    role: String,
    text: String,
}

/// Why a message cannot be sent; `number` from 1.
#[derive(Debug, thiserror::Error)]
pub(super) enum MessageError {
    #[error("message {number} has no `role`")]
    NoRole { number: usize },
    #[error("message {number} has no text in `content`")]
    NoText { number: usize },
    #[error(
        "`content` of message {number} is a list of parts ({kinds}); it must be one text, and nothing else is sent"
    )]
    Parts { number: usize, kinds: String },
}

/// The messages; fields of them that are not sent are added to `unsent`.
pub(super) fn messages(
    all: Vec<MessageFields>,
    unsent: &mut Vec<(String, Value)>,
) -> Result<Vec<Message>, MessageError> {
    let message = |(number, mut fields): (usize, MessageFields)| {
        let mut value = |names: [&str; 2]| names.into_iter().find_map(|name| fields.shift_remove(name));
        let (role, content) = (value(["role", "from"]), value(["content", "value"]));
        fields.retain(|name, _| !MESSAGE_METADATA.contains(&name.as_str()));
        let has_others = fields.values().any(|value| !value.is_null());
        unsent.extend(fields.into_iter().map(|(name, value)| (format!("messages[].{name}"), value)));
        let Some(Value::String(role)) = role else { return Err(MessageError::NoRole { number }) };
        match content {
            Some(Value::String(text)) => Ok(Message { role, text }),
            Some(Value::Array(parts)) => Err(MessageError::Parts { number, kinds: kinds(&parts) }),
            // A call of a tool, which is reported.
            None | Some(Value::Null) if has_others => Ok(Message { role, text: String::new() }),
            _ => Err(MessageError::NoText { number }),
        }
    };
    (1..).zip(all).map(message).collect()
}

/// `image_url`, `text`.
fn kinds(parts: &[Value]) -> String {
    let mut kinds: Vec<String> =
        parts.iter().filter_map(|part| Some(format!("`{}`", part.get("type")?.as_str()?.escape_debug()))).collect();
    kinds.sort_unstable();
    kinds.dedup();
    kinds.truncate(5);
    if kinds.is_empty() { "without a `type`".to_owned() } else { kinds.join(", ") }
}

/// Messages as the parts of a prompt, and their tokens.
pub(super) fn message_parts(
    messages: Vec<Message>,
    tokenizer: Option<&PromptTokenizer>,
) -> Result<(Vec<PromptPart>, u32), HarnessError> {
    let mut tokens = 0u32;
    let mut parts = Vec::with_capacity(messages.len());
    for Message { role, text } in messages {
        tokens = tokens.saturating_add(count(&text, tokenizer)?);
        parts.push(PromptPart::Message { role: role.into(), text: text.into() });
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
            pause_ns: None,
            at_ns: None,
            is_whole: false,
        });
    }
    Ok(turns)
}

/// Tokens of a text; without a tokenizer its words.
pub(super) fn count(text: &str, tokenizer: Option<&PromptTokenizer>) -> Result<u32, HarnessError> {
    tokenizer.map_or_else(|| Ok(words_of(text)), |tokenizer| tokenizer.count(text))
}
