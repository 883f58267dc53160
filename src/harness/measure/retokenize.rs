//! Answers that carry text only, counted with the given tokenizer. After the run: counting costs CPU, which the load
//! must not share. Until then their texts are kept, about four bytes for each token.
//!
//! The joined text of an answer is counted, and the first chunk by itself, for TPOT. The tokens of the other chunks
//! would need each prefix of the answer tokenised again, which grows with the square of its length: they stay uncounted,
//! and figures that need them (inter-token latency, tokens of each second) count a chunk as one and are marked so. A server
//! may have generated other tokens than the tokenizer finds in the same text; the two rarely differ by more than a few.

use std::collections::BTreeMap;

use serde_json::Value;

use super::collector::Collector;
use crate::harness::schedule::data::PreviousAnswers;
use crate::harness::tokens::TokenSource;
use crate::harness::transport::kserve::infer_request::TokenCounting;
use crate::harness::{RequestEnd, RequestSchedule};

/// Where such counts come from.
pub(in crate::harness) const RETOKENIZED: &str = "retokenized: each answer's joined text, by the tokenizer given";

/// The text of one answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::harness) struct AnswerText {
    /// One for each choice.
    pub texts: Vec<String>,
    /// The text of the first chunk that had any.
    pub first: String,
}

impl AnswerText {
    /// Adds the text of a chunk.
    pub fn push(&mut self, choice: usize, text: &str) {
        if text.is_empty() {
            return;
        }
        if self.first.is_empty() {
            text.clone_into(&mut self.first);
        }
        if self.texts.len() <= choice {
            self.texts.resize(choice + 1, String::new());
        }
        self.texts[choice].push_str(text);
    }

    /// Put together from the events of an answer over HTTP: everything that was generated, reasoning included. Tool calls
    /// are no text.
    pub fn of_events(events: &[Vec<u8>]) -> Self {
        let mut spoken = Self::default();
        for event in events.iter().filter_map(|event| serde_json::from_slice::<Value>(event).ok()) {
            spoken.push(0, event["text_output"].as_str().unwrap_or_default());
            for (place, choice) in event["choices"].as_array().into_iter().flatten().enumerate() {
                let at = choice["index"].as_u64().map_or(place, |index| index as usize).min(MOST_CHOICES);
                spoken.push(at, choice["text"].as_str().unwrap_or_default());
                for message in [&choice["delta"], &choice["message"]] {
                    // One of the two names, or both with the same text.
                    let reasoning = ["reasoning_content", "reasoning"].iter().find_map(|key| message[*key].as_str());
                    spoken.push(at, reasoning.unwrap_or_default());
                    spoken.push(at, message["content"].as_str().unwrap_or_default());
                    spoken.push(at, message["refusal"].as_str().unwrap_or_default());
                }
            }
        }
        spoken
    }
}

/// The requests never lead to a choice with an index beyond this.
const MOST_CHOICES: usize = 255;

impl TokenCounting {
    /// Whether an answer without another count is counted by its text.
    pub fn is_of_text(self) -> bool {
        matches!(self, Self::Responses { .. } | Self::Asked | Self::Usage)
    }
}

/// Sets the tokens of every successful request with a stored text, and marks it.
pub(in crate::harness) fn count(schedule: &RequestSchedule, how: TokenCounting, all: &mut Collector) {
    let spoken: Vec<(u64, AnswerText)> = std::mem::take(&mut all.spoken);
    if spoken.is_empty() {
        return;
    }
    let one = |(index, spoken): &(u64, AnswerText)| {
        let first = schedule.count(&spoken.first)?;
        let sum =
            spoken.texts.iter().map(|text| schedule.count(own(schedule, how, *index, text))).sum::<Option<u32>>()?;
        Some((*index, (sum, first.min(sum))))
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let counted: BTreeMap<u64, (u32, u32)> = std::thread::scope(|scope| {
        let parts = spoken.chunks(spoken.len().div_ceil(cores));
        let threads: Vec<_> =
            parts.map(|part| scope.spawn(move || part.iter().filter_map(one).collect::<Vec<_>>())).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap_or_default()).collect()
    });
    for record in all.records.iter_mut().filter(|record| record.ended == RequestEnd::Ok) {
        if let Some((tokens, first)) = counted.get(&record.index) {
            record.tokens = *tokens;
            record.first_tokens = if record.chunks == 1 { *tokens } else { *first };
            record.retokenized = true;
            record.token_source = TokenSource::Retokenized;
            record.chunk_tokens_unknown = record.chunks > 1;
        }
    }
}

/// Without the prompt, where a server that answers in one piece repeats it in front.
fn own<'t>(schedule: &RequestSchedule, how: TokenCounting, index: u64, text: &'t str) -> &'t str {
    let planned = schedule.requests.get(index as usize).filter(|_| how == TokenCounting::Asked);
    let prompt = planned.and_then(|planned| schedule.text(index, planned, &PreviousAnswers::default()).ok());
    prompt.and_then(|prompt| text.strip_prefix(prompt.as_str())).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_that_was_generated_is_part_of_the_text() {
        let events: Vec<Vec<u8>> = [
            r#"{"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}"#,
            r#"{"choices":[{"index":0,"delta":{"reasoning_content":"Let me"}}]}"#,
            r#"{"choices":[{"index":1,"delta":{"content":"No"}}]}"#,
            r#"{"choices":[{"index":0,"delta":{"content":" see"},"finish_reason":"stop"}]}"#,
            r#"{"choices":[],"usage":{"completion_tokens":9}}"#,
            "no json",
        ]
        .map(|event| event.as_bytes().to_vec())
        .to_vec();
        let spoken = AnswerText::of_events(&events);
        assert_eq!(spoken.texts, ["Let me see", "No"]);
        assert_eq!(spoken.first, "Let me");
        let triton =
            AnswerText::of_events(&[br#"{"text_output":"a b"}"#.to_vec(), br#"{"text_output":" c"}"#.to_vec()]);
        assert_eq!((triton.texts, triton.first.as_str()), (vec!["a b c".to_owned()], "a b"));
    }
}
