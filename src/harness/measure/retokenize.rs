//! Answers that carry text only, counted with the given tokenizer. After the run: counting costs CPU, which the load
//! must not share. Until then their texts are kept, about four bytes for each token.
//!
//! The joined text of an answer is counted, and the first chunk by itself, for TPOT. The tokens of the other chunks
//! would need each prefix of the answer tokenised again, which grows with the square of its length: they stay uncounted,
//! and figures that need them (inter-token latency, tokens of each second) count a chunk as one and are marked so. A server
//! may have generated other tokens than the tokenizer finds in the same text; the two rarely differ by more than a few.

use std::collections::BTreeMap;

use super::answer_text::AnswerText;
use super::collector::Collector;
use crate::harness::schedule::data::PreviousAnswers;
use crate::harness::tokens::TokenSource;
use crate::harness::transport::call::TokenCounting;
use crate::harness::{RequestEnd, RequestSchedule};

/// Where such counts come from.
pub(in crate::harness) const RETOKENIZED: &str = "retokenized: each answer's joined text, by the tokenizer given";

/// Sets the tokens of every successful request with a stored text, and marks it.
pub(in crate::harness) fn count(schedule: &RequestSchedule, how: TokenCounting, all: &mut Collector) {
    let answer_texts: Vec<(u64, AnswerText)> = std::mem::take(&mut all.answer_texts);
    if answer_texts.is_empty() {
        return;
    }
    let one = |(index, answer_text): &(u64, AnswerText)| {
        let first = schedule.count(&answer_text.first)?;
        let sum = answer_text
            .texts
            .iter()
            .map(|text| schedule.count(own(schedule, how, *index, text)))
            .sum::<Option<u32>>()?;
        Some((*index, (sum, first.min(sum))))
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let counted: BTreeMap<u64, (u32, u32)> = std::thread::scope(|scope| {
        let parts = answer_texts.chunks(answer_texts.len().div_ceil(cores));
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
    let planned = schedule.requests.get(index as usize).filter(|_| how == TokenCounting::Requested);
    let prompt = planned.and_then(|planned| schedule.text(index, planned, &PreviousAnswers::default()).ok());
    prompt.and_then(|prompt| text.strip_prefix(prompt.as_str())).unwrap_or(text)
}
