//! The value of a request's field as a tensor, and back: what a client writes and a server reads.

use bytes::{BufMut, Bytes, BytesMut};

use super::tensor::strings;
use base::spec::{FieldKind, FieldValue};

/// The data type of a value in TensorRT-LLM's models.
pub const fn usual_type(value: &FieldValue) -> &'static str {
    match value {
        FieldValue::Int(_) | FieldValue::Ids(_) => "INT32",
        FieldValue::Long(_) | FieldValue::PerRequest => "UINT64",
        FieldValue::Number(_) => "FP32",
        FieldValue::Switch(_) | FieldValue::Set => "BOOL",
        FieldValue::Texts(_) => "BYTES",
    }
}

/// One row of the tensor: its shape without the batch dimension, and its bytes.
pub fn encode(value: &FieldValue, datatype: &str) -> (Vec<i64>, Bytes) {
    match value {
        FieldValue::Ids(words) => word_list(words),
        FieldValue::Texts(words) => (vec![words.len() as i64], texts(words)),
        scalar => (vec![1], column([scalar.clone()], datatype)),
    }
}

/// One number or switch for each row, in the model's type.
pub fn column(values: impl IntoIterator<Item = FieldValue>, datatype: &str) -> Bytes {
    let mut raw = BytesMut::new();
    for value in values {
        let (whole, float) = match value {
            FieldValue::Int(value) => (value, value as f64),
            FieldValue::Long(value) => (value.cast_signed(), value as f64),
            FieldValue::Number(value) => (value as i64, value),
            FieldValue::Switch(value) => (i64::from(value), f64::from(value)),
            FieldValue::Ids(_) | FieldValue::Texts(_) | FieldValue::PerRequest | FieldValue::Set => continue,
        };
        match datatype {
            "BOOL" | "INT8" | "UINT8" => raw.put_u8(whole as u8),
            "INT16" | "UINT16" => raw.put_i16_le(whole as i16),
            "INT64" | "UINT64" => raw.put_i64_le(whole),
            "FP32" => raw.put_f32_le(float as f32),
            "FP64" => raw.put_f64_le(float),
            _ => raw.put_i32_le(whole as i32),
        }
    }
    raw.freeze()
}

/// The layout of `stop_words_list`: [2, n]. Row 0 has all ids one after the other, padded with 0; row 1 has the end of
/// each word, padded with -1.
fn word_list(words: &[Vec<i32>]) -> (Vec<i64>, Bytes) {
    let ids: Vec<i32> = words.iter().flatten().copied().collect();
    let ends = words.iter().scan(0i32, |end, word| {
        *end += word.len() as i32;
        Some(*end)
    });
    let len = ids.len().max(words.len());
    let mut raw = BytesMut::with_capacity(8 * len);
    ids.iter().copied().chain(std::iter::repeat(0)).take(len).for_each(|id| raw.put_i32_le(id));
    ends.chain(std::iter::repeat(-1)).take(len).for_each(|end| raw.put_i32_le(end));
    (vec![2, len as i64], raw.freeze())
}

/// BYTES elements: a length of 4 bytes, then the text.
pub fn texts(texts: &[impl AsRef<[u8]>]) -> Bytes {
    let mut raw = BytesMut::new();
    for text in texts.iter().map(AsRef::as_ref) {
        raw.put_u32_le(text.len() as u32);
        raw.put_slice(text);
    }
    raw.freeze()
}

/// The backend's error about a list of stop or bad words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "[TensorRT-LLM][ERROR] Assertion failed: Sparse list must not have {fault}: {}",
    list.iter().map(i32::to_string).collect::<Vec<_>>().join(" ")
)]
pub struct WordListError {
    fault: &'static str,
    list: Vec<i32>,
}

/// Reads one row of a tensor. `None`: it has no element, or the field is not sent as a tensor.
pub fn decode(kind: FieldKind, datatype: &str, raw: &Bytes) -> Result<Option<FieldValue>, WordListError> {
    let whole = || match datatype {
        "INT64" | "UINT64" => raw.first_chunk::<8>().map(|bytes| i64::from_le_bytes(*bytes)),
        "BOOL" | "INT8" | "UINT8" => raw.first().map(|byte| i64::from(*byte)),
        _ => raw.first_chunk::<4>().map(|bytes| i64::from(i32::from_le_bytes(*bytes))),
    };
    Ok(match kind {
        FieldKind::Int { .. } => whole().map(FieldValue::Int),
        FieldKind::Seed | FieldKind::Turns => whole().map(|value| FieldValue::Long(value.cast_unsigned())),
        FieldKind::Switch => whole().map(|value| FieldValue::Switch(value != 0)),
        FieldKind::Number(_) if datatype == "FP64" => {
            raw.first_chunk::<8>().map(|bytes| FieldValue::Number(f64::from_le_bytes(*bytes)))
        }
        FieldKind::Number(_) => {
            raw.first_chunk::<4>().map(|bytes| FieldValue::Number(f64::from(f32::from_le_bytes(*bytes))))
        }
        FieldKind::WordIds => {
            let list: Vec<i32> = raw.as_chunks::<4>().0.iter().map(|word| i32::from_le_bytes(*word)).collect();
            Some(FieldValue::Ids(words_of_list(&list)?))
        }
        FieldKind::WordTexts => strings(raw)
            .map(|words| words.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect())
            .map(FieldValue::Texts),
        FieldKind::Client => None,
    })
}

/// Reads the two rows of `stop_words_list`: ids, and where each word ends.
fn words_of_list(list: &[i32]) -> Result<Vec<Vec<i32>>, WordListError> {
    let wrong = |fault| Err(WordListError { fault, list: list.to_vec() });
    if !list.len().is_multiple_of(2) {
        return wrong("odd length");
    }
    let (ids, ends) = list.split_at(list.len() / 2);
    let used = ends.iter().position(|end| *end == -1).unwrap_or(ends.len());
    if ends[used..].iter().any(|end| *end != -1) {
        return wrong("additional -1s");
    }
    let mut words = Vec::new();
    let mut from = 0;
    for &end in &ends[..used] {
        let Some(to) = usize::try_from(end).ok().filter(|to| *to <= ids.len()) else {
            return wrong("out-of-bound offsets");
        };
        if to <= from && !words.is_empty() {
            return wrong("non-increasing offsets");
        }
        words.push(ids[from..to].to_vec());
        from = to;
    }
    words.retain(|word| !word.is_empty());
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn word_lists_are_read_as_the_backend_reads_them() {
        assert_eq!(words_of_list(&[5, 6, 7, 1, 3, -1]), Ok(vec![vec![5], vec![6, 7]]));
        let reason = |list: &[i32]| words_of_list(list).unwrap_err().to_string();
        assert!(reason(&[5]).ends_with("odd length: 5"));
        assert!(reason(&[5, 6, -1, 2]).contains("additional -1s"));
        assert!(reason(&[5, 6, 3, -1]).contains("out-of-bound"));
        assert!(reason(&[5, 6, 2, 1]).contains("non-increasing"));
    }
}
