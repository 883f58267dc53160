//! The source of a request's output token count.

use serde::{Deserialize, Serialize};

/// The label where chunks stand in for tokens.
pub(crate) const CHUNKS: &str = "chunks, each counted as one token";

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TokenSource {
    /// Elements of `output_ids`.
    #[default]
    OutputIds,
    /// `usage.completion_tokens`.
    Usage,
    /// `token_ids` or log probabilities of each chunk; the server sent no usage.
    ChunkIds,
    /// Chunks over SSE; the server sent no usage that can be used.
    Chunks,
    /// Responses with text, over gRPC or of Triton's generate extension.
    Responses,
    /// The requested length: the answer is one text without a count.
    Requested,
    /// The answer's text, by the local tokenizer.
    Retokenized,
}
