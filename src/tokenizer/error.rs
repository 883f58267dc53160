//! Why a text has no tokens, or tokens no text.

use crate::diag::FeatureLeftOut;

/// With the library's own message where it has one.
#[derive(Debug, thiserror::Error)]
pub enum TokenizerError {
    #[error("it is not a `tokenizer.json` that can be used: {0}")]
    File(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("{0}")]
    Text(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error(transparent)]
    LeftOut(#[from] FeatureLeftOut),
}
