//! The tokenizer of a file, by the library of Hugging Face.

use std::collections::HashMap;

use super::{LibraryError, TokenizerError};
use base::diag::catch_panic;

/// Text to token ids and back, whole: what the file says of cutting and padding for training is not done.
#[derive(Clone, Debug)]
pub struct Tokenizer(tokenizers::Tokenizer);

impl Tokenizer {
    /// `bytes` are those of a `tokenizer.json`.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, TokenizerError> {
        let read = called(|| tokenizers::Tokenizer::from_bytes(bytes));
        let mut tokenizer = read.map_err(TokenizerError::File)?;
        let _ = tokenizer.with_truncation(None);
        tokenizer.with_padding(None);
        Ok(Self(tokenizer))
    }

    /// `add_special` adds the tokens that mark the start and the end of a text for this model.
    pub fn encode(&self, text: &str, add_special: bool) -> Result<Vec<u32>, TokenizerError> {
        let encoding = called(|| self.0.encode_fast(text, add_special)).map_err(TokenizerError::Text)?;
        Ok(encoding.get_ids().to_vec())
    }

    /// `skip_special` leaves out those tokens. Ids without a token give no text.
    pub fn decode(&self, ids: &[u32], skip_special: bool) -> Result<String, TokenizerError> {
        called(|| self.0.decode(ids, skip_special)).map_err(TokenizerError::Text)
    }

    /// Tokens and their ids, without those that were added to the model's own.
    pub fn vocabulary(&self) -> HashMap<String, u32> {
        self.0.get_vocab(false)
    }

    pub fn has_token(&self, id: u32) -> bool {
        self.0.id_to_token(id).is_some()
    }
}

/// The library panics at some files, such as one that is cut in its decoder, and at texts with some of those that it
/// has read.
fn called<T>(work: impl FnOnce() -> Result<T, LibraryError>) -> Result<T, LibraryError> {
    catch_panic(work).unwrap_or_else(|panic| Err(panic.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_cut_or_of_another_shape_is_an_error_wherever_that_is() {
        let whole = r#"{"version":"1.0","added_tokens":[],"normalizer":{"type":"Lowercase"},"decoder":{"type":"Fuse"},
            "model":{"type":"WordLevel","vocab":{"a":0},"unk_token":"a"}}"#;
        assert_eq!(Tokenizer::from_bytes(whole.as_bytes()).unwrap().encode("A", false).unwrap(), [0]);
        for at in 0..whole.len() {
            let error = Tokenizer::from_bytes(&whole.as_bytes()[..at]).unwrap_err().to_string();
            assert!(error.starts_with("it is not a `tokenizer.json` that can be used: "), "{error}");
        }
        let without_its_table = whole.replace("Lowercase", "Precompiled");
        assert!(Tokenizer::from_bytes(without_its_table.as_bytes()).is_err());
    }
}
