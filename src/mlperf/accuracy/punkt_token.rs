//! Words as [`super::sentences`] sees them: punctuation apart, periods not.

use super::characters::{is_outside_words, is_space};

/// A word, and what has been decided about it.
#[derive(Debug)]
pub(super) struct PunktToken {
    pub text: String,
    /// Lower case, and one kind for all numbers.
    kind: String,
    pub ends: bool,
    pub is_abbreviation: bool,
    pub is_ellipsis: bool,
}

impl PunktToken {
    pub const NUMBER: &str = "##number##";

    fn new(text: String) -> Self {
        let lower = text.to_lowercase();
        let kind = if is_number(&lower) { Self::NUMBER.to_owned() } else { lower };
        Self { text, kind, ends: false, is_abbreviation: false, is_ellipsis: false }
    }

    pub fn kind_without_period(&self) -> &str {
        if self.kind.len() > 1 { self.kind.strip_suffix('.').unwrap_or(&self.kind) } else { &self.kind }
    }

    /// Without the period, where that ends a sentence.
    pub fn kind_in_sentence(&self) -> &str {
        if self.ends { self.kind_without_period() } else { &self.kind }
    }

    /// One letter and a period.
    pub fn is_initial(&self) -> bool {
        let mut letters = self.text.chars();
        let first = letters.next().is_some_and(|c| (c.is_alphanumeric() || c == '_') && !is_digit(c));
        first && letters.as_str() == "."
    }

    pub fn is_upper(&self) -> bool {
        self.text.chars().next().is_some_and(char::is_uppercase)
    }

    pub fn is_lower(&self) -> bool {
        self.text.chars().next().is_some_and(char::is_lowercase)
    }
}

/// The words of a text, line by line.
pub(super) fn words(text: &str) -> Vec<PunktToken> {
    let mut words = Vec::new();
    for line in text.split('\n') {
        let line: Vec<char> = line.chars().collect();
        let mut at = 0;
        while at < line.len() {
            if is_space(line[at]) {
                at += 1;
                continue;
            }
            let end = several(&line, at).unwrap_or_else(|| word_end(&line, at));
            words.push(PunktToken::new(line[at..end].iter().collect()));
            at = end;
        }
    }
    words
}

/// The end of punctuation of several characters: `--`, `...`, `. . .`.
fn several(line: &[char], at: usize) -> Option<usize> {
    let run = |of: char| line[at..].iter().take_while(|c| **c == of).count();
    for mark in ['-', '.'] {
        let length = run(mark);
        if length >= 2 {
            return Some(at + length);
        }
    }
    let mut spaced = 0;
    while line.get(at + 2 * spaced) == Some(&'.') && line.get(at + 2 * spaced + 1).is_some_and(|c| is_space(*c)) {
        spaced += 1;
    }
    // The last of them need not have a space behind it.
    let whole = if line.get(at + 2 * spaced) == Some(&'.') { spaced } else { spaced.saturating_sub(1) };
    (whole >= 2).then_some(at + 2 * whole + 1)
}

fn word_end(line: &[char], at: usize) -> usize {
    let cannot_start = matches!(
        line[at],
        '(' | '"' | '`' | '{' | '[' | ':' | ';' | '&' | '#' | '*' | '@' | ')' | '}' | ']' | '-' | ','
    );
    if cannot_start {
        return at + 1;
    }
    let is_end = |at: usize| match line.get(at) {
        None => true,
        Some(c) => is_space(*c) || is_outside_words(*c) || several(line, at).is_some(),
    };
    (at + 1..line.len()).find(|at| is_end(*at) || (line[*at] == ',' && is_end(*at + 1))).unwrap_or(line.len())
}

/// `-?[.,]?\d[\d,.-]*\.?`
fn is_number(text: &str) -> bool {
    let text = text.strip_prefix('-').unwrap_or(text);
    let text = text.strip_prefix(['.', ',']).unwrap_or(text);
    text.starts_with(is_digit) && text.chars().all(|c| is_digit(c) || matches!(c, ',' | '.' | '-'))
}

/// First digits of Unicode's decimal scripts, ten in a row each.
const ZEROES: [u32; 37] = [
    0x0030, 0x0660, 0x06f0, 0x07c0, 0x0966, 0x09e6, 0x0a66, 0x0ae6, 0x0b66, 0x0be6, 0x0c66, 0x0ce6, 0x0d66, 0x0de6,
    0x0e50, 0x0ed0, 0x0f20, 0x1040, 0x1090, 0x17e0, 0x1810, 0x1946, 0x19d0, 0x1a80, 0x1a90, 0x1b50, 0x1bb0, 0x1c40,
    0x1c50, 0xa620, 0xa8d0, 0xa900, 0xa9d0, 0xa9f0, 0xaa50, 0xabf0, 0xff10,
];

fn is_digit(c: char) -> bool {
    let code = u32::from(c);
    ZEROES.iter().any(|zero| (*zero..zero + 10).contains(&code))
}
