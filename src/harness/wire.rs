//! Bytes in and out: whole request frames ahead of time, and a scan by tag of responses that copies nothing.
//!
//! gRPC frames are one flag byte, a 32-bit big-endian length, and the message. Field numbers are those of
//! `proto/grpc_service.proto`. The scan finds only what a measurement needs: error, tokens, final flag.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use prost::Message;
use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};

const FRAME_HEAD: usize = 5;
/// Triton's own limit; a larger length is a stream out of step, not a message.
const LONGEST_MESSAGE: usize = i32::MAX as usize;

/// A message with its gRPC frame head.
pub(super) fn frame(message: &impl Message) -> Bytes {
    let len = message.encoded_len();
    let mut bytes = BytesMut::with_capacity(FRAME_HEAD + len);
    bytes.put_u8(0);
    bytes.put_u32(len as u32);
    message.encode_raw(&mut bytes);
    bytes.freeze()
}

/// Cuts DATA frames into messages. Whole messages are slices of what was read.
#[derive(Default)]
pub(super) struct Frames {
    rest: Bytes,
    /// The beginning of a message that came in pieces; then `rest` is empty.
    joining: BytesMut,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the answer is not a gRPC stream: {0}")]
pub(super) struct Malformed(pub &'static str);

impl Frames {
    pub fn push(&mut self, data: Bytes) {
        if self.rest.is_empty() && self.joining.is_empty() {
            self.rest = data;
            return;
        }
        if self.joining.is_empty() {
            self.joining.extend_from_slice(&self.rest);
            self.rest.clear();
        }
        self.joining.extend_from_slice(&data);
    }

    /// The next whole message, if there is one.
    pub fn next(&mut self) -> Result<Option<Bytes>, Malformed> {
        if let Some(whole) = whole_length(&self.joining)? {
            if self.joining.len() < whole {
                self.joining.reserve(whole - self.joining.len());
                return Ok(None);
            }
            self.rest = std::mem::take(&mut self.joining).freeze();
        }
        match whole_length(&self.rest)? {
            // One message to a DATA frame is what servers do.
            Some(whole) if self.rest.len() == whole => {
                let mut message = std::mem::take(&mut self.rest);
                message.advance(FRAME_HEAD);
                Ok(Some(message))
            }
            Some(whole) if self.rest.len() > whole => {
                self.rest.advance(FRAME_HEAD);
                Ok(Some(self.rest.split_to(whole - FRAME_HEAD)))
            }
            _ => Ok(None),
        }
    }
}

/// How long the first message is with its head, once the head is there.
fn whole_length(bytes: &[u8]) -> Result<Option<usize>, Malformed> {
    let Some(([flag, length @ ..], _)) = bytes.split_first_chunk::<FRAME_HEAD>() else { return Ok(None) };
    if *flag != 0 {
        return Err(Malformed("a message is compressed, and none was asked for"));
    }
    let len = u32::from_be_bytes(*length) as usize;
    if len > LONGEST_MESSAGE {
        return Err(Malformed("a message is longer than 2 GiB"));
    }
    Ok(Some(FRAME_HEAD + len))
}

/// What one response says.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Seen<'a> {
    pub error: Option<&'a str>,
    /// Elements of the answer: token ids, or texts.
    pub tokens: u32,
    /// The answer is there and holds nothing.
    pub is_empty: bool,
    pub last_token: Option<i32>,
    /// `triton_final_response` is true.
    pub is_final: bool,
    /// `batch_index`.
    pub row: u32,
    /// The answer's bytes.
    pub raw: &'a [u8],
}

/// What to look for in a response.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look<'n> {
    /// The tensor that holds the answer.
    pub answer: &'n str,
    /// The answer's elements are texts, else 32-bit ids.
    pub is_text: bool,
    pub is_batched: bool,
}

/// Scans a `ModelStreamInferResponse`.
pub(super) fn scan_stream<'m>(message: &'m [u8], look: &Look<'_>) -> Result<Seen<'m>, Malformed> {
    let mut seen = Seen::default();
    let mut error = None;
    each_field(message, |field, value| {
        match (field, value) {
            (1, Value::Bytes(text)) if !text.is_empty() => error = Some(text),
            (2, Value::Bytes(response)) => seen = scan_response(response, look)?,
            _ => {}
        }
        Ok(())
    })?;
    seen.error =
        error.map(|text| std::str::from_utf8(text).map_err(|_| Malformed("error text is not UTF-8"))).transpose()?;
    Ok(seen)
}

