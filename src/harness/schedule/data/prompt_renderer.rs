//! Writes a prompt out of its parts, as ids or as text.

use std::sync::Arc;

use rand::RngExt;

use super::prompt::{ChatMessage, PreviousAnswers, Prompt, PromptPart, RandomStream};
use super::tokenizer::PromptTokenizer;
use crate::schedule::random_draws;
use crate::schedule::random_draws::generator;
use crate::{BenchSpec, HarnessError, PromptSource, ScheduleError};

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
    pub fn of(spec: &BenchSpec) -> Result<Self, HarnessError> {
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
                    ids.extend(random_draws::prompt(
                        stream.purpose(),
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
                    let mut rng = generator(stream.purpose(), self.seed, *number);
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

    /// For a chat: messages of the data as they are, with a prefix in front of the first one's text; else those of the user and of the
    /// assistant in turn, the user's first and last.
    pub fn chat(&self, parts: &[PromptPart], previous: &PreviousAnswers) -> Result<Vec<ChatMessage>, HarnessError> {
        let message =
            |role: &str, parts| self.text(parts, previous).map(|content| ChatMessage { role: role.into(), content });
        let mut messages = Vec::new();
        let mut rest = parts;
        let is_end = |part: &PromptPart| matches!(part, PromptPart::Message { .. }) || is_answer(part, previous);
        while let Some(at) = rest.iter().position(is_end) {
            match &rest[at] {
                PromptPart::Message { role, .. } => messages.push(message(role, &rest[..=at])?),
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
        Ok(self.tokenizer.as_deref().ok_or(ScheduleError::NoTokenizer)?)
    }
}

/// Whether a part is what the assistant answered. Between the prompts around an answer that failed there is none.
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
