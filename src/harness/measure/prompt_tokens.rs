//! Prompt tokens as servers count them: those that a prefix cache saved, and prompts that were cut.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{RequestRecords, RunResult};

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