/// Of a `ModelStreamInferResponse`: the id of its request, empty without one, and the error.
pub(super) fn named(message: &[u8]) -> Result<(&str, Option<&str>), Malformed> {
    let (mut id, mut error): (&[u8], &[u8]) = (&[], &[]);
    each_field(message, |field, value| {
        match (field, value) {
            (1, Value::Bytes(text)) => error = text,
            (2, Value::Bytes(response)) => each_field(response, |field, value| {
                if let (3, Value::Bytes(text)) = (field, value) {
                    id = text;
                }
                Ok(())
            })?,
            _ => {}
        }
        Ok(())
    })?;
    let text = |bytes| std::str::from_utf8(bytes).map_err(|_| Malformed("a text is not UTF-8"));
    Ok((text(id)?, Some(text(error)?).filter(|error| !error.is_empty())))
}

/// Scans a `ModelInferResponse`.
pub(super) fn scan_response<'m>(message: &'m [u8], look: &Look<'_>) -> Result<Seen<'m>, Malformed> {
    let mut seen = Seen::default();
    let (mut outputs, mut raws) = (0usize, 0usize);
    let mut ids_at = None;
    let mut row_at = None;
    let mut ids_elements = 0u64;
    let mut raw_ids: Option<&[u8]> = None;
    // Raw contents come after all outputs in field order, so the positions of tensors are known by then.
    each_field(message, |field, value| {
        match (field, value) {
            (4, Value::Bytes(entry)) => {
                if let Some(flag) = final_flag(entry)? {
                    seen.is_final = flag;
                }
            }
            (5, Value::Bytes(tensor)) => {
                let (name, elements) = head_of(tensor)?;
                if name == look.answer.as_bytes() {
                    ids_at = Some(outputs);
                    ids_elements = elements;
                } else if look.is_batched && name == b"batch_index" {
                    row_at = Some(outputs);
                }
                outputs += 1;
            }
            (6, Value::Bytes(raw)) => {
                if ids_at == Some(raws) {
                    raw_ids = Some(raw);
                } else if row_at == Some(raws)
                    && let Some(row) = raw.first_chunk::<4>()
                {
                    seen.row = u32::from_le_bytes(*row);
                }
                raws += 1;
            }
            _ => {}
        }
        Ok(())
    })?;
    seen.raw = raw_ids.unwrap_or_default();
    if let Some(raw) = raw_ids.filter(|_| look.is_text) {
        // A text is its length in 4 bytes and itself.
        seen.tokens = 1;
        seen.is_empty = raw.len() <= 4;
    } else if let Some(raw) = raw_ids {
        seen.tokens = (raw.len() / 4) as u32;
        seen.is_empty = raw.is_empty();
        seen.last_token = raw.last_chunk::<4>().map(|bytes| i32::from_le_bytes(*bytes));
    } else if raws == 0 {
        seen.tokens = u32::try_from(ids_elements).unwrap_or(u32::MAX);
    }
    Ok(seen)
}

/// Of a parameters entry: the flag, when it is the one.
fn final_flag(entry: &[u8]) -> Result<Option<bool>, Malformed> {
    let (mut is_it, mut flag) = (false, false);
    each_field(entry, |field, value| {
        match (field, value) {
            (1, Value::Bytes(key)) => is_it = key == b"triton_final_response",
            (2, Value::Bytes(parameter)) => each_field(parameter, |field, value| {
                if let (1, Value::Varint(number)) = (field, value) {
                    flag = number != 0;
                }
                Ok(())
            })?,
            _ => {}
        }
        Ok(())
    })?;
    Ok(is_it.then_some(flag))
}

/// Of an output tensor: its name and the product of its shape.
fn head_of(tensor: &[u8]) -> Result<(&[u8], u64), Malformed> {
    let mut found: &[u8] = &[];
    let mut elements = 1u64;
    each_field(tensor, |field, value| {
        match (field, value) {
            (1, Value::Bytes(name)) => found = name,
            (3, Value::Varint(dim)) => elements = elements.saturating_mul(dim),
            (3, Value::Bytes(mut dims)) => {
                while dims.has_remaining() {
                    let dim = decode_varint(&mut dims).map_err(|_| Malformed("a shape is cut short"))?;
                    elements = elements.saturating_mul(dim);
                }
            }
            _ => {}
        }
        Ok(())
    })?;
    Ok((found, elements))
}

enum Value<'a> {
    Bytes(&'a [u8]),
    Varint(u64),
}

