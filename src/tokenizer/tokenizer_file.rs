//! The tokenizer of a file, by the library of Hugging Face.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

use super::{LibraryError, TokenizerError};
use base::diag::catch_panic;

/// Text to token ids and back, whole: what the file says of cutting and padding for training is not done.
#[derive(Clone, Debug)]
pub struct Tokenizer(Arc<tokenizers::Tokenizer>);

impl Tokenizer {
    /// `bytes` are those of a `tokenizer.json`.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, TokenizerError> {
        let growth = growth_of(bytes);
        if growth > MOST_GROWTH {
            let text = format!("its replacements can make a text {growth:.0} times as long (limit {MOST_GROWTH})");
            return Err(TokenizerError::File(text.into()));
        }
        let read = called(|| tokenizers::Tokenizer::from_bytes(bytes));
        let mut tokenizer = read.map_err(TokenizerError::File)?;
        let _ = tokenizer.with_truncation(None);
        tokenizer.with_padding(None);
        Ok(Self(Arc::new(tokenizer)))
    }

    /// `add_special` adds the tokens that mark the start and the end of a text for this model.
    pub fn encode(&self, text: &str, add_special: bool) -> Result<Vec<u32>, TokenizerError> {
        let encoding = if text.len() <= SHORT_TEXT {
            called(|| self.0.encode_fast(text, add_special))
        } else {
            let (tokenizer, text) = (Arc::clone(&self.0), text.to_owned());
            within(LONGEST, move || called(|| tokenizer.encode_fast(text, add_special)))
        };
        Ok(encoding.map_err(TokenizerError::Text)?.get_ids().to_vec())
    }

    /// `skip_special` leaves out those tokens. Ids without a token give no text.
    pub fn decode(&self, ids: &[u32], skip_special: bool) -> Result<String, TokenizerError> {
        called(|| self.0.decode(ids, skip_special)).map_err(TokenizerError::Text)
    }

    /// The same as the slow tokenizer of the model spells it, which is SentencePiece, but for spaces at the beginning.
    /// The two differ in bytes that are no UTF-8: here each of them is one U+FFFD, and the characters beside them stay.
    pub fn decode_slowly(&self, ids: &[u32], skip_special: bool) -> Result<String, TokenizerError> {
        if self.0.token_to_id("<0x00>").is_none() {
            return self.decode(ids, skip_special);
        }
        let added = self.0.get_added_vocabulary();
        let mut text = Vec::new();
        for token in ids.iter().filter_map(|id| self.0.id_to_token(*id)) {
            match byte(&token) {
                Some(byte) => text.push(byte),
                None if skip_special && added.is_special_token(&token) => {}
                None => text.extend(token.replace('\u{2581}', " ").bytes()),
            }
        }
        let spelt = text.utf8_chunks();
        Ok(spelt.map(|part| part.valid().to_owned() + &"\u{fffd}".repeat(part.invalid().len())).collect())
    }

    /// Tokens and their ids, without those that were added to the model's own.
    pub fn vocabulary(&self) -> HashMap<String, u32> {
        self.0.get_vocab(false)
    }

    pub fn has_token(&self, id: u32) -> bool {
        self.0.id_to_token(id).is_some()
    }
}

/// The byte of a token `<0x0A>`.
fn byte(token: &str) -> Option<u8> {
    u8::from_str_radix(token.strip_prefix("<0x")?.strip_suffix('>')?, 16).ok()
}

/// Bytes of a text that any pattern divides in seconds. A pattern that looks behind itself can take hours for a longer
/// one.
const SHORT_TEXT: usize = 1 << 12;
/// Real tokenizers encode megabytes in a second.
const LONGEST: Duration = Duration::from_mins(1);

/// Does this on a thread of its own, which goes on alone if it takes longer: the library cannot be interrupted.
fn within<T: Send + 'static>(
    longest: Duration,
    work: impl FnOnce() -> Result<T, LibraryError> + Send + 'static,
) -> Result<T, LibraryError> {
    let (send, receive) = channel();
    thread::Builder::new().name("tokenizer".to_owned()).spawn(move || drop(send.send(work())))?;
    let slow = || format!("its patterns take more than {} s for it", longest.as_secs()).into();
    receive.recv_timeout(longest).unwrap_or_else(|_| Err(slow()))
}

/// Those of real models make three bytes of a space.
const MOST_GROWTH: f64 = 1000.0;

/// How many times as long the replacements of a file can make a text. What cannot be read is the library's to report.
fn growth_of(bytes: &[u8]) -> f64 {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Replacing {
        normalizer: Value,
        decoder: Value,
    }
    let file: Replacing = serde_json::from_slice(bytes).unwrap_or_default();
    growth(&file.normalizer).max(growth(&file.decoder))
}

/// Each replacement works on what the one before made.
fn growth(step: &Value) -> f64 {
    let length = |text: &Value| text.as_str().map_or(0, |text| text.chars().count()).max(1) as f64;
    let factor = length(&step["content"]) / length(&step["pattern"]["String"]);
    let steps: f64 = ["normalizers", "decoders"]
        .into_iter()
        .filter_map(|name| step[name].as_array())
        .flatten()
        .map(growth)
        .product();
    match step["type"].as_str() {
        Some("Replace") => factor.max(1.0),
        // In front of a text of one character.
        Some("Prepend") => 1.0 + length(&step["prepend"]),
        _ => steps,
    }
}

/// The library panics at some files, such as one that is cut in its decoder, and at texts with some of those that it
/// has read.
fn called<T>(work: impl FnOnce() -> Result<T, LibraryError>) -> Result<T, LibraryError> {
    catch_panic(work).unwrap_or_else(|panic| Err(panic.into()))
}

#[cfg(test)]
mod tests;
