//! The samples that an external driver may ask for.

use std::sync::Arc;

use super::planned_request::{PlannedRequest, RequestTrigger};
use crate::schedule::data::PromptPart;

/// What a request can carry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExternalSample {
    /// Token ids of the prompt.
    pub prompt: Arc<[i32]>,
    /// Tokens that its answer may have.
    pub output_len: u32,
}

/// The samples as a plan: one request for each, in their order, without a time.
pub(super) fn sampled(samples: &[ExternalSample]) -> Vec<PlannedRequest> {
    let request = |(index, sample): (usize, &ExternalSample)| PlannedRequest {
        at_ns: 0,
        earliest_ns: 0,
        due: RequestTrigger::Schedule,
        input_len: sample.prompt.len() as u32,
        output_len: sample.output_len,
        session: index as u64,
        turn: 0,
        parts: Some(Arc::from([PromptPart::Ids(Arc::clone(&sample.prompt))])),
    };
    samples.iter().enumerate().map(request).collect()
}
