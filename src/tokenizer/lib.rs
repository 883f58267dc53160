//! A model's `tokenizer.json`: text to token ids and back. Never uses the network.
//!
//! ```text
//!  tokenizer.json ─→ Tokenizer ─→ token ids of a text, text of token ids
//! ```

mod error;
#[cfg(feature = "tokenizers")]
mod tokenizer_file;
#[cfg(not(feature = "tokenizers"))]
#[path = "tokenizer_stub.rs"]
mod tokenizer_file;

pub use error::TokenizerError;
pub use tokenizer_file::Tokenizer;
