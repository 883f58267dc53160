//! Prompt tokens that the server had computed before: those that its prefix cache saved.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::RequestRecords;

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
    pub(crate) fn of(records: &RequestRecords) -> Option<Self> {
        let reported = records
            .ok()
            .filter_map(|record| record.usage.as_ref().and_then(|usage| Some((usage.prompt?, usage.cached?))));
        let sum = reported.fold(Self::default(), |sum, (prompt, cached)| Self {
            requests: sum.requests + 1,
            prompt_tokens: sum.prompt_tokens.saturating_add(prompt),
            tokens: sum.tokens.saturating_add(cached),
        });
        (sum.requests > 0).then_some(sum)
    }

    /// Of the prompt tokens, that were not computed.
    pub(crate) fn share(self) -> f64 {
        self.tokens as f64 / self.prompt_tokens.max(1) as f64
    }
}
