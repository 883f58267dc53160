//! ROUGE-1, -2, -L and -Lsum, F-measures, as Google's `rouge-score` computes them with its stemmer on.
//!
//! C.-Y. Lin, "ROUGE: A Package for Automatic Evaluation of Summaries" (2004). Texts become lower case, everything but
//! `a-z0-9` separates tokens, tokens of more than three letters are stemmed. Token counts are integers and each
//! F-measure is one fixed sequence of divisions, so that the numbers are equal to the reference's bit by bit.

use std::collections::{BTreeMap, HashMap};
use std::sync::LazyLock;

/// F-measures from 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rouge {
    pub rouge1: f64,
    pub rouge2: f64,
    pub rouge_l: f64,
    /// Sentences are lines.
    pub rouge_lsum: f64,
}

/// Words seen so far, as numbers: equal numbers are equal stems.
#[derive(Debug, Default)]
pub struct WordInterner {
    words: HashMap<Box<str>, u32>,
    stems: HashMap<Box<str>, u32>,
    table: Vec<u32>,
}

/// A lexicon of more words is cleared: it saves time, and must not use all memory.
const MOST_WORDS: usize = 500_000;

impl WordInterner {
    pub fn new() -> Self {
        Self::default()
    }

    /// All four. Neither order nor history of calls matters.
    pub fn score(&mut self, target: &str, prediction: &str) -> Rouge {
        if self.words.len() > MOST_WORDS {
            *self = Self::new();
        }
        let mut lines = |text: &str| -> Vec<Vec<u32>> {
            text.split('\n').filter(|line| !line.is_empty()).map(|line| self.tokens(line)).collect()
        };
        let (target_lines, prediction_lines) = (lines(target), lines(prediction));
        let (target, prediction) = (target_lines.concat(), prediction_lines.concat());
        Rouge {
            rouge1: overlap(target.iter().copied(), prediction.iter().copied()),
            rouge2: overlap(pairs(&target), pairs(&prediction)),
            rouge_l: f_measure(self.common(&target, &prediction), prediction.len(), target.len()),
            rouge_lsum: self.summary(&target_lines, &prediction_lines),
        }
    }

    fn tokens(&mut self, text: &str) -> Vec<u32> {
        let lower = text.to_lowercase();
        let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        lower.split(|c| !is_part(c)).filter(|word| !word.is_empty()).map(|word| self.number(word)).collect()
    }

    fn number(&mut self, word: &str) -> u32 {
        if let Some(number) = self.words.get(word) {
            return *number;
        }
        let stem = if word.len() > 3 { stem(word) } else { word.to_owned() };
        let next = self.stems.len() as u32;
        let number = *self.stems.entry(stem.into()).or_insert(next);
        self.words.insert(word.into(), number);
        number
    }

    /// Length of the longest common subsequence.
    fn common(&mut self, target: &[u32], prediction: &[u32]) -> usize {
        let row = &mut self.table;
        row.clear();
        row.resize(prediction.len() + 1, 0);
        for token in target {
            let mut diagonal = 0;
            for (at, other) in prediction.iter().enumerate() {
                let above = row[at + 1];
                row[at + 1] = if token == other { diagonal + 1 } else { above.max(row[at]) };
                diagonal = above;
            }
        }
        row.last().copied().unwrap_or(0) as usize
    }

    /// For each line of the target the union of its longest common subsequences with all lines of the prediction; no
    /// token counts more often than it occurs.
    fn summary(&mut self, target: &[Vec<u32>], prediction: &[Vec<u32>]) -> f64 {
        let total = |lines: &[Vec<u32>]| lines.iter().map(Vec::len).sum::<usize>();
        let (in_target, in_prediction) = (total(target), total(prediction));
        if in_target == 0 || in_prediction == 0 {
            return 0.0;
        }
        let (mut left_in_target, mut left_in_prediction) = (counts(target), counts(prediction));
        let mut hits = 0;
        for line in target {
            let mut is_common = vec![false; line.len()];
            for other in prediction {
                self.mark_common(line, other, &mut is_common);
            }
            for (token, _) in line.iter().zip(&is_common).filter(|(_, is_common)| **is_common) {
                let (Some(here), Some(there)) = (left_in_target.get_mut(token), left_in_prediction.get_mut(token))
                else {
                    continue;
                };
                if *here > 0 && *there > 0 {
                    hits += 1;
                    *here -= 1;
                    *there -= 1;
                }
            }
        }
        f_measure(hits, in_prediction, in_target)
    }

    /// Marks one longest common subsequence, that which the reference finds: it goes back from the ends, and of two
    /// ways equally long it gives up a token of the target.
    fn mark_common(&mut self, line: &[u32], other: &[u32], is_common: &mut [bool]) {
        let width = other.len() + 1;
        let table = &mut self.table;
        table.clear();
        table.resize(width * (line.len() + 1), 0);
        for (i, token) in line.iter().enumerate() {
            for (j, candidate) in other.iter().enumerate() {
                table[(i + 1) * width + j + 1] = if token == candidate {
                    table[i * width + j] + 1
                } else {
                    table[i * width + j + 1].max(table[(i + 1) * width + j])
                };
            }
        }
        let (mut i, mut j) = (line.len(), other.len());
        while i > 0 && j > 0 {
            if line[i - 1] == other[j - 1] {
                is_common[i - 1] = true;
                i -= 1;
                j -= 1;
            } else if table[i * width + j - 1] > table[(i - 1) * width + j] {
                j -= 1;
            } else {
                i -= 1;
            }
        }
    }
}

