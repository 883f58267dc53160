//! What output tokens are counted by: answers that carry text only, several sources in one run, and answers that end
//! without a reason.
//!
//! Answers that carry text only are counted with the given tokenizer after the run: counting costs CPU, which the load
//! must not share. Until then their texts are kept, about four bytes for each token. The joined text of an answer is
//! counted, and the first chunk by itself, for TPOT. The tokens of the other chunks would need each prefix of the
//! answer tokenized again, which grows with the square of its length: they stay uncounted, and figures that need them
//! (inter-token latency, tokens of each second) count a chunk as one and are marked so. A server may have generated
//! other tokens than the tokenizer finds in the same text; the two rarely differ by more than a few.
//!
//! Prompt tokens as servers count them: those that a prefix cache saved, and prompts that were cut.

use std::collections::{BTreeMap, BTreeSet};

use rayon::prelude::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::measure::collector::Collector;
use crate::tokens::AnswerText;
use crate::transport::request_encoder::TokenCounting;
use crate::{
    PlannedRequest, PreviousAnswers, RequestEnd, RequestRecord, RequestRecords, RequestSchedule, RunResult, TokenSource,
};
use base::files::shared_pool;

/// Where such counts come from.
pub(crate) const RETOKENIZED: &str = "retokenized: each answer's joined text, by the tokenizer given";

/// Sets the tokens of every successful request with a stored text, and marks it.
pub(crate) fn count_retokenized(schedule: &RequestSchedule, how: TokenCounting, all: &mut Collector<RequestRecords>) {
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
    let count_tokens = |(index, answer_text): &(u64, AnswerText)| {
        let first = schedule.count(&answer_text.first)?;
        let sum = answer_text
            .texts
            .iter()
            .map(|text| schedule.count(own(schedule, planned.get(index), *index, text)))
            .sum::<Option<u32>>()?;
        Some((*index, (sum, first.min(sum))))
    };
    let counted: BTreeMap<u64, (u32, u32)> = on_all_cores(&answer_texts, count_tokens).into_iter().collect();
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

/// Follows each source except the first: `, for 3 of 1000 answers that have no usable one`.
const FOR: &str = ", for ";
/// A source that an answer has, and that contradicts it, does not count.
const NONE: &str = " answers that have no usable one";
/// The wording in results of earlier versions.
const FORMER_NONE: &str = " answers that have none";

/// `parts`: each source with the number of its answers, the interface's own first; `all`: how many answers there are.
pub(super) fn mixed(parts: Vec<(u64, String)>, all: u64) -> String {
    let each = parts.into_iter().enumerate().map(|(place, (answers, source))| {
        if place == 0 { source } else { format!("{source}{FOR}{answers} of {all}{NONE}") }
    });
    each.collect::<Vec<_>>().join("; ")
}

/// Each source in such a text, and the share of the answers that it counted. A text of one source has all of them.
pub fn token_counters(text: &str) -> Vec<(&str, f64)> {
    let part = |part| {
        let share = |counts: &str| {
            let counts = counts.strip_suffix(NONE).or_else(|| counts.strip_suffix(FORMER_NONE))?;
            let (answers, all) = counts.split_once(" of ")?;
            Some(answers.parse::<f64>().ok()? / all.parse::<f64>().ok()?.max(1.0))
        };
        let (source, share) = str::rsplit_once(part, FOR)
            .and_then(|(source, counts)| Some((source, share(counts)?)))
            .unwrap_or((part, 0.0));
        (source, share)
    };
    let mut counters: Vec<(&str, f64)> = text.split("; ").map(part).collect();
    let others: f64 = counters.iter().skip(1).map(|(_, share)| share).sum();
    counters[0].1 = 1.0 - others;
    counters
}

/// Whether two such texts mean the same: the same sources, each for about as many of the answers.
pub fn are_counted_alike(one: &str, other: &str) -> bool {
    /// Of the answers.
    const SMALL: f64 = 0.01;
    let (one, other) = (token_counters(one), token_counters(other));
    one.len() == other.len() && one.iter().zip(other).all(|(a, b)| a.0 == b.0 && (a.1 - b.1).abs() <= SMALL)
}

/// Above this share of a server's answers, a missing end marker is how the server behaves, not a failure.
const HABIT: f64 = 0.2;

/// Answers of one server that are shorter than requested although nothing says why.
///
/// A gateway may write `[DONE]` where the server behind it broke off. But servers also leave out what says why an
/// answer ended: an answer counts only if others of the same server have what it lacks.
#[derive(Default)]
pub(super) struct UnexplainedEnds {
    answers: u64,
    has_reasons: bool,
    has_usage: bool,
    /// Without a finish reason and without usage, of a length that is known.
    counted: u64,
    /// Likewise, and chunks stand in for tokens, several of which may be in one.
    by_chunks: u64,
}

impl UnexplainedEnds {
    pub fn add(&mut self, record: &RequestRecord) {
        self.has_reasons |= record.finish_reason.is_some();
        self.has_usage |= record.usage.is_some();
        self.answers += u64::from(record.is_ok());
        let is_short = record.is_ok() && record.tokens < record.requested_tokens;
        if is_short && record.finish_reason.is_none() && record.usage.is_none() {
            let is_counted =
                !matches!(record.token_source, TokenSource::Chunks | TokenSource::Responses | TokenSource::Requested);
            let count = if is_counted { &mut self.counted } else { &mut self.by_chunks };
            *count += 1;
        }
    }

    /// Where no answer has usage, chunks may be fewer than tokens in all of them.
    pub fn count(&self) -> u64 {
        if !self.has_reasons {
            return 0;
        }
        self.counted + if self.has_usage { self.by_chunks } else { 0 }
    }

    pub fn is_habit(&self) -> bool {
        self.count() as f64 > HABIT * self.answers as f64
    }
}

/// Of the successful requests whose `usage` reports `prompt_tokens_details.cached_tokens`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CachedInput {
    /// How many requests these are.
    pub requests: u64,
    /// Their prompt tokens, as the server counts them.
    pub prompt_tokens: u64,
    /// How many of these came from the server's cache.
    pub tokens: u64,
}

