//! Python's tokens, as far as configs have them. Total: any text gives tokens.

#[derive(Clone, Debug, PartialEq)]
pub(super) enum PythonToken {
    Name(String),
    /// A number, and whether it is written as a whole one.
    Number(f64, bool),
    /// A plain string; of `f"…"` and `b"…"` none is made.
    Text(String),
    /// Punctuation, one or two characters.
    Mark(&'static str),
    /// The end of a logical line.
    Newline,
    /// A line that is further in than the one before, and its end.
    Indent,
    Dedent,
    /// What has no place in a config.
    Unsupported,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Spot {
    pub token: PythonToken,
    /// From 1.
    pub line: usize,
}

/// Longer ones first.
const MARKS: [&str; 38] = [
    "**=", "//=", "...", "**", "//", "==", "!=", "<=", ">=", "->", "+=", "-=", "*=", "/=", ":=", "<<", ">>", "(", ")",
    "[", "]", "{", "}", ",", ":", ".", "=", "+", "-", "*", "/", "%", "@", "<", ">", "|", "&", ";",
];

pub(super) fn tokens(text: &str) -> Vec<Spot> {
    Lexer { rest: text, line: 1, depth: 0, indents: vec![0], out: Vec::new() }.all()
}

struct Lexer<'a> {
    rest: &'a str,
    line: usize,
    /// Open brackets: inside them a line end is ignored.
    depth: usize,
    indents: Vec<usize>,
    out: Vec<Spot>,
}

impl Lexer<'_> {
    fn all(mut self) -> Vec<Spot> {
        self.begin_line();
        while let Some(c) = self.rest.chars().next() {
            match c {
                ' ' | '\t' | '\r' | '\u{feff}' | '\u{c}' => self.skip(c.len_utf8()),
                '#' => {
                    let end = self.rest.find('\n').unwrap_or(self.rest.len());
                    self.skip(end);
                }
                '\\' if self.rest.starts_with("\\\n") || self.rest.starts_with("\\\r\n") => {
                    let end = self.rest.find('\n').map_or(1, |at| at + 1);
                    self.line += 1;
                    self.skip(end);
                }
                '\n' => {
                    if self.depth == 0 {
                        self.end_line();
                    }
                    self.line += 1;
                    self.skip(1);
                    if self.depth == 0 {
                        self.begin_line();
                    }
                }
                '\'' | '"' => self.text(""),
                _ if c.is_ascii_digit() || c == '.' && self.rest[1..].starts_with(|c: char| c.is_ascii_digit()) => {
                    self.number();
                }
                _ if c.is_alphabetic() || c == '_' => self.name(),
                _ => self.mark(c),
            }
        }
        self.end_line();
        while self.indents.len() > 1 {
            self.indents.pop();
            self.push(PythonToken::Dedent);
        }
        self.out
    }

    fn skip(&mut self, bytes: usize) {
        self.rest = self.rest.get(bytes..).unwrap_or_default();
    }

    fn push(&mut self, token: PythonToken) {
        self.out.push(Spot { token, line: self.line });
    }

    fn end_line(&mut self) {
        if self
            .out
            .last()
            .is_some_and(|spot| !matches!(spot.token, PythonToken::Newline | PythonToken::Indent | PythonToken::Dedent))
        {
            self.push(PythonToken::Newline);
        }
    }

    /// Measures the indentation of a line that is not empty.
    fn begin_line(&mut self) {
        let body = self.rest.trim_start_matches([' ', '\t']);
        if body.is_empty() || body.starts_with(['\n', '\r', '#']) {
            return;
        }
        let width = self.rest[..self.rest.len() - body.len()].chars().map(|c| if c == '\t' { 8 } else { 1 }).sum();
        let now = *self.indents.last().unwrap_or(&0);
        if width > now {
            self.indents.push(width);
            self.push(PythonToken::Indent);
        }
        while self.indents.last().is_some_and(|last| *last > width) {
            self.indents.pop();
            self.push(PythonToken::Dedent);
        }
    }

    fn name(&mut self) {
        let end = self.rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(self.rest.len());
        let name = &self.rest[..end];
        let is_prefix = name.len() <= 2 && name.chars().all(|c| "rRbBfFuU".contains(c));
        if is_prefix && self.rest[end..].starts_with(['\'', '"']) {
            let prefix = name.to_lowercase();
            self.skip(end);
            return self.text(&prefix);
        }
        let token = PythonToken::Name(name.to_owned());
        self.push(token);
        self.skip(end);
    }

    fn number(&mut self) {
        let bytes = self.rest.as_bytes();
        let mut end = 0;
        while let Some(byte) = bytes.get(end) {
            let follows_e = end > 0 && matches!(bytes[end - 1], b'e' | b'E') && !self.rest.starts_with("0x");
            if byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.') || matches!(byte, b'+' | b'-') && follows_e {
                end += 1;
            } else {
                break;
            }
        }
        let text = self.rest[..end].replace('_', "");
        let hex = text.strip_prefix("0x").and_then(|digits| u64::from_str_radix(digits, 16).ok());
        let token = match (hex, text.parse::<f64>()) {
            (Some(number), _) => PythonToken::Number(number as f64, true),
            (None, Ok(number)) if number.is_finite() => {
                PythonToken::Number(number, text.bytes().all(|byte| byte.is_ascii_digit()))
            }
            _ => PythonToken::Unsupported,
        };
        self.push(token);
        self.skip(end.max(1));
    }

    /// A string; its quotes come next.
    fn text(&mut self, prefix: &str) {
        let quote = &self.rest[..1];
        let triple = quote.repeat(3);
        let quote = if self.rest.starts_with(&triple) { triple.as_str() } else { quote };
        let begun = self.line;
        self.skip(quote.len());
        let mut text = String::new();
        let mut is_closed = false;
        while let Some(c) = self.rest.chars().next() {
            if self.rest.starts_with(quote) {
                self.skip(quote.len());
                is_closed = true;
                break;
            }
            if c == '\n' {
                if quote.len() == 1 {
                    break;
                }
                self.line += 1;
            }
            self.skip(c.len_utf8());
            if c == '\\' && !prefix.contains('r') {
                let Some(escaped) = self.rest.chars().next() else { break };
                self.skip(escaped.len_utf8());
                match escaped {
                    'n' => text.push('\n'),
                    't' => text.push('\t'),
                    '\n' => self.line += 1,
                    '\'' | '"' | '\\' => text.push(escaped),
                    other => text.extend(['\\', other]),
                }
            } else {
                text.push(c);
            }
        }
        let is_plain = is_closed && !prefix.contains(['f', 'b']);
        self.out.push(Spot {
            token: if is_plain { PythonToken::Text(text) } else { PythonToken::Unsupported },
            line: begun,
        });
    }

    fn mark(&mut self, c: char) {
        let Some(mark) = MARKS.iter().find(|mark| self.rest.starts_with(**mark)) else {
            self.push(PythonToken::Unsupported);
            return self.skip(c.len_utf8());
        };
        match *mark {
            "(" | "[" | "{" => self.depth += 1,
            ")" | "]" | "}" => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
        self.push(PythonToken::Mark(mark));
        self.skip(mark.len());
    }
}
