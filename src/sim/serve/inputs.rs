//! Reads the tensors of a request that was checked, row by row: a message may hold several requests.

use std::borrow::Cow;

use triton::proto::inference::model_infer_request::InferInputTensor;
use triton::proto::inference::{InferTensorContents, ModelInferRequest};

/// The inputs of a request after its names, types, shapes and sizes were checked.
pub(super) struct Inputs<'a> {
    request: &'a ModelInferRequest,
    /// Requests in the message.
    pub rows: usize,
}

impl<'a> Inputs<'a> {
    pub(super) const fn new(request: &'a ModelInferRequest, rows: usize) -> Self {
        Self { request, rows }
    }

    fn find(&self, name: &str) -> Option<(&'a InferInputTensor, Option<&'a [u8]>)> {
        let at = self.request.inputs.iter().position(|input| input.name == name)?;
        Some((&self.request.inputs[at], self.request.raw_input_contents.get(at).map(|raw| &raw[..])))
    }

    /// The bytes of one row; every row has as many.
    fn row(&self, name: &str, row: usize) -> Option<Vec<u8>> {
        let (input, raw) = self.find(name)?;
        let all =
            raw.map_or_else(|| Cow::Owned(input.contents.as_ref().map(laid_out).unwrap_or_default()), Cow::Borrowed);
        let share = all.len() / self.rows.max(1);
        all.get(row * share..(row + 1) * share).map(<[u8]>::to_vec)
    }

    pub(super) fn ints(&self, name: &str, row: usize) -> Option<Vec<i32>> {
        Some(self.row(name, row)?.as_chunks::<4>().0.iter().map(|word| i32::from_le_bytes(*word)).collect())
    }

    pub(super) fn int(&self, name: &str, row: usize) -> Option<i32> {
        self.ints(name, row)?.first().copied()
    }

    pub(super) fn float(&self, name: &str, row: usize) -> Option<f32> {
        self.row(name, row)?.first_chunk::<4>().map(|word| f32::from_le_bytes(*word))
    }

    pub(super) fn long(&self, name: &str, row: usize) -> Option<u64> {
        self.row(name, row)?.first_chunk::<8>().map(|word| u64::from_le_bytes(*word))
    }

    pub(super) fn switch(&self, name: &str, row: usize) -> Option<bool> {
        self.row(name, row)?.first().map(|byte| *byte != 0)
    }

    /// The elements of a BYTES tensor.
    pub(super) fn texts(&self, name: &str, row: usize) -> Option<Vec<Vec<u8>>> {
        let (input, raw) = self.find(name)?;
        let all: Vec<Vec<u8>> = match raw {
            Some(raw) => elements(raw)?.into_iter().map(<[u8]>::to_vec).collect(),
            None => input.contents.as_ref().map(|contents| contents.bytes_contents.clone()).unwrap_or_default(),
        };
        let share = all.len() / self.rows.max(1);
        all.get(row * share..(row + 1) * share).map(<[Vec<u8>]>::to_vec)
    }
}

/// Typed contents as raw bytes. Only one of the lists has anything.
fn laid_out(contents: &InferTensorContents) -> Vec<u8> {
    let mut bytes: Vec<u8> = contents.bool_contents.iter().map(|value| u8::from(*value)).collect();
    bytes.extend(contents.int_contents.iter().flat_map(|value| value.to_le_bytes()));
    bytes.extend(contents.int64_contents.iter().flat_map(|value| value.to_le_bytes()));
    bytes.extend(contents.uint_contents.iter().flat_map(|value| value.to_le_bytes()));
    bytes.extend(contents.uint64_contents.iter().flat_map(|value| value.to_le_bytes()));
    bytes.extend(contents.fp32_contents.iter().flat_map(|value| value.to_le_bytes()));
    bytes.extend(contents.fp64_contents.iter().flat_map(|value| value.to_le_bytes()));
    bytes
}

/// The elements of a raw BYTES tensor: 4 bytes of little-endian length, then the text.
pub(super) fn elements(mut raw: &[u8]) -> Option<Vec<&[u8]>> {
    let mut found = Vec::new();
    while !raw.is_empty() {
        let (head, rest) = raw.split_first_chunk::<4>()?;
        let (element, rest) = rest.split_at_checked(u32::from_le_bytes(*head) as usize)?;
        found.push(element);
        raw = rest;
    }
    Some(found)
}
