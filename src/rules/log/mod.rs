//! What LoadGen writes: the detail log, the summary, the accuracy log.

mod accuracy;
mod detail;

#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

pub use accuracy::{AnswerLog, EntryError, LogError, LoggedAnswer};
pub use detail::{Detail, DetailError, LoggedError};

/// The file of [`Detail`].
pub const DETAIL_FILE: &str = "mlperf_log_detail.txt";
/// The file of [`LoadgenSummary`].
pub const SUMMARY_FILE: &str = "mlperf_log_summary.txt";
/// The file of [`AnswerLog`].
pub const ACCURACY_FILE: &str = "mlperf_log_accuracy.json";

// How wide the token ids of an answer are: the reference implementations give LoadGen eight bytes for some models and
// four for others, and the log does not state which.

/// Bytes that are no token ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenBytesError {
    #[error("{bytes} bytes are no whole number of ids of {width} bytes")]
    NotWhole { bytes: usize, width: usize },
    #[error("{0} is no token id")]
    NotToken(i64),
}

/// The reference scripts' `--dtype`. Lowest byte first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Width {
    Int32,
    Int64,
}

impl Width {
    /// As `--dtype` of the reference scripts names it.
    pub const fn dtype(self) -> &'static str {
        match self {
            Self::Int32 => "int32",
            Self::Int64 => "int64",
        }
    }

    /// From LoadGen's own count of tokens; without one that fits, from the upper halves of eight-byte ids, which are
    /// all zero. None: an empty answer has no width.
    pub fn guess(answer: &LoggedAnswer) -> Option<Self> {
        let bytes = answer.data.len() as u64;
        let count = answer.token_count.and_then(|count| u64::try_from(count).ok()).filter(|count| *count > 0);
        match count {
            _ if bytes == 0 => None,
            Some(count) if count.checked_mul(8) == Some(bytes) => Some(Self::Int64),
            Some(count) if count.checked_mul(4) == Some(bytes) => Some(Self::Int32),
            _ => {
                let (eights, rest) = answer.data.as_chunks::<8>();
                let is_wide = rest.is_empty() && eights.iter().all(|id| id[4..] == [0; 4]);
                Some(if is_wide { Self::Int64 } else { Self::Int32 })
            }
        }
    }

    /// Token ids. Err: what is wrong with the bytes.
    pub fn ids(self, data: &[u8]) -> Result<Vec<u32>, TokenBytesError> {
        let whole = |rest: &[u8], width: usize| {
            if rest.is_empty() {
                return Ok(());
            }
            Err(TokenBytesError::NotWhole { bytes: data.len(), width })
        };
        let checked = |id: i64| u32::try_from(id).map_err(|_| TokenBytesError::NotToken(id));
        match self {
            Self::Int32 => {
                let (ids, rest) = data.as_chunks::<4>();
                whole(rest, 4)?;
                ids.iter().map(|id| checked(i32::from_le_bytes(*id).into())).collect()
            }
            Self::Int64 => {
                let (ids, rest) = data.as_chunks::<8>();
                whole(rest, 8)?;
                ids.iter().map(|id| checked(i64::from_le_bytes(*id))).collect()
            }
        }
    }
}

// `mlperf_log_summary.txt`: for people, and for checkers that look for its lines.

/// The summary as name–value pairs in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoadgenSummary {
    pub lines: Vec<(String, String)>,
}

impl LoadgenSummary {
    pub fn parse(text: &str) -> Self {
        let pair = |line: &str| {
            let (name, value) = line.split_once(':')?;
            Some((name.trim().to_owned(), value.trim().to_owned()))
        };
        Self { lines: text.lines().filter_map(pair).collect() }
    }

    /// The first line of this name.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.lines.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// `VALID` or `INVALID`.
    pub fn result(&self) -> Option<&str> {
        self.get("Result is")
    }
}

#[cfg(test)]
mod width_tests {
    use super::{LoggedAnswer, TokenBytesError, Width};

    fn answer(data: &[u8], token_count: Option<i64>) -> LoggedAnswer {
        LoggedAnswer { data: data.to_vec(), token_count, ..LoggedAnswer::default() }
    }

    #[test]
    fn the_width_of_ids_is_found_by_their_count_or_by_their_zeroes() {
        let narrow: Vec<u8> = [5i32, 0, 7, 0].iter().flat_map(|id| id.to_le_bytes()).collect();
        assert_eq!(Width::guess(&answer(&narrow, Some(4))), Some(Width::Int32));
        assert_eq!(Width::guess(&answer(&narrow, Some(2))), Some(Width::Int64));
        assert_eq!(Width::guess(&answer(&narrow, None)), Some(Width::Int64));
        assert_eq!(Width::guess(&answer(&narrow, Some(-1))), Some(Width::Int64));
        assert_eq!(
            Width::guess(&answer(&narrow, Some((1 << 62) + 4))),
            Some(Width::Int64),
            "as many bytes as 4, with an overflow"
        );
        assert_eq!(Width::guess(&answer(&narrow[..12], None)), Some(Width::Int32));
        assert_eq!(Width::guess(&answer(&[], Some(0))), None);
        assert_eq!(Width::Int64.ids(&narrow), Ok(vec![5, 7]));
        assert_eq!(Width::Int32.ids(&narrow[..3]), Err(TokenBytesError::NotWhole { bytes: 3, width: 4 }));
        assert_eq!(Width::Int32.ids(&[255; 4]), Err(TokenBytesError::NotToken(-1)));
    }
}
