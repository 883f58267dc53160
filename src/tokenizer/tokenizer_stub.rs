//! A program without the feature `tokenizers` reads no `tokenizer.json`, and reports that when it is given one.

use std::collections::HashMap;

use super::TokenizerError;
use base::diag::FeatureLeftOut;

/// Cannot be made: the feature is left out.
#[derive(Clone, Debug)]
pub enum Tokenizer {}

impl Tokenizer {
    pub const fn from_bytes(_bytes: &[u8]) -> Result<Self, TokenizerError> {
        Err(TokenizerError::LeftOut(FeatureLeftOut("tokenizers")))
    }

    pub const fn encode(&self, _text: &str, _add_special: bool) -> Result<Vec<u32>, TokenizerError> {
        match *self {}
    }

    pub const fn decode(&self, _ids: &[u32], _skip_special: bool) -> Result<String, TokenizerError> {
        match *self {}
    }

    pub const fn decode_slowly(&self, _ids: &[u32], _skip_special: bool) -> Result<String, TokenizerError> {
        match *self {}
    }

    pub const fn vocabulary(&self) -> HashMap<String, u32> {
        match *self {}
    }

    pub const fn has_token(&self, _id: u32) -> bool {
        match *self {}
    }
}
