//! `mlperf_log_accuracy.json`: the answers, hundreds of megabytes of them. They are read one at a time.

use std::io::BufRead;

use serde::Deserialize;

/// One answer as LoadGen logged it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Answer {
    /// In the order in which samples were issued.
    pub seq_id: u64,
    /// Which sample of the data set.
    pub qsl_idx: u64,
    /// What the system answered, as hex: token ids of four or of eight bytes, the lowest first.
    pub data: String,
    /// What was told as first token, likewise. Not in Offline.
    #[serde(default)]
    pub token_data: Option<String>,
    /// How many tokens the system said it made.
    #[serde(default)]
    pub token_count: Option<i64>,
}

/// What is wrong with an accuracy log, and where.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    #[error("cannot be read: {0}")]
    Io(#[from] std::io::Error),
    #[error("answer {index} (byte {byte}): {why}")]
    Answer { index: u64, byte: u64, why: String },
    #[error("ends in the middle of answer {0}: it was cut off, or truncated for a submission")]
    CutOff(u64),
}

impl Answer {
    /// The tokens of the answer.
    pub fn tokens(&self) -> Result<Vec<i32>, String> {
        tokens(&self.data, self.width())
    }

    /// The token that was told first. Offline tells none.
    pub fn first_tokens(&self) -> Result<Option<Vec<i32>>, String> {
        self.token_data.as_deref().map(|data| tokens(data, self.width())).transpose()
    }

    /// Bytes of an id: what the count of tokens says, else eight where every upper half is zero. The reference
    /// implementations read eight for some models and four for others, and the log does not say which.
    fn width(&self) -> usize {
        let digits = self.data.len();
        match self.token_count.and_then(|count| usize::try_from(count).ok()).filter(|count| *count > 0) {
            Some(count) if digits == 16 * count => 8,
            Some(count) if digits == 8 * count => 4,
            _ => {
                let ids = self.data.as_bytes().chunks(16);
                let is_wide = digits > 0 && digits.is_multiple_of(16) && ids.into_iter().all(|id| id[8..] == [b'0'; 8]);
                if is_wide { 8 } else { 4 }
            }
        }
    }
}

/// Hex, two digits a byte, to token ids of so many bytes.
fn tokens(hex: &str, width: usize) -> Result<Vec<i32>, String> {
    let digits = hex.as_bytes();
    if !digits.len().is_multiple_of(2 * width) {
        return Err(format!("{} hex digits are no whole number of tokens ({} digits each)", digits.len(), 2 * width));
    }
    let digit = |at: u8| (at as char).to_digit(16).map(|digit| digit as u8);
    digits
        .chunks_exact(2 * width)
        .map(|token| {
            let mut bytes = [0; 8];
            for (byte, pair) in bytes.iter_mut().zip(token.chunks_exact(2)) {
                *byte = digit(pair[0])
                    .zip(digit(pair[1]))
                    .map(|(high, low)| high << 4 | low)
                    .ok_or_else(|| format!("`{}` is not hex", String::from_utf8_lossy(pair)))?;
            }
            if width == 8 {
                let id = i64::from_le_bytes(bytes);
                return i32::try_from(id).map_err(|_| format!("{id} is no token id"));
            }
            Ok(i32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
        })
        .collect()
}

/// The answers of a log, one after the other. At most one of them is held. After an error there is none.
#[derive(Debug)]
pub struct Answers<R> {
    from: R,
    buffer: Vec<u8>,
    index: u64,
    byte: u64,
    is_over: bool,
}

impl<R: BufRead> Answers<R> {
    pub const fn new(from: R) -> Self {
        Self { from, buffer: Vec::new(), index: 0, byte: 0, is_over: false }
    }

    fn read(&mut self) -> Result<Option<Answer>, LogError> {
        // Hex holds no brace, and answers do not hold each other.
        self.buffer.clear();
        let read = self.from.read_until(b'}', &mut self.buffer)?;
        let at = self.byte;
        self.byte += read as u64;
        let start = self.buffer.iter().position(|&byte| byte == b'{');
        match (self.buffer.last(), start) {
            (Some(b'}'), Some(start)) => {
                let wrong = |why: String| LogError::Answer { index: self.index, byte: at + start as u64, why };
                if let Some(stray) = self.buffer[..start].iter().find(|byte| !is_between(**byte)) {
                    return Err(wrong(format!("`{}` is before it", stray.escape_ascii())));
                }
                let answer = serde_json::from_slice(&self.buffer[start..]).map_err(|error| wrong(error.to_string()))?;
                self.index += 1;
                Ok(Some(answer))
            }
            // The end: nothing but what closes the list.
            (Some(_), None) if self.buffer.contains(&b']') && self.buffer.iter().all(|byte| is_between(*byte)) => {
                Ok(None)
            }
            _ => Err(LogError::CutOff(self.index)),
        }
    }
}

/// What may stand around answers.
const fn is_between(byte: u8) -> bool {
    byte.is_ascii_whitespace() || matches!(byte, b'[' | b']' | b',')
}

impl<R: BufRead> Iterator for Answers<R> {
    type Item = Result<Answer, LogError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        let read = self.read().transpose();
        self.is_over = !matches!(read, Some(Ok(_)));
        read
    }
}
