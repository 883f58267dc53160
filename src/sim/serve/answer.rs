//! The answer to a request: tokens that are a function of its id and their index, in the output format of its model.
//!
//! Because the tokens can be computed from the id, lost, duplicated and swapped tokens can be detected.
//!
//! The tokens that the simulated model generates, and how it writes them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::{BufMut, Bytes, BytesMut};

use super::inputs::ReadFields;
use super::load::{LoadedEngine, LoadedModel};
use super::request::version;
use crate::random::mix;
use triton::proto::inference::infer_parameter::ParameterChoice;
use triton::proto::inference::model_infer_response::InferOutputTensor;
use triton::proto::inference::{DataType, InferParameter, ModelInferResponse, ModelStreamInferResponse};

/// How a request is answered.
#[derive(Clone, Debug)]
pub(super) struct ServedAnswer {
    pub model_name: String,
    pub model_version: String,
    pub id: String,
    /// Which request of the message.
    pub row: i32,
    /// Which sequence of the request.
    pub sequence: i32,
    /// One speaker for each beam; there is at least one.
    pub beams: Vec<TokenGenerator>,
    /// The tokens of each beam, where they depend on each other.
    pub decoded: Option<Vec<Vec<i32>>>,
    /// Prompt to put before an answer that does not stream.
    pub prompt: ServedPrompt,
    /// One response for each token.
    pub is_streaming: bool,
    /// The last token's response is not marked as the last; an empty one may follow.
    pub is_final_apart: bool,
    /// Send that empty one.
    pub wants_empty_final: bool,
    /// Output names that were requested; empty is all.
    pub outputs: Vec<String>,
    pub returns: SelectedOutputs,
    /// Parts of the message that have not ended.
    pub left: Arc<AtomicUsize>,
}

#[derive(Clone, Debug)]
pub(super) enum ServedPrompt {
    Tokens(Vec<i32>),
    Text(Vec<u8>),
}

impl ServedAnswer {
    /// The only part of a message, with nothing beside its tokens, and in one response.
    pub(super) fn new(model: &LoadedModel, engine: &LoadedEngine, id: String, prompt: ServedPrompt) -> Self {
        Self {
            model_name: model.name.clone(),
            model_version: version(model),
            row: 0,
            sequence: 0,
            beams: vec![TokenGenerator::new(&id, None, 0, 0, engine.vocab_size, None)],
            id,
            decoded: None,
            prompt,
            is_streaming: false,
            is_final_apart: false,
            wants_empty_final: false,
            outputs: Vec::new(),
            returns: SelectedOutputs::new(&ReadFields::default(), engine, 0),
            left: Arc::new(AtomicUsize::new(1)),
        }
    }

    /// This part has ended. True for the last of its message.
    pub(super) fn ends(&self) -> bool {
        self.left.fetch_sub(1, Ordering::Relaxed) == 1
    }