fn counts(lines: &[Vec<u32>]) -> HashMap<u32, u32> {
    let mut counts = HashMap::new();
    for token in lines.iter().flatten() {
        *counts.entry(*token).or_insert(0) += 1;
    }
    counts
}

fn pairs(tokens: &[u32]) -> impl Iterator<Item = (u32, u32)> + '_ {
    tokens.windows(2).map(|pair| (pair[0], pair[1]))
}

/// Of two bags: what they share.
fn overlap<T: Ord>(target: impl Iterator<Item = T>, prediction: impl Iterator<Item = T>) -> f64 {
    let (mut target, mut prediction): (Vec<T>, Vec<T>) = (target.collect(), prediction.collect());
    target.sort_unstable();
    prediction.sort_unstable();
    let (mut i, mut j, mut shared) = (0, 0, 0);
    while i < target.len() && j < prediction.len() {
        match target[i].cmp(&prediction[j]) {
            std::cmp::Ordering::Less => i += 1,
            std::cmp::Ordering::Greater => j += 1,
            std::cmp::Ordering::Equal => {
                shared += 1;
                i += 1;
                j += 1;
            }
        }
    }
    f_measure(shared, prediction.len(), target.len())
}

/// In this order of operations.
fn f_measure(shared: usize, in_prediction: usize, in_target: usize) -> f64 {
    let precision = shared as f64 / in_prediction.max(1) as f64;
    let recall = shared as f64 / in_target.max(1) as f64;
    if precision + recall > 0.0 { 2.0 * precision * recall / (precision + recall) } else { 0.0 }
}

// Porter's stemmer as NLTK extends it, which is the one that ROUGE is defined with.
//
// M. F. Porter, "An algorithm for suffix stripping" (1980), with the changes that NLTK's default mode makes: a pool of
// irregular words, `-ies` and `-ied` of four-letter words, `y` only after a consonant, `-alli` before all else of
// step 2, `-fulli` and `-logi`, and stems of two letters that count as ending consonant-vowel-consonant.

/// Step → its endings, each with what replaces it.
static STEMS: LazyLock<BTreeMap<&str, Vec<(&str, &str)>>> = LazyLock::new(|| {
    let mut stems: BTreeMap<&str, Vec<(&str, &str)>> = BTreeMap::new();
    for line in include_str!("stems.txt").lines().filter(|line| !line.starts_with('#')) {
        let [step, ending, stem] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("a table of this program") };
        stems.entry(step).or_default().push((ending, stem.trim_start_matches('-')));
    }
    stems
});

/// What has to hold for the part before a suffix.
#[derive(Clone, Copy)]
enum If {
    /// At least one vowel followed by a consonant: Porter's `m > 0`.
    Some,
    /// `m > 1`.
    Many,
}

/// The stem of a word of `a-z` and `0-9`. Other letters are taken for consonants.
pub fn stem(word: &str) -> String {
    if let Some((_, stem)) = STEMS["irregular"].iter().find(|(irregular, _)| *irregular == word) {
        return (*stem).to_owned();
    }
    if word.len() <= 2 {
        return word.to_owned();
    }
    let mut word = word.to_owned();
    plurals(&mut word);
    past_and_progressive(&mut word);
    final_y(&mut word);
    step_2(&mut word);
    replace_first(&mut word, &STEMS["step-3"], If::Some);
    step_4(&mut word);
    final_e(&mut word);
    if word.ends_with("ll") && measure(&word[..word.len() - 1]) > 1 {
        word.pop();
    }
    word
}

/// Whether each letter is a consonant; `y` is one at the start and after a vowel.
fn consonants(word: &str) -> impl Iterator<Item = bool> + '_ {
    let mut before = false;
    word.bytes().map(move |letter| {
        before = match letter {
            b'a' | b'e' | b'i' | b'o' | b'u' => false,
            b'y' => !before,
            _ => true,
        };
        before
    })
}

/// How often a consonant follows a vowel.
fn measure(word: &str) -> usize {
    let mut vowel_before = false;
    consonants(word).filter(|consonant| std::mem::replace(&mut vowel_before, !consonant) && *consonant).count()
}

fn has_vowel(word: &str) -> bool {
    consonants(word).any(|consonant| !consonant)
}

fn ends_in_consonant(word: &str) -> bool {
    consonants(word).last().unwrap_or(false)
}

fn ends_in_double_consonant(word: &str) -> bool {
    let bytes = word.as_bytes();
    bytes.len() >= 2 && bytes[bytes.len() - 1] == bytes[bytes.len() - 2] && ends_in_consonant(word)
}

