//! Why a text has no tokens, or tokens no text.

use base::diag::FeatureLeftOut;

/// An error of the library.
pub(super) type LibraryError = Box<dyn std::error::Error + Send + Sync>;

/// With the library's own message where it has one.
#[derive(Debug, thiserror::Error)]
pub enum TokenizerError {
    #[error("it is not a `tokenizer.json` that can be used: {0}")]
    File(#[source] LibraryError),
    #[error("{0}")]
    Text(#[source] LibraryError),
    #[error(transparent)]
    LeftOut(#[from] FeatureLeftOut),
}
