//! Prompt tokens by the servers' own count, and how many of them a prefix cache saved.

use super::cached_input::CachedInput;
use super::result::RunResult;

/// Counters of vLLM, in tokens: looked for in its cache, and found there.
const QUERIES: &str = "vllm:prefix_cache_queries_total";
const HITS: &str = "vllm:prefix_cache_hits_total";

/// Prompt tokens as the engines count them in their metrics, while the run was measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct CountedPrompts {
    pub tokens: f64,
    /// How many of these came from the server's cache.
    pub cached: f64,
}

impl CountedPrompts {
    /// As vLLM counts them; `None`: no server does, several servers answer at one address, or other clients sent prompts as well.
    pub(crate) fn of(result: &RunResult) -> Option<Self> {
        let metrics = &result.server_metrics.as_ref()?.metrics;
        let increase = |name: &str| -> f64 {
            metrics.iter().filter(|metric| metric.name == name).filter_map(|metric| metric.increase).sum()
        };
        let is_counter = |name: &str| name == QUERIES || name == HITS;
        let is_one_server = !metrics.iter().any(|metric| is_counter(&metric.name) && metric.resets > 0);
        let tokens = increase(QUERIES);
        let sent = result.tokens.input_server.unwrap_or(result.tokens.input) as f64;
        // The part of the warm-up that falls behind the first poll is counted, too.
        let is_of_this_run = tokens <= 2.0 * sent;
        (is_one_server && is_of_this_run && tokens > 0.0).then(|| Self { tokens, cached: increase(HITS) })
    }

    pub(crate) fn share(self) -> f64 {
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
