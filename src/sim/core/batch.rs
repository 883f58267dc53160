//! The micro-batch scheduler: what the step computes, under the budgets of requests and tokens.

use super::{Active, Chunking, EngineLimits, InFlight};

/// Walks the scheduled requests in order.
pub(super) fn compose(limits: &EngineLimits, active: &[Active], scheduled: &[usize]) -> InFlight {
    let mut flight = InFlight::default();
    let mut waiting = Vec::new();
    let mut tokens = 0;
    // The last token of a request and its drafts are verified together.
    let width = 1 + limits.drafts();
    for &at in scheduled.iter().take(limits.max_batch_size) {
        let request = &active[at];
        if request.is_generating() {
            if tokens + width > limits.max_num_tokens {
                break;
            }
            flight.generating.push(at);
            tokens += width;
        } else if limits.chunking == Chunking::Off {
            let context = request.ctx - request.pos;
            // The first request that does not fit ends the loop: none overtakes another.
            if tokens + context > limits.max_num_tokens {
                break;
            }
            flight.contexts.push((at, context));
            tokens += context;
        } else {
            waiting.push((at, request.ctx - request.pos));
        }
    }
    let left = limits.max_num_tokens - flight.generating.len() as u64 * width;
    match limits.chunking {
        Chunking::Off => {}
        Chunking::FirstComeFirstServed => flight.contexts = first_come(limits, left, &waiting),
        Chunking::EqualProgress => flight.contexts = equal_progress(limits, left, &waiting),
    }
    flight
}

/// Whole blocks, unless it is the last piece.
fn first_come(limits: &EngineLimits, mut left: u64, waiting: &[(usize, u64)]) -> Vec<(usize, u64)> {
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
    }
    pieces
}

/// One block each per round, until the tokens or the contexts are used up.
fn equal_progress(limits: &EngineLimits, mut left: u64, waiting: &[(usize, u64)]) -> Vec<(usize, u64)> {
    let mut pieces: Vec<(usize, u64)> = waiting.iter().map(|&(at, _)| (at, 0)).collect();
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
