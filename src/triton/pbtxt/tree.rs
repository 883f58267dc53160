//! A text as fields and values, each with its place. Nothing is known of the schema here.

use std::ops::Range;

use super::PbtxtError;
use super::lex::{Lexer, PbtxtToken};

/// `name: value` or `name { … }` or `name: [ … ]`.
#[derive(Clone, Debug)]
pub(super) struct PbtxtField {
    pub name: String,
    /// The name alone.
    pub at: Range<usize>,
    pub has_colon: bool,
    pub is_list: bool,
    pub values: Vec<PbtxtValue>,
}

#[derive(Clone, Debug)]
pub(super) struct PbtxtValue {
    pub bytes: Range<usize>,
    pub shape: PbtxtShape,
}

impl PbtxtValue {
    /// Those of a message; other values have none.
    pub(super) fn fields(&self) -> &[PbtxtField] {
        if let PbtxtShape::Message(fields) = &self.shape { fields } else { &[] }
    }
}

#[derive(Clone, Debug)]
pub(super) enum PbtxtShape {
    /// A number, a boolean or an enum name of the schema, with its sign.
    Bare(String),
    Text(Vec<u8>),
    Message(Vec<PbtxtField>),
    Placeholder(String),
}

/// Deeper than any config; the server's own parser has a limit too.
const DEEPEST: usize = 64;

/// The fields of a whole text. A syntax error ends the reading: what follows it has no sure meaning.
pub(super) fn parse(text: &str) -> Result<Vec<PbtxtField>, PbtxtError> {
    let mut parser = Parser { text, lexer: Lexer::new(text), word: PbtxtToken::End, at: 0..0, end: 0 };
    parser.advance()?;
    parser.fields(None, 0)
}

struct Parser<'t> {
    text: &'t str,
    lexer: Lexer<'t>,
    word: PbtxtToken,
    at: Range<usize>,
    /// The end of the token before this one.
    end: usize,
}

impl Parser<'_> {
    fn advance(&mut self) -> Result<(), PbtxtError> {
        self.end = self.at.end;
        (self.word, self.at) = self.lexer.next()?;
        Ok(())
    }

    /// A syntax error at the token.
    fn fail<T>(&self, message: impl Into<String>) -> Result<T, PbtxtError> {
        Err(PbtxtError::new(self.text, self.at.clone(), message, ""))
    }

    fn found(&self) -> String {
        match &self.word {
            PbtxtToken::End => "the end of the file".to_owned(),
            _ => format!("`{}`", self.text[self.at.clone()].lines().next().unwrap_or_default()),
        }
    }

    fn is(&self, mark: u8) -> bool {
        self.word == PbtxtToken::Mark(mark)
    }

    fn take(&mut self, mark: u8) -> Result<bool, PbtxtError> {
        let there = self.is(mark);
        if there {
            self.advance()?;
        }
        Ok(there)
    }

    /// Until the closing bracket, or the end of the text for the outermost.
    fn fields(&mut self, opened: Option<&(u8, Range<usize>)>, depth: usize) -> Result<Vec<PbtxtField>, PbtxtError> {
        if depth > DEEPEST {
            return self.fail("this is nested too deeply");
        }
        let mut fields = Vec::new();
        loop {
            match (&self.word, opened) {
                (PbtxtToken::End, None) => return Ok(fields),
                (PbtxtToken::End, Some((_, at))) => {
                    let message = "this bracket is never closed";
                    return Err(PbtxtError::new(self.text, at.clone(), message, "close it, or remove it"));
                }
                (PbtxtToken::Mark(mark), Some((closing, _))) if mark == closing => return Ok(fields),
                (PbtxtToken::Bare, _) => fields.push(self.field(depth)?),
                (PbtxtToken::Mark(b'}' | b'>' | b']'), _) => return self.fail(format!("unmatched {}", self.found())),
                (PbtxtToken::Placeholder(name), _) => {
                    return self.fail(format!("the placeholder `{name}` is where a field should begin"));
                }
                _ => return self.fail(format!("expected a field name, not {}", self.found())),
            }
        }
    }

    fn field(&mut self, depth: usize) -> Result<PbtxtField, PbtxtError> {
        let at = self.at.clone();
        let name = self.text[at.clone()].to_owned();
        if name.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
            return self.fail(format!("expected a field name, not `{name}`"));
        }
        self.advance()?;
        let has_colon = self.take(b':')?;
        let is_list = self.take(b'[')?;
        let mut values = Vec::new();
        if is_list {
            while !self.is(b']') {
                values.push(self.value(&name, depth)?);
                if self.is(b']') {
                    break;
                }
                if !self.take(b',')? {
                    let message = format!("the list of `{name}` needs a comma or `]` here, not {}", self.found());
                    return self.fail(message);
                }
                if self.is(b']') {
                    let message = format!("the list of `{name}` ends with a comma");
                    return Err(PbtxtError::new(self.text, self.at.clone(), message, "remove the comma before it"));
                }
            }
            self.advance()?;
        } else {
            values.push(self.value(&name, depth)?);
        }
        if !self.take(b',')? {
            self.take(b';')?;
        }
        Ok(PbtxtField { name, at, has_colon, is_list, values })
    }

    fn value(&mut self, name: &str, depth: usize) -> Result<PbtxtValue, PbtxtError> {
        let start = self.at.start;
        let shape = match self.word.clone() {
            PbtxtToken::Mark(open @ (b'{' | b'<')) => {
                let closing = if open == b'{' { b'}' } else { b'>' };
                let opened = (closing, self.at.clone());
                self.advance()?;
                let fields = self.fields(Some(&opened), depth + 1)?;
                self.advance()?;
                PbtxtShape::Message(fields)
            }
            PbtxtToken::Text(mut bytes) => {
                self.advance()?;
                while let PbtxtToken::Text(more) = &self.word {
                    bytes.extend(more);
                    self.advance()?;
                }
                PbtxtShape::Text(bytes)
            }
            PbtxtToken::Mark(b'-') => {
                self.advance()?;
                if self.word != PbtxtToken::Bare {
                    return self.fail(format!("a number should follow the `-`, not {}", self.found()));
                }
                let text = format!("-{}", &self.text[self.at.clone()]);
                self.advance()?;
                PbtxtShape::Bare(text)
            }
            PbtxtToken::Bare => {
                let text = self.text[self.at.clone()].to_owned();
                self.advance()?;
                PbtxtShape::Bare(text)
            }
            PbtxtToken::Placeholder(name) => {
                self.advance()?;
                PbtxtShape::Placeholder(name)
            }
            PbtxtToken::Mark(_) | PbtxtToken::End => {
                return self.fail(format!("`{name}` needs a value here, not {}", self.found()));
            }
        };
        Ok(PbtxtValue { bytes: start..self.end, shape })
    }
}
