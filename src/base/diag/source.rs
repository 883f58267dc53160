//! A named text and ranges in it. Never reads a file: the caller has the text and makes the `SourceText`.

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

/// A text with its name for users. Cheap to clone.
#[derive(Clone)]
pub struct SourceText(Arc<Inner>);

struct Inner {
    name: String,
    text: String,
    /// Something that was typed and not written into a file: its lines are not counted.
    is_argument: bool,
    /// Byte offsets at which lines begin.
    lines: OnceLock<Vec<usize>>,
}

impl SourceText {
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Self {
        Self(Arc::new(Inner { name: name.into(), text: text.into(), is_argument: false, lines: OnceLock::new() }))
    }

    /// An argument that a user typed; `name` is where: `command line`. Its places are reported without a line.
    pub fn from_argument(name: impl Into<String>, text: impl Into<String>) -> Self {
        Self(Arc::new(Inner { name: name.into(), text: text.into(), is_argument: true, lines: OnceLock::new() }))
    }

    pub fn name(&self) -> &str {
        &self.0.name
    }

    pub fn is_argument(&self) -> bool {
        self.0.is_argument
    }

    pub fn text(&self) -> &str {
        &self.0.text
    }

    /// The 1-based line that holds this byte.
    pub fn line_of(&self, byte: usize) -> usize {
        self.lines().partition_point(|begin| *begin <= byte)
    }

    /// Where the 1-based line begins, in bytes; the end of the text for a line past the last.
    pub fn line_start(&self, line: usize) -> usize {
        self.lines().get(line.saturating_sub(1)).copied().unwrap_or(self.text().len())
    }

    fn lines(&self) -> &[usize] {
        self.0.lines.get_or_init(|| {
            let breaks = self.text().bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at + 1);
            std::iter::once(0).chain(breaks).collect()
        })
    }

    /// A range of this text. Anything outside is cut to the text and moved to character borders.
    pub fn span(&self, range: Range<usize>) -> Span {
        let text = self.text();
        let floor = |mut at: usize| {
            at = at.min(text.len());
            while !text.is_char_boundary(at) {
                at -= 1;
            }
            at
        };
        let start = floor(range.start);
        let end = floor(range.end).max(start);
        Span { source: self.clone(), start, end }
    }

    /// The very beginning.
    pub fn start(&self) -> Span {
        self.span(0..0)
    }

    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Debug for SourceText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A byte range in a source.
#[derive(Clone)]
pub struct Span {
    source: SourceText,
    start: usize,
    end: usize,
}

impl Span {
    pub const fn source(&self) -> &SourceText {
        &self.source
    }

    pub const fn range(&self) -> Range<usize> {
        self.start..self.end
    }

    /// The text it covers.
    pub fn text(&self) -> &str {
        self.source.text().get(self.start..self.end).unwrap_or("")
    }

    /// The 1-based line of its first byte.
    pub fn line(&self) -> usize {
        self.source.line_of(self.start)
    }

    pub fn is_within(&self, other: &Self) -> bool {
        self.source.name() == other.source.name() && other.start <= self.start && self.end <= other.end
    }

    /// A part of it, in bytes from its beginning.
    #[must_use]
    pub fn part(&self, range: Range<usize>) -> Self {
        self.source.span(self.start + range.start..(self.start + range.end).min(self.end))
    }

    /// From its beginning to the end of the line there, or to its own end if that comes first.
    #[must_use]
    pub fn first_line(&self) -> Self {
        let line = self.text().lines().next().unwrap_or("").trim_end().len();
        self.part(0..line)
    }
}

impl fmt::Display for Span {
    /// `manifests/x.yaml:12`, `command line`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.source.0.is_argument {
            return f.write_str(self.source.name());
        }
        write!(f, "{}:{}", self.source.name(), self.line())
    }
}

impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}[{}..{}]", self.start, self.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_counted_from_one() {
        let source = SourceText::new("x", "a\nbé\n");
        assert_eq!((source.line_of(0), source.line_of(1), source.line_of(2), source.line_of(6)), (1, 1, 2, 3));
    }

    #[test]
    fn a_range_outside_or_inside_a_character_is_cut() {
        let source = SourceText::new("x", "bé");
        assert_eq!(source.span(2..9).range(), 1..3);
        assert_eq!(source.span(7..9).range(), 3..3);
    }
}
