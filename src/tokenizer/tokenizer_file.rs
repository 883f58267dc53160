//! The tokenizer of a file, by the library of Hugging Face.

use std::collections::HashMap;

use super::error::TokenizerError;

/// Text to token ids and back, whole: what the file says of cutting and padding for training is not done.
#[derive(Clone, Debug)]
pub struct Tokenizer(tokenizers::Tokenizer);

impl Tokenizer {
    /// `bytes` are those of a `tokenizer.json`.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, TokenizerError> {
        let mut tokenizer = tokenizers::Tokenizer::from_bytes(bytes).map_err(TokenizerError::File)?;
        let _ = tokenizer.with_truncation(None);
        tokenizer.with_padding(None);
        Ok(Self(tokenizer))
    }

    /// `add_special` adds the tokens that mark the start and the end of a text for this model.
    pub fn encode(&self, text: &str, add_special: bool) -> Result<Vec<u32>, TokenizerError> {
        let encoding = self.0.encode_fast(text, add_special).map_err(TokenizerError::Text)?;
        Ok(encoding.get_ids().to_vec())
    }

    /// `skip_special` leaves out those tokens. Ids without a token give no text.
    pub fn decode(&self, ids: &[u32], skip_special: bool) -> Result<String, TokenizerError> {
        self.0.decode(ids, skip_special).map_err(TokenizerError::Text)
    }

    /// Tokens and their ids, without those that were added to the model's own.
    pub fn vocabulary(&self) -> HashMap<String, u32> {
        self.0.get_vocab(false)
    }

    pub fn has_token(&self, id: u32) -> bool {
        self.0.id_to_token(id).is_some()
    }
}
