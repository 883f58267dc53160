//! Bytes in and out: whole request frames ahead of time, and a scan by tag of responses that copies nothing.
//!
//! gRPC frames are one flag byte, a 32-bit big-endian length, and the message. Field numbers are those of
//! `proto/grpc_service.proto`. The scan finds only what a measurement needs: error, tokens, final flag.

use WireError::Malformed;
use bytes::{Buf, BufMut, Bytes, BytesMut};
use prost::Message;
use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, encode_key, encode_varint, skip_field};

use crate::record::FailureClass;
use crate::spec::response_bounds::{HeldBytes, ResponseBounds};

const FRAME_HEAD: usize = 5;
/// Memory for a message that arrives in pieces grows in steps of this size, because its announced length is only the
/// server's claim.
const GROWTH: usize = 1 << 20;

/// A message with its gRPC frame head.
pub(crate) fn frame(message: &impl Message) -> Bytes {
    joined_frame(&[&message.encode_to_vec()])
}

/// A message of encoded fields with its gRPC frame head. Fields may be in any order.
pub(crate) fn joined_frame(fields: &[&[u8]]) -> Bytes {
    let len = fields.iter().map(|fields| fields.len()).sum::<usize>();
    let mut bytes = Vec::with_capacity(FRAME_HEAD + len);
    bytes.put_u8(0);
    bytes.put_u32(len as u32);
    for fields in fields {
        bytes.extend_from_slice(fields);
    }
    bytes.into()
}

/// A field of text, bytes or another message.
pub(crate) fn put_field(fields: &mut Vec<u8>, number: u32, content: &[u8]) {
    // As in `each_field`: most have one byte each.
    if let (1..16, Ok(len @ ..0x80)) = (number, u8::try_from(content.len())) {
        fields.extend_from_slice(&[(number << 3) as u8 | WireType::LengthDelimited as u8, len]);
    } else {
        encode_key(number, WireType::LengthDelimited, fields);
        encode_varint(content.len() as u64, fields);
    }
    fields.extend_from_slice(content);
}

/// The id of a `ModelInferRequest`.
pub(crate) fn put_id(fields: &mut Vec<u8>, id: u64) {
    put_field(fields, 3, id.to_string().as_bytes());
}

/// A framed `ModelInferRequest` that has no id, with this one.
pub(crate) fn addressed(unaddressed: &Bytes, id: u64) -> Bytes {
    let Some(message) = unaddressed.get(FRAME_HEAD..) else { return unaddressed.clone() };
    let mut field = Vec::with_capacity(24);
    put_id(&mut field, id);
    joined_frame(&[message, &field])
}

