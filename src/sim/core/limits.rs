//! What an engine was built for, and the rules of its scheduler.

use crate::timing::{Coefficients, LoraCost, Speculation, StepWork};

/// Which requests may hold KV blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchedulerPolicy {
    /// Admit only requests that can finish without releasing a block. In order; the first that does not fit ends the loop.
    GuaranteedNoEvict,
    /// Admit requests that fit for one more step; pause the youngest when short. A paused request computes its context again.
    MaxUtilization,
    /// Admit only when no request runs.
    StaticBatch,
    /// vLLM's: blocks for what is computed, prompts in pieces; the youngest computes again when a block is missing.
    Vllm,
}

/// How context requests share the tokens that generation leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chunking {
    /// Each whole context at once, or not yet.
    Off,
    /// Each as much as fits, in order.
    FirstComeFirstServed,
    /// One block's worth each, in turn.
    EqualProgress,
}

/// The limits of one engine.
#[derive(Clone, Debug, PartialEq)]
pub struct EngineLimits {
    pub policy: SchedulerPolicy,
    pub chunking: Chunking,
    /// Requests in one step.
    pub max_batch_size: usize,
    /// Tokens in one step.
    pub max_num_tokens: u64,
    /// KV blocks in the pool.
    pub blocks: u64,
    pub tokens_per_block: u64,
    /// Of each GPU.
    pub kv_bytes_per_token: f64,
    pub timing: Coefficients,
    /// `None`: each request makes one token in a step.
    pub speculation: Option<Speculation>,
    /// `None`: adapters cost nothing.
    pub lora: Option<LoraCost>,
}

impl EngineLimits {
    /// With no more requests in a step than it has tokens for. TensorRT-LLM lets those over it in and leaves the last ones out of its
    /// steps; here they wait.
    pub(super) fn with_whole_batches(self) -> Self {
        let width = 1 + self.drafts();
        let most = usize::try_from(self.max_num_tokens / width).unwrap_or(usize::MAX);
        Self { max_batch_size: self.max_batch_size.min(most), ..self }
    }

    /// Tokens that are drafted for a request in a step.
    pub(super) fn drafts(&self) -> u64 {
        self.speculation.as_ref().map_or(0, |speculation| speculation.draft_len)
    }

    /// How long a step takes, nanoseconds.
    pub(super) fn step_ns(&self, work: &StepWork) -> u64 {
        match &self.speculation {
            None => self.timing.verify_ns(work, 1),
            Some(speculation) => speculation.step_ns(&self.timing, work),
        }
    }

    /// KV blocks for this many tokens.
    pub(super) const fn blocks_of(&self, tokens: u64) -> u64 {
        if self.tokens_per_block.is_power_of_two() {
            // A division is a third of a simulated token's time.
            (tokens + self.tokens_per_block - 1) >> self.tokens_per_block.trailing_zeros()
        } else {
            tokens.div_ceil(self.tokens_per_block)
        }
    }
}