    /// The response for tokens `from..to`. `whole` answers begin with the prompt.
    pub(super) fn response(&self, from: u64, to: u64, whole: bool, times: Option<RequestTimes>) -> ModelInferResponse {
        // Beams change their earlier tokens, so every response of them has all tokens.
        let from = if self.beams.len() > 1 { 0 } else { from };
        let beams: Vec<Vec<i32>> = (0..self.beams.len()).map(|beam| self.tokens(beam, from, to)).collect();
        let mut response = empty_response(&self.model_name, &self.model_version, &self.id);
        let width = beams.len() as i64;
        match &self.prompt {
            ServedPrompt::Tokens(prompt) => {
                let prompt = if whole { prompt.as_slice() } else { &[] };
                let longest = prompt.len() + beams.iter().map(Vec::len).max().unwrap_or(0);
                let mut ids = BytesMut::with_capacity(4 * longest * beams.len());
                let mut lengths = BytesMut::with_capacity(4 * beams.len());
                for tokens in &beams {
                    let padding = std::iter::repeat(0);
                    let padded = prompt.iter().chain(tokens).copied().chain(padding).take(longest);
                    padded.for_each(|token| ids.put_i32_le(token));
                    lengths.put_i32_le((prompt.len() + tokens.len()) as i32);
                }
                self.put(&mut response, "output_ids", "INT32", vec![1, width, longest as i64], ids.freeze());
                self.put(&mut response, "sequence_length", "INT32", vec![1, width], lengths.freeze());
            }
            ServedPrompt::Text(prompt) => {
                let mut raw = BytesMut::new();
                for tokens in &beams {
                    let mut text = if whole { prompt.clone() } else { Vec::new() };
                    text.extend(tokens.iter().flat_map(|token| word(*token)));
                    raw.put_u32_le(text.len() as u32);
                    raw.put_slice(&text);
                }
                self.put(&mut response, "text_output", "BYTES", vec![1, width], raw.freeze());
            }
        }
        for (name, index) in [("batch_index", self.row), ("sequence_index", self.sequence)] {
            self.put(&mut response, name, "INT32", vec![1, 1], Bytes::copy_from_slice(&index.to_le_bytes()));
        }
        for (name, datatype, shape, raw) in self.returns.tensors(&self.beams, from, to, times) {
            self.put(&mut response, name, datatype, shape, raw);
        }
        response
    }

    /// A beam that produced a stop word has fewer than the others.
    fn tokens(&self, beam: usize, from: u64, to: u64) -> Vec<i32> {
        match &self.decoded {
            Some(decoded) => {
                let text = &decoded[beam];
                text[text.len().min(from as usize)..text.len().min(to as usize)].to_vec()
            }
            None => (from..to).map(|index| self.beams[beam].token(index)).collect(),
        }
    }

    fn put(&self, response: &mut ModelInferResponse, name: &str, datatype: &str, shape: Vec<i64>, raw: Bytes) {
        if !self.outputs.is_empty() && !self.outputs.iter().any(|wanted| wanted == name) {
            return;
        }
        response.outputs.push(InferOutputTensor {
            name: name.to_owned(),
            datatype: datatype.to_owned(),
            shape,
            ..InferOutputTensor::default()
        });
        response.raw_output_contents.push(raw);
    }

    /// A response in a stream; each carries a flag whether it is the request's last.
    pub(super) fn streamed(mut response: ModelInferResponse, is_final: bool) -> ModelStreamInferResponse {
        let flag = InferParameter { parameter_choice: Some(ParameterChoice::BoolParam(is_final)) };
        response.parameters.insert("triton_final_response".to_owned(), flag);
        ModelStreamInferResponse { error_message: String::new(), infer_response: Some(response) }
    }

    /// A response with only the final flag.
    pub(super) fn empty_final(&self) -> ModelStreamInferResponse {
        Self::streamed(empty_response(&self.model_name, &self.model_version, &self.id), true)
    }

    /// An error of the backend: the last response of its part of the message.
    pub(super) fn failed(&self, message: String) -> ModelStreamInferResponse {
        let response = Self::streamed(empty_response(&self.model_name, &self.model_version, &self.id), self.ends());
        ModelStreamInferResponse { error_message: message, ..response }
    }
}

/// A response with only the id of its request.
pub(super) fn empty_response(model_name: &str, model_version: &str, id: &str) -> ModelInferResponse {
    ModelInferResponse {
        model_name: model_name.to_owned(),
        model_version: model_version.to_owned(),
        id: id.to_owned(),
        ..ModelInferResponse::default()
    }
}

