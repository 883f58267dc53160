//! A record as a temporary file holds it. The fields are those of [`RequestRecord`], none left out, because the format of such
//! files has no names.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{FailedAttempt, RequestEnd, RequestRecord, ServerStamps};
use crate::tokens::{FinishReason, TokenSource, Usage, Violation};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct StoredRecord(#[serde(with = "Fields")] pub RequestRecord);

#[derive(Serialize, Deserialize)]
#[serde(remote = "RequestRecord")]
struct Fields {
    index: u64,
    sample: Option<u64>,
    endpoint: u32,
    input_tokens: u32,
    requested_tokens: u32,
    tokens: u32,
    retokenized: bool,
    token_source: TokenSource,
    chunk_tokens_unknown: bool,
    first_tokens: u32,
    first_read_tokens: u32,
    chunks: u32,
    interleaved: bool,
    final_marker: bool,
    session: u64,
    turn: u32,
    t_sched: u64,
    t_issue: u64,
    t_first: Option<u64>,
    t_last: Option<u64>,
    t_end: u64,
    max_gap: u64,
    t_cancel: Option<u64>,
    server: Option<Box<ServerStamps>>,
    #[serde(with = "stored_usage")]
    usage: Option<Box<Usage>>,
    ended: RequestEnd,
    finish_reason: Option<FinishReason>,
    violations: BTreeMap<Violation, u64>,
    attempts: Vec<FailedAttempt>,
    timeline: Vec<(u64, u32)>,
}

/// `usage` as JSON has it leaves a field out.
mod stored_usage {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use crate::tokens::Usage;

    type Fields = (Option<u64>, Option<u64>, Option<u64>, Option<u64>);

    #[expect(clippy::ref_option, reason = "serde passes the field")]
    pub(super) fn serialize<S: Serializer>(usage: &Option<Box<Usage>>, to: S) -> Result<S::Ok, S::Error> {
        usage.as_ref().map(|usage| (usage.prompt, usage.completion, usage.cached, usage.reasoning)).serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Box<Usage>>, D::Error> {
        let fields: Option<Fields> = Option::deserialize(from)?;
        Ok(fields
            .map(|(prompt, completion, cached, reasoning)| Box::new(Usage { prompt, completion, cached, reasoning })))
    }
}
