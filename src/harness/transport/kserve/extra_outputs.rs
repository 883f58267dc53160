//! Outputs besides the tokens: log probabilities, logits, the server's own stamps. Parsed completely, so only when
//! requested.

use std::collections::BTreeMap;

use bytes::Bytes;
use prost::Message;

use super::grpc_messages::WireError;
use crate::record::ServerStamps;
use crate::transport::request_encoder::CallKind;
use crate::{ExtraOutput, PlannedRequest};
use triton::proto::inference::{ModelInferResponse, ModelStreamInferResponse};

impl ExtraOutput {
    pub(crate) fn merge(&mut self, other: Self) {
        self.responses += other.responses;
        self.bytes += other.bytes;
        self.misshapen += other.misshapen;
        self.example = self.example.take().or(other.example);
    }
}

/// Tallies by the name of the output.
pub(crate) type OutputTallies = BTreeMap<&'static str, ExtraOutput>;

const SHAPED: [&str; 4] = ["cum_log_probs", "output_log_probs", "context_logits", "generation_logits"];

pub(crate) fn parse(message: Bytes, call: CallKind) -> Result<Option<ModelInferResponse>, WireError> {
    let wrong = |_| WireError::Malformed("a response cannot be decoded");
    Ok(match call {
        CallKind::Stream => ModelStreamInferResponse::decode(message).map_err(wrong)?.infer_response,
        CallKind::Unary => Some(ModelInferResponse::decode(message).map_err(wrong)?),
    })
}

/// Counts the response's outputs besides tokens. Returns the server's time stamps if the response has them.
pub(crate) fn note(
    tallies: &mut OutputTallies,
    response: &ModelInferResponse,
    planned: &PlannedRequest,
    tokens: u32,
) -> Option<ServerStamps> {
    let mut stamps = ServerStamps::default();
    let mut has_stamps = false;
    for (output, raw) in response.outputs.iter().zip(&response.raw_output_contents) {
        if let Some(name) = SHAPED.into_iter().find(|name| *name == output.name) {
            let tally = tallies.entry(name).or_default();
            tally.responses += 1;
            tally.bytes += raw.len() as u64;
            if let Some(why) = misshapen(name, &output.datatype, &output.shape, raw.len(), planned.input_len, tokens) {
                tally.misshapen += 1;
                tally.example.get_or_insert(why);
            }
        } else {
            has_stamps |= stamps.take(&output.name, raw);
        }
    }
    has_stamps.then_some(stamps)
}

impl ServerStamps {
    fn take(&mut self, name: &str, raw: &[u8]) -> bool {
        let long = raw.first_chunk::<8>().map(|bytes| i64::from_le_bytes(*bytes));
        let int = raw.first_chunk::<4>().map(|bytes| i32::from_le_bytes(*bytes));
        let set = |place: &mut i64| long.map(|value| *place = value).is_some();
        let put_blocks = |place: &mut i32| int.map(|value| *place = value).is_some();
        match name {
            "arrival_time_ns" => set(&mut self.arrival_time_ns),
            "first_scheduled_time_ns" => set(&mut self.first_scheduled_time_ns),
            "first_token_time_ns" => set(&mut self.first_token_time_ns),
            "last_token_time_ns" => set(&mut self.last_token_time_ns),
            "kv_cache_alloc_new_blocks" => put_blocks(&mut self.kv_cache_alloc_new_blocks),
            "kv_cache_reused_blocks" => put_blocks(&mut self.kv_cache_reused_blocks),
            "kv_cache_alloc_total_blocks" => put_blocks(&mut self.kv_cache_alloc_total_blocks),
            _ => false,
        }
    }
}

/// Why a tensor does not fit its name.
fn misshapen(name: &str, datatype: &str, shape: &[i64], bytes: usize, input_len: u32, tokens: u32) -> Option<String> {
    let width = match datatype {
        "FP16" | "BF16" => 2,
        _ => 4,
    };
    let size = shape.iter().try_fold(width, |bytes: i64, dim| bytes.checked_mul(*dim));
    if size != i64::try_from(bytes).ok() {
        return Some(format!("{name} {datatype} {shape:?} has {bytes} bytes"));
    }
    let (from_the_end, expected, what) = match name {
        "output_log_probs" => (1, tokens, "tokens in this response"),
        "context_logits" => (2, input_len, "prompt tokens"),
        "generation_logits" => (2, tokens, "tokens in this response"),
        _ => return None,
    };
    let actual = shape.len().checked_sub(from_the_end).map(|at| shape[at]);
    (actual != Some(i64::from(expected))).then(|| format!("{name} has shape {shape:?} for {expected} {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_are_checked_against_lengths() {
        let check = |name, shape: &[i64], bytes| misshapen(name, "FP32", shape, bytes, 7, 2);
        assert_eq!(check("output_log_probs", &[1, 1, 2], 8), None);
        assert_eq!(check("context_logits", &[1, 7, 10], 280), None);
        assert_eq!(
            check("generation_logits", &[1, 1, 3, 10], 120).as_deref(),
            Some("generation_logits has shape [1, 1, 3, 10] for 2 tokens in this response")
        );
        assert_eq!(check("cum_log_probs", &[1, 1], 3).as_deref(), Some("cum_log_probs FP32 [1, 1] has 3 bytes"));
        for shape in [[i64::MAX, 2], [1 << 62, 1]] {
            assert!(check("cum_log_probs", &shape, 0).is_some(), "{shape:?}");
        }
    }
}
