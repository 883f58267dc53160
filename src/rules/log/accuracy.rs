//! `mlperf_log_accuracy.json`: what LoadGen kept of every answer, hundreds of megabytes of it, read one at a time.
//!
//! A JSON array of flat objects, `{"seq_id": …, "qsl_idx": …, "data": "<hex>", "token_count": …}`. `data` are the bytes
//! that the system under test handed to LoadGen: token ids ([`Width`]).

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read as _};
use std::path::Path;

use serde::Deserialize;

use super::Width;
use base::diag::ErrorText;
use base::files::{Sha256Of, open_regular};

/// An answer longer than this is not one: 32,768 tokens of 8 bytes have half a million hexadecimal digits.
const LONGEST: u64 = 64 << 20;

/// One answer as LoadGen logged it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoggedAnswer {
    /// Of its `{` in the file.
    pub offset: u64,
    /// In the order in which samples were issued.
    pub seq_id: u64,
    /// Its sample's place in the data set.
    pub qsl_idx: u64,
    /// What the system answered.
    pub data: Vec<u8>,
    /// The bytes that the system reported as first token. Not in Offline.
    pub token_data: Option<Vec<u8>>,
    /// How many tokens the system reported.
    pub token_count: Option<i64>,
}

/// What is wrong with an accuracy log, and where.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    #[error("the accuracy log cannot be read at byte {offset}: {source}")]
    Read { offset: u64, source: io::Error },
    #[error("the accuracy log ends at byte {offset}, in the middle: {why}")]
    Truncated { offset: u64, why: &'static str },
    #[error("the accuracy log is not LoadGen's at byte {offset}: {why}")]
    Entry { offset: u64, why: String },
}

impl LoggedAnswer {
    /// The tokens of the answer. Err: what is wrong with its bytes.
    pub fn tokens(&self) -> Result<Vec<u32>, LogError> {
        self.ids(&self.data)
    }

    /// The tokens that the system reported first. Offline reports none.
    pub fn first_tokens(&self) -> Result<Option<Vec<u32>>, LogError> {
        self.token_data.as_deref().map(|data| self.ids(data)).transpose()
    }

    fn ids(&self, data: &[u8]) -> Result<Vec<u32>, LogError> {
        let width = Width::guess(self).unwrap_or(Width::Int32);
        width.ids(data).map_err(|error| LogError::Entry { offset: self.offset, why: error.to_string() })
    }
}

#[derive(Deserialize)]
struct Written<'a> {
    seq_id: u64,
    qsl_idx: u64,
    #[serde(borrow)]
    data: Cow<'a, str>,
    #[serde(borrow, default)]
    token_data: Option<Cow<'a, str>>,
    token_count: Option<i64>,
}

/// Iterates over the answers of a log and digests the whole file on the way. It ends after an error.
#[derive(Debug)]
pub struct AnswerLog<R> {
    reader: R,
    digest: Sha256Of,
    offset: u64,
    entries: u64,
    piece: Vec<u8>,
    is_over: bool,
}

impl AnswerLog<BufReader<File>> {
    pub fn open(file: &Path) -> io::Result<Self> {
        Ok(Self::new(BufReader::with_capacity(1 << 18, open_regular(file)?.0)))
    }
}

impl<R: BufRead> AnswerLog<R> {
    pub fn new(reader: R) -> Self {
        Self { reader, digest: Sha256Of::default(), offset: 0, entries: 0, piece: Vec::new(), is_over: false }
    }

    /// SHA-256 of the whole file; of use when the last answer has been read.
    pub fn sha256(&self) -> String {
        self.digest.clone().finish()
    }

    fn read(&mut self) -> Result<Option<LoggedAnswer>, LogError> {
        if self.entries == 0 && self.offset == 0 {
            self.expect(b'[', "LoadGen's log begins with `[`")?;
        }
        let next =
            self.peek("there is no `]` at its end; was the run killed, or the log already truncated for a package?")?;
        if next == b']' {
            self.skip();
            return self.end();
        }
        if self.entries > 0 {
            self.expect(b',', "entries are separated by `,`")?;
            self.peek("an entry should follow the `,`")?;
        }
        let offset = self.offset;
        self.piece.clear();
        // Hex holds no brace, and answers do not hold each other.
        let read = (&mut self.reader).take(LONGEST).read_until(b'}', &mut self.piece);
        read.map_err(|source| LogError::Read { offset, source })?;
        self.digest.update(&self.piece);
        self.offset += self.piece.len() as u64;
        if self.piece.last() != Some(&b'}') {
            let reason = "an entry does not end; was the run killed, or the log already truncated for a package?";
            return Err(if self.piece.len() as u64 == LONGEST {
                LogError::Entry { offset, why: "an entry has more than 64 MiB".to_owned() }
            } else {
                LogError::Truncated { offset: self.offset, why: reason }
            });
        }
        self.entries += 1;
        parsed(&self.piece, offset).map(Some).map_err(|error| LogError::Entry { offset, why: error.to_string() })
    }

    fn end(&mut self) -> Result<Option<LoggedAnswer>, LogError> {
        while let Some(byte) = self.next_byte()? {
            if !byte.is_ascii_whitespace() {
                return Err(LogError::Entry { offset: self.offset, why: "there is more after its `]`".to_owned() });
            }
            self.skip();
        }
        Ok(None)
    }

    /// The next byte that is not a space, without consuming it.
    fn peek(&mut self, missing: &'static str) -> Result<u8, LogError> {
        loop {
            match self.next_byte()? {
                None => return Err(LogError::Truncated { offset: self.offset, why: missing }),
                Some(byte) if byte.is_ascii_whitespace() => self.skip(),
                Some(byte) => return Ok(byte),
            }
        }
    }

    fn expect(&mut self, byte: u8, rule: &'static str) -> Result<(), LogError> {
        if self.peek(rule)? == byte {
            self.skip();
            return Ok(());
        }
        Err(LogError::Entry { offset: self.offset, why: rule.to_owned() })
    }

    fn next_byte(&mut self) -> Result<Option<u8>, LogError> {
        let offset = self.offset;
        let filled = self.reader.fill_buf();
        Ok(filled.map_err(|source| LogError::Read { offset, source })?.first().copied())
    }

    /// Takes the byte that `next_byte` saw.
    fn skip(&mut self) {
        if let Ok([byte, ..]) = self.reader.fill_buf() {
            self.digest.update([*byte]);
            self.reader.consume(1);
            self.offset += 1;
        }
    }
}

impl<R: BufRead> Iterator for AnswerLog<R> {
    type Item = Result<LoggedAnswer, LogError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        let read = self.read().transpose();
        self.is_over = !matches!(read, Some(Ok(_)));
        read
    }
}

fn parsed(piece: &[u8], offset: u64) -> Result<LoggedAnswer, ErrorText> {
    let written: Written<'_> = serde_json::from_slice(piece).map_err(ErrorText::new)?;
    let sample = written.qsl_idx;
    let bytes = |hex: &str, digits: &str| {
        let not_hexadecimal = || ErrorText::new(format_args!("the {digits} of sample {sample} are not hexadecimal"));
        bytes(hex.as_bytes()).ok_or_else(not_hexadecimal)
    };
    Ok(LoggedAnswer {
        offset,
        seq_id: written.seq_id,
        qsl_idx: sample,
        data: bytes(&written.data, "data")?,
        token_data: written.token_data.map(|hex| bytes(&hex, "first tokens")).transpose()?,
        token_count: written.token_count,
    })
}

/// The bytes of hexadecimal digits.
fn bytes(text: &[u8]) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let (pairs, rest) = text.as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?)).collect()
}
