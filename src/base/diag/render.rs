//! Turns diagnostics into text in rustc's style. The only place that uses `annotate-snippets`.

use std::fmt::Write as _;
use std::ops::Range;

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};

use super::{Diagnostic, Diagnostics, Label, MOST_ERRORS, Severity, SourceText};
use crate::units::is_invisible;

impl Diagnostic {
    /// The message, its places and its hints; ends without a line break.
    pub fn render(&self, color: bool) -> String {
        let renderer = if color { Renderer::styled() } else { Renderer::plain() };
        let level = match self.severity {
            Severity::Error => Level::ERROR,
            Severity::Warning => Level::WARNING,
        };
        let mut labels: Vec<(&Label, AnnotationKind)> = Vec::new();
        labels.extend(self.primary.iter().map(|label| (label, AnnotationKind::Primary)));
        labels.extend(self.further.iter().map(|label| (label, AnnotationKind::Context)));
        let message = visible(&self.message);
        let mut group = Group::with_title(level.primary_title(message.as_str()));
        let mut sources: Vec<&SourceText> = Vec::new();
        for (label, _) in &labels {
            if !sources.iter().any(|known| known.is(label.span.source())) {
                sources.push(label.span.source());
            }
        }
        let windows: Vec<Window> = sources.iter().map(|source| Window::around(source, &labels)).collect();
        for (source, window) in sources.iter().zip(&windows) {
            let name = visible(&source.name().replace('\n', "\\n"));
            let mut snippet = Snippet::source(window.text.as_str()).line_start(window.line).path(name);
            for (label, kind) in labels.iter().filter(|(label, _)| label.span.source().is(source)) {
                let range = label.span.range();
                let span = window.within(range.start)..window.within(range.end).max(window.within(range.start));
                let text = (!label.text.is_empty()).then_some(label.text.as_str());
                snippet = snippet.annotation(kind.span(span).label(text));
            }
            group = group.element(snippet);
        }
        let hints: Vec<String> = self.hints.iter().map(|hint| visible(hint)).collect();
        for hint in &hints {
            group = group.element(Level::HELP.message(hint.as_str()));
        }
        renderer.render(&[group])
    }
}

/// The lines that the labels of one source touch: the renderer need not see a whole file for one caret.
struct Window {
    text: String,
    start: usize,
    line: usize,
}

impl Window {
    fn around(source: &SourceText, labels: &[(&Label, AnnotationKind)]) -> Self {
        let ranges = || labels.iter().filter(|(label, _)| label.span.source().is(source)).map(|(l, _)| l.span.range());
        let first = ranges().map(|range| range.start).min().unwrap_or(0);
        let last = ranges().map(|range| range.end).max().unwrap_or(0);
        let line = source.line_of(first);
        let start = source.line_start(line);
        let end = source.line_start(source.line_of(last) + 1);
        // Same length in bytes, so that ranges stay right; control characters must not reach a terminal.
        let text = masked(source.text().get(start..end).unwrap_or(""));
        let bytes = text.as_bytes();
        let shown = text.char_indices().map(|(at, c)| match c {
            '\n' | '\t' => c,
            '\r' if bytes.get(at + 1) == Some(&b'\n') => c,
            c if c.is_ascii_control() => ' ',
            c => c,
        });
        Self { text: shown.collect(), start, line }
    }

    fn within(&self, byte: usize) -> usize {
        byte.saturating_sub(self.start).min(self.text.len())
    }
}

/// Names from a file may hold control characters; a message shows them escaped.
fn visible(text: &str) -> String {
    if text.chars().any(|c| is_invisible(c) && c != '\n') {
        text.chars()
            .map(|c| if is_invisible(c) && c != '\n' { c.escape_default().to_string() } else { c.to_string() })
            .collect()
    } else {
        text.to_owned()
    }
}

