//! The micro-batch scheduler: what the step computes, under the budgets of requests and tokens.

use super::limits::{Chunking, EngineLimits};
use super::requests::ContextAt;

/// How many tokens of its context each of these computes, this many of which it has left. Those without any are left out.
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
