//! The answer to a request: tokens that are a function of its id and their index, in the output format of its model.
//!
//! Because the tokens can be computed from the id, lost, duplicated and swapped tokens can be detected.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::{BufMut, Bytes, BytesMut};

use super::decode::TokenGenerator;
use super::extra_outputs::{RequestTimes, SelectedOutputs};
use super::tokens::word;
use triton::proto::inference::infer_parameter::ParameterChoice;
use triton::proto::inference::model_infer_response::InferOutputTensor;
use triton::proto::inference::{InferParameter, ModelInferResponse, ModelStreamInferResponse};

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