// Outputs besides tokens: log probabilities, logits, and the stamps of `return_perf_metrics`.
//
// There are no kernels here, so probabilities and logits are pseudo-random functions of the token's source: of the
// right shape and type and the same in every run, but without meaning. The stamps are true, on the simulated clock.

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
            let seed = beams.first().map_or(0, hash_of_name);
            let raw = self.logits(seed, 0..self.isl);
            tensors.push(("context_logits", self.type_name(), vec![1, self.isl as i64, vocab], raw));
        }
        if self.generation_logits {
            let mut raw = BytesMut::new();
            for voice in beams {
                raw.extend_from_slice(&self.logits(!hash_of_name(voice), from..to));
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
    -((mix(hash_of_name(voice) ^ index) % 8000) as f32 / 1000.0)
}

fn hash_of_name(voice: &TokenGenerator) -> u64 {
    voice.name().bytes().fold(0x9E37_79B9_7F4A_7C15, |hash, byte| mix(hash ^ u64::from(byte)))
}

fn floats(values: impl Iterator<Item = f32>) -> Bytes {
    let mut raw = BytesMut::new();
    values.for_each(|value| raw.put_f32_le(value));
    raw.freeze()
}

/// The `index`th token of the request with this id. Never `end_id`, nor the first three of the vocabulary (special).
pub fn token(request_id: &str, index: u64, vocab_size: u32, end_id: Option<i32>) -> i32 {
    // FNV-1a: short, and the same everywhere.
    let seed = request_id
        .bytes()
        .fold(0xCBF2_9CE4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01B3));
    let span = u64::from(vocab_size.max(8) - 3);
    let token = 3 + (mix(seed ^ mix(index)) % span) as i32;
    if end_id == Some(token) { 3 + ((token - 3 + 1) % span as i32) } else { token }
}

/// Four letters for a token: about what a real tokenizer makes of English.
pub(super) fn word(token: i32) -> [u8; 4] {
    let letter = |n: i32| b'a' + (n % 26) as u8;
    [b' ', letter(token), letter(token / 26), letter(token / 676)]
}

// Which tokens an answer has: a function of the request id and of each token's index, cut at stop words, without bad
// words.
//
// The simulated model never produces its end token by itself, so an answer has its full length unless a stop word ends
// it; as in TensorRT-LLM the stop word is the last thing in the answer. `min_length` only suppresses the end token, so
// it changes nothing here.

/// The source of the tokens: the key that they are computed from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TokenGenerator {
    name: String,
    vocab_size: u32,
    end_id: Option<i32>,
}

impl TokenGenerator {
    /// The first request of a message, and its first sequence, use the id alone. A seed takes the id's place.
    pub(super) fn new(
        id: &str,
        seed: Option<u64>,
        row: usize,
        sequence: u32,
        vocab_size: u32,
        end_id: Option<i32>,
    ) -> Self {
        let mut name = seed.map_or_else(|| id.to_owned(), |seed| format!("seed {seed}"));
        if row > 0 {
            name = format!("{name}/{row}");
        }
        if sequence > 0 {
            name = format!("{name}~{sequence}");
        }
        Self { name, vocab_size, end_id }
    }

    pub(super) fn token(&self, index: u64) -> i32 {
        token(&self.name, index, self.vocab_size, self.end_id)
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The next token of the vocabulary, in place of a forbidden one.
    fn instead_of(&self, token: i32) -> i32 {
        let span = self.vocab_size.max(8) as i32 - 3;
        let next = |token: i32| 3 + (token - 3 + 1) % span;
        let other = next(token);
        if self.end_id == Some(other) { next(other) } else { other }
    }
}

/// Stop words or bad words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct StopWords {
    pub ids: Vec<Vec<i32>>,
    pub texts: Vec<Vec<u8>>,
}

impl StopWords {
    pub(super) const fn is_empty(&self) -> bool {
        self.ids.is_empty() && self.texts.is_empty()
    }

    /// The output would end with one of them after this token.
    fn would_end_with(&self, tokens: &mut Vec<i32>, text: &mut Vec<u8>, token: i32) -> bool {
        tokens.push(token);
        text.extend_from_slice(&word(token));
        let ends_with_word = self.ends_with_word(tokens, text);
        tokens.pop();
        text.truncate(text.len() - 4);
        ends_with_word
    }