impl CachedInput {
    /// `None`: no answer reports it.
    pub(crate) fn from_records(records: &RequestRecords) -> Option<Self> {
        let reported = records
            .ok()
            .filter_map(|record| record.usage.as_ref().and_then(|usage| Some((usage.prompt?, usage.cached?))));
        let (requests, prompt_tokens, tokens) = sums(reported)?;
        Some(Self { requests, prompt_tokens, tokens })
    }

    /// Of the prompt tokens, that were not computed.
    pub(crate) fn share(self) -> f64 {
        self.tokens as f64 / self.prompt_tokens.max(1) as f64
    }
}

/// How many requests there are, and the sums of their two counts; `None` without requests.
fn sums(counts: impl Iterator<Item = (u64, u64)>) -> Option<(u64, u64, u64)> {
    let add = |(requests, first, second): (u64, u64, u64), (one, other)| {
        (requests + 1, first.saturating_add(one), second.saturating_add(other))
    };
    Some(counts.fold((0, 0, 0), add)).filter(|(requests, ..)| *requests > 0)
}

/// A server that counts less than this share of the tokens sent (counted by a tokenizer) has cut the prompt. What it
/// adds, such as a template or special tokens, only raises its count.
pub(crate) const OF_TOKENS: f64 = 0.95;
/// The same share of the words sent. A word has at least one token, except with tokenizers that merge words.
pub(crate) const OF_WORDS: f64 = 0.5;
/// Tolerance for tokens at the start and the end of a text, where tokenizers differ.
const SLACK: f64 = 4.0;

/// Successful requests whose `usage.prompt_tokens` is far below what was sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CutInput {
    /// How many requests these are.
    pub requests: u64,
    /// Their prompt tokens, counted like `input`.
    pub sent: u64,
    /// Their prompt tokens, as the server counts them.
    pub counted: u64,
}

