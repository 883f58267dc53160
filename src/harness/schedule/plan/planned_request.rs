//! One request of a plan.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::schedule::data::{PromptPart, RandomStream};

/// One request to come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedRequest {
    /// Intended arrival, ns from the start; of a request that waits for another, ns after that has ended.
    pub at_ns: u64,
    /// Of a later turn of a trace: it does not come before, ns from the start.
    pub earliest_ns: u64,
    pub due: RequestTrigger,
    /// Tokens.
    pub input_len: u32,
    /// Tokens requested.
    pub output_len: u32,
    pub session: u64,
    /// Within its session, from 0.
    pub turn: u32,
    /// None: drawn for this request alone.
    pub(crate) parts: Option<Arc<[PromptPart]>>,
}

/// What a request waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestTrigger {
    /// Its time.
    Schedule,
    /// When a user is idle and its think time has passed.
    User,
    /// The answer to the turn before, and a pause.
    Turn,
}

impl PlannedRequest {
    /// A request of its own.
    #[cfg(test)]
    pub(crate) const fn at(at_ns: u64, input_len: u32, output_len: u32) -> Self {
        Self {
            at_ns,
            earliest_ns: 0,
            due: RequestTrigger::Schedule,
            input_len,
            output_len,
            session: 0,
            turn: 0,
            parts: None,
        }
    }

    /// Whether the answers of the turns before are part of its prompt.
    pub fn needs_answers(&self) -> bool {
        self.parts.iter().flat_map(|parts| parts.iter()).any(|part| matches!(part, PromptPart::PreviousAnswer { .. }))
    }

    pub(super) fn recipe(&self, index: u64) -> Arc<[PromptPart]> {
        self.parts.clone().unwrap_or_else(|| {
            Arc::from([PromptPart::Drawn { stream: RandomStream::Prompt, number: index, tokens: self.input_len }])
        })
    }
}
