//! Outputs besides tokens: log probabilities, logits, and the stamps of `return_perf_metrics`.
//!
//! There are no kernels here, so probabilities and logits are pseudo-random functions of the token's source: of the right
//! shape and type and the same in every run, but without meaning. The stamps are true, on the simulated clock.

use bytes::{BufMut, Bytes, BytesMut};

use super::decode::TokenGenerator;
use super::inputs::ReadFields;
use super::loaded_model::LoadedEngine;
use crate::random::mix;
use triton::proto::inference::DataType;

/// The outputs that a request selects besides its tokens.
#[derive(Clone, Debug)]
pub(super) struct SelectedOutputs {
    pub log_probs: bool,
    pub context_logits: bool,
    pub generation_logits: bool,
    pub perf_metrics: bool,
    pub isl: u64,
    pub vocab_size: u32,
    pub tokens_per_block: u64,
    pub logits: DataType,
}

impl Default for SelectedOutputs {
    fn default() -> Self {
        Self {
            log_probs: false,
            context_logits: false,
            generation_logits: false,
            perf_metrics: false,
            isl: 0,
            vocab_size: 0,
            tokens_per_block: 1,
            logits: DataType::TypeFp32,
        }
    }
}

/// The times of a request's events, simulated ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RequestTimes {
    pub arrival: u64,
    pub scheduled: u64,
    pub first_token: u64,
    pub last_token: u64,
}

/// Name, type, shape, raw bytes.
pub(super) type RawTensor = (&'static str, &'static str, Vec<i64>, Bytes);

impl SelectedOutputs {
    pub(super) fn new(fields: &ReadFields, engine: &LoadedEngine, isl: u64) -> Self {
        Self {
            log_probs: fields.is_on("return_log_probs"),
            context_logits: fields.is_on("return_context_logits"),
            generation_logits: fields.is_on("return_generation_logits"),
            perf_metrics: fields.is_on("return_perf_metrics"),
            isl,
            vocab_size: engine.vocab_size,
            tokens_per_block: engine.limits.tokens_per_block,
            logits: engine.logits,
        }
    }

    /// For the tokens `from..to` of every beam. Stamps come with the last.
    pub(super) fn tensors(
        &self,
        beams: &[TokenGenerator],
        from: u64,
        to: u64,
        times: Option<RequestTimes>,
    ) -> Vec<RawTensor> {
        let mut tensors = Vec::new();
        let (width, count) = (beams.len() as i64, (to - from) as i64);
        if self.log_probs {
            let sum = |voice: &TokenGenerator| (0..to).map(|index| log_prob(voice, index)).sum::<f32>();
            tensors.push(("cum_log_probs", "FP32", vec![1, width], floats(beams.iter().map(sum))));
            let each = beams.iter().flat_map(|voice| (from..to).map(|index| log_prob(voice, index)));
            tensors.push(("output_log_probs", "FP32", vec![1, width, count], floats(each)));
        }
        let vocab = i64::from(self.vocab_size);
        if self.context_logits && from == 0 {
            let seed = beams.first().map_or(0, hash);
            let raw = self.logits(seed, 0..self.isl);
            tensors.push(("context_logits", self.type_name(), vec![1, self.isl as i64, vocab], raw));
        }
        if self.generation_logits {
            let mut raw = BytesMut::new();
            for voice in beams {
                raw.extend_from_slice(&self.logits(!hash(voice), from..to));
            }
            tensors.push(("generation_logits", self.type_name(), vec![1, width, count, vocab], raw.freeze()));
        }
        if let Some(times) = times.filter(|_| self.perf_metrics) {
            let blocks = (self.isl + to).div_ceil(self.tokens_per_block) as i32;
            for (name, value) in [
                ("kv_cache_alloc_new_blocks", blocks),
                // Blocks are not reused here.
                ("kv_cache_reused_blocks", 0),
                ("kv_cache_alloc_total_blocks", blocks),
            ] {
                tensors.push((name, "INT32", vec![1, 1], Bytes::copy_from_slice(&value.to_le_bytes())));
            }
            for (name, value) in [
                ("arrival_time_ns", times.arrival),
                ("first_scheduled_time_ns", times.scheduled),
                ("first_token_time_ns", times.first_token),
                ("last_token_time_ns", times.last_token),
            ] {
                tensors.push((name, "INT64", vec![1, 1], Bytes::copy_from_slice(&(value as i64).to_le_bytes())));
            }
        }
        tensors
    }

    const fn type_name(&self) -> &'static str {
        match self.logits {
            DataType::TypeFp16 => "FP16",
            DataType::TypeBf16 => "BF16",
            _ => "FP32",
        }
    }

    /// One row of the vocabulary for each position.
    fn logits(&self, seed: u64, positions: std::ops::Range<u64>) -> Bytes {
        let vocab = u64::from(self.vocab_size);
        let mut raw = BytesMut::new();
        for at in positions.start * vocab..positions.end * vocab {
            let random = mix(seed ^ at);
            match self.logits {
                // Sign and fraction are drawn, the exponent is that of 1 to 2.
                DataType::TypeFp16 => raw.put_u16_le(0x3C00 | (random as u16 & 0x83FF)),
                DataType::TypeBf16 => raw.put_u16_le(0x3F80 | (random as u16 & 0x807F)),
                _ => raw.put_u32_le(0x3F80_0000 | (random as u32 & 0x807F_FFFF)),
            }
        }
        raw.freeze()
    }
}

/// From −8 to 0.
fn log_prob(voice: &TokenGenerator, index: u64) -> f32 {
    -((mix(hash(voice) ^ index) % 8000) as f32 / 1000.0)
}

fn hash(voice: &TokenGenerator) -> u64 {
    voice.name().bytes().fold(0x9E37_79B9_7F4A_7C15, |hash, byte| mix(hash ^ u64::from(byte)))
}

fn floats(values: impl Iterator<Item = f32>) -> Bytes {
    let mut raw = BytesMut::new();
    values.for_each(|value| raw.put_f32_le(value));
    raw.freeze()
}
