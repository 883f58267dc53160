//! The settings of a request that are the same in every message, as inputs.

use super::constant_inputs::ConstantInputs;
use super::tensor::ScalarValue;
use super::tensor_names::TensorNames;
use crate::spec::{Interface, Request};

impl ConstantInputs<'_> {
    /// What ends an answer and fills a batch, and the number of beams. A model of token ids gets them in every request.
    pub fn end_and_beam_inputs(&mut self, request: &Request, interface: Interface, end_id: i32) {
        if interface == Interface::TokenIds {
            self.input_if_available("beam_width", ScalarValue::Int(i64::from(request.beam_width.unwrap_or(1))));
            let end = request.end_id.unwrap_or(end_id);
            self.input_if_available("end_id", ScalarValue::Int(i64::from(end)));
            self.input_if_available("pad_id", ScalarValue::Int(i64::from(request.pad_id.unwrap_or(end_id))));
        } else {
            self.input_if_set(
                "beam_width",
                &["beam_width"],
                request.beam_width.map(|width| ScalarValue::Int(i64::from(width))),
            );
            self.input_if_set("end_id", &["end_id"], request.end_id.map(|id| ScalarValue::Int(i64::from(id))));
            self.input_if_set("pad_id", &["pad_id"], request.pad_id.map(|id| ScalarValue::Int(i64::from(id))));
        }
    }

    /// How many answers there are, and what is in them.
    pub fn answer_inputs(&mut self, request: &Request, streams: bool) {
        self.input_if_set(
            "num_return_sequences",
            &["num_return_sequences"],
            request.num_return_sequences.map(|n| ScalarValue::Int(i64::from(n))),
        );
        match request.exclude_input_in_output {
            Some(value) => {
                self.input_if_set(
                    "exclude_input_in_output",
                    &["exclude_input_in_output"],
                    Some(ScalarValue::Bool(value)),
                );
            }
            None if !streams && self.metadata.describes("exclude_input_in_output") => {
                self.input_if_available("exclude_input_in_output", ScalarValue::Bool(true));
            }
            None => {}
        }
    }

    /// How tokens are drawn.
    pub fn sampling_inputs(&mut self, request: &Request, names: &TensorNames) {
        let float = |value: Option<f64>| value.map(ScalarValue::Float);
        self.input_if_set("temperature", &["temperature"], float(request.temperature));
        self.input_if_set("top_k", &[names.top_k], request.top_k.map(|k| ScalarValue::Int(i64::from(k))));
        self.input_if_set("top_p", &[names.top_p], float(request.top_p));
        self.input_if_set("repetition_penalty", &["repetition_penalty"], float(request.repetition_penalty));
        self.input_if_set("presence_penalty", &["presence_penalty"], float(request.presence_penalty));
        self.input_if_set("frequency_penalty", &["frequency_penalty"], float(request.frequency_penalty));
        self.input_if_set("length_penalty", &[names.length_penalty], float(request.length_penalty));
        self.input_if_set("early_stopping", &["early_stopping"], request.early_stopping.map(ScalarValue::Bool));
        // Renamed in TensorRT-LLM after 0.20.
        self.input_if_set(
            "min_length",
            &["min_length", "min_tokens"],
            request.min_length.map(|n| ScalarValue::Int(i64::from(n))),
        );
    }
}
