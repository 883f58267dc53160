//! Ways in which an answer contradicts its protocol, counted by class.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What an answer did that its protocol does not allow. None of it enters a latency or a throughput.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Violation {
    /// A message after the end of the answer: after `[DONE]`, or after the final response; over HTTP also bytes behind the whole answer, or on a
    /// connection without a request in flight.
    AfterEnd,
    /// A second `[DONE]` or final response.
    SecondEnd,
    /// The stream ended without `[DONE]`, without a final response or without a gRPC status; or its HTTP body did not end after `[DONE]`.
    MissingEnd,
    /// A response that names another request, or none.
    WrongId,
    /// A response that names another model.
    WrongModel,
    /// Shape × data type of the output tensor is not the number of its bytes.
    WrongShape,
    /// The output tensor has another data type than the server reports of the model, or no token ids: no whole numbers, or negative ones; or
    /// `sequence_length` is negative, or more than it has.
    WrongContent,
    /// More tokens than were requested, by ids or by `usage`. Such a `usage` is not counted.
    AboveRequested,
    /// `usage` decreases, does not grow while text arrives, is less than the number of chunks with text, or counts several tokens where no text arrives.
    UsageMismatch,
    /// `usage` is there and has no counts: a negative number, a fraction, a text.
    MalformedUsage,
    /// A stream of events whose `content-type` is not `text/event-stream`.
    ContentType,
}

impl Violation {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::AfterEnd => "after_end",
            Self::SecondEnd => "second_end",
            Self::MissingEnd => "missing_end",
            Self::WrongId => "wrong_id",
            Self::WrongModel => "wrong_model",
            Self::WrongShape => "wrong_shape",
            Self::WrongContent => "wrong_content",
            Self::AboveRequested => "above_requested",
            Self::UsageMismatch => "usage_mismatch",
            Self::MalformedUsage => "malformed_usage",
            Self::ContentType => "content_type",
        }
    }
}

/// Violations by class, and the first example of each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Violations(BTreeMap<Violation, (u64, String)>);

impl Violations {
    pub fn add(&mut self, class: Violation, example: impl FnOnce() -> String) {
        self.0.entry(class).or_insert_with(|| (0, example())).0 += 1;
    }

    /// Those of another answer, as many as they are.
    pub fn merge(&mut self, other: Self) {
        for (class, (count, example)) in other.0 {
            self.0.entry(class).or_insert_with(|| (0, example)).0 += count;
        }
    }

    /// Class, count, first example.
    pub fn each(&self) -> impl Iterator<Item = (Violation, u64, &str)> {
        self.0.iter().map(|(class, (count, example))| (*class, *count, example.as_str()))
    }
}
