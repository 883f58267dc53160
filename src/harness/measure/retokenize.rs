//! Answers that carry text only, counted with the given tokenizer. After the run: counting costs CPU, which the load
//! must not share. Until then their texts are kept, about four bytes for each token.
//!
//! The joined text of an answer is counted, and the first chunk by itself, for TPOT. The tokens of the other chunks
//! would need each prefix of the answer tokenized again, which grows with the square of its length: they stay uncounted,
//! and figures that need them (inter-token latency, tokens of each second) count a chunk as one and are marked so. A server
//! may have generated other tokens than the tokenizer finds in the same text; the two rarely differ by more than a few.

use std::collections::{BTreeMap, BTreeSet};

use rayon::prelude::*;

use super::collector::Collector;
use crate::schedule::data::PreviousAnswers;
use crate::tokens::{AnswerText, TokenSource};
use crate::transport::request_encoder::TokenCounting;
use crate::{PlannedRequest, RequestEnd, RequestRecord, RequestRecords, RequestSchedule};
use base::files::shared_pool;

/// Where such counts come from.
pub(crate) const RETOKENIZED: &str = "retokenized: each answer's joined text, by the tokenizer given";

/// Sets the tokens of every successful request with a stored text, and marks it.
pub(crate) fn count(schedule: &RequestSchedule, how: TokenCounting, all: &mut Collector<RequestRecords>) {
    let answer_texts: Vec<(u64, AnswerText)> = std::mem::take(&mut all.answer_texts);
    if answer_texts.is_empty() {
        return;
    }
    // Prompts that a server may repeat in front of its answers; of a long plan they are drawn in one pass.
    let planned: BTreeMap<u64, PlannedRequest> = if how == TokenCounting::Requested {
        let wanted: BTreeSet<u64> = answer_texts.iter().map(|(index, _)| *index).collect();
        (0..).zip(&schedule.requests).filter(|(index, _)| wanted.contains(index)).collect()
    } else {
        BTreeMap::new()
    };
    let one = |(index, answer_text): &(u64, AnswerText)| {
        let first = schedule.count(&answer_text.first)?;
        let sum = answer_text
            .texts
            .iter()
            .map(|text| schedule.count(own(schedule, planned.get(index), *index, text)))
            .sum::<Option<u32>>()?;
        Some((*index, (sum, first.min(sum))))
    };
    let counted: BTreeMap<u64, (u32, u32)> = on_all_cores(&answer_texts, one).into_iter().collect();
    all.records = all.records.map(|record| match counted.get(&record.index) {
        Some((tokens, first)) if record.ended == RequestEnd::Ok => RequestRecord {
            tokens: *tokens,
            first_tokens: if record.chunks == 1 { *tokens } else { *first },
            retokenized: true,
            token_source: TokenSource::Retokenized,
            chunk_tokens_unknown: record.chunks > 1,
            ..record
        },
        _ => record,
    });
}

/// What `one` finds of each item. It panics where `one` does.
fn on_all_cores<T: Sync, R: Send>(items: &[T], one: impl Fn(&T) -> Option<R> + Sync) -> Vec<R> {
    match shared_pool() {
        Some(pool) => pool.install(|| items.par_iter().filter_map(&one).collect()),
        None => items.iter().filter_map(&one).collect(),
    }
}

/// Without the prompt, where a server that answers in one piece repeats it in front.
fn own<'t>(schedule: &RequestSchedule, planned: Option<&PlannedRequest>, index: u64, text: &'t str) -> &'t str {
    let prompt = planned.and_then(|planned| schedule.text(index, planned, &PreviousAnswers::default()).ok());
    prompt.and_then(|prompt| text.strip_prefix(prompt.as_str())).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::on_all_cores;

    #[test]
    #[should_panic(expected = "no count")]
    fn a_part_that_cannot_be_counted_is_not_left_out() {
        on_all_cores(&[1, 2], |n| if *n == 2 { panic!("no count") } else { Some(*n) });
    }
}
