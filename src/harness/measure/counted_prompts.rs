//! Prompt tokens by the servers' own count, and how many of them a prefix cache saved.

use super::cached_input::CachedInput;
use super::result::RunResult;

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
