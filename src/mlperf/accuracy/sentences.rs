//! Where sentences end, as NLTK 3.8 decides it: that is the version which the reference scripts pin.
//!
//! T. Kiss and J. Strunk, "Unsupervised Multilingual Sentence Boundary Detection" (2006). The method needs a trained
//! model ([`PunktModel`]). Positions are counted in characters.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use super::{is_end, is_outside_words, is_space};
use base::diag::{ErrorText, in_file};
use base::files::read_text;

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
    let mut pairs = Vec::new();
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
            pairs.push((word, previous));
        }
        word = (start, mark.at);
        before = Some(mark);
    }
    pairs.extend(before.map(|mark| (word, mark)));
    pairs
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
    // Adjacent closing marks can yield an empty sentence; the original keeps it as an empty line.
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

// Words as [`super::sentences`] sees them: punctuation apart, periods not.

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

// The trained model of [`super::sentences`]: NLTK's `punkt_tab/english`, four small tables, read from where the user
// has them. They are not shipped here: they are NLTK's data.

/// The files of a model, in the order in which they are digested.
pub const FILES: [&str; 4] = ["abbrev_types.txt", "collocations.tab", "sent_starters.txt", "ortho_context.tab"];

/// How words were seen in training.
mod seen {
    pub const BEGINNING_UPPER: u16 = 1 << 1;
    pub const INSIDE_UPPER: u16 = 1 << 2;
    pub const UNKNOWN_UPPER: u16 = 1 << 3;
    pub const BEGINNING_LOWER: u16 = 1 << 4;
    pub const INSIDE_LOWER: u16 = 1 << 5;
    pub const UNKNOWN_LOWER: u16 = 1 << 6;
    pub const UPPER: u16 = BEGINNING_UPPER | INSIDE_UPPER | UNKNOWN_UPPER;
    pub const LOWER: u16 = BEGINNING_LOWER | INSIDE_LOWER | UNKNOWN_LOWER;
}

/// The abbreviations and first words of one language, learned from a text.
#[derive(Debug, Default)]
pub struct PunktModel {
    abbreviations: HashSet<String>,
    /// Pairs around a period that is part of a name: `S.` `Bach`.
    collocations: HashSet<(String, String)>,
    starters: HashSet<String>,
    seen: HashMap<String, u16>,
    /// SHA-256 of the four files, one after the other.
    pub sha256: String,
}

impl PunktModel {
    /// Reads a folder with [`FILES`].
    pub fn load(folder: &Path) -> Result<Self, ErrorText> {
        let mut digest = base::files::Sha256Of::default();
        let mut read = |name: &str| -> Result<(PathBuf, String), ErrorText> {
            let path = folder.join(name);
            let text = read_text(&path).map_err(in_file(&path))?;
            digest.update(text.as_bytes());
            Ok((path, text))
        };
        let set = |text: &str| text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect();
        let mut model = Self { abbreviations: set(&read(FILES[0])?.1), ..Self::default() };
        for (path, line, left, right) in rows(&read(FILES[1])?)? {
            let _ = (path, line);
            model.collocations.insert((left.to_owned(), right.to_owned()));
        }
        model.starters = set(&read(FILES[2])?.1);
        for (path, line, word, flags) in rows(&read(FILES[3])?)? {
            let flags = flags.parse().map_err(|_| wrong_line(path, line, "the second column is not a number"))?;
            model.seen.insert(word.to_owned(), flags);
        }
        model.sha256 = digest.finish();
        Ok(model)
    }

    /// Whether a sentence ends before the last word of this piece of text.
    pub(super) fn breaks(&self, context: &str) -> bool {
        let mut words = words(context);
        for word in &mut words {
            self.annotate_alone(word);
        }
        for at in 0..words.len().saturating_sub(1) {
            let (left, right) = words.split_at_mut(at + 1);
            self.annotate_with_next(&mut left[at], &right[0]);
            if left[at].ends {
                return true;
            }
        }
        false
    }

    /// By itself: a mark or a word with a period ends a sentence, unless it is an abbreviation or an ellipsis.
    fn annotate_alone(&self, word: &mut PunktToken) {
        let mut letters = word.text.chars();
        if let (Some(only), None) = (letters.next(), letters.next())
            && is_end(only)
        {
            word.ends = true;
        } else if word.text.len() > 1 && word.text.bytes().all(|byte| byte == b'.') {
            word.is_ellipsis = true;
        } else if let Some(before) = word.text.strip_suffix('.').filter(|before| !before.ends_with('.')) {
            let before = before.to_lowercase();
            let after_hyphen = before.rsplit('-').next().unwrap_or(&before);
            if self.abbreviations.contains(&before) || self.abbreviations.contains(after_hyphen) {
                word.is_abbreviation = true;
            } else {
                word.ends = true;
            }
        }
    }

    /// With the word that follows.
    fn annotate_with_next(&self, word: &mut PunktToken, next: &PunktToken) {
        if !word.text.ends_with('.') {
            return;
        }
        let kind = word.kind_without_period().to_owned();
        let next_kind = next.kind_in_sentence();
        let is_initial = word.is_initial();
        // A set of borrowed pairs cannot be searched with two borrowed words; there are few.
        if self.collocations.contains(&(kind.clone(), next_kind.to_owned())) {
            word.ends = false;
            word.is_abbreviation = true;
            return;
        }
        let starts = self.starts(next);
        if (word.is_abbreviation || word.is_ellipsis)
            && !is_initial
            && (starts == Some(true) || (next.is_upper() && self.starters.contains(next_kind)))
        {
            word.ends = true;
            return;
        }
        let unlikely = starts == Some(false)
            || (starts.is_none() && is_initial && next.is_upper() && self.seen(next_kind) & seen::LOWER == 0);
        if (is_initial || kind == PunktToken::NUMBER) && unlikely {
            word.ends = false;
            word.is_abbreviation = true;
        }
    }

    /// Whether a word begins a sentence, by the case of its first letter. None: undecided.
    fn starts(&self, word: &PunktToken) -> Option<bool> {
        if matches!(word.text.as_str(), ";" | ":" | "," | "." | "!" | "?") {
            return Some(false);
        }
        let how = self.seen(word.kind_in_sentence());
        if word.is_upper() && how & seen::LOWER != 0 && how & seen::INSIDE_UPPER == 0 {
            return Some(true);
        }
        let is_odd = how & seen::UPPER != 0 || how & seen::BEGINNING_LOWER == 0;
        (word.text.chars().next().is_some_and(char::is_lowercase) && is_odd).then_some(false)
    }

    fn seen(&self, kind: &str) -> u16 {
        self.seen.get(kind).copied().unwrap_or(0)
    }
}

type Row<'a> = (&'a Path, usize, &'a str, &'a str);

fn wrong_line(path: &Path, line: usize, problem: &str) -> ErrorText {
    ErrorText::new(format_args!("{}:{line}: {problem}", path.display()))
}

/// Lines of two columns.
fn rows((path, text): &(PathBuf, String)) -> Result<Vec<Row<'_>>, ErrorText> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.is_empty());
    lines
        .map(|(at, line)| {
            let two = line.split_once('\t');
            let (left, right) =
                two.ok_or_else(|| wrong_line(path, at + 1, "two columns with a tab between are expected"))?;
            Ok((path.as_path(), at + 1, left, right))
        })
        .collect()
}
