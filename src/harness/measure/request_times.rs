//! The latencies of one request, ns.

use crate::harness::{RequestRecord, TokenSource};

/// The definition of the window of most numbers.
pub const FULL: &str = "full: schedule start to the end of the last successful request";

pub(in crate::harness) fn ttft(record: &RequestRecord) -> Option<f64> {
    Some(record.t_first?.saturating_sub(record.t_sched) as f64)
}

/// None where a total is known, and the tokens of the first chunk are not.
pub(in crate::harness) fn tpot(record: &RequestRecord) -> Option<f64> {
    if record.chunk_tokens_unknown && record.token_source == TokenSource::Usage {
        return None;
    }
    let later = record.tokens.checked_sub(record.first_tokens).filter(|later| *later > 0)?;
    Some(record.t_last?.saturating_sub(record.t_first?) as f64 / f64::from(later))
}

pub(in crate::harness) fn e2e(record: &RequestRecord) -> Option<f64> {
    Some(record.t_last?.saturating_sub(record.t_sched) as f64)
}
