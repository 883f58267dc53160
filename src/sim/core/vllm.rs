//! vLLM's scheduler: running requests first, each with as much of its context as the step's tokens allow; then waiting ones.
//!
//! A request holds blocks for what is computed of it, no more. When a running one needs a block and none is free, the last of
//! the running ones loses all of its blocks and computes its tokens again later; in a step with such a loss none enters.

use super::adapters::AdapterSlots;
use super::{Active, EngineLimits, InFlight};

/// What the next step computes, and how many requests lost their blocks for it.
pub(super) fn schedule(limits: &EngineLimits, active: &mut [Active]) -> (InFlight, usize) {
    let blocks_of = |tokens: u64| limits.blocks_of(tokens);
    let mut flight = InFlight::default();
    let drafts = limits.drafts();
    let mut budget = limits.max_num_tokens;
    // Requests keep the order of their arrival, and none overtakes another: those that run are the first ones.
    let mut running = active.iter().take_while(|request| request.started).count();
    let mut free = limits.blocks - active[..running].iter().map(|request| blocks_of(request.held())).sum::<u64>();
    let mut preempted = 0;
    let mut at = 0;
    while at < running && budget > 0 {
        let tokens = active[at].next_tokens(drafts);
        // All drafts of a request are verified in one step.
        if active[at].is_generating() && tokens > budget {
            break;
        }
        let tokens = tokens.min(budget);
        let needed = |request: &Active| blocks_of(request.held() + tokens) - blocks_of(request.held());
        while needed(&active[at]) > free && running > at {
            running -= 1;
            free += blocks_of(active[running].held());
            active[running].lose_blocks();
            preempted += 1;
        }
        if running <= at {
            break;
        }
        free -= needed(&active[at]);
        budget -= tokens;
        flight.take(at, &active[at], tokens);
        at += 1;
    }
    if preempted == 0 {
        let mut adapters = AdapterSlots::of(limits, &active[..running]);
        // Where the next one that enters stands: behind those that run, before those without a slot for their adapter.
        let mut place = running;
        let mut at = running;
        while at < active.len() && place < limits.max_batch_size && budget > 0 {
            if !adapters.admit(&active[at]) {
                flight.deferred += 1;
                at += 1;
                continue;
            }
            let tokens = active[at].next_tokens(drafts).min(budget);
            // `scheduler_reserve_full_isl`: a request enters when all of its context fits, though only a part of it is computed now.
            if blocks_of(active[at].ctx) > free {
                break;
            }
            let Some(left) = free.checked_sub(blocks_of(active[at].held() + tokens)) else { break };
            free = left;
            budget -= tokens;
            active[place..=at].rotate_right(1);
            flight.take(place, &active[place], tokens);
            place += 1;
            at += 1;
        }
    }
    (flight, preempted)
}
