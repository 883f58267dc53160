//! How many requests and tokens there were, by outcome.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{CachedInput, CutInput, FailureClass, FinishReason, Violation};

/// `scheduled = ok + failed + cancelled + cancelled_early + in_flight_at_end + not_sent`, exactly, or the run is invalid.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Counts {
    pub scheduled: u64,
    pub issued: u64,
    pub ok: u64,
    pub failed: u64,
    /// Failed ones by class.
    pub failed_by_class: BTreeMap<FailureClass, u64>,
    /// The first failures in each class, as the server or the connection reported them.
    pub failures: Vec<FailureCounts>,
    /// Ended by us, because the run was stopped.
    pub cancelled: u64,
    /// Why servers ended answers, of all answers that say so.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub finish_reasons: BTreeMap<FinishReason, u64>,
    /// Successful answers that broke off, as it seems: shorter than requested, without a finish reason and without usage, while others of the
    /// same server have a finish reason.
    #[serde(default, skip_serializing_if = "super::is_usual")]
    pub broken_off: u64,
    /// Likewise, where more than a fifth of a server's answers are so: it leaves out by habit what would say why they ended.
    #[serde(default, skip_serializing_if = "super::is_usual")]
    pub unexplained: u64,
    /// What in answers contradicts their protocol, by class: messages, over all requests.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub violations: BTreeMap<Violation, u64>,
    /// The first of each class.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub violation_examples: BTreeMap<Violation, String>,
    /// Ended by us early, as `cancel` sets.
    #[serde(alias = "withdrawn")]
    pub cancelled_early: u64,
    /// Attempts that failed and were followed by another, with `retries`; no requests of their own.
    #[serde(default)]
    pub retried: u64,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub retried_by_class: BTreeMap<FailureClass, u64>,
    pub in_flight_at_end: u64,
    /// Never issued, because the run was stopped.
    #[serde(alias = "lost")]
    pub not_sent: u64,
    pub conserved: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FailureCounts {
    pub class: FailureClass,
    pub request: u64,
    pub why: String,
}

/// Tokens of successful requests.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct TokenCounts {
    /// Where output counts come from: `output_ids`, `usage`, responses, `retokenized` text, or what was requested.
    pub source: String,
    /// By what the tokens of single chunks are counted (inter-token latency, tokens of each second, timelines), where that
    /// is not `source`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chunk_source: Option<String>,
    /// Successful answers of at least two chunks of which it is not known how many tokens each chunk has.
    #[serde(default, skip_serializing_if = "super::is_usual")]
    pub chunk_tokens_unknown: u64,
    /// What `input` counts: `input_ids`, or words of a text, which the model's tokenizer may cut otherwise.
    #[serde(default)]
    pub input_source: String,
    pub input: u64,
    /// What the server counts for the same prompts, where it reports that for each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_server: Option<u64>,
    /// What of the prompts came from the server's prefix cache, where it reports that. Null: no answer does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_cached: Option<CachedInput>,
    /// Prompts that the server counts as far shorter than they were sent. Null: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_cut: Option<CutInput>,
    pub output: u64,
    /// The part of it that `usage` counts as reasoning, where it reports that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_reasoning: Option<u64>,
    /// What the schedule requested of the same requests.
    #[serde(alias = "output_asked")]
    pub output_requested: u64,
    /// Requests with fewer tokens than requested (an end token).
    pub shorter: u64,
    /// Requests with more.
    pub longer: u64,
    /// Mean tokens of the first chunk that had any.
    pub mean_first_chunk: Option<f64>,
    /// Share of chunks that came in one socket read with the one before: they count as one arrival, and ITL and TPOT spread its time over its
    /// tokens.
    pub coalesced_share: Option<f64>,
    /// Share of the gaps between chunks of one answer that are in answers that came in one socket read as a whole, without those that a freeze held
    /// up.
    #[serde(default, skip_serializing_if = "super::is_usual")]
    pub one_read_share: Option<f64>,
    /// Successful answers over HTTP that came in one piece, and not as a stream of events.
    #[serde(default, skip_serializing_if = "super::is_usual")]
    pub whole_answers: u64,
    /// Successful streams without a final marker.
    pub without_final_marker: u64,
}

/// What came of one output beside tokens.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ExtraOutput {
    pub responses: u64,
    pub bytes: u64,
    /// Tensors whose shape does not fit the request.
    pub misshapen: u64,
    /// The first of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub example: Option<String>,
}
