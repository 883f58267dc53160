//! One accounting of tokens for all wire forms.
//!
//! ```text
//!  SSE event, gRPC response ─decode→ WireEvent, WireEvent, … ─take→ Accounting ─settle→ CountedTokens ─→ RequestRecord
//! ```
//!
//! A chunk is one message with output; a token is what the model generated. How many tokens a chunk has is known where the
//! server sends ids, or a running count, or where its total equals the number of chunks. Where it is not known, nothing is
//! computed per token.

mod account;
mod answer_text;
mod finish_reason;
mod live_counts;
mod source;
mod spans;
mod usage;
mod violation;
mod wire_event;

pub(super) use account::{Accounting, CountedTokens};
pub(super) use answer_text::AnswerText;
pub use finish_reason::FinishReason;
pub(super) use live_counts::{LiveCounts, LiveTotals};
pub(super) use source::CHUNKS;
pub use source::TokenSource;
pub use usage::Usage;
pub use violation::Violation;
pub(super) use violation::Violations;
pub(super) use wire_event::{ChunkTokens, WireEvent};

/// One chunk with at least one token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TokenChunk {
    /// Time of the socket read that completed it, ns: taken after that read returned.
    pub t_read: u64,
    pub tokens: u32,
}
