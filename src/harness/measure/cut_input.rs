//! Prompts that the server counts as far shorter than they were sent: it cut them, mostly at its context length.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::RequestRecords;

/// Of the tokens that were sent, where a tokenizer counted them. What a server adds (a template, special tokens) makes its count higher.
const OF_TOKENS: f64 = 0.95;
/// Of the words that were sent. A word has at least one token, except with tokenizers that merge words.
const OF_WORDS: f64 = 0.5;
/// Tokens at the begin and at the end of a text that tokenizers treat differently.
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
    /// `None`: there are none. `is_exact`: what was sent was counted in tokens, and not in words.
    pub(crate) fn of(records: &RequestRecords, is_exact: bool) -> Option<Self> {
        let share = if is_exact { OF_TOKENS } else { OF_WORDS };
        // A tokenizer does not count the answers of earlier turns, which are part of a later prompt.
        let cut = records.ok().filter(|record| record.turn == 0 || !is_exact).filter_map(|record| {
            let usage = record.usage.as_ref()?;
            let (sent, counted) = (u64::from(record.input_tokens), usage.prompt?);
            // A server may count what its cache has apart.
            let most = counted.saturating_add(usage.cached.unwrap_or(0));
            (most as f64 + SLACK < share * sent as f64).then_some((sent, counted))
        });
        let sum = cut.fold(Self::default(), |sum, (sent, counted)| Self {
            requests: sum.requests + 1,
            sent: sum.sent + sent,
            counted: sum.counted + counted,
        });
        (sum.requests > 0).then_some(sum)
    }
}
