//! The schedulers of an engine: which requests may hold KV blocks during the next step (capacity), what the step
//! computes under the budgets of requests and tokens (micro-batch), and the limits that both keep.

use std::collections::BTreeSet;

use super::generating::AdapterSlots;
use super::requests::{ContextAt, Requests};
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

/// Those without their context that may run, in the order of the micro-batch scheduler, and how many requests were
/// paused. Those that generate and were not paused run.
pub(super) fn schedule(limits: &EngineLimits, requests: &mut Requests) -> (Vec<ContextAt>, usize) {
    match limits.policy {
        SchedulerPolicy::StaticBatch if requests.running() > 0 => {
            ((0..requests.computing.len()).map(ContextAt::Computing).collect(), 0)
        }
        SchedulerPolicy::GuaranteedNoEvict | SchedulerPolicy::StaticBatch => (no_evict(limits, requests), 0),
        // vLLM's has its own module; it decides on blocks and tokens in one walk.
        SchedulerPolicy::MaxUtilization | SchedulerPolicy::Vllm => max_utilization(limits, requests),
    }
}

/// Running requests first, each with its blocks to completion; then waiting ones in order, until one does not fit.
fn no_evict(limits: &EngineLimits, requests: &Requests) -> Vec<ContextAt> {
    let mut scheduled = Vec::new();
    let mut free = limits.blocks - requests.generating.most_blocks;
    let places = limits.max_batch_size.saturating_sub(requests.generating.len());
    let mut adapters = AdapterSlots::new(limits, requests);
    for (at, request) in requests.contexts() {
        if scheduled.len() >= places {
            break;
        }
        if !adapters.admit(request) {
            continue;
        }
        let Some(left) = free.checked_sub(request.most_blocks) else { break };
        free = left;
        scheduled.push(at);
    }
    scheduled
}

/// In order, blocks for one more step each. When one does not fit, the youngest running request behind it releases its
/// blocks, until it fits or no such request is left.
fn max_utilization(limits: &EngineLimits, requests: &mut Requests) -> (Vec<ContextAt>, usize) {
    let next_of = |tokens: u64| limits.blocks_of(tokens + 1);
    let contexts: u64 = requests.computing.iter().map(|request| next_of(request.ctx)).sum();
    let needed = requests.generating.blocks_with(1 + limits.drafts() as i64) + contexts;
    let Some(mut free) = limits.blocks.checked_sub(needed) else { return one_by_one(limits, requests) };
    let last = requests.computing.last().map(|request| request.place).max(requests.generating.last_place());
    let places = limits.max_batch_size.saturating_sub(requests.generating.len());
    let mut adapters = AdapterSlots::new(limits, requests);
    let mut scheduled: Vec<ContextAt> = (0..requests.computing.len()).map(ContextAt::Computing).collect();
    let mut is_sorted = true;
    for (at, request) in requests.waiting.iter().enumerate() {
        if !adapters.admit(request) {
            continue;
        }
        let is_before = Some(request.place) < last;
        match free.checked_sub(next_of(request.ctx)).filter(|_| scheduled.len() < places) {
            Some(left) => free = left,
            None if is_before => return one_by_one(limits, requests),
            None => break,
        }
        scheduled.push(ContextAt::Waiting(at));
        is_sorted &= !is_before;
    }
    if !is_sorted {
        scheduled.sort_by_key(|at| requests.at(*at).place);
    }
    (scheduled, 0)
}

/// What `max_utilization` takes where blocks are short.
fn one_by_one(limits: &EngineLimits, requests: &mut Requests) -> (Vec<ContextAt>, usize) {
    struct Candidate {
        place: u64,
        needed: u64,
        is_running: bool,
        /// Of one that generates: `None`.
        context: Option<ContextAt>,
    }
    let drafts = limits.drafts();
    // No more can have a place. Those without a slot for their adapter take none.
    let most = if limits.lora.is_some() { usize::MAX } else { limits.max_batch_size - requests.generating.len() };
    let mut candidates: Vec<Candidate> = requests
        .contexts()
        .take(most)
        .map(|(at, request)| Candidate {
            place: request.place,
            needed: limits.blocks_of(request.ctx + 1),
            is_running: matches!(at, ContextAt::Computing(_)),
            context: Some(at),
        })
        .collect();
    candidates.extend(requests.generating.iter().map(|(request, made)| Candidate {
        place: request.place,
        needed: limits.blocks_of(request.isl + made + drafts + 1),
        is_running: true,
        context: None,
    }));
    candidates.sort_by_key(|candidate| candidate.place);
    let mut adapters = AdapterSlots::new(limits, requests);
    let mut free = limits.blocks;
    let (mut scheduled, mut count, mut paused) = (Vec::new(), 0, Vec::new());
    let (mut at, mut end) = (0, candidates.len());
    while at < end {
        let candidate = &candidates[at];
        if let Some(ContextAt::Waiting(waiting)) = candidate.context
            && !adapters.admit(&requests.waiting[waiting])
        {
            at += 1;
            continue;
        }
        if count < limits.max_batch_size && candidate.needed <= free {
            scheduled.extend(candidate.context);
            count += 1;
            free -= candidate.needed;
            at += 1;
            continue;
        }
        let Some(victim) = (at..end).rev().find(|&index| candidates[index].is_running) else { break };
        // Blocks are only taken when a request is scheduled, so it is enough to skip it.
        end = victim;
        paused.push(candidates[victim].place);
    }
    // Where those that go on are when the others have lost their blocks.
    let places: BTreeSet<u64> = scheduled.iter().map(|at| requests.at(*at).place).collect();
    for place in &paused {
        requests.pause(*place);
    }
    let scheduled = requests.contexts().filter(|(_, request)| places.contains(&request.place));
    (scheduled.map(|(at, _)| at).take(places.len()).collect(), paused.len())
}
