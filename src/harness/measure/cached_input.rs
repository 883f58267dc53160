//! Prompt tokens that the server had computed before: those that its prefix cache saved.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::result::RunResult;
use crate::harness::RequestRecords;

/// Prompt tokens as the engines count them in their metrics, while the run was measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::harness) struct CountedPrompts {
    pub tokens: f64,
    /// How many of these came from the server's cache.
    pub cached: f64,
}

impl CountedPrompts {
    /// As vLLM counts them; `None`: no server does.
    pub(in crate::harness) fn of(result: &RunResult) -> Option<Self> {
        let metrics = &result.server_metrics.as_ref()?.metrics;
        let increase = |name: &str| -> f64 {
            metrics.iter().filter(|metric| metric.name == name).filter_map(|metric| metric.increase).sum()
        };
        let tokens = increase("vllm:prefix_cache_queries_total");
        (tokens > 0.0).then(|| Self { tokens, cached: increase("vllm:prefix_cache_hits_total") })
    }

    pub(in crate::harness) fn share(self) -> f64 {
        self.cached / self.tokens
    }
}

impl RunResult {
    /// The share of prompt tokens that came from a prefix cache, by `usage` or by the servers' metrics; `None`: nothing reports it.
    pub fn cached_prompt_share(&self) -> Option<f64> {
        let by_metrics = || CountedPrompts::of(self).map(CountedPrompts::share);
        self.tokens.input_cached.map(CachedInput::share).or_else(by_metrics)
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
    pub(in crate::harness) fn of(records: &RequestRecords) -> Option<Self> {
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
    pub(in crate::harness) fn share(self) -> f64 {
        self.tokens as f64 / self.prompt_tokens.max(1) as f64
    }
}