fn each_field<'a>(
    mut message: &'a [u8],
    mut visit: impl FnMut(u32, Value<'a>) -> Result<(), Malformed>,
) -> Result<(), Malformed> {
    let broken = |_| Malformed("a field is cut short");
    while message.has_remaining() {
        // A key and a length of one byte each: most of a response is made of these.
        if let [key @ 0x08..=0x7f, len @ 0..=0x7f, rest @ ..] = message
            && key & 0x07 == WireType::LengthDelimited as u8
        {
            let Some((value, rest)) = rest.split_at_checked(usize::from(*len)) else {
                return Err(Malformed("a field is longer than its message"));
            };
            message = rest;
            visit(u32::from(key >> 3), Value::Bytes(value))?;
            continue;
        }
        let (field, wire_type) = decode_key(&mut message).map_err(broken)?;
        match wire_type {
            WireType::LengthDelimited => {
                let len = decode_varint(&mut message).map_err(broken)? as usize;
                let Some((value, rest)) = message.split_at_checked(len) else {
                    return Err(Malformed("a field is longer than its message"));
                };
                message = rest;
                visit(field, Value::Bytes(value))?;
            }
            WireType::Varint => {
                let number = decode_varint(&mut message).map_err(broken)?;
                visit(field, Value::Varint(number))?;
            }
            other => skip_field(other, field, &mut message, DecodeContext::default()).map_err(broken)?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::triton::proto::inference::infer_parameter::ParameterChoice;
    use crate::triton::proto::inference::model_infer_response::InferOutputTensor;
    use crate::triton::proto::inference::{InferParameter, ModelInferResponse, ModelStreamInferResponse};

    const IDS: Look<'_> = Look { answer: "output_ids", is_text: false, is_batched: true };

    fn response(tokens: &[i32], is_final: bool, error: &str) -> ModelStreamInferResponse {
        let ids: Vec<u8> = tokens.iter().flat_map(|token| token.to_le_bytes()).collect();
        let tensor = |name: &str, len: usize| InferOutputTensor {
            name: name.to_owned(),
            datatype: "INT32".to_owned(),
            shape: vec![1, 1, len as i64],
            ..InferOutputTensor::default()
        };
        ModelStreamInferResponse {
            error_message: error.to_owned(),
            infer_response: Some(ModelInferResponse {
                model_name: "m".to_owned(),
                id: "17".to_owned(),
                parameters: [(
                    "triton_final_response".to_owned(),
                    InferParameter { parameter_choice: Some(ParameterChoice::BoolParam(is_final)) },
                )]
                .into(),
                outputs: vec![tensor("batch_index", 1), tensor("output_ids", tokens.len())],
                raw_output_contents: vec![Bytes::from_static(&[9, 0, 0, 0]), ids.into()],
                ..ModelInferResponse::default()
            }),
        }
    }

    proptest! {
        #[test]
        fn the_scan_sees_what_was_written(tokens in prop::collection::vec(any::<i32>(), 0..20), fin: bool, error in "[a-z]{0,9}") {
            let bytes = response(&tokens, fin, &error).encode_to_vec();
            let seen = scan_stream(&bytes, &IDS).unwrap();
            prop_assert_eq!(named(&bytes).unwrap(), ("17", seen.error));
            let error = (!error.is_empty()).then_some(error.as_str());
            let expected = Seen {
                error,
                tokens: tokens.len() as u32,
                is_empty: tokens.is_empty(),
                last_token: tokens.last().copied(),
                is_final: fin,
                row: 9,
                raw: seen.raw,
            };
            let ids: Vec<u8> = tokens.iter().flat_map(|token| token.to_le_bytes()).collect();
            prop_assert_eq!(seen.raw, &ids[..]);
            prop_assert_eq!(seen, expected);
        }

        #[test]
        fn no_bytes_make_the_scan_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = scan_stream(&bytes, &IDS);
            let _ = named(&bytes);
        }

        #[test]
        fn frames_survive_any_cut(sizes in prop::collection::vec(0usize..40, 1..10), step in 1usize..17) {
            let messages: Vec<ModelStreamInferResponse> = sizes.iter().map(|len| response(&vec![7; *len], false, "")).collect();
            let whole: Vec<u8> = messages.iter().flat_map(|message| frame(message).to_vec()).collect();
            let mut frames = Frames::default();
            let mut seen = Vec::new();
            for piece in whole.chunks(step) {
                frames.push(Bytes::copy_from_slice(piece));
                while let Some(message) = frames.next().unwrap() {
                    seen.push(scan_stream(&message, &IDS).unwrap().tokens as usize);
                }
            }
            prop_assert_eq!(seen, sizes);
        }
    }

    #[test]
    fn an_empty_final_has_no_token() {
        let message = ModelStreamInferResponse {
            infer_response: Some(ModelInferResponse {
                parameters: [(
                    "triton_final_response".to_owned(),
                    InferParameter { parameter_choice: Some(ParameterChoice::BoolParam(true)) },
                )]
                .into(),
                ..ModelInferResponse::default()
            }),
            ..ModelStreamInferResponse::default()
        };
        let bytes = message.encode_to_vec();
        assert_eq!(scan_stream(&bytes, &IDS).unwrap(), Seen { is_final: true, ..Seen::default() });
    }
}
