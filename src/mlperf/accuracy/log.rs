//! `mlperf_log_accuracy.json`: what LoadGen kept of every answer, read one entry at a time.
//!
//! A JSON array of flat objects, `{"seq_id": …, "qsl_idx": …, "data": "<hex>", "token_count": …}`. `data` are the bytes that
//! the system under test handed to LoadGen: token ids, little endian, of four or eight bytes each.

use std::io::{BufRead, BufReader, Read};

use serde::Deserialize;

use crate::mlperf::sha256::Sha256Of;

/// An answer longer than this is not one: 32,768 tokens of 8 bytes have half a million hexadecimal digits.
const LONGEST: u64 = 64 << 20;

/// One answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Of its `{` in the file.
    pub offset: u64,
    /// Its sample's place in the data set.
    pub qsl_idx: u64,
    pub data: Vec<u8>,
    pub token_count: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LogError {
    #[error("the accuracy log cannot be read at byte {offset}: {why}")]
    Read { offset: u64, why: String },
    #[error("the accuracy log ends at byte {offset}, in the middle: {why}")]
    Torn { offset: u64, why: &'static str },
    #[error("the accuracy log is not LoadGen's at byte {offset}: {why}")]
    Entry { offset: u64, why: String },
}

#[derive(Deserialize)]
struct Written<'a> {
    qsl_idx: u64,
    #[serde(borrow)]
    data: std::borrow::Cow<'a, str>,
    #[serde(default)]
    token_count: Option<u64>,
}

/// Reads a log, entry by entry, and digests all of it on the way.
pub struct AccuracyLog<R> {
    reader: BufReader<R>,
    digest: Sha256Of,
    offset: u64,
    entries: u64,
    piece: Vec<u8>,
    ended: bool,
}

impl<R: Read> AccuracyLog<R> {
    pub fn new(reader: R) -> Self {
        let reader = BufReader::with_capacity(1 << 18, reader);
        Self { reader, digest: Sha256Of::default(), offset: 0, entries: 0, piece: Vec::new(), ended: false }
    }

    /// SHA-256 of the whole file; of use when the last entry has been read.
    pub fn sha256(&self) -> String {
        self.digest.clone().finish()
    }

    /// The next entry; none after the last.
    pub fn entry(&mut self) -> Result<Option<Entry>, LogError> {
        if self.ended {
            return Ok(None);
        }
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
        let read = (&mut self.reader).take(LONGEST).read_until(b'}', &mut self.piece);
        read.map_err(|error| LogError::Read { offset, why: error.to_string() })?;
        self.digest.update(&self.piece);
        self.offset += self.piece.len() as u64;
        if self.piece.last() != Some(&b'}') {
            let why = "an entry does not end; was the run killed, or the log already truncated for a package?";
            return Err(if self.piece.len() as u64 == LONGEST {
                LogError::Entry { offset, why: "an entry has more than 64 MiB".to_owned() }
            } else {
                LogError::Torn { offset: self.offset, why }
            });
        }
        self.entries += 1;
        parsed(&self.piece, offset).map(Some).map_err(|why| LogError::Entry { offset, why })
    }

    fn end(&mut self) -> Result<Option<Entry>, LogError> {
        while let Some(byte) = self.next_byte()? {
            if !byte.is_ascii_whitespace() {
                return Err(LogError::Entry { offset: self.offset, why: "there is more after its `]`".to_owned() });
            }
            self.skip();
        }
        self.ended = true;
        Ok(None)
    }

    /// The next byte that is no space, which stays.
    fn peek(&mut self, missing: &'static str) -> Result<u8, LogError> {
        loop {
            match self.next_byte()? {
                None => return Err(LogError::Torn { offset: self.offset, why: missing }),
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
        Ok(filled.map_err(|error| LogError::Read { offset, why: error.to_string() })?.first().copied())
    }

    fn skip(&mut self) {
        if let Some(byte) = self.reader.buffer().first() {
            self.digest.update(&[*byte]);
            self.reader.consume(1);
            self.offset += 1;
        }
    }
}

fn parsed(piece: &[u8], offset: u64) -> Result<Entry, String> {
    let written: Written<'_> = serde_json::from_slice(piece).map_err(|error| error.to_string())?;
    let data = bytes(written.data.as_bytes())
        .ok_or_else(|| format!("the data of sample {} are not hexadecimal", written.qsl_idx))?;
    Ok(Entry { offset, qsl_idx: written.qsl_idx, data, token_count: written.token_count })
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

#[cfg(test)]
mod tests {
    use proptest::prelude::{Just, Strategy, any, prop_assert, prop_assert_eq, proptest};

    use super::{AccuracyLog, Entry, LogError};

    fn read(text: &[u8]) -> Result<Vec<Entry>, LogError> {
        let mut log = AccuracyLog::new(text);
        let mut entries = Vec::new();
        while let Some(entry) = log.entry()? {
            entries.push(entry);
        }
        Ok(entries)
    }

    fn logs() -> impl Strategy<Value = String> {
        let entry = (0u64..50, proptest::collection::vec(any::<u8>(), 0..12), any::<bool>());
        (proptest::collection::vec(entry, 0..6), Just("\n")).prop_map(|(entries, space)| {
            let line = |(at, (index, data, counted)): (usize, (u64, Vec<u8>, bool))| {
                let hex = crate::mlperf::sha256::hex(&data).to_uppercase();
                let count = if counted { format!(", \"token_count\" : {}", data.len() / 4) } else { String::new() };
                format!("{{ \"seq_id\" : {at}, \"qsl_idx\" : {index}, \"data\" : \"{hex}\"{count} }}")
            };
            let lines: Vec<String> = entries.into_iter().enumerate().map(line).collect();
            format!("[{space}{}{space}]{space}", lines.join(",\n"))
        })
    }

    proptest! {
        #[test]
        fn a_whole_log_is_read_and_one_cut_anywhere_is_torn_where_it_was_cut(text in logs(), at in any::<proptest::sample::Index>()) {
            prop_assert!(read(text.as_bytes()).is_ok());
            let cut = at.index(text.trim_end().len());
            match read(&text.as_bytes()[..cut]) {
                Err(LogError::Torn { offset, .. }) => prop_assert_eq!(offset, cut as u64),
                other => prop_assert!(false, "{:?} of {:?}", other, &text[..cut]),
            }
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = read(&bytes);
            let _ = read(&[b"[{\"qsl_idx\":1,\"data\":\"", bytes.as_slice(), b"\"}]"].concat());
        }
    }

    #[test]
    fn what_is_wrong_is_told_with_its_place() {
        let why = |text: &str| read(text.as_bytes()).unwrap_err().to_string();
        assert!(why("{}").contains("at byte 0: LoadGen's log begins with `[`"));
        assert!(why(r#"[{"qsl_idx":3,"data":"0g"}]"#).contains("at byte 1: the data of sample 3 are not hexadecimal"));
        assert!(why(r#"[{"qsl_idx":3,"data":"000"}]"#).contains("not hexadecimal"));
        assert!(why(r#"[{"data":""}]"#).contains("missing field `qsl_idx`"));
        assert!(
            why(r#"[{"qsl_idx":3,"data":""} {"qsl_idx":4,"data":""}]"#).contains("at byte 25: entries are separated")
        );
        assert!(why(r#"[{"qsl_idx":3,"data":""}] x"#).contains("more after its `]`"));
    }
}
