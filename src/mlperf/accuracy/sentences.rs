//! Where sentences end, as NLTK 3.8 decides it: that is the version which the reference scripts pin.
//!
//! T. Kiss and J. Strunk, "Unsupervised Multilingual Sentence Boundary Detection" (2006). The method needs a trained
//! model ([`PunktModel`]). Positions are counted in characters.

use super::characters::is_space;
use super::characters::{is_end, is_outside_words};
use super::punkt::PunktModel;

/// The sentences of a text, one a line: the reference scripts pass this form to ROUGE and count its length.
pub fn one_sentence_per_line(model: &PunktModel, text: &str) -> String {
    let text: Vec<char> = text.chars().collect();
    let mut lined = String::with_capacity(text.len() * 2);
    for (at, (start, end)) in sentences(model, &text).into_iter().enumerate() {
        if at > 0 {
            lined.push('\n');
        }
        lined.extend(&text[start..end]);
    }
    lined
}

/// A mark that may end a sentence.
struct Mark {
    /// Of the mark.
    at: usize,
    /// Where what follows it begins to matter: the next word, after spaces.
    next_word: Option<usize>,
    /// End of what decides: the mark's right neighbor, or the next word.
    until: usize,
}

fn sentences(model: &PunktModel, text: &[char]) -> Vec<(usize, usize)> {
    let mut slices = Vec::new();
    let mut last = 0;
    for (word, mark) in candidates(text) {
        let context: String =
            text[word.0..word.1].iter().chain(&text[mark.at..=mark.at]).chain(&text[mark.at + 1..mark.until]).collect();
        if model.breaks(&context) {
            slices.push((last, mark.at + 1));
            last = mark.next_word.unwrap_or(mark.at + 1);
        }
    }
    let end = text.iter().rposition(|c| !is_space(*c)).map_or(0, |at| at + 1);
    slices.push((last, end));
    realigned(text, &slices)
}

/// Marks that may end a sentence, each with the word that it ends; of marks that belong to one word only the last.
fn candidates(text: &[char]) -> Vec<((usize, usize), Mark)> {
    let mut found = Vec::new();
    let mut word = (0, 0);
    let mut before: Option<Mark> = None;
    for mark in marks(text) {
        let is_ascii_space = |c: &char| matches!(c, ' ' | '\t' | '\n' | '\r' | '\u{b}' | '\u{c}');
        let between = text.get(word.1..mark.at).unwrap_or(&[]);
        // A space that comes first counts as none: so it is in the original.
        let start = match between.iter().rposition(is_ascii_space) {
            Some(space) if space > 0 => word.1 + space + 1,
            _ => word.0,
        };
        if let Some(previous) = before.take()
            && word.1 <= start
        {
            found.push((word, previous));
        }
        word = (start, mark.at);
        before = Some(mark);
    }
    found.extend(before.map(|mark| (word, mark)));
    found
}

fn marks(text: &[char]) -> impl Iterator<Item = Mark> + '_ {
    (0..text.len()).filter(|at| is_end(text[*at])).filter_map(|at| {
        let next = *text.get(at + 1)?;
        if is_outside_words(next) {
            return Some(Mark { at, next_word: None, until: at + 2 });
        }
        let word = at + 1 + text[at + 1..].iter().position(|c| !is_space(*c))?;
        let length = text[word..].iter().position(|c| is_space(*c)).unwrap_or(text.len() - word);
        (word > at + 1).then_some(Mark { at, next_word: Some(word), until: word + length })
    })
}

/// Quotes and brackets that close after a mark go with the sentence before.
fn realigned(text: &[char], slices: &[(usize, usize)]) -> Vec<(usize, usize)> {
    let mut sentences = Vec::with_capacity(slices.len());
    let mut moved = 0;
    for (at, (start, end)) in slices.iter().copied().enumerate() {
        let start = start + moved;
        moved = 0;
        if let Some((next, next_end)) = slices.get(at + 1).copied()
            && let Some((kept, whole)) = closing(text.get(next..next_end).unwrap_or(&[]))
        {
            sentences.push((start, next + kept));
            moved = whole;
        } else if start < end {
            sentences.push((start, end));
        }
    }
    // Where two closings meet, a sentence can come out empty: the original keeps it as an empty line.
    sentences.into_iter().map(|(start, end)| (start.min(end), end)).collect()
}

/// Closing marks at the start of a sentence that belong to the one before: their number, and that with the spaces.
fn closing(text: &[char]) -> Option<(usize, usize)> {
    let closers = text.iter().take_while(|c| matches!(c, '"' | '\'' | ')' | ']' | '}')).count();
    let rest = &text[closers..];
    if closers == 0 {
        return None;
    }
    if rest.is_empty() || rest.starts_with(&['-', '-']) {
        return Some((closers, closers));
    }
    let spaces = rest.iter().take_while(|c| is_space(**c)).count();
    (spaces > 0).then_some((closers, closers + spaces))
}
