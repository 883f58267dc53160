//! The latencies of one request, ns.

use crate::{RequestRecord, TokenSource};

/// The definition of the window of most numbers.
pub const FULL: &str = "full: schedule start to the end of the last successful request";

pub(crate) fn ttft(record: &RequestRecord) -> Option<f64> {
    Some(record.t_first?.saturating_sub(record.t_sched) as f64)
}

/// Tokens after the first read: those that came with the first chunk took no time of their own.
pub(crate) fn later_tokens(record: &RequestRecord) -> u32 {
    record.tokens.saturating_sub(record.first_tokens.max(record.first_read_tokens))
}

/// None where a total is known, and the tokens of the first chunk are not; or where no times between tokens were measured.
pub(crate) fn tpot(record: &RequestRecord) -> Option<f64> {
    if !record.has_token_times() || record.chunk_tokens_unknown && record.token_source == TokenSource::Usage {
        return None;
    }
    let later = Some(later_tokens(record)).filter(|later| *later > 0)?;
    Some(record.t_last?.saturating_sub(record.t_first?) as f64 / f64::from(later))
}

/// Longest gap between chunks.
pub(crate) fn max_stall(record: &RequestRecord) -> Option<f64> {
    (record.chunks > 1 && record.has_token_times()).then_some(record.max_gap as f64)
}

pub(crate) fn e2e(record: &RequestRecord) -> Option<f64> {
    Some(record.t_last?.saturating_sub(record.t_sched) as f64)
}
