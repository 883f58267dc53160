//! The server's description of a model, and the tensor names of the two interfaces.

use std::collections::BTreeMap;

use crate::transport::call::CallKind;
use crate::{CallSource, LoadPattern};
use base::spec::Interface;

/// Tensors that the interfaces name differently.
#[derive(Debug, PartialEq)]
pub struct TensorNames {
    pub prompt: &'static str,
    pub output_len: &'static str,
    pub streaming: &'static str,
    pub top_k: &'static str,
    pub top_p: &'static str,
    pub length_penalty: &'static str,
    pub stop_words: &'static str,
    pub bad_words: &'static str,
    /// The answer first; the rest where the model has it.
    pub answer: &'static [&'static str],
}

pub static TOKENS: TensorNames = TensorNames {
    prompt: "input_ids",
    output_len: "request_output_len",
    streaming: "streaming",
    top_k: "runtime_top_k",
    top_p: "runtime_top_p",
    length_penalty: "len_penalty",
    stop_words: "stop_words_list",
    bad_words: "bad_words_list",
    answer: &["output_ids", "sequence_length"],
};

/// The names of text models.
pub const TEXT: TensorNames = TensorNames {
    prompt: "text_input",
    output_len: "max_tokens",
    streaming: "stream",
    top_k: "top_k",
    top_p: "top_p",
    length_penalty: "length_penalty",
    stop_words: "stop_words",
    bad_words: "bad_words",
    answer: &["text_output"],
};

/// The tensor of those settings.
pub const SAMPLING: &str = "sampling_parameters";

/// The names of Triton's vLLM backend, which takes its other settings as one text.
pub static VLLM: TensorNames = TensorNames { output_len: SAMPLING, ..TEXT };

/// What a model offers, by name.
pub type OfferedTensors = BTreeMap<String, String>;

/// A model as its server describes it. What a server does not report is taken from TensorRT-LLM's defaults.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelMetadata {
    pub is_decoupled: Option<bool>,
    pub max_batch_size: Option<i32>,
    /// Name → data type.
    pub inputs: Option<OfferedTensors>,
    pub outputs: Option<OfferedTensors>,
}

impl ModelMetadata {
    pub fn interface(&self) -> Interface {
        let has = |name: &str| self.inputs.as_ref().is_some_and(|inputs| inputs.contains_key(name));
        if has(TEXT.prompt) && !has(TOKENS.prompt) { Interface::Text } else { Interface::TokenIds }
    }

    /// Where the server does not report it, the scenario decides: Server streams, Offline does not.
    pub fn call(&self, scenario: &LoadPattern) -> CallKind {
        match (self.is_decoupled, scenario) {
            (Some(false), _) | (None, LoadPattern::Offline | LoadPattern::External(CallSource::AllAtOnce)) => {
                CallKind::Unary
            }
            (Some(true) | None, _) => CallKind::Stream,
        }
    }

    pub fn has_rows(&self) -> bool {
        self.max_batch_size != Some(0)
    }

    /// The input's type; `usual` where the server reports none; None when the model lacks the input.
    pub fn input_type(&self, name: &str, usual: &str) -> Option<String> {
        self.inputs.as_ref().map_or_else(|| Some(usual.to_owned()), |inputs| inputs.get(name).cloned())
    }

    /// The server reports that the model has this input.
    pub fn describes(&self, name: &str) -> bool {
        self.inputs.as_ref().is_some_and(|inputs| inputs.contains_key(name))
    }

    pub fn check_batch(&self, batch: usize, call: CallKind, faults: &mut Vec<String>) {
        if batch <= 1 {
            return;
        }
        if call == CallKind::Unary {
            faults.push(
                "request.batch above 1 needs a decoupled model: each prompt is answered by responses of its own"
                    .to_owned(),
            );
        }
        if let Some(most) = self.max_batch_size.filter(|most| i64::from(*most) < batch as i64) {
            faults.push(format!("request.batch is {batch}, and the model's max_batch_size is {most}"));
        }
    }

    /// The answer must be there; `sequence_length` is dropped where the model lacks it; any other missing output is an error.
    pub fn check_outputs(&self, wanted: &mut Vec<&'static str>, faults: &mut Vec<String>) {
        let Some(outputs) = &self.outputs else { return };
        wanted.retain(|name| *name != "sequence_length" || outputs.contains_key(*name));
        let missing: Vec<String> =
            wanted.iter().filter(|name| !outputs.contains_key(**name)).map(|name| format!("`{name}`")).collect();
        if !missing.is_empty() {
            let has: Vec<&str> = outputs.keys().map(String::as_str).collect();
            faults.push(format!("the model has no output {}; it has {}", missing.join(", "), has.join(", ")));
        }
    }
}
