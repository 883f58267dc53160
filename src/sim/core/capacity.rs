//! TensorRT-LLM's capacity scheduler: which requests may hold KV blocks during the next step.

use std::collections::BTreeSet;

use super::generating::AdapterSlots;
use super::requests::{ContextAt, Requests};
use super::scheduler::{EngineLimits, SchedulerPolicy};

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
    let mut free = limits.blocks - requests.generating.most_blocks();
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
