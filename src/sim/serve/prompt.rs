//! How many tokens a prompt of text has: as the repository's tokenizer counts them, else a stated estimate.

use std::collections::BTreeMap;
use std::path::Path;

use super::load_error::{LoadError, LoadFailure};
use super::loaded_model::LoadedModel;
use base::files::read_bytes;
use tokenizer::Tokenizer;

/// A substitute for a tokenizer: bytes of UTF-8 for each token, about the ratio of tokenizers for English.
const BYTES_PER_TOKEN: usize = 4;

/// Counts prompt tokens for all text models of a repository.
#[derive(Debug)]
pub(super) enum PromptTokens {
    /// From the folder that a model's parameter `tokenizer_dir` names.
    Counted {
        tokenizer: Box<Tokenizer>,
        add_special_tokens: bool,
    },
    Estimated,
}

impl PromptTokens {
    /// The first `tokenizer_dir` with a `tokenizer.json`. Other kinds of tokenizers are not read.
    pub fn load(models: &BTreeMap<String, LoadedModel>) -> Result<Self, Vec<LoadFailure>> {
        for model in models.values() {
            let text = |key: &str| model.config.parameters.get(key).map(|value| value.string_value.as_str());
            let Some(folder) = text("tokenizer_dir").filter(|folder| !folder.is_empty()) else { continue };
            let file = Path::new(folder).join("tokenizer.json");
            if !file.is_file() {
                continue;
            }
            let failed = |why: String| vec![(model.name.clone(), LoadError::Tokenizer { file: file.clone(), why })];
            let bytes = read_bytes(&file).map_err(|error| failed(error.to_string()))?;
            let tokenizer = Tokenizer::from_bytes(&bytes).map_err(|error| failed(error.to_string()))?;
            let add_special_tokens = matches!(text("add_special_tokens"), Some("true" | "True" | "1"));
            return Ok(Self::Counted { tokenizer: Box::new(tokenizer), add_special_tokens });
        }
        Ok(Self::Estimated)
    }

    /// At least 1.
    pub fn count(&self, text: &[u8]) -> u64 {
        let estimated = || text.len().div_ceil(BYTES_PER_TOKEN);
        let count = match self {
            Self::Counted { tokenizer, add_special_tokens } => tokenizer
                .encode(String::from_utf8_lossy(text).as_ref(), *add_special_tokens)
                .map_or_else(|_| estimated(), |ids| ids.len()),
            Self::Estimated => estimated(),
        };
        count.max(1) as u64
    }

    /// The source of [`Self::count`], for answers that carry a count.
    pub const fn source(&self) -> &'static str {
        match self {
            Self::Counted { .. } => "tokenizer",
            Self::Estimated => "estimate: 4 bytes for each token; the repository has no tokenizer.json",
        }
    }
}
