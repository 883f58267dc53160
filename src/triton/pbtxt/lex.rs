//! Splits a text into the tokens of protobuf's text format, each with its place. Spaces and comments are in no token.

use std::ops::Range;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PbtxtToken {
    /// A name, a number, `true`, `TYPE_INT32`: anything bare, without a sign.
    Bare,
    /// A text in quotes, its escapes resolved. Any bytes can be written.
    Text(Vec<u8>),
    /// One of `{}<>[]:,;-`.
    Mark(u8),
    /// A `${name}` that was not replaced, where a value should be.
    Placeholder(String),
    End,
}

pub(super) struct Lexer<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Lexer<'t> {
    pub(super) const fn new(text: &'t str) -> Self {
        Self { text, at: 0 }
    }

    /// The next token and where it is; the end is a token too.
    pub(super) fn next(&mut self) -> Result<(PbtxtToken, Range<usize>), PbtxtError> {
        self.skip();
        let start = self.at;
        let Some(first) = self.peek() else { return Ok((PbtxtToken::End, start..start)) };
        let word = match first {
            b'"' | b'\'' => self.quoted(first)?,
            b'{' | b'}' | b'<' | b'>' | b'[' | b']' | b':' | b',' | b';' | b'-' => {
                self.at += 1;
                PbtxtToken::Mark(first)
            }
            b'$' => self.placeholder(),
            c if c.is_ascii_alphanumeric() || c == b'_' || c == b'.' => self.bare()?,
            _ => return Err(self.unexpected_character()),
        };
        Ok((word, start..self.at))
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip(&mut self) {
        while let Some(c) = self.peek() {
            match c {
                b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c => self.at += 1,
                b'#' => self.at = self.text[self.at..].find('\n').map_or(self.text.len(), |line| self.at + line),
                _ => return,
            }
        }
    }

    fn unexpected_character(&self) -> PbtxtError {
        let c = self.text[self.at..].chars().next().unwrap_or_default();
        let message = format!("`{}` has no meaning here", c.escape_debug());
        PbtxtError::new(self.text, self.at..self.at + c.len_utf8(), message, "")
    }

    fn placeholder(&mut self) -> PbtxtToken {
        let rest = &self.text[self.at + 1..];
        let inner = rest.strip_prefix('{').unwrap_or(rest);
        let name: String = inner.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
        let braced = rest.starts_with('{') && inner[name.len()..].starts_with('}');
        self.at += 1 + if braced {
            name.len() + 2
        } else if rest.starts_with('{') {
            0
        } else {
            name.len()
        };
        PbtxtToken::Placeholder(name)
    }

    /// Letters, digits, `_` and `.`; a sign belongs to it inside an exponent only.
    fn bare(&mut self) -> Result<PbtxtToken, PbtxtError> {
        let start = self.at;
        let number = self.peek().is_some_and(|c| c.is_ascii_digit() || c == b'.');
        let hexadecimal = self.text[start..].starts_with("0x") || self.text[start..].starts_with("0X");
        while let Some(c) = self.peek() {
            let before = self.text.as_bytes()[self.at.saturating_sub(1)];
            let exponent = number && !hexadecimal && self.at > start && matches!(before, b'e' | b'E');
            if !(c.is_ascii_alphanumeric() || c == b'_' || number && c == b'.' || exponent && matches!(c, b'+' | b'-'))
            {
                break;
            }
            self.at += 1;
        }
        if self.at == start {
            return Err(self.unexpected_character());
        }
        Ok(PbtxtToken::Bare)
    }

    fn quoted(&mut self, quote: u8) -> Result<PbtxtToken, PbtxtError> {
        let start = self.at;
        let mut bytes = Vec::new();
        self.at += 1;
        loop {
            match self.peek() {
                None | Some(b'\n') => {
                    let hint = "a text ends on its line; a line break in it is written `\\n`";
                    return Err(PbtxtError::new(self.text, start..self.at, "this text has no closing quote", hint));
                }
                Some(0) => return Err(self.unexpected_character()),
                Some(c) if c == quote => {
                    self.at += 1;
                    return Ok(PbtxtToken::Text(bytes));
                }
                Some(b'\\') => self.escape(&mut bytes)?,
                Some(c) => {
                    bytes.push(c);
                    self.at += 1;
                }
            }
        }
    }

    fn escape(&mut self, bytes: &mut Vec<u8>) -> Result<(), PbtxtError> {
        let start = self.at;
        self.at += 1;
        let kind = self.peek().unwrap_or_default();
        let simple = match kind {
            b'n' => Some(b'\n'),
            b'r' => Some(b'\r'),
            b't' => Some(b'\t'),
            b'a' => Some(7),
            b'b' => Some(8),
            b'f' => Some(12),
            b'v' => Some(11),
            b'\\' | b'\'' | b'"' | b'?' => Some(kind),
            _ => None,
        };
        if let Some(byte) = simple {
            bytes.push(byte);
            self.at += 1;
            return Ok(());
        }
        let value = match kind {
            b'0'..=b'7' => self.digits(8, 3),
            b'x' | b'X' => self.after_letter(|it| it.digits(16, 2)),
            b'u' => self.after_letter(|it| it.digits(16, 4)),
            b'U' => self.after_letter(|it| it.digits(16, 8)),
            _ => None,
        };
        let character = |value: u32| char::from_u32(value).map(|c| c.to_string().into_bytes());
        let resolved = match (kind, value) {
            (b'u' | b'U', Some((value, length))) if length == if kind == b'u' { 4 } else { 8 } => character(value),
            (b'u' | b'U', _) => None,
            (_, Some((value, _))) => u8::try_from(value).ok().map(|byte| vec![byte]),
            _ => None,
        };
        let Some(resolved) = resolved else {
            let end = (self.at + 1).min(self.text.len()).max(self.at);
            let end = (end..=self.text.len()).find(|end| self.text.is_char_boundary(*end)).unwrap_or(end);
            let hint = "a backslash itself is written `\\\\`";
            return Err(PbtxtError::new(self.text, start..end, "this escape has no meaning", hint));
        };
        bytes.extend(resolved);
        Ok(())
    }

    fn after_letter<T>(&mut self, read: impl FnOnce(&mut Self) -> T) -> T {
        self.at += 1;
        read(self)
    }

    /// At most `most` digits: their value and how many there were; no digits are an error.
    fn digits(&mut self, radix: u32, most: usize) -> Option<(u32, usize)> {
        let (mut value, mut length) = (0, 0);
        while length < most
            && let Some(digit) = self.peek().and_then(|c| char::from(c).to_digit(radix))
        {
            value = value * radix + digit;
            length += 1;
            self.at += 1;
        }
        (length > 0).then_some((value, length))
    }
}

