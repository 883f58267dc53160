//! ROUGE-1, -2, -L and -Lsum, F-measures, as Google's `rouge-score` computes them with its stemmer on.
//!
//! C.-Y. Lin, "ROUGE: A Package for Automatic Evaluation of Summaries" (2004). Texts become lower case, everything but
//! `a-z0-9` separates tokens, tokens of more than three letters are stemmed. Token counts are integers and each F-measure is
//! one fixed sequence of divisions, so that the numbers are equal to the reference's bit by bit.

use std::collections::HashMap;

use super::porter;

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
        let stem = if word.len() > 3 { porter::stem(word) } else { word.to_owned() };
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

#[cfg(test)]
mod tests {
    use super::{Rouge, WordInterner};

    #[test]
    fn the_readme_example_of_the_reference() {
        let one = WordInterner::new()
            .score("The quick brown fox jumps over the lazy dog", "The quick brown dog jumps on the log.");
        let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-12, "{a} {b}");
        close(one.rouge1, 2.0 * 0.75 * (6.0 / 9.0) / (0.75 + 6.0 / 9.0));
        close(one.rouge_l, 2.0 * 0.625 * (5.0 / 9.0) / (0.625 + 5.0 / 9.0));
        assert_eq!(one.rouge_l.to_bits(), one.rouge_lsum.to_bits());
    }

    #[test]
    fn nothing_shares_nothing() {
        let mut lexicon = WordInterner::new();
        for (target, prediction) in [("", ""), ("a", ""), ("", "a"), ("...", "!!"), ("\n\n", "a\n"), ("a", "b")] {
            assert_eq!(lexicon.score(target, prediction), Rouge::default(), "{target:?} {prediction:?}");
        }
    }
}