/// Consonant, vowel, consonant other than `w`, `x`, `y`; or a word of one vowel and one consonant.
fn ends_short(word: &str) -> bool {
    let mut last = [false; 3];
    for consonant in consonants(word) {
        last = [last[1], last[2], consonant];
    }
    match word.len() {
        0 | 1 => false,
        2 => !last[1] && last[2],
        _ => last == [true, false, true] && !word.ends_with(['w', 'x', 'y']),
    }
}

fn plurals(word: &mut String) {
    if word.ends_with("ies") {
        word.truncate(word.len() - if word.len() == 4 { 1 } else { 2 });
    } else if word.ends_with("sses") {
        word.truncate(word.len() - 2);
    } else if word.ends_with('s') && !word.ends_with("ss") {
        word.pop();
    }
}

fn past_and_progressive(word: &mut String) {
    if word.ends_with("ied") {
        word.truncate(word.len() - if word.len() == 4 { 1 } else { 2 });
        return;
    }
    if let Some(stem) = word.strip_suffix("eed") {
        if measure(stem) > 0 {
            word.pop();
        }
        return;
    }
    let stem = ["ed", "ing"].into_iter().filter_map(|suffix| word.strip_suffix(suffix)).find(|stem| has_vowel(stem));
    let Some(length) = stem.map(str::len) else { return };
    word.truncate(length);
    if word.ends_with("at") || word.ends_with("bl") || word.ends_with("iz") {
        word.push('e');
    } else if ends_in_double_consonant(word) {
        if !word.ends_with(['l', 's', 'z']) {
            word.pop();
        }
    } else if measure(word) == 1 && ends_short(word) {
        word.push('e');
    }
}

fn final_y(word: &mut String) {
    if let Some(stem) = word.strip_suffix('y')
        && stem.len() > 1
        && ends_in_consonant(stem)
    {
        word.pop();
        word.push('i');
    }
}

fn step_2(word: &mut String) {
    while let Some(stem) = word.strip_suffix("alli")
        && measure(stem) > 0
    {
        word.truncate(word.len() - 2);
    }
    if replace_first(word, &STEMS["step-2"], If::Some) || replace_first(word, &[("fulli", "ful")], If::Some) {
        return;
    }
    // The `l` counts with the stem, so that `geologi` is treated as `archaeologi` is.
    if word.ends_with("logi") && measure(&word[..word.len() - 3]) > 0 {
        word.pop();
    }
}

/// The first suffix that the word ends in decides, whether its condition holds or not. True: there was one.
fn replace_first(word: &mut String, rules: &[(&str, &str)], condition: If) -> bool {
    let Some((suffix, with)) = rules.iter().find(|(suffix, _)| word.ends_with(suffix)) else { return false };
    let stem = word.len() - suffix.len();
    let least = match condition {
        If::Some => 1,
        If::Many => 2,
    };
    if measure(&word[..stem]) >= least {
        word.truncate(stem);
        word.push_str(with);
    }
    true
}

fn step_4(word: &mut String) {
    if replace_first(word, &STEMS["step-4"], If::Many) {
        return;
    }
    if let Some(stem) = word.strip_suffix("ion") {
        if measure(stem) > 1 && stem.ends_with(['s', 't']) {
            word.truncate(word.len() - 3);
        }
        return;
    }
    replace_first(word, &STEMS["step-4-last"], If::Many);
}

fn final_e(word: &mut String) {
    if let Some(stem) = word.strip_suffix('e') {
        let measure = measure(stem);
        if measure > 1 || (measure == 1 && !ends_short(stem)) {
            word.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Rouge, WordInterner, stem};

    #[test]
    fn the_readme_example_of_the_reference() {
        let score = WordInterner::new()
            .score("The quick brown fox jumps over the lazy dog", "The quick brown dog jumps on the log.");
        let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-12, "{a} {b}");
        close(score.rouge1, 2.0 * 0.75 * (6.0 / 9.0) / (0.75 + 6.0 / 9.0));
        close(score.rouge_l, 2.0 * 0.625 * (5.0 / 9.0) / (0.625 + 5.0 / 9.0));
        assert_eq!(score.rouge_l.to_bits(), score.rouge_lsum.to_bits());
    }

    #[test]
    fn nothing_shares_nothing() {
        let mut lexicon = WordInterner::new();
        for (target, prediction) in [("", ""), ("a", ""), ("", "a"), ("...", "!!"), ("\n\n", "a\n"), ("a", "b")] {
            assert_eq!(lexicon.score(target, prediction), Rouge::default(), "{target:?} {prediction:?}");
        }
    }

    #[test]
    fn porters_own_examples_and_those_of_nltk() {
        for (word, expected) in [
            ("ponies", "poni"),
            ("ties", "tie"),
            ("agreed", "agre"),
            ("enjoy", "enjoy"),
            ("radically", "radic"),
            ("geology", "geolog"),
            ("controll", "control"),
            ("dies", "die"),
            ("died", "die"),
            ("spied", "spi"),
            ("dying", "die"),
            ("succeed", "succeed"),
            ("1990s", "1990"),
            ("yyyy", "yyyi"),
        ] {
            assert_eq!(stem(word), expected, "{word}");
        }
    }
}