// Texts as literals of the format.

/// A text as a literal of the format, quotes included.
pub fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            // Octal is the format's only escape of a fixed length.
            c if c.is_control() && c.is_ascii() => out.extend(octal(c)),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// `\ooo` of an ASCII character.
pub(super) fn octal(c: char) -> [char; 4] {
    let digit = |shift: u32| char::from(b'0' + ((c as u32 >> shift) & 7) as u8);
    ['\\', digit(6), digit(3), digit(0)]
}

// What is wrong with a config.pbtxt, and where.

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
    /// An empty hint is left out.
    pub(super) fn new(text: &str, bytes: Range<usize>, message: impl Into<String>, hint: impl Into<String>) -> Self {
        let before = &text[..bytes.start.min(text.len())];
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        let hint = Some(hint.into()).filter(|hint| !hint.is_empty());
        Self { bytes, line, column, message: message.into(), hint }
    }

    /// The line it is in with a caret below, for a log without colors.
    pub fn excerpt(&self, text: &str) -> String {
        let line = text.lines().nth(self.line - 1).unwrap_or_default();
        let width = text.get(self.bytes.clone()).map_or(1, |t| t.lines().next().unwrap_or_default().chars().count());
        format!("{line}\n{}{}", " ".repeat(self.column - 1), "^".repeat(width.max(1)))
    }
}
