//! `bench.request.response_limits:` — how large an answer may be.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::counts::MOST_ANSWER_BYTES;

/// Limits on one answer, and on all that are in flight, in bytes. Each has a default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
#[schemars(deny_unknown_fields)]
pub struct ResponseSizeLimits {
    /// Over HTTP: all of an answer after its header. [default: 67108864 (64 MiB)]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MOST_ANSWER_BYTES))]
    pub body: Option<u64>,
    /// Over HTTP: the status line and all headers. [default: 65536]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MOST_ANSWER_BYTES))]
    pub header: Option<u64>,
    /// One server-sent event. [default: 16777216 (16 MiB)]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MOST_ANSWER_BYTES))]
    pub line: Option<u64>,
    /// One gRPC message. [default: 268435456 (256 MiB); where logits are requested, what gRPC allows (2 GiB)]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MOST_ANSWER_BYTES))]
    pub frame: Option<u64>,
    /// What all answers that are in flight hold in memory together. The answer that would exceed it fails. [default: 1073741824
    /// (1 GiB), or the largest of the other limits where that is more]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MOST_ANSWER_BYTES))]
    pub total: Option<u64>,
}

impl ResponseSizeLimits {
    /// The first that allows nothing.
    pub(super) fn zero(&self) -> Option<&'static str> {
        let all = [
            ("body", self.body),
            ("header", self.header),
            ("line", self.line),
            ("frame", self.frame),
            ("total", self.total),
        ];
        all.into_iter().find(|(_, bytes)| *bytes == Some(0)).map(|(key, _)| key)
    }
}
