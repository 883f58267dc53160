//! The content of a file of prompts: its records, the memory that they may occupy, and what is reported of them.

use std::path::Path;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::errors::fault;
use super::prompt::PromptPart;
use crate::HarnessError;

/// The most memory for the content of a file; more is refused and not swapped.
const MOST_CONTENT_BYTES: usize = 4 << 30;

/// One record: a session, most often of one turn.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct CorpusRecord {
    /// Time stamp, ns; counted from the first record's.
    pub at_ns: Option<u64>,
    pub turns: Vec<CorpusTurn>,
    /// Its turns are one conversation: the first one is sent, unless sessions are requested.
    pub is_conversation: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CorpusTurn {
    /// Empty: a prompt of `tokens` is drawn.
    pub parts: Arc<[PromptPart]>,
    pub tokens: Option<u32>,
    pub output_tokens: Option<u32>,
    /// A recorded answer.
    pub answer: Option<Arc<str>>,
    /// Between the answer before and this turn, ns.
    pub pause_ns: Option<u64>,
    /// Time stamp of a later turn, ns.
    pub at_ns: Option<u64>,
    /// The prompt holds all turns before.
    pub is_whole: bool,
}

/// The memory that is left.
pub(super) struct MemoryBudget<'a> {
    left: usize,
    file: &'a Path,
}

impl<'a> MemoryBudget<'a> {
    pub const fn of(file: &'a Path) -> Self {
        Self { left: MOST_CONTENT_BYTES, file }
    }

    pub fn take(&mut self, bytes: usize) -> Result<(), HarnessError> {
        self.left = self.left.checked_sub(bytes).ok_or_else(|| {
            let gib = MOST_CONTENT_BYTES >> 30;
            fault(self.file, format!("more than {gib} GiB of prompts would be kept: take fewer with `first: 10000`"))
        })?;
        Ok(())
    }
}

/// What a file gave, for the result.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DataSummary {
    pub file: String,
    /// BLAKE3 of its bytes.
    pub digest: String,
    /// In the file, as far as it was read.
    pub records: u64,
    /// Left out, with why.
    pub skipped: Vec<String>,
    /// How many sessions or requests were planned from it.
    pub taken: u64,
    /// Records that were taken more than once, or again after the end.
    pub repeated: bool,
}
