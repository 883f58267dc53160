//! From token ids to text.

use std::path::{Path, PathBuf};

use crate::synthetic_words;
use base::files::{Sha256Of, read_bytes};
use tokenizer::{Tokenizer, TokenizerError};

/// Why no text can be made of token ids.
#[derive(Debug, thiserror::Error)]
pub enum TokenDecoderError {
    #[error("the answers are token ids, and no `tokenizer` spells them")]
    NoTokenizer,
    #[error("{}: {source}", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error("{}: {source}", path.display())]
    Tokenizer { path: PathBuf, source: TokenizerError },
    /// `tokenizer_config.json`.
    #[error("{} cannot be read: {source}", path.display())]
    Config { path: PathBuf, source: serde_json::Error },
}

/// Spells token ids.
pub struct TokenDecoder {
    /// None: the stand-in, one synthetic word for each id.
    tokenizer: Option<Tokenizer>,
    /// Removes spaces before punctuation again, as the model's `tokenizer_config.json` requires.
    cleans: bool,
    skips_special: bool,
    /// Of `tokenizer.json`.
    pub sha256: Option<String>,
}

impl TokenDecoder {
    /// For synthetic data without a tokenizer: `words::word`.
    pub fn synthetic() -> Self {
        Self { tokenizer: None, cleans: false, skips_special: true, sha256: None }
    }

    /// Reads `tokenizer.json`, and `tokenizer_config.json` beside it where there is one.
    pub fn load(file: &Path, skips_special: bool) -> Result<Self, TokenDecoderError> {
        let file = if file.is_dir() { file.join("tokenizer.json") } else { file.to_owned() };
        let bytes = read_bytes(&file).map_err(|source| TokenDecoderError::Read { path: file.clone(), source })?;
        let tokenizer = Tokenizer::from_bytes(&bytes)
            .map_err(|source| TokenDecoderError::Tokenizer { path: file.clone(), source })?;
        let config = file.with_file_name("tokenizer_config.json");
        let cleans = match read_bytes(&config) {
            Err(_) => false,
            Ok(text) => {
                let config: serde_json::Value = serde_json::from_slice(&text)
                    .map_err(|source| TokenDecoderError::Config { path: config.clone(), source })?;
                config["clean_up_tokenization_spaces"].as_bool().unwrap_or(false)
            }
        };
        let mut digest = Sha256Of::default();
        digest.update(&bytes);
        Ok(Self { tokenizer: Some(tokenizer), cleans, skips_special, sha256: Some(digest.finish()) })
    }

    /// How many ids the tokenizer has no token for: they spell nothing, as in the reference's scoring.
    pub fn unknown(&self, ids: &[u32]) -> u64 {
        let Some(tokenizer) = &self.tokenizer else { return 0 };
        ids.iter().filter(|id| !tokenizer.has_token(**id)).count() as u64
    }

    pub fn spell(&self, ids: &[u32]) -> Result<String, TokenizerError> {
        let Some(tokenizer) = &self.tokenizer else { return Ok(synthetic_words::text(ids)) };
        let text = tokenizer.decode(ids, self.skips_special)?;
        Ok(if self.cleans { cleaned(&text) } else { text })
    }
}

/// What `transformers` does for `clean_up_tokenization_spaces`, in its order.
fn cleaned(text: &str) -> String {
    let rules = [
        (" .", "."),
        (" ?", "?"),
        (" !", "!"),
        (" ,", ","),
        (" ' ", "'"),
        (" n't", "n't"),
        (" 'm", "'m"),
        (" 's", "'s"),
        (" 've", "'ve"),
        (" 're", "'re"),
    ];
    rules
        .into_iter()
        .fold(text.to_owned(), |text, (from, to)| if text.contains(from) { text.replace(from, to) } else { text })
}

#[cfg(test)]
mod tests {
    use super::cleaned;

    #[test]
    fn spaces_before_punctuation_go() {
        assert_eq!(cleaned("I 'm here , am n't I ? It ' s"), "I'm here, amn't I? It's");
    }
}
