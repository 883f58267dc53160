//! The tokens that the simulated model generates, and how it writes them.

use crate::random::mix;

/// The `index`th token of the request with this id. Never `end_id`, nor the first three of the vocabulary (special).
pub fn token(request_id: &str, index: u64, vocab_size: u32, end_id: Option<i32>) -> i32 {
    // FNV-1a: short, and the same everywhere.
    let seed = request_id
        .bytes()
        .fold(0xCBF2_9CE4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01B3));
    let span = u64::from(vocab_size.max(8) - 3);
    let token = 3 + (mix(seed ^ mix(index)) % span) as i32;
    if end_id == Some(token) { 3 + ((token - 3 + 1) % span as i32) } else { token }
}

/// Four letters for a token: about what a real tokenizer makes of English.
pub(super) fn word(token: i32) -> [u8; 4] {
    let letter = |n: i32| b'a' + (n % 26) as u8;
    [b' ', letter(token), letter(token / 26), letter(token / 676)]
}

// Which tokens an answer has: a function of the request id and of each token's index, cut at stop words, without bad
// words.
//
// The simulated model never produces its end token by itself, so an answer has its full length unless a stop word ends
// it; as in TensorRT-LLM the stop word is the last thing in the answer. `min_length` only suppresses the end token, so
// it changes nothing here.

/// The source of the tokens: the key that they are computed from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TokenGenerator {
    name: String,
    vocab_size: u32,
    end_id: Option<i32>,
}

impl TokenGenerator {
    /// The first request of a message, and its first sequence, use the id alone. A seed takes the id's place.
    pub(super) fn new(
        id: &str,
        seed: Option<u64>,
        row: usize,
        sequence: u32,
        vocab_size: u32,
        end_id: Option<i32>,
    ) -> Self {
        let mut name = seed.map_or_else(|| id.to_owned(), |seed| format!("seed {seed}"));
        if row > 0 {
            name = format!("{name}/{row}");
        }
        if sequence > 0 {
            name = format!("{name}~{sequence}");
        }
        Self { name, vocab_size, end_id }
    }

    pub(super) fn token(&self, index: u64) -> i32 {
        token(&self.name, index, self.vocab_size, self.end_id)
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The next token of the vocabulary, in place of a forbidden one.
    fn instead_of(&self, token: i32) -> i32 {
        let span = self.vocab_size.max(8) as i32 - 3;
        let next = |token: i32| 3 + (token - 3 + 1) % span;
        let other = next(token);
        if self.end_id == Some(other) { next(other) } else { other }
    }
}

/// Stop words or bad words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct StopWords {
    pub ids: Vec<Vec<i32>>,
    pub texts: Vec<Vec<u8>>,
}

impl StopWords {
    pub(super) const fn is_empty(&self) -> bool {
        self.ids.is_empty() && self.texts.is_empty()
    }

    /// The output would end with one of them after this token.
    fn would_end_with(&self, tokens: &mut Vec<i32>, text: &mut Vec<u8>, token: i32) -> bool {
        tokens.push(token);
        text.extend_from_slice(&word(token));
        let ends_with_word = self.ends_with_word(tokens, text);
        tokens.pop();
        text.truncate(text.len() - 4);
        ends_with_word
    }

    /// The output so far ends with one of them.
    fn ends_with_word(&self, tokens: &[i32], text: &[u8]) -> bool {
        let tail = |len: usize| &text[text.len().saturating_sub(len + 3)..];
        self.ids.iter().any(|word| tokens.ends_with(word))
            || self.texts.iter().any(|word| tail(word.len()).windows(word.len().max(1)).any(|part| part == word))
    }
}

/// The answer's tokens, at most `most`. None: no token depends on earlier ones, so `voice` is enough.
pub(super) fn decode(voice: &TokenGenerator, most: u64, stop: &StopWords, bad: &StopWords) -> Option<Vec<i32>> {
    if stop.is_empty() && bad.is_empty() {
        return None;
    }
    let mut tokens = Vec::with_capacity(most as usize);
    let mut text = Vec::new();
    for index in 0..most {
        let mut token = voice.token(index);
        // Where every token is bad, the original one is used after all.
        for _ in 0..voice.vocab_size {
            if !bad.would_end_with(&mut tokens, &mut text, token) {
                break;
            }
            token = voice.instead_of(token);
        }
        tokens.push(token);
        text.extend_from_slice(&word(token));
        if stop.ends_with_word(&tokens, &text) {
            break;
        }
    }
    Some(tokens)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_token_is_in_the_vocabulary_and_never_the_end(
            id in ".{0,12}", index in 0_u64..10_000, vocab in 8_u32..200_000, end in 0_i32..200_000
        ) {
            let made = token(&id, index, vocab, Some(end));
            prop_assert!((3..vocab as i32).contains(&made) && made != end);
            prop_assert_eq!(made, token(&id, index, vocab, Some(end)));
        }
    }

    #[test]
    fn tokens_of_different_requests_differ() {
        let tokens = |id| (0..50).map(|index| token(id, index, 32_000, None)).collect::<Vec<_>>();
        assert_ne!(tokens("1"), tokens("2"));
    }
}

#[cfg(test)]
mod decode_tests {
    use super::*;
    use pretty_assertions::assert_eq;

    fn ids(words: &[&[i32]]) -> StopWords {
        StopWords { ids: words.iter().map(|word| word.to_vec()).collect(), texts: Vec::new() }
    }

    #[test]
    fn an_answer_ends_with_its_first_stop_word() {
        let voice = TokenGenerator::new("7", None, 0, 0, 1000, Some(2));
        let free: Vec<i32> = (0..20).map(|index| voice.token(index)).collect();
        let decoded = |stop: &StopWords, bad: &StopWords| decode(&voice, 20, stop, bad).unwrap();
        assert_eq!(decoded(&ids(&[&free[4..6]]), &StopWords::default()), free[..6]);
        let text = StopWords { ids: Vec::new(), texts: vec![word(free[8])[1..].to_vec()] };
        assert_eq!(decoded(&text, &StopWords::default()), free[..9]);
        let without = decoded(&StopWords::default(), &ids(&[&[free[3]], &free[9..11]]));
        assert!(!without.contains(&free[3]) && without[..3] == free[..3] && without.len() == 20);
        assert!(without[9] == free[9] && without[10] != free[10]);
        assert_eq!(decode(&voice, 20, &StopWords::default(), &StopWords::default()), None);
    }

    #[test]
    fn a_seed_decides_and_rows_differ() {
        let tokens = |id, seed, row| {
            let voice = TokenGenerator::new(id, seed, row, 0, 1000, None);
            (0..20).map(|index| voice.token(index)).collect::<Vec<_>>()
        };
        assert_eq!(tokens("1", Some(5), 0), tokens("2", Some(5), 0));
        assert_ne!(tokens("1", Some(5), 0), tokens("1", Some(6), 0));
        assert_ne!(tokens("1", None, 0), tokens("1", None, 1));
    }
}
