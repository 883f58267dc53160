//! The settings of a request that are the same in every message, as inputs.

use super::constant_inputs::ConstantInputs;
use super::tensor::ScalarValue;
use super::tensor_names::TensorNames;
use base::spec::{CancelBy, CancelPolicy, Interface, RandomSeed, Request};

/// Outputs of `return_perf_metrics`.
const PERF: [&str; 7] = [
    "kv_cache_alloc_new_blocks",
    "kv_cache_reused_blocks",
    "kv_cache_alloc_total_blocks",
    "arrival_time_ns",
    "first_scheduled_time_ns",
    "first_token_time_ns",
    "last_token_time_ns",
];

/// Before and after TensorRT-LLM 0.20.
const SEEDS: [&str; 2] = ["random_seed", "seed"];

impl ConstantInputs<'_> {
    /// What every request has.
    pub fn prompt_inputs(&mut self, names: &TensorNames, streams: bool) {
        self.require_input("model", names.prompt);
        self.require_input("model", names.output_len);
        self.input_if_available(names.streaming, ScalarValue::Bool(streams));
    }

    /// What ends an answer and fills a batch, and the number of beams. A model of token ids gets them in every request.
    pub fn end_and_beam_inputs(&mut self, request: &Request, interface: Interface, end_id: i32) {
        let usual = (interface == Interface::TokenIds).then_some(end_id);
        // One beam is what every model has, with the input or without.
        let beams = request.beam_width.filter(|beams| *beams > 1 || usual.is_none());
        for (key, given, usual) in [
            ("beam_width", beams.map(i64::from), usual.map(|_| 1)),
            ("end_id", request.end_id.map(i64::from), usual.map(i64::from)),
            ("pad_id", request.pad_id.map(i64::from), usual.map(i64::from)),
        ] {
            match (given, usual) {
                (Some(given), _) => self.input_if_set(key, &[key], Some(ScalarValue::Int(given))),
                (None, Some(usual)) => self.input_if_available(key, ScalarValue::Int(usual)),
                (None, None) => {}
            }
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

    /// The seed of all requests; of a seed for each request, its input and type.
    pub fn seed_input(&mut self, seed: Option<RandomSeed>) -> Option<(&'static str, String)> {
        match seed? {
            RandomSeed::Fixed(seed) => {
                self.input_if_set("random_seed", &SEEDS, Some(ScalarValue::Long(seed)));
                None
            }
            RandomSeed::PerRequest(true) => self.find("random_seed", &SEEDS, "UINT64"),
            RandomSeed::PerRequest(false) => None,
        }
    }

    /// Its value is another one in each request.
    pub fn lora_input(&mut self, request: &Request) {
        if !request.lora_task_id.is_empty() {
            self.require_input("lora_task_id", "lora_task_id");
        }
    }

    /// What ends an answer early.
    pub fn ending_inputs(&mut self, request: &Request, names: &TensorNames, interface: Interface) {
        self.word_list_input("stop_words", names.stop_words, request.stop_words.as_ref(), interface);
        self.word_list_input("bad_words", names.bad_words, request.bad_words.as_ref(), interface);
        if matches!(request.cancel, Some(CancelPolicy { by: CancelBy::Stop, .. })) {
            self.require_input("cancel.by", "stop");
        }
    }

    /// Asks for outputs besides the answer, and returns their names.
    pub fn further_outputs(&mut self, request: &Request) -> Vec<&'static str> {
        let returns: [(&'static str, bool, &[&'static str]); 4] = [
            ("return_log_probs", request.return_log_probs, &["cum_log_probs", "output_log_probs"]),
            ("return_context_logits", request.return_context_logits, &["context_logits"]),
            ("return_generation_logits", request.return_generation_logits, &["generation_logits"]),
            ("return_perf_metrics", request.return_perf_metrics, &PERF),
        ];
        let mut outputs = Vec::new();
        for (key, _, tensors) in returns.into_iter().filter(|(_, is_requested, _)| *is_requested) {
            self.input_if_set(key, &[key], Some(ScalarValue::Bool(true)));
            outputs.extend(tensors);
        }
        outputs
    }
}
