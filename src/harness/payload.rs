//! What requests carry: lengths and prompt tokens, each a pure function of (seed, index).

use rand::RngExt;
use rand_distr::{Distribution, Normal};
use rand_pcg::Pcg64;

use super::Length;
use crate::event::Hasher;

/// The name that goes into results; a change of how numbers are drawn needs a new one.
pub(super) const GENERATOR: &str = "pcg64-blake3/1";

/// Ids below this are special in the vocabularies in use (unknown, begin, end).
const FIRST_PLAIN_TOKEN: u32 = 3;

/// The generator for one purpose and one request. State and stream come from a hash, so neighbours are unrelated.
pub(super) fn generator(purpose: &str, seed: u64, index: u64) -> Pcg64 {
    let digest = Hasher::new()
        .field(GENERATOR.as_bytes())
        .field(purpose.as_bytes())
        .field(&seed.to_le_bytes())
        .field(&index.to_le_bytes())
        .finish();
    let (state, stream) = digest.bytes().split_at(16);
    let number = |half: &[u8]| half.iter().rev().fold(0u128, |all, byte| all << 8 | u128::from(*byte));
    Pcg64::new(number(state), number(stream))
}

pub(super) fn length(law: &Length, purpose: &str, seed: u64, index: u64) -> u32 {
    match *law {
        Length::Fixed(tokens) => tokens,
        Length::Uniform { min, max } => generator(purpose, seed, index).random_range(min..=max),
        Length::Normal { mean, stddev, min, max } => {
            let drawn = Normal::new(mean, stddev).map_or(mean, |law| law.sample(&mut generator(purpose, seed, index)));
            drawn.round().clamp(f64::from(min), f64::from(max)) as u32
        }
    }
}

/// `len` tokens in 3..vocab_size without `end_id`.
pub(super) fn prompt(seed: u64, index: u64, len: u32, vocab_size: u32, end_id: i32) -> Vec<i32> {
    let mut rng = generator("prompt", seed, index);
    (0..len)
        .map(|_| {
            let token = rng.random_range(FIRST_PLAIN_TOKEN..vocab_size) as i32;
            if token != end_id {
                token
            } else if token as u32 + 1 < vocab_size {
                token + 1
            } else {
                FIRST_PLAIN_TOKEN as i32
            }
        })
        .collect()
}

/// Three letters each: with the space before it about one token of an English vocabulary.
const WORDS: [&str; 64] = [
    "the", "and", "for", "are", "but", "not", "you", "all", "any", "can", "her", "was", "one", "our", "out", "day",
    "get", "has", "him", "his", "how", "man", "new", "now", "old", "see", "two", "way", "who", "boy", "did", "its",
    "let", "put", "say", "she", "too", "use", "dad", "mom", "act", "bar", "car", "dew", "eat", "far", "god", "hat",
    "ice", "job", "key", "lay", "may", "nor", "off", "pay", "red", "sun", "ten", "war", "yes", "zoo", "air", "big",
];

/// A prompt for text models: a word for each token.
pub(super) fn words(prompt: &[i32]) -> String {
    let words: Vec<&str> = prompt.iter().map(|token| WORDS[token.rem_euclid(64) as usize]).collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompts_are_a_pure_function_and_avoid_special_tokens() {
        let one = prompt(7, 3, 5_000, 50, 49);
        assert_eq!(one, prompt(7, 3, 5_000, 50, 49));
        assert_ne!(one, prompt(7, 4, 5_000, 50, 49));
        assert!(one.iter().all(|token| (3..49).contains(token)));
        assert_eq!(one[..100], prompt(7, 3, 100, 50, 49)[..]);
    }

    #[test]
    fn lengths_stay_within_their_bounds() {
        let law = Length::Normal { mean: 100.0, stddev: 50.0, min: 80, max: 120 };
        let drawn: Vec<u32> = (0..500).map(|index| length(&law, "input", 1, index)).collect();
        assert!(drawn.iter().all(|tokens| (80..=120).contains(tokens)));
        assert!(drawn.contains(&80) && drawn.contains(&120) && drawn.iter().any(|t| (81..120).contains(t)));
        let even: Vec<u32> = (0..500).map(|i| length(&Length::Uniform { min: 3, max: 5 }, "input", 1, i)).collect();
        assert!([3, 4, 5].iter().all(|tokens| even.contains(tokens)) && even.iter().all(|t| (3..=5).contains(t)));
    }
}