impl Diagnostics {
    /// All of them, sorted by file and place, and at the end how many errors there are.
    pub fn render(&self, color: bool) -> String {
        let mut out = String::new();
        for one in self.sorted() {
            out.push_str(one.render(color).trim_end());
            out.push_str("\n\n");
        }
        match self.errors() {
            0 => {}
            1 => out.push_str("1 error\n"),
            many => {
                let _ = writeln!(out, "{many} errors{}", if many >= MOST_ERRORS { " or more" } else { "" });
            }
        }
        out
    }
}

// Passwords in addresses, in the lines of a text that an error shows: the error may be about something else on the
// line.

/// The text with `*` in place of each byte of a password or a token in an address: as long as before, so that places in
/// it stay right.
pub(super) fn masked(text: &str) -> String {
    if !text.contains('@') {
        return text.to_owned();
    }
    let mut bytes = text.as_bytes().to_vec();
    let mut start = 0;
    for word in text.split_inclusive(|c: char| c.is_whitespace() || matches!(c, '\'' | '"' | '|')) {
        // Behind the name of an image stands its digest.
        for (at, _) in word.match_indices('@').filter(|(at, _)| !word[at + 1..].starts_with("sha256:")) {
            if let Some(secret) = secret_before(&word[..at]) {
                bytes[start + secret.start..start + secret.end].fill(b'*');
            }
        }
        start += word.len();
    }
    String::from_utf8(bytes).unwrap_or_default()
}

/// What is secret of a word up to its `@`: `me:secret`, `http://secret`, `http://me:secret`. `git` of `git@host` and
/// `ssh://git@host` is not.
fn secret_before(before: &str) -> Option<Range<usize>> {
    let (scheme, start) = match before.rfind("://") {
        Some(at) => (Some(&before[..at]), at + 3),
        None => (None, 0),
    };
    let userinfo = &before[start..];
    if userinfo.contains('/') {
        return None;
    }
    match (userinfo.find(':'), scheme) {
        // `http://secret:`, without a password, as `curl -u` takes it.
        (Some(colon), Some(scheme)) if colon + 1 == userinfo.len() && !scheme.ends_with("ssh") => {
            Some(start..start + colon)
        }
        (Some(colon), _) => Some(start + colon + 1..before.len()),
        (None, Some(scheme)) if !scheme.ends_with("ssh") => Some(start..before.len()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_like_a_compiler() {
        let source = SourceText::new("x.yaml", "a: 1\nb:\n  wehn: true\n");
        let mut diagnostics = Diagnostics::new();
        diagnostics.push(
            Diagnostic::error("unknown key `wehn`").at(source.span(10..14), "no such key").hint("did you mean `when`?"),
        );
        diagnostics.push(Diagnostic::error("no such file"));
        insta::assert_snapshot!(diagnostics.render(false), @r"
        error: no such file

        error: unknown key `wehn`
         --> x.yaml:3:3
          |
        3 |   wehn: true
          |   ^^^^ no such key
          |
          = help: did you mean `when`?

        2 errors
        ");
    }

    #[test]
    fn a_password_in_an_address_is_masked_and_nothing_else() {
        for (text, shown) in [
            ("target: 'http://me:pw@host:1'", "target: 'http://me:**@host:1'"),
            ("[https://tök@a/x@y, \"a:1|me:pw@b:2\"]", "[https://****@a/x@y, \"a:1|me:**@b:2\"]"),
            ("url: https://tok:@host/x ssh://git:@host", "url: https://***:@host/x ssh://git:@host"),
            ("openai://sk-1@host http://a:1/v1", "openai://****@host http://a:1/v1"),
            ("url: ssh://git@host/x git@host:y", "url: ssh://git@host/x git@host:y"),
            ("image: tritonserver:24.08@sha256:ab", "image: tritonserver:24.08@sha256:ab"),
            ("image: nvcr.io/triton:24.08@sha256:ab", "image: nvcr.io/triton:24.08@sha256:ab"),
            ("a: b\n", "a: b\n"),
        ] {
            assert_eq!(masked(text), shown);
            assert_eq!(shown.len(), text.len());
        }
    }
}
