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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_token_is_in_the_vocabulary_and_never_the_end(id in ".{0,12}", index in 0_u64..10_000, vocab in 8_u32..200_000, end in 0_i32..200_000) {
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
