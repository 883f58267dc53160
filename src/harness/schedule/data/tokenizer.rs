//! Text with an exact number of a tokenizer's tokens, and the count of any text.

use std::path::Path;

use rand::RngExt;
use rand_pcg::Pcg64;

use super::jsonl::fault;
use crate::HarnessError;
use crate::schedule::arrivals::generator;
use base::files::{Digest, Hasher, read_bytes};
use tokenizer::Tokenizer;

/// Fewer words than these would make prompts too similar.
const FEWEST_WORDS: usize = 32;
/// More are not needed.
const MOST_WORDS: usize = 4_096;
/// Number of texts that check whether lengths are exact, and of words in each.
const TRIALS: u64 = 32;
const TRIAL_WORDS: u32 = 256;

pub(crate) struct PromptTokenizer {
    tokenizer: Tokenizer,
    /// Words that are one token each, at the start of a text as well as after a space; in the order of their ids.
    words: Vec<Box<str>>,
    pub digest: Digest,
}

impl std::fmt::Debug for PromptTokenizer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Speech({} words, {})", self.words.len(), self.digest)
    }
}

impl PartialEq for PromptTokenizer {
    fn eq(&self, other: &Self) -> bool {
        self.digest == other.digest
    }
}

impl PromptTokenizer {
    pub fn load(file: &Path) -> Result<Self, HarnessError> {
        let bytes = read_bytes(file).map_err(|error| fault(file, error.to_string()))?;
        let tokenizer = Tokenizer::from_bytes(&bytes).map_err(|error| fault(file, error.to_string()))?;
        let mut prompt_tokenizer = Self { tokenizer, words: Vec::new(), digest: Hasher::new().field(&bytes).finish() };
        prompt_tokenizer.words = prompt_tokenizer.single_words();
        Ok(prompt_tokenizer)
    }

    /// Without the special tokens that a server may add.
    pub fn encode(&self, text: &str) -> Result<Vec<i32>, HarnessError> {
        let ids = self.tokenizer.encode(text, false);
        let ids = ids.map_err(|error| HarnessError::spec(format_args!("the tokenizer cannot read a prompt: {error}")));
        Ok(ids?.into_iter().map(|id| id as i32).collect())
    }

    pub fn count(&self, text: &str) -> Result<u32, HarnessError> {
        self.encode(text).map(|ids| ids.len() as u32)
    }

    pub fn decode(&self, ids: &[i32]) -> Result<String, HarnessError> {
        let ids: Vec<u32> = ids.iter().map(|id| *id as u32).collect();
        let text = self.tokenizer.decode(&ids, false);
        text.map_err(|error| HarnessError::spec(format_args!("the tokenizer cannot decode a prompt: {error}")))
    }

    /// Refuses a tokenizer that cannot make texts of exact length.
    pub fn check(&self, file: &Path) -> Result<(), HarnessError> {
        if self.words.len() < FEWEST_WORDS {
            let reason = format!(
                "only {} of its tokens are whole words, and {FEWEST_WORDS} are needed to generate prompts of exact \
                length; give prompts as data instead",
                self.words.len()
            );
            return Err(fault(file, reason));
        }
        for trial in 0..TRIALS {
            let text = self.text_of_tokens(&mut generator("trial", 0, trial), TRIAL_WORDS);
            let tokens = self.count(&text)?;
            if tokens != TRIAL_WORDS {
                let message = format!(
                    "it joins words, so a text of {TRIAL_WORDS} tokens came out as {tokens}; give prompts as data \
                     instead"
                );
                return Err(fault(file, message));
            }
        }
        Ok(())
    }

    /// A text of exactly `tokens` tokens.
    pub fn text_of_tokens(&self, rng: &mut Pcg64, tokens: u32) -> String {
        let mut text = String::new();
        for _ in 0..tokens {
            if !text.is_empty() {
                text.push(' ');
            }
            if let Some(word) = self.words.get(rng.random_range(0..self.words.len().max(1))) {
                text.push_str(word);
            }
        }
        text
    }

    fn single_words(&self) -> Vec<Box<str>> {
        let mut vocabulary: Vec<(u32, String)> =
            self.tokenizer.vocabulary().into_iter().map(|(token, id)| (id, token)).collect();
        vocabulary.sort_unstable();
        let is_one = |text: &str| self.encode(text).is_ok_and(|ids| ids.len() == 1);
        let is_one_more = |text: &str| self.encode(&format!("a {text}")).is_ok_and(|ids| ids.len() == 2);
        let mut words: Vec<Box<str>> = Vec::new();
        for (id, _) in vocabulary {
            let Ok(spelled) = self.decode(&[id as i32]) else { continue };
            let word = spelled.trim_start();
            let is_word = (2..=16).contains(&word.len()) && word.bytes().all(|byte| byte.is_ascii_lowercase());
            if is_word && is_one(word) && is_one_more(word) {
                words.push(word.into());
                if words.len() == MOST_WORDS {
                    break;
                }
            }
        }
        words.sort_unstable();
        words.dedup();
        words
    }
}
