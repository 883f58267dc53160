//! Values to raw tensor bytes.

use bytes::{BufMut, Bytes, BytesMut};

/// One number or switch, before its type is known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ScalarValue {
    Int(i64),
    Long(u64),
    Float(f64),
    Bool(bool),
}

impl ScalarValue {
    /// Its type in TensorRT-LLM's models.
    pub const fn usual_type(self) -> &'static str {
        match self {
            Self::Int(_) => "INT32",
            Self::Long(_) => "UINT64",
            Self::Float(_) => "FP32",
            Self::Bool(_) => "BOOL",
        }
    }

    const fn whole(self) -> i64 {
        match self {
            Self::Int(value) => value,
            Self::Long(value) => value as i64,
            Self::Float(value) => value as i64,
            Self::Bool(value) => value as i64,
        }
    }

    fn float(self) -> f64 {
        match self {
            Self::Float(value) => value,
            Self::Long(value) => value as f64,
            other => other.whole() as f64,
        }
    }
}

/// One value for each row, in the model's type.
pub fn column(values: impl IntoIterator<Item = ScalarValue>, datatype: &str) -> Bytes {
    let mut raw = BytesMut::new();
    for value in values {
        match datatype {
            "BOOL" | "INT8" | "UINT8" => raw.put_u8(value.whole() as u8),
            "INT16" | "UINT16" => raw.put_i16_le(value.whole() as i16),
            "INT64" | "UINT64" => raw.put_i64_le(value.whole()),
            "FP32" => raw.put_f32_le(value.float() as f32),
            "FP64" => raw.put_f64_le(value.float()),
            _ => raw.put_i32_le(value.whole() as i32),
        }
    }
    raw.freeze()
}

/// The layout of `stop_words_list`: [2, n]. Row 0 has all ids one after the other, padded with 0; row 1 has the end of
/// each word, padded with -1.
pub fn word_list(words: &[Vec<i32>]) -> (i64, Bytes) {
    let ids: Vec<i32> = words.iter().flatten().copied().collect();
    let ends = words.iter().scan(0i32, |end, word| {
        *end += word.len() as i32;
        Some(*end)
    });
    let len = ids.len().max(words.len());
    let mut raw = BytesMut::with_capacity(8 * len);
    ids.iter().copied().chain(std::iter::repeat(0)).take(len).for_each(|id| raw.put_i32_le(id));
    ends.chain(std::iter::repeat(-1)).take(len).for_each(|end| raw.put_i32_le(end));
    (len as i64, raw.freeze())
}

/// BYTES elements: a length of 4 bytes, then the text.
pub fn texts(texts: &[impl AsRef<str>]) -> Bytes {
    let mut raw = BytesMut::new();
    for text in texts.iter().map(AsRef::as_ref) {
        raw.put_u32_le(text.len() as u32);
        raw.put_slice(text.as_bytes());
    }
    raw.freeze()
}
