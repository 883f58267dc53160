//! A model's `tokenizer.json`: text to token ids and back. Never uses the network.
//!
//! ```text
//!  tokenizer.json ─→ Tokenizer ─→ token ids of a text, text of token ids
//! ```

#[cfg(feature = "tokenizers")]
mod tokenizer_file;
#[cfg(not(feature = "tokenizers"))]
#[path = "tokenizer_stub.rs"]
mod tokenizer_file;

use base::diag::FeatureLeftOut;
pub use tokenizer_file::Tokenizer;

/// An error of the library.
type LibraryError = Box<dyn std::error::Error + Send + Sync>;

/// Why a text has no tokens, or tokens no text; with the library's own message where it has one.
#[derive(Debug, thiserror::Error)]
pub enum TokenizerError {
    #[error("it is not a `tokenizer.json` that can be used: {0}")]
    File(#[source] LibraryError),
    #[error("{0}")]
    Text(#[source] LibraryError),
    #[error(transparent)]
    LeftOut(#[from] FeatureLeftOut),
}