impl CutInput {
    /// `None` if no prompt was cut. `is_exact`: the prompts that were sent were counted in tokens, not in words.
    pub(crate) fn from_records(records: &RequestRecords, is_exact: bool) -> Option<Self> {
        let share = if is_exact { OF_TOKENS } else { OF_WORDS };
        // A tokenizer does not count the answers of earlier turns, which are part of a later prompt.
        let cut = records.ok().filter(|record| record.turn == 0 || !is_exact).filter_map(|record| {
            let usage = record.usage.as_ref()?;
            // 0 is what servers send that do not count prompts.
            let (sent, counted) = (u64::from(record.input_tokens), usage.prompt.filter(|tokens| *tokens > 0)?);
            // A server may count what its cache has apart.
            let most = counted.saturating_add(usage.cached.unwrap_or(0));
            (most as f64 + SLACK < share * sent as f64).then_some((sent, counted))
        });
        let (requests, sent, counted) = sums(cut)?;
        Some(Self { requests, sent, counted })
    }
}

/// Counters of servers, in tokens: looked for in the cache, and found there.
const COUNTERS: [(&str, &str); 2] = [
    ("vllm:prefix_cache_queries_total", "vllm:prefix_cache_hits_total"),
    ("sglang:prompt_tokens_total", "sglang:cached_tokens_total"),
];

/// Prompt tokens as the engines count them in their metrics, while the run was measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct CountedPrompts {
    pub tokens: f64,
    /// How many of these came from the server's cache.
    pub cached: f64,
}

impl CountedPrompts {
    /// As vLLM or SGLang counts them; `None`: no server does, several servers answer at one address, or other clients
    /// sent prompts as well.
    pub(crate) fn from_result(result: &RunResult) -> Option<Self> {
        let metrics = &result.server_metrics.as_ref()?.metrics;
        let increase = |name: &str| -> f64 {
            metrics.iter().filter(|metric| metric.name == name).filter_map(|metric| metric.increase).sum()
        };
        let (queries, hits) = COUNTERS.into_iter().find(|(queries, _)| increase(queries) > 0.0)?;
        let is_counter = |name: &str| name == queries || name == hits;
        let is_one_server = !metrics.iter().any(|metric| is_counter(&metric.name) && metric.resets > 0);
        let tokens = increase(queries);
        let sent = result.tokens.input_server.unwrap_or(result.tokens.input) as f64;
        // Warm-up requests after the first poll are included in the counters, hence the factor.
        let is_of_this_run = tokens <= 2.0 * sent;
        (is_one_server && is_of_this_run).then(|| Self { tokens, cached: increase(hits) })
    }

    pub(crate) fn share(self) -> f64 {
        self.cached / self.tokens
    }
}

impl RunResult {
    /// The share of prompt tokens that came from a prefix cache, by `usage` or by the servers' metrics; `None`: nothing
    /// reports it.
    pub fn cached_prompt_share(&self) -> Option<f64> {
        let by_metrics = || CountedPrompts::from_result(self).map(CountedPrompts::share);
        self.tokens.input_cached.map(CachedInput::share).or_else(by_metrics)
    }
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

#[cfg(test)]
mod mixed_source_tests {
    use super::*;

    #[test]
    fn sources_are_alike_whatever_the_number_of_answers() {
        let text = |answers, all| {
            mixed(vec![(all - answers, "usage".to_owned()), (answers, "chunks, one, each".to_owned())], all)
        };
        assert_eq!(text(3, 1000), "usage; chunks, one, each, for 3 of 1000 answers that have no usable one");
        assert_eq!(token_counters(&text(250, 1000)), [("usage", 0.75), ("chunks, one, each", 0.25)]);
        let former = "usage; chunks, one, each, for 250 of 1000 answers that have none";
        assert!(are_counted_alike(former, &text(250, 1000)));
        assert_eq!(token_counters("chunks, for instance"), [("chunks, for instance", 1.0)]);
        assert!(are_counted_alike(&text(3, 1000), &text(5, 1001)));
        assert!(!are_counted_alike(&text(3, 1000), &text(500, 1000)));
        assert!(!are_counted_alike(&text(3, 1000), "usage"));
        assert!(are_counted_alike("", ""));
    }
}
