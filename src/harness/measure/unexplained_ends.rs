//! Answers of one server that are shorter than requested, and nothing says why.
//!
//! A gateway may write `[DONE]` where the server behind it broke off. But servers also leave out what says why an answer ended: only
//! what the others of the same server have is missed here.

use crate::{RequestRecord, TokenSource};

/// Above this share of a server's answers it is no accident, but what this server always does at some end.
const HABIT: f64 = 0.2;

#[derive(Default)]
pub(super) struct UnexplainedEnds {
    answers: u64,
    has_reasons: bool,
    has_usage: bool,
    /// Without a finish reason and without usage, of a length that is known.
    counted: u64,
    /// Likewise, and chunks stand in for tokens, several of which may be in one.
    by_chunks: u64,
}

impl UnexplainedEnds {
    pub fn add(&mut self, record: &RequestRecord) {
        self.has_reasons |= record.finish_reason.is_some();
        self.has_usage |= record.usage.is_some();
        self.answers += u64::from(record.is_ok());
        let is_short = record.is_ok() && record.tokens < record.requested_tokens;
        if is_short && record.finish_reason.is_none() && record.usage.is_none() {
            let of = if is_counted(record.token_source) { &mut self.counted } else { &mut self.by_chunks };
            *of += 1;
        }
    }

    /// Where no answer has usage, chunks may be fewer than tokens in all of them.
    pub fn count(&self) -> u64 {
        if !self.has_reasons {
            return 0;
        }
        self.counted + if self.has_usage { self.by_chunks } else { 0 }
    }

    pub fn is_habit(&self) -> bool {
        self.count() as f64 > HABIT * self.answers as f64
    }
}

const fn is_counted(source: TokenSource) -> bool {
    match source {
        TokenSource::OutputIds | TokenSource::Usage | TokenSource::ChunkIds | TokenSource::Retokenized => true,
        TokenSource::Chunks | TokenSource::Responses | TokenSource::Requested => false,
    }
}
