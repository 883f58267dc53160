//! The record of one request. Stamps are ns from the schedule's start.

mod records;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{FinishReason, TokenSource, Usage, Violation};

pub(crate) use records::RecordWriter;
pub use records::{RecordReader, RequestRecords};

/// One request that was issued. There may be millions, so what most of them lack is boxed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RequestRecord {
    pub index: u64,
    /// Of requests of an external driver: which sample of the data set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sample: Option<u64>,
    /// Position in `BenchSpec::endpoints`.
    pub endpoint: u32,
    /// Prompt tokens.
    pub input_tokens: u32,
    /// Output tokens requested.
    #[serde(alias = "asked_tokens")]
    pub requested_tokens: u32,
    /// Output tokens received, as `tokens.source` of the result counts them.
    pub tokens: u32,
    /// They are those of its text, tokenized again by us.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub retokenized: bool,
    /// What they were counted by.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub token_source: TokenSource,
    /// How many tokens each chunk has is not known: `timeline` counts a chunk as one, and so does `first_tokens` unless
    /// `retokenized`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub chunk_tokens_unknown: bool,
    /// Tokens in the first chunk that had any.
    pub first_tokens: u32,
    /// Tokens of all chunks that came in one read with the first, where there are several, each chunk of unknown tokens
    /// as one; else 0.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub first_read_tokens: u32,
    /// Chunks with at least one token.
    pub chunks: u32,
    /// They are those of several answers to one prompt, which come between each other: gaps are no times between tokens
    /// of one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub interleaved: bool,
    /// A final marker came.
    pub final_marker: bool,
    /// Of several turns; each request is its own where prompts are single.
    #[serde(default)]
    pub session: u64,
    /// Within its session, from 0.
    #[serde(default)]
    pub turn: u32,
    /// Intended arrival; for an idle user, or a later turn, the time at which the request was due.
    pub t_sched: u64,
    /// Handed to its connection.
    pub t_issue: u64,
    /// Socket read of the first chunk with a token.
    pub t_first: Option<u64>,
    /// Socket read of the last chunk with a token.
    pub t_last: Option<u64>,
    /// End of the stream, or of our patience.
    pub t_end: u64,
    /// Largest gap between chunks, ns.
    pub max_gap: u64,
    /// When the request was cancelled, as `cancel` sets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub t_cancel: Option<u64>,
    /// What the server stamped, with `return_perf_metrics`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<Box<ServerStamps>>,
    /// Tokens as the server counts them, where it reports them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Box<Usage>>,
    pub ended: RequestEnd,
    /// Why the server ended the answer, where it reports that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finish_reason: Option<FinishReason>,
    /// What in the answer contradicts its protocol, by class.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub violations: BTreeMap<Violation, u64>,
    /// Earlier attempts, with `retries`. `t_issue` is that of the first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attempts: Vec<FailedAttempt>,
    /// Each chunk with a token: its socket read and its tokens. Empty unless `BenchSpec::timelines`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub timeline: Vec<(u64, u32)>,
}

impl RequestRecord {
    /// The tokens of the first chunk that had any; `None` where they are not known.
    pub fn known_first_tokens(&self) -> Option<u32> {
        (!self.chunk_tokens_unknown || self.retokenized).then_some(self.first_tokens)
    }

    /// All of several chunks came in one read: the time between them was not measured.
    pub const fn is_one_read(&self) -> bool {
        self.chunks > 1 && self.max_gap == 0
    }

    /// The gaps between chunks are times between tokens of one answer.
    pub const fn has_token_times(&self) -> bool {
        !self.interleaved && !self.is_one_read()
    }

    pub fn is_ok(&self) -> bool {
        self.ended == RequestEnd::Ok
    }
}

/// It has its default, which files leave out.
pub(crate) fn is_usual<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// A request's life as the server stamps it: ns of the server's own clock, so only differences mean something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerStamps {
    pub arrival_time_ns: i64,
    pub first_scheduled_time_ns: i64,
    pub first_token_time_ns: i64,
    pub last_token_time_ns: i64,
    pub kv_cache_alloc_new_blocks: i32,
    pub kv_cache_reused_blocks: i32,
    pub kv_cache_alloc_total_blocks: i32,
}

/// An attempt that failed and was followed by another. Stamps are ns from the schedule's start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedAttempt {
    pub t_issue: u64,
    pub t_end: u64,
    pub class: FailureClass,
    pub why: String,
}

/// How a request left.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestEnd {
    Ok,
    Failed {
        class: FailureClass,
        why: String,
    },
    /// The run was stopped.
    Cancelled,
    /// We ended it early, as `cancel` sets.
    #[serde(alias = "withdrawn")]
    CancelledEarly,
}

named! {
    /// Why a request failed.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema)]
    pub enum FailureClass {
        /// No connection, or it broke before any answer.
        Connect = "connect",
        /// The server would not take the request (UNAVAILABLE, RESOURCE_EXHAUSTED, REFUSED_STREAM, HTTP status 429 or
        /// 503).
        Refused = "refused",
        /// The stream broke after it had begun, or was not understood.
        Stream = "stream",
        /// The server answered with an error.
        Server = "server",
        /// No token for the stall time-out.
        Stall = "stall",
        /// Fewer tokens than requested, and neither a final marker nor an end token to justify it; or none at all.
        Short = "short",
        /// Not done within its deadline, or not within the longest time of any answer.
        Deadline = "deadline",
        /// The answer exceeds one of `request.response_limits`.
        TooLarge = "too_large",
    }
}
