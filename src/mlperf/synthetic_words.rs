//! Synthetic words: one for each token id, so that synthetic data has a text without a real tokenizer.

const CONSONANTS: [char; 16] = ['b', 'd', 'f', 'g', 'h', 'j', 'k', 'l', 'm', 'n', 'p', 'r', 's', 't', 'v', 'z'];
const VOWELS: [char; 4] = ['a', 'i', 'o', 'u'];

/// Syllables of a consonant and a vowel, at least two: another word for every id.
pub fn synthetic_word(id: u32) -> String {
    let mut rest = id;
    let mut word = String::new();
    while rest > 0 || word.len() < 4 {
        word.push(CONSONANTS[(rest % 16) as usize]);
        word.push(VOWELS[(rest / 16 % 4) as usize]);
        rest /= 64;
    }
    word
}

/// Words with spaces between.
pub fn text(ids: &[u32]) -> String {
    let words: Vec<String> = ids.iter().map(|id| synthetic_word(*id)).collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_id_has_its_own_word() {
        let words: std::collections::BTreeSet<String> = (0..200_000).map(super::synthetic_word).collect();
        assert_eq!(words.len(), 200_000);
    }
}
