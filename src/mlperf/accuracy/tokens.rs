//! From an answer's bytes to token ids, and from ids to text.

use std::fs;
use std::path::Path;

use tokenizers::Tokenizer;

use super::log::Entry;
use crate::mlperf::sha256::Sha256Of;
use crate::mlperf::words;

/// How wide a token id is in an accuracy log: the reference scripts' `--dtype`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Width {
    Int32,
    Int64,
}

impl Width {
    /// From LoadGen's own count of tokens; without one, from the upper halves of eight-byte ids, which are all zero.
    /// None: an empty answer says nothing.
    pub fn of(entry: &Entry) -> Option<Self> {
        let bytes = entry.data.len() as u64;
        match entry.token_count {
            _ if bytes == 0 => None,
            Some(count) if count > 0 && bytes == 8 * count => Some(Self::Int64),
            Some(count) if count > 0 && bytes == 4 * count => Some(Self::Int32),
            _ => {
                let (eights, rest) = entry.data.as_chunks::<8>();
                let is_wide = rest.is_empty() && eights.iter().all(|id| id[4..] == [0; 4]);
                Some(if is_wide { Self::Int64 } else { Self::Int32 })
            }
        }
    }

    /// Token ids. Err: what is wrong with the bytes.
    pub fn ids(self, data: &[u8]) -> Result<Vec<u32>, String> {
        let whole = |rest: &[u8], width: usize| {
            if rest.is_empty() {
                return Ok(());
            }
            Err(format!("{} bytes are no whole number of ids of {width} bytes", data.len()))
        };
        let checked = |id: i64| u32::try_from(id).map_err(|_| format!("{id} is no token id"));
        match self {
            Self::Int32 => {
                let (ids, rest) = data.as_chunks::<4>();
                whole(rest, 4)?;
                ids.iter().map(|id| checked(i32::from_le_bytes(*id).into())).collect()
            }
            Self::Int64 => {
                let (ids, rest) = data.as_chunks::<8>();
                whole(rest, 8)?;
                ids.iter().map(|id| checked(i64::from_le_bytes(*id))).collect()
            }
        }
    }
}

/// Spells token ids.
pub struct Speller {
    /// None: the stand-in, one made-up word for each id.
    tokenizer: Option<Tokenizer>,
    /// Takes spaces before punctuation out again, as the model's `tokenizer_config.json` asks.
    cleans: bool,
    skips_special: bool,
    /// Of `tokenizer.json`.
    pub sha256: Option<String>,
}

impl Speller {
    /// For data that are made up, where there is no tokenizer: `words::word`.
    pub fn stand_in() -> Self {
        Self { tokenizer: None, cleans: false, skips_special: true, sha256: None }
    }

    /// Reads `tokenizer.json`, and `tokenizer_config.json` beside it where there is one.
    pub fn load(file: &Path, skips_special: bool) -> Result<Self, String> {
        let file = if file.is_dir() { file.join("tokenizer.json") } else { file.to_owned() };
        let bytes = fs::read(&file).map_err(|error| format!("{}: {error}", file.display()))?;
        let tokenizer = Tokenizer::from_bytes(&bytes)
            .map_err(|error| format!("{} is not a `tokenizer.json` that can be used: {error}", file.display()))?;
        let config = file.with_file_name("tokenizer_config.json");
        let cleans = match fs::read(&config) {
            Err(_) => false,
            Ok(text) => {
                let config: serde_json::Value = serde_json::from_slice(&text)
                    .map_err(|error| format!("{} cannot be read: {error}", config.display()))?;
                config["clean_up_tokenization_spaces"].as_bool().unwrap_or(false)
            }
        };
        let mut digest = Sha256Of::default();
        digest.update(&bytes);
        Ok(Self { tokenizer: Some(tokenizer), cleans, skips_special, sha256: Some(digest.finish()) })
    }

    pub fn spell(&self, ids: &[u32]) -> Result<String, String> {
        let Some(tokenizer) = &self.tokenizer else { return Ok(words::text(ids)) };
        let text = tokenizer.decode(ids, self.skips_special).map_err(|error| error.to_string())?;
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
    use super::{Entry, Width, cleaned};

    fn entry(data: &[u8], token_count: Option<u64>) -> Entry {
        Entry { offset: 0, qsl_idx: 0, data: data.to_vec(), token_count }
    }

    #[test]
    fn the_width_of_ids_is_told_by_their_count_or_by_their_zeroes() {
        let narrow: Vec<u8> = [5i32, 0, 7, 0].iter().flat_map(|id| id.to_le_bytes()).collect();
        assert_eq!(Width::of(&entry(&narrow, Some(4))), Some(Width::Int32));
        assert_eq!(Width::of(&entry(&narrow, Some(2))), Some(Width::Int64));
        assert_eq!(Width::of(&entry(&narrow, None)), Some(Width::Int64));
        assert_eq!(Width::of(&entry(&narrow[..12], None)), Some(Width::Int32));
        assert_eq!(Width::of(&entry(&[], Some(0))), None);
        assert_eq!(Width::Int64.ids(&narrow), Ok(vec![5, 7]));
        assert_eq!(Width::Int32.ids(&narrow[..3]), Err("3 bytes are no whole number of ids of 4 bytes".to_owned()));
        assert_eq!(Width::Int32.ids(&[255; 4]), Err("-1 is no token id".to_owned()));
    }

    #[test]
    fn spaces_before_punctuation_go() {
        assert_eq!(cleaned("I 'm here , am n't I ? It ' s"), "I'm here, amn't I? It's");
    }
}
