//! What is wrong with a config.pbtxt, and where.

use std::ops::Range;

/// An error in a config.pbtxt, and its position.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{line}:{column}: {message}")]
pub struct PbtxtError {
    /// Bytes of the text that the message is about. Empty at the place of something missing.
    pub bytes: Range<usize>,
    /// From 1.
    pub line: usize,
    /// From 1, in characters.
    pub column: usize,
    /// Lower case, one line.
    pub message: String,
    pub hint: Option<String>,
}

impl PbtxtError {
    pub(super) fn new(text: &str, bytes: Range<usize>, message: String, hint: Option<String>) -> Self {
        let before = &text[..bytes.start.min(text.len())];
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        Self { bytes, line, column, message, hint }
    }

    /// The line it is in with a caret below, for a log without colors.
    pub fn excerpt(&self, text: &str) -> String {
        let line = text.lines().nth(self.line - 1).unwrap_or_default();
        let width = text.get(self.bytes.clone()).map_or(1, |t| t.lines().next().unwrap_or_default().chars().count());
        format!("{line}\n{}{}", " ".repeat(self.column - 1), "^".repeat(width.max(1)))
    }
}
