//! ShareGPT's JSON: one list of conversations, read one after the other.

use std::io::BufReader;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, SeqAccess, Visitor};

use super::corpus_record::{CorpusRecord, CorpusTurn, MemoryBudget};
use super::errors::{DataErrors, fault};
use super::prompt::PromptPart;
use super::prompt_renderer::words_of;
use super::tokenizer::PromptTokenizer;
use crate::files::open_regular;
use crate::harness::{HarnessError, PromptFile};

#[derive(Deserialize)]
struct Conversation {
    #[serde(alias = "conversation")]
    conversations: Vec<Message>,
}

#[derive(Deserialize)]
struct Message {
    #[serde(alias = "role")]
    from: String,
    #[serde(alias = "content")]
    value: String,
}

/// The entries, and which were left out and why.
pub(super) fn read(
    data: &PromptFile,
    tokenizer: Option<&PromptTokenizer>,
    room: MemoryBudget<'_>,
) -> Result<(Vec<CorpusRecord>, Vec<String>), HarnessError> {
    let file = data.file.as_path();
    let (opened, _) = open_regular(file).map_err(|error| fault(file, error.to_string()))?;
    let mut json = serde_json::Deserializer::from_reader(BufReader::with_capacity(1 << 20, opened));
    let mut reading =
        Reading { data, tokenizer, memory_budget: room, entries: Vec::new(), unanswered: 0, failed: None };
    let read = json.deserialize_seq(&mut reading);
    let Reading { entries, unanswered, failed, .. } = reading;
    if let Some(error) = failed {
        return Err(error);
    }
    if let Err(error) = read {
        let mut errors = DataErrors::of(file);
        errors
            .push_error(format!("{error}; a list of {{\"conversations\": [{{\"from\", \"value\"}}, …]}} is expected"));
        errors.end()?;
    }
    let skipped = (unanswered > 0)
        .then(|| format!("{unanswered} conversations do not begin with a question and its answer"))
        .into_iter()
        .collect();
    Ok((entries, skipped))
}

struct Reading<'a> {
    data: &'a PromptFile,
    tokenizer: Option<&'a PromptTokenizer>,
    memory_budget: MemoryBudget<'a>,
    entries: Vec<CorpusRecord>,
    unanswered: u64,
    failed: Option<HarnessError>,
}

impl<'de> Visitor<'de> for &mut Reading<'_> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a list of conversations")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut all: A) -> Result<(), A::Error> {
        while self.data.first.is_none_or(|first| (self.entries.len() as u64) < first) {
            let Some(conversation) = all.next_element::<Conversation>()? else { return Ok(()) };
            if let Err(error) = self.take(conversation) {
                self.failed = Some(error);
                break;
            }
        }
        // The rest is not needed, but a list must be read to its end.
        while all.next_element::<IgnoredAny>()?.is_some() {}
        Ok(())
    }
}

impl Reading<'_> {
    fn take(&mut self, conversation: Conversation) -> Result<(), HarnessError> {
        let mut turns = Vec::new();
        let mut messages = conversation.conversations.into_iter().peekable();
        // The system message precedes the first question.
        let mut before = messages.next_if(|message| message.from == "system").map(|message| message.value);
        while let (Some(question), Some(answer)) = (messages.next(), messages.next()) {
            let is_question = matches!(question.from.as_str(), "human" | "user");
            let is_answer = matches!(answer.from.as_str(), "gpt" | "assistant" | "chatgpt" | "bing" | "bard");
            if !is_question || !is_answer || question.value.trim().is_empty() || answer.value.trim().is_empty() {
                break;
            }
            let text = match before.take() {
                Some(system) => format!("{system}\n{}", question.value),
                None => question.value,
            };
            self.memory_budget.take(text.len() + answer.value.len() + size_of::<CorpusTurn>())?;
            turns.push(CorpusTurn {
                tokens: Some(self.count(&text)?),
                // Without a tokenizer the number of tokens in the answer is unknown.
                output_tokens: self
                    .tokenizer
                    .map(|tokenizer| tokenizer.count(&answer.value))
                    .transpose()?
                    .map(|n| n.max(1)),
                parts: Arc::from([PromptPart::Text(text.into())]),
                answer: Some(answer.value.into()),
                pause_ns: None,
                at_ns: None,
                is_whole: false,
            });
        }
        if turns.is_empty() {
            self.unanswered += 1;
        } else {
            self.entries.push(CorpusRecord { at_ns: None, turns });
        }
        Ok(())
    }

    fn count(&self, text: &str) -> Result<u32, HarnessError> {
        self.tokenizer.map_or_else(|| Ok(words_of(text)), |tokenizer| tokenizer.count(text))
    }
}