    /// The output so far ends with one of them.
    fn ends_with_word(&self, tokens: &[i32], text: &[u8]) -> bool {
        let tail = |len: usize| &text[text.len().saturating_sub(len + 3)..];
        self.ids.iter().any(|word| tokens.ends_with(word))
            || self.texts.iter().any(|word| tail(word.len()).windows(word.len().max(1)).any(|part| part == word))
    }
}

/// The answer's tokens, at most `most`. None: no token depends on earlier ones, so `voice` is enough.
pub(super) fn decode(voice: &TokenGenerator, most: u64, stop: &StopWords, bad: &StopWords) -> Option<Vec<i32>> {
    if stop.is_empty() && bad.is_empty() {
        return None;
    }
    let mut tokens = Vec::with_capacity(most as usize);
    let mut text = Vec::new();
    for index in 0..most {
        let mut token = voice.token(index);
        // Where every token is bad, the original one is used after all.
        for _ in 0..voice.vocab_size {
            if !bad.would_end_with(&mut tokens, &mut text, token) {
                break;
            }
            token = voice.instead_of(token);
        }
        tokens.push(token);
        text.extend_from_slice(&word(token));
        if stop.ends_with_word(&tokens, &text) {
            break;
        }
    }
    Some(tokens)
}

#[cfg(test)]
mod tokens_tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_token_is_in_the_vocabulary_and_never_the_end(
            id in ".{0,12}", index in 0_u64..10_000, vocab in 8_u32..200_000, end in 0_i32..200_000
        ) {
            let made = token(&id, index, vocab, Some(end));
            prop_assert!((3..vocab as i32).contains(&made) && made != end);
            prop_assert_eq!(made, token(&id, index, vocab, Some(end)));
        }
    }

    #[test]
    fn tokens_of_different_requests_differ() {
        let tokens = |id| (0..50).map(|index| token(id, index, 32_000, None)).collect::<Vec<_>>();
        assert_ne!(tokens("1"), tokens("2"));
    }
}

#[cfg(test)]
mod decode_tests {
    use super::*;
    use pretty_assertions::assert_eq;

    fn ids(words: &[&[i32]]) -> StopWords {
        StopWords { ids: words.iter().map(|word| word.to_vec()).collect(), texts: Vec::new() }
    }

    #[test]
    fn an_answer_ends_with_its_first_stop_word() {
        let voice = TokenGenerator::new("7", None, 0, 0, 1000, Some(2));
        let free: Vec<i32> = (0..20).map(|index| voice.token(index)).collect();
        let decoded = |stop: &StopWords, bad: &StopWords| decode(&voice, 20, stop, bad).unwrap();
        assert_eq!(decoded(&ids(&[&free[4..6]]), &StopWords::default()), free[..6]);
        let text = StopWords { ids: Vec::new(), texts: vec![word(free[8])[1..].to_vec()] };
        assert_eq!(decoded(&text, &StopWords::default()), free[..9]);
        let without = decoded(&StopWords::default(), &ids(&[&[free[3]], &free[9..11]]));
        assert!(!without.contains(&free[3]) && without[..3] == free[..3] && without.len() == 20);
        assert!(without[9] == free[9] && without[10] != free[10]);
        assert_eq!(decode(&voice, 20, &StopWords::default(), &StopWords::default()), None);
    }

    #[test]
    fn a_seed_decides_and_rows_differ() {
        let tokens = |id, seed, row| {
            let voice = TokenGenerator::new(id, seed, row, 0, 1000, None);
            (0..20).map(|index| voice.token(index)).collect::<Vec<_>>()
        };
        assert_eq!(tokens("1", Some(5), 0), tokens("2", Some(5), 0));
        assert_ne!(tokens("1", Some(5), 0), tokens("1", Some(6), 0));
        assert_ne!(tokens("1", None, 0), tokens("1", None, 1));
    }
}