/// Cuts DATA frames into messages. Whole messages are slices of what was read.
pub(crate) struct Frames {
    /// Bytes of the longest message.
    limit: u64,
    /// Bytes of all answers in flight.
    total: u64,
    held: HeldBytes,
    rest: Bytes,
    /// The beginning of a message that came in pieces; then `rest` is empty.
    joining: BytesMut,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum WireError {
    #[error("the answer is not a gRPC stream: {0}")]
    Malformed(&'static str),
    /// A message of more bytes than its limit.
    #[error("a message of {0} bytes is longer than its limit")]
    TooLong(u64),
    #[error("all answers in flight together are longer than their limit")]
    TotalExceeded,
}

impl WireError {
    /// How the request fails.
    pub fn fault(self, limits: &ResponseBounds) -> (FailureClass, String) {
        match self {
            Self::Malformed(_) => (FailureClass::Stream, self.to_string()),
            Self::TooLong(_) => limits.frame_exceeded(),
            Self::TotalExceeded => limits.total_exceeded(),
        }
    }
}

impl Frames {
    /// The messages of an answer in flight.
    pub fn of_answer(limits: &ResponseBounds) -> Self {
        Self::new(limits.frame, limits.total)
    }

    pub fn new(limit: u64, total: u64) -> Self {
        let limit = limit.min(ResponseBounds::LONGEST_FRAME);
        Self { limit, total, held: HeldBytes::default(), rest: Bytes::new(), joining: BytesMut::new() }
    }

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
    pub fn next(&mut self) -> Result<Option<Bytes>, WireError> {
        if !self.held.fits(self.rest.len() + self.joining.len(), self.total) {
            return Err(WireError::TotalExceeded);
        }
        if let Some(whole) = whole_length(&self.joining, self.limit)? {
            if self.joining.len() < whole {
                self.joining.reserve((whole - self.joining.len()).min(GROWTH));
                return Ok(None);
            }
            self.rest = std::mem::take(&mut self.joining).freeze();
        }
        match whole_length(&self.rest, self.limit)? {
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
fn whole_length(bytes: &[u8], limit: u64) -> Result<Option<usize>, WireError> {
    let Some(([flag, length @ ..], _)) = bytes.split_first_chunk::<FRAME_HEAD>() else { return Ok(None) };
    if *flag != 0 {
        return Err(Malformed("a message is compressed, although compression was not requested"));
    }
    let len = u32::from_be_bytes(*length);
    if u64::from(len) > limit {
        return Err(WireError::TooLong(u64::from(len)));
    }
    Ok(Some(FRAME_HEAD + len as usize))
}

/// The content of one response.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ScannedResponse<'a> {
    pub error: Option<&'a str>,
    /// Elements of the answer: token ids, or texts.
    pub tokens: u32,
    /// The answer is there and empty.
    pub is_empty: bool,
    pub last_token: Option<i32>,
    /// `triton_final_response` is true.
    pub is_final: bool,
    /// `batch_index`.
    pub row: u32,
    /// The answer's bytes.
    pub raw: &'a [u8],
    /// The message holds more than an error.
    pub has_response: bool,
    /// The id of the request, as the response repeats it.
    pub id: &'a [u8],
    pub model: &'a [u8],
    /// The answer's tensor does not match its shape.
    pub misshapen: Option<Misshapen>,
    /// Of the answer's tensor, where there is one.
    pub datatype: Option<&'a [u8]>,
    /// The lowest number in place of a token id.
    pub not_an_id: Option<i64>,
    /// A `sequence_length` beyond the elements of its row.
    pub not_a_length: Option<i64>,
}

/// A tensor with more or fewer bytes or elements than its shape has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Misshapen {
    /// The product of the shape.
    pub shape: u64,
    /// Elements that came.
    pub elements: u64,
    pub bytes: u64,
}

/// What to look for in a response.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScanRequest<'n> {
    /// The tensor that holds the answer.
    pub answer: &'n str,
    /// The answer's elements are texts, else 32-bit ids.
    pub is_text: bool,
    pub is_batched: bool,
    /// TensorRT-LLM fills the shorter beams up with -1.
    pub has_beams: bool,
}

/// Scans a `ModelStreamInferResponse`.
pub(crate) fn scan_stream<'m>(message: &'m [u8], look: &ScanRequest<'_>) -> Result<ScannedResponse<'m>, WireError> {
    let mut seen = ScannedResponse::default();
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

/// From a `ModelStreamInferResponse`: the id of its request, empty without one, and the error.
pub(crate) fn named(message: &[u8]) -> Result<(&str, Option<&str>), WireError> {
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
pub(crate) fn scan_response<'m>(message: &'m [u8], look: &ScanRequest<'_>) -> Result<ScannedResponse<'m>, WireError> {
    let mut seen = ScannedResponse { has_response: true, ..ScannedResponse::default() };
    let (mut outputs, mut raws) = (0usize, 0usize);
    let mut ids_at = None;
    let mut row_at = None;
    let mut lengths_at = None;
    let mut answer: Option<Tensor<'_>> = None;
    let mut lengths: Option<Tensor<'_>> = None;
    let mut raw_ids: Option<&[u8]> = None;
    // Raw contents come after all outputs in field order, so the positions of tensors are known by then.
    each_field(message, |field, value| {
        match (field, value) {
            (1, Value::Bytes(model)) => seen.model = model,
            (3, Value::Bytes(id)) => seen.id = id,
            (4, Value::Bytes(entry)) => {
                if let Some(flag) = final_flag(entry)? {
                    seen.is_final = flag;
                }
            }
            (5, Value::Bytes(tensor)) => {
                let tensor = head_of(tensor)?;
                if tensor.name == look.answer.as_bytes() {
                    ids_at = Some(outputs);
                    answer = Some(tensor);
                } else if !look.is_text && tensor.name == b"sequence_length" {
                    lengths_at = Some(outputs);
                    lengths = Some(tensor);
                } else if look.is_batched && tensor.name == b"batch_index" {
                    row_at = Some(outputs);
                }
                outputs += 1;
            }
            (6, Value::Bytes(raw)) => {
                if ids_at == Some(raws) {
                    raw_ids = Some(raw);
                } else if let (true, Some(lengths)) = (lengths_at == Some(raws), &mut lengths) {
                    lengths.contents = (raw.len() / lengths.width()) as u64;
                    lengths.range = range_in(raw, lengths.datatype);
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
    let Some(answer) = answer else { return Ok(seen) };
    let (elements, bytes) = match raw_ids {
        Some(raw) if look.is_text => (texts_in(raw), raw.len() as u64),
        Some(raw) => ((raw.len() / answer.width()) as u64, raw.len() as u64),
        None => (answer.contents, 0),
    };
    let is_whole = match raw_ids {
        Some(raw) if !look.is_text => raw.len() % answer.width() == 0,
        _ => true,
    };
    if elements != answer.shape || !is_whole {
        seen.misshapen = Some(Misshapen { shape: answer.shape, elements, bytes });
    }
    seen.datatype = Some(answer.datatype);
    if look.is_text {
        // A text is its length in 4 bytes and itself.
        seen.tokens = u32::from(elements > 0 || bytes > 0);
        seen.is_empty = raw_ids.map_or(elements == 0, |raw| raw.len() <= 4);
    } else {
        let mut elements = elements;
        // TensorRT-LLM gives the length of each beam of this response. The rest of a row is padding.
        if let Some(lengths) = lengths.filter(|lengths| lengths.contents > 0 && seen.misshapen.is_none())
            && let Some((least, most)) = lengths.range
        {
            let row = elements / lengths.contents;
            let is_within = |length: i64| u64::try_from(length).is_ok_and(|length| length <= row);
            if !is_within(least) || !is_within(most) {
                seen.not_a_length = Some(if is_within(least) { most } else { least });
            } else {
                elements = most.unsigned_abs() * lengths.contents;
                if lengths.contents == 1 {
                    seen.raw = &seen.raw[..seen.raw.len().min(elements as usize * answer.width())];
                }
            }
        }
        seen.tokens = u32::try_from(elements).unwrap_or(u32::MAX);
        seen.is_empty = elements == 0;
        let range = raw_ids.map_or(answer.range, |_| range_in(seen.raw, answer.datatype));
        seen.not_an_id = range.map(|(least, _)| least).filter(|id| *id < if look.has_beams { -1 } else { 0 });
        seen.last_token = match answer.width() {
            8 => seen.raw.last_chunk::<8>().and_then(|bytes| i32::try_from(i64::from_le_bytes(*bytes)).ok()),
            _ => seen.raw.last_chunk::<4>().map(|bytes| i32::from_le_bytes(*bytes)),
        };
    }
    Ok(seen)
}

/// The lowest and the highest number of a tensor whose data type has negative ones.
fn range_in(raw: &[u8], datatype: &[u8]) -> Option<(i64, i64)> {
    let range =
        |numbers: &mut dyn Iterator<Item = i64>| numbers.fold(None, |range, number| Some(widened(range, number)));
    match datatype {
        b"INT64" => range(&mut raw.as_chunks::<8>().0.iter().map(|id| i64::from_le_bytes(*id))),
        b"INT32" => range(&mut raw.as_chunks::<4>().0.iter().map(|id| i64::from(i32::from_le_bytes(*id)))),
        b"INT16" => range(&mut raw.as_chunks::<2>().0.iter().map(|id| i64::from(i16::from_le_bytes(*id)))),
        b"INT8" => range(&mut raw.iter().map(|id| i64::from(id.cast_signed()))),
        _ => None,
    }
}

/// A range of numbers that has this one, too.
fn widened(range: Option<(i64, i64)>, number: i64) -> (i64, i64) {
    range.map_or((number, number), |(least, most)| (least.min(number), most.max(number)))
}

/// Elements of a `BYTES` tensor: each has its length in front. What does not fit is one more.
fn texts_in(mut raw: &[u8]) -> u64 {
    let mut count = 0;
    while !raw.is_empty() {
        count += 1;
        let text =
            raw.split_first_chunk::<4>().and_then(|(length, rest)| rest.get(u32::from_le_bytes(*length) as usize..));
        match text {
            Some(rest) => raw = rest,
            None => return count + 1,
        }
    }
    count
}

/// From a parameters entry: the flag, when the entry is `triton_final_response`.
fn final_flag(entry: &[u8]) -> Result<Option<bool>, WireError> {
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

/// An output tensor without its raw contents.
struct Tensor<'a> {
    name: &'a [u8],
    datatype: &'a [u8],
    /// The product of its shape; a negative dimension is larger than any.
    shape: u64,
    /// Elements that are not raw.
    contents: u64,
    /// The lowest and the highest number of these.
    range: Option<(i64, i64)>,
}

impl Tensor<'_> {
    /// Bytes of one element.
    fn width(&self) -> usize {
        match self.datatype {
            b"INT64" | b"UINT64" | b"FP64" => 8,
            b"INT16" | b"UINT16" | b"FP16" | b"BF16" => 2,
            b"INT8" | b"UINT8" | b"BOOL" => 1,
            _ => 4,
        }
    }
}

fn head_of(tensor: &[u8]) -> Result<Tensor<'_>, WireError> {
    let mut actual = Tensor { name: &[], datatype: &[], shape: 1, contents: 0, range: None };
    each_field(tensor, |field, value| {
        match (field, value) {
            (1, Value::Bytes(name)) => actual.name = name,
            (2, Value::Bytes(datatype)) => actual.datatype = datatype,
            (3, Value::Varint(dim)) => actual.shape = actual.shape.saturating_mul(dim),
            (3, Value::Bytes(mut dims)) => {
                while dims.has_remaining() {
                    let dim = decode_varint(&mut dims).map_err(|_| Malformed("a shape is truncated"))?;
                    actual.shape = actual.shape.saturating_mul(dim);
                }
            }
            (5, Value::Bytes(contents)) => (actual.contents, actual.range) = elements_of(contents)?,
            _ => {}
        }
        Ok(())
    })?;
    Ok(actual)
}

/// From an `InferTensorContents`: how many whole numbers or texts it has, and the lowest and the highest of the numbers
/// with a sign.
fn elements_of(contents: &[u8]) -> Result<(u64, Option<(i64, i64)>), WireError> {
    let (mut count, mut range) = (0, None);
    let mut signed = |number: u64| range = Some(widened(range, number as i64));
    each_field(contents, |field, value| {
        match (field, &value) {
            (2 | 3, Value::Bytes(packed)) => {
                let mut packed = *packed;
                while packed.has_remaining() {
                    signed(decode_varint(&mut packed).map_err(|_| Malformed("contents are truncated"))?);
                }
            }
            (2 | 3, Value::Varint(number)) => signed(*number),
            _ => {}
        }
        count += match (field, value) {
            // Packed: the last byte of each number has no high bit.
            (2..=5, Value::Bytes(packed)) => packed.iter().filter(|byte| **byte < 0x80).count() as u64,
            (2..=5, Value::Varint(_)) | (8, Value::Bytes(_)) => 1,
            _ => 0,
        };
        Ok(())
    })?;
    Ok((count, range))
}

enum Value<'a> {
    Bytes(&'a [u8]),
    Varint(u64),
}

fn each_field<'a>(
    mut message: &'a [u8],
    mut visit: impl FnMut(u32, Value<'a>) -> Result<(), WireError>,
) -> Result<(), WireError> {
    let broken = |_| Malformed("a field is truncated");
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
mod tests;

// The messages of a stream whose bytes are at hand, read as in a measurement, without a connection.

/// Reads the DATA frames of one `ModelStreamInfer` in these pieces; gives the tokens in the tensor `answer`, whose
/// elements are 32-bit ids or, with `is_text`, texts.
///
/// # Errors
/// Why the request would have failed.
pub fn read_grpc_answer<'a>(
    answer: &str,
    is_text: bool,
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> Result<u64, (FailureClass, String)> {
    let limits = ResponseBounds::default();
    let mut frames = Frames::of_answer(&limits);
    let mut tokens = 0;
    for piece in pieces {
        frames.push(Bytes::copy_from_slice(piece));
        while let Some(message) = frames.next().map_err(|error| error.fault(&limits))? {
            let (_, error) = named(&message).map_err(|error| error.fault(&limits))?;
            if let Some(error) = error {
                return Err((FailureClass::Server, error.to_owned()));
            }
            let look = ScanRequest { answer, is_text, is_batched: true, has_beams: true };
            tokens += u64::from(scan_stream(&message, &look).map_err(|error| error.fault(&limits))?.tokens);
        }
    }
    Ok(tokens)
}
