//! vLLM's scheduler: running requests first, each with as much of its context as the step's tokens allow; then waiting ones.
//!
//! A request holds blocks for what is computed of it, no more. When a running one needs a block and none is free, the last of
//! the running ones loses all of its blocks and computes its tokens again later; in a step with such a loss none enters.

use super::active::Active;
use super::adapters::AdapterSlots;
use super::limits::EngineLimits;
use super::requests::{ContextAt, Requests};

/// What the next step computes besides a token for each of those that generate.
#[derive(Debug, Default)]
pub(super) struct Scheduled {
    /// With the tokens of their context.
    pub(super) contexts: Vec<(ContextAt, u64)>,
    /// Requests that lost their blocks for it.
    pub(super) paused: usize,
    /// Waiting requests that it came by and that have no slot for their adapter.
    pub(super) deferred: usize,
}

/// Looks at the first `seen` of those that wait.
pub(super) fn schedule(limits: &EngineLimits, requests: &mut Requests, seen: usize) -> Scheduled {
    let mut scheduled = Scheduled::default();
    let mut pieces = running(limits, requests);
    while after(limits, requests, &pieces) > limits.blocks {
        requests.pause_last();
        scheduled.paused += 1;
        pieces = running(limits, requests);
    }
    let mut free = limits.blocks - after(limits, requests, &pieces);
    let mut budget = limits.max_num_tokens - requests.generating.len() as u64 * (1 + limits.drafts());
    budget -= pieces.iter().sum::<u64>();
    let computing = pieces.into_iter().enumerate().filter(|(_, tokens)| *tokens > 0);
    scheduled.contexts = computing.map(|(at, tokens)| (ContextAt::Computing(at), tokens)).collect();
    if scheduled.paused > 0 {
        return scheduled;
    }
    let mut adapters = AdapterSlots::of(limits, requests);
    let mut places = limits.max_batch_size.saturating_sub(requests.running());
    for (at, request) in requests.waiting.iter().take(seen).enumerate() {
        if places == 0 || budget == 0 {
            break;
        }
        if !adapters.admit(request) {
            scheduled.deferred += 1;
            continue;
        }
        let tokens = request.left().min(budget);
        // `scheduler_reserve_full_isl`: a request enters when all of its context fits, though only a part of it is computed now.
        if limits.blocks_of(request.ctx) > free {
            break;
        }
        let Some(left) = free.checked_sub(limits.blocks_of(request.pos + tokens)) else { break };
        free = left;
        budget -= tokens;
        places -= 1;
        scheduled.contexts.push((ContextAt::Waiting(at), tokens));
    }
    scheduled
}

/// The tokens of each that computes its context: as many as those that generate leave, in order.
fn running(limits: &EngineLimits, requests: &Requests) -> Vec<u64> {
    let mut budget = limits.max_num_tokens - requests.generating.len() as u64 * (1 + limits.drafts());
    let piece = |request: &Active| {
        let tokens = request.left().min(budget);
        budget -= tokens;
        tokens
    };
    requests.computing.iter().map(piece).collect()
}

/// Blocks of those that run after the step.
fn after(limits: &EngineLimits, requests: &Requests, pieces: &[u64]) -> u64 {
    let contexts =
        requests.computing.iter().zip(pieces).map(|(request, tokens)| limits.blocks_of(request.pos + tokens));
    requests.generating.blocks_with(limits.drafts() as i64) + contexts.sum::<u64>()
}
