//! The common form of all wire formats: the few facts that a measurement needs, in the order of their arrival.

use super::{FinishReason, Usage, Violation};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WireEvent {
    /// The answer has begun; no token yet.
    Role,
    /// One message with output.
    Chunk(ChunkTokens),
    /// The server's count of everything up to here. Follows the chunk that it came with.
    Usage(Usage),
    /// Why the answer ended, as reported by the server.
    Finish(FinishReason),
    /// Nothing may follow: `[DONE]`, the final response, the end of a whole answer.
    End,
    /// What a decoder found to contradict the protocol, and an example of it.
    Violation(Violation, String),
}

/// The token count of a chunk, as far as the chunk itself carries it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChunkTokens {
    /// Token ids, or a log probability for each token.
    Exact(u32),
    /// Text, a tool call, or other output: at least one token.
    Text,
    /// A text without characters: the token's text arrives later.
    Empty,
    /// The end of the answer without text: no token, unless a count beside it includes one (an end token), or there is no text at all. Where it
    /// includes more, these came in no form that is understood, or were held back.
    Closing,
    /// A whole answer as one text: this many tokens were requested.
    Requested(u32),
}
