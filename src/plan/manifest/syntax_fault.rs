//! What a fault in the YAML says, and how it is usually mended: the parser says what it expected, which is seldom what
//! the author forgot.

/// A fault at a place, in words for the author.
#[derive(Debug, PartialEq, Eq)]
pub struct SyntaxFault {
    pub label: String,
    pub hint: Option<String>,
}

/// `message` is the parser's, `at` the byte of the text at which it stopped.
pub fn explain(message: &str, text: &str, at: usize) -> SyntaxFault {
    let place = Place::new(text, at);
    let hint = place.hint(message);
    // It says this of both kinds of quotes.
    let ends_early = "invalid trailing content after double-quoted scalar";
    let label = if message == ends_early { "the quoted text ends before this" } else { message };
    SyntaxFault { label: label.to_owned(), hint }
}

/// Where a parser stopped.
struct Place<'a> {
    /// Of its line.
    line: &'a str,
    /// The lines above it.
    above: &'a str,
    /// What it did not expect, and the rest of its line.
    rest: &'a str,
    /// Bytes before it in its line.
    column: usize,
}

impl<'a> Place<'a> {
    fn new(text: &'a str, at: usize) -> Self {
        let start = text.get(..at).and_then(|before| before.rfind('\n')).map_or(0, |newline| newline + 1);
        let line = text.get(start..).and_then(|rest| rest.lines().next()).unwrap_or_default();
        let column = (at - start).min(line.len());
        let rest = line.get(column..).unwrap_or_default();
        Self { line, above: text.get(..start).unwrap_or_default(), rest, column }
    }

    fn hint(&self, message: &str) -> Option<String> {
        let indent = self.line.len() - self.line.trim_start_matches([' ', '\t']).len();
        if self.line.get(..indent).is_some_and(|indent| indent.contains('\t')) {
            return Some("YAML is indented with spaces, not with tabs".to_owned());
        }
        if self.line.contains(": {{") {
            return Some("a value that begins with `{{` needs quotes: \"{{ … }}\"".to_owned());
        }
        let says = |part: &str| message.contains(part);
        let first = self.rest.chars().next();
        if says("unexpected character") || says("unknown anchor") || says("while scanning an anchor or alias") {
            let sign = first.or_else(|| message.strip_suffix('\'')?.chars().next_back())?;
            return Some(format!("a text that begins with `{sign}` needs quotes: \"{sign}…\""));
        }
        if says("invalid trailing content") {
            return Some(match self.opening_quote()? {
                '\'' => "a `'` within single quotes is written twice: ''".to_owned(),
                _ => ENDS_EARLY.to_owned(),
            });
        }
        if says("unknown escape character") {
            return Some(
                "within double quotes a backslash is written twice, \\\\; within single quotes once".to_owned(),
            );
        }
        if says("found unexpected end of stream") || says("invalid indentation in quoted scalar") {
            return Some("the quote is not closed, or the further lines of its text are not indented".to_owned());
        }
        if says("mapping values are not allowed") {
            return Some(if self.is_first_colon() { self.too_deep() } else { COLON_IN_TEXT.to_owned() });
        }
        if says("did not find expected ',' or '}'") || says("expected ',' or ']'") || is_unclosed(message) {
            return Some(match first {
                Some(':') => COLON_IN_TEXT.to_owned(),
                _ => NOT_CLOSED.to_owned(),
            });
        }
        if says("did not find expected key") {
            return Some("keys of one map begin in the same column: compare this line with those above it".to_owned());
        }
        (says("simple key expect")).then(|| "a colon is missing after a key, here or in the line above".to_owned())
    }

    /// The quote around the text that ends before the place.
    fn opening_quote(&self) -> Option<char> {
        self.line.get(..self.column)?.trim_end().chars().next_back().filter(|quote| matches!(quote, '\'' | '"'))
    }

    /// Whether the colon here is that of the line's first key.
    fn is_first_colon(&self) -> bool {
        !self.line.get(..self.column).unwrap_or_default().contains(": ")
    }

    fn too_deep(&self) -> String {
        let before = self.above.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
        match before.trim_start().split_once(": ") {
            Some((key, _)) => {
                format!("`{key}` above it has its value already: keys of one map begin in the same column")
            }
            None => "keys of one map begin in the same column".to_owned(),
        }
    }
}

/// A line stands further left than the `{` or `[` that it would be in.
fn is_unclosed(message: &str) -> bool {
    matches!(message, "invalid indentation" | "invalid indentation in flow construct")
}

const COLON_IN_TEXT: &str = "a text with a colon and a space in it needs quotes, or belongs below a `|`";
const ENDS_EARLY: &str = "quotes enclose the whole text, and one within it is written \\\"; or a comma is missing here";
const NOT_CLOSED: &str = "the `{` or `[` before it is not closed, a comma is missing, or `{port}` needs quotes";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::read::read;
    use base::diag::SourceText;

    #[test]
    fn each_usual_mistake_has_its_cure() {
        let cases = [
            ("a: 'echo it's'", "a `'` within single quotes is written twice: ''"),
            ("a: { b: 'echo it's' }", "a `'` within single quotes is written twice: ''"),
            ("a: \"ls\" -l", ENDS_EARLY),
            ("a: { shell: echo hi: there }", COLON_IN_TEXT),
            ("a:\n  shell: echo hi: there", COLON_IN_TEXT),
            (
                "a:\n  shell: ls\n   timeout: 5s",
                "`shell` above it has its value already: keys of one map begin in the same column",
            ),
            (
                "a:\n    b: 1\n   c: 2",
                "keys of one map begin in the same column: compare this line with those above it",
            ),
            ("a: @x", "a text that begins with `@` needs quotes: \"@…\""),
            ("a: %x", "a text that begins with `%` needs quotes: \"%…\""),
            ("a: `x`", "a text that begins with ``` needs quotes: \"`…\""),
            ("a: *x", "a text that begins with `*` needs quotes: \"*…\""),
            ("a: *.yaml", "a text that begins with `*` needs quotes: \"*…\""),
            ("a: \"\\d\"", "within double quotes a backslash is written twice, \\\\; within single quotes once"),
            ("a: \"x\nb: 1\n", "the quote is not closed, or the further lines of its text are not indented"),
            ("a: \"x", "the quote is not closed, or the further lines of its text are not indented"),
            ("a: { b: 1", NOT_CLOSED),
            ("a: [b c: 1", NOT_CLOSED),
            ("a: { b: \"1\" c: 2 }", ENDS_EARLY),
            ("a: [b,\nc: 1", NOT_CLOSED),
            ("a:\n  b: 1\nstages\n  c:\n", "a colon is missing after a key, here or in the line above"),
            ("a:\n\tb: 1", "YAML is indented with spaces, not with tabs"),
            ("a: {{ x }}", "a value that begins with `{{` needs quotes: \"{{ … }}\""),
        ];
        for (text, hint) in cases {
            let rendered = read(&SourceText::new("x", text)).unwrap_err().render(false);
            assert!(rendered.contains(&format!("help: {hint}\n")), "{text}\n{rendered}");
        }
    }

    #[test]
    fn a_text_that_ends_early_is_not_said_to_be_in_double_quotes() {
        let fault = explain("invalid trailing content after double-quoted scalar", "a: 'it's'", 7);
        assert_eq!(fault.label, "the quoted text ends before this");
    }
}
