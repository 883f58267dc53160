//! The capacity scheduler: which requests may hold KV blocks during the next step.

use super::adapters::AdapterSlots;
use super::{Active, EngineLimits, SchedulerPolicy};

/// Indices of the requests that may run, in the order of the micro-batch scheduler, and how many were paused.
pub(super) fn schedule(limits: &EngineLimits, active: &mut [Active]) -> (Vec<usize>, usize) {
    match limits.policy {
        SchedulerPolicy::GuaranteedNoEvict => (no_evict(limits, active, true), 0),
        SchedulerPolicy::StaticBatch => {
            let admits = !active.iter().any(|request| request.started);
            (no_evict(limits, active, admits), 0)
        }
        // vLLM's has its own module; it decides on blocks and tokens in one walk.
        SchedulerPolicy::MaxUtilization | SchedulerPolicy::Vllm => max_utilization(limits, active),
    }
}

/// Running requests first, each with its blocks to completion; then waiting ones in order, until one does not fit.
fn no_evict(limits: &EngineLimits, active: &[Active], admits: bool) -> Vec<usize> {
    let mut scheduled = Vec::with_capacity(active.len().min(limits.max_batch_size));
    let mut free = limits.blocks;
    let mut adapters = AdapterSlots::of(limits, active);
    for (at, request) in active.iter().enumerate() {
        if request.is_generating() && scheduled.len() < limits.max_batch_size {
            scheduled.push(at);
            free -= request.most_blocks;
        }
    }
    for (at, request) in active.iter().enumerate() {
        if scheduled.len() >= limits.max_batch_size {
            break;
        }
        if request.is_generating() || !(admits || request.started) || !adapters.admit(request) {
            continue;
        }
        let Some(left) = free.checked_sub(request.most_blocks) else { break };
        free = left;
        scheduled.push(at);
    }
    scheduled
}

/// KV blocks of a request after one more step.
pub(super) fn next_blocks(limits: &EngineLimits, request: &Active) -> u64 {
    let tokens = if request.is_generating() { request.kv() + limits.drafts() } else { request.ctx };
    limits.blocks_of(tokens + 1)
}

/// In order, blocks for one more step each. When one does not fit, the youngest started request behind it releases its
/// blocks, until it fits or no such request is left.
fn max_utilization(limits: &EngineLimits, active: &mut [Active]) -> (Vec<usize>, usize) {
    let next_step = |request: &Active| next_blocks(limits, request);
    let mut scheduled = Vec::with_capacity(active.len().min(limits.max_batch_size));
    let mut free = limits.blocks;
    let mut end = active.len();
    let mut at = 0;
    let mut paused = 0;
    let mut adapters = AdapterSlots::of(limits, active);
    while at < end {
        if !adapters.admit(&active[at]) {
            at += 1;
            continue;
        }
        let needed = next_step(&active[at]);
        if scheduled.len() < limits.max_batch_size && needed <= free {
            scheduled.push(at);
            free -= needed;
            at += 1;
            continue;
        }
        let Some(victim) = (at..end).rev().find(|&index| active[index].started) else { break };
        // Blocks are only taken when a request is scheduled, so it is enough to skip it.
        end = victim;
        paused += 1;
        active[victim].lose_blocks();
    }
    (scheduled, paused)
}
