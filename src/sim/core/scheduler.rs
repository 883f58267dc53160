//! The micro-batch scheduler: what the step computes, under the budgets of requests and tokens.
//!
//! What an engine was built for, and the rules of its scheduler.

use super::requests::ContextAt;
use crate::timing::{Coefficients, LoraCost, Speculation, StepWork};

/// How many tokens of its context each of these computes, this many of which it has left. Those without any are left
/// out.
pub(super) fn compose(
    limits: &EngineLimits,
    generating: usize,
    scheduled: &[(ContextAt, u64)],
) -> Vec<(ContextAt, u64)> {
    // The last token of a request and its drafts are verified together.
    let left = limits.max_num_tokens - generating as u64 * (1 + limits.drafts());
    match limits.chunking {
        Chunking::Off => whole(left, scheduled),
        Chunking::FirstComeFirstServed => first_come(limits, left, scheduled),
        Chunking::EqualProgress => equal_progress(limits, left, scheduled),
    }
}

/// The first context that does not fit ends it: none overtakes another.
fn whole(mut left: u64, waiting: &[(ContextAt, u64)]) -> Vec<(ContextAt, u64)> {
    let fits = |&&(_, context): &&(ContextAt, u64)| {
        let rest = left.checked_sub(context);
        left = rest.unwrap_or_default();
        rest.is_some()
    };
    waiting.iter().take_while(fits).copied().collect()
}

/// Whole blocks, unless it is the last piece.
fn first_come(limits: &EngineLimits, mut left: u64, waiting: &[(ContextAt, u64)]) -> Vec<(ContextAt, u64)> {
    let mut pieces = Vec::with_capacity(waiting.len());
    for &(at, context) in waiting {
        let mut piece = context.min(left);
        if piece < context {
            piece = piece / limits.tokens_per_block * limits.tokens_per_block;
        }
        left -= piece;
        if piece > 0 {
            pieces.push((at, piece));
        }
        if left == 0 {
            break;
        }
    }
    pieces
}

/// One block each per round, until the tokens or the contexts are used up.
fn equal_progress(limits: &EngineLimits, mut left: u64, waiting: &[(ContextAt, u64)]) -> Vec<(ContextAt, u64)> {
    let mut pieces: Vec<(ContextAt, u64)> = waiting.iter().map(|&(at, _)| (at, 0)).collect();
    loop {
        let mut dealt = false;
        for (piece, &(_, context)) in pieces.iter_mut().zip(waiting) {
            let unit = limits.tokens_per_block.min(context - piece.1);
            if unit > 0 && unit <= left {
                piece.1 += unit;
                left -= unit;
                dealt = true;
            }
        }
        if !dealt {
            break;
        }
    }
    pieces.retain(|&(_, piece)| piece > 0);
    pieces
}

/// Which requests may hold KV blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchedulerPolicy {
    /// Admit only requests that can finish without releasing a block. In order; the first that does not fit ends the
    /// loop.
    GuaranteedNoEvict,
    /// Admit requests that fit for one more step; pause the youngest when short. A paused request computes its context
    /// again.
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
    /// With no more requests in a step than it has tokens for. TensorRT-LLM lets those over it in and leaves the last
    /// ones out of its steps; here they wait.
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
