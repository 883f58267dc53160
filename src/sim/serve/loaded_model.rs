//! A model of the repository as the server loaded it.

use crate::core::{EngineLimits, SchedulerPolicy};
use triton::proto::inference::{DataType, ModelConfig};

/// One model of the repository.
#[derive(Debug)]
pub(super) struct LoadedModel {
    pub name: String,
    pub config: ModelConfig,
    /// The newest first.
    pub versions: Vec<u64>,
    /// Any number of answers, over the stream only.
    pub is_decoupled: bool,
    pub kind: ModelKind,
}

#[derive(Debug)]
pub(super) enum ModelKind {
    /// Token ids in and out.
    Engine(Box<LoadedEngine>),
    /// Triton's vLLM backend: text in and out, over an engine of its own.
    Vllm(Box<LoadedEngine>),
    /// Text in and out, over the engine model of this name.
    Text {
        engine: String,
        /// Models that make tokens of a text, and a text of tokens.
        before: Vec<String>,
        after: Vec<String>,
    },
    /// A part of the text path that is not simulated on its own.
    Python,
}

impl LoadedModel {
    /// Its own engine.
    pub fn engine(&self) -> Option<&LoadedEngine> {
        match &self.kind {
            ModelKind::Engine(engine) | ModelKind::Vllm(engine) => Some(engine),
            ModelKind::Text { .. } | ModelKind::Python => None,
        }
    }
}

/// An engine model's limits.
#[derive(Clone, Debug)]
pub(super) struct LoadedEngine {
    pub limits: EngineLimits,
    /// Copies of the engine, each with its own scheduler.
    pub instances: usize,
    pub max_input_len: u64,
    pub max_seq_len: u64,
    pub max_beam_width: i64,
    pub vocab_size: u32,
    /// Without streaming, the answer begins with the prompt unless this is set.
    pub exclude_input: bool,
    /// Built or started with LoRA; then every task is taken as known.
    pub has_lora: bool,
    /// Built with gather_context_logits.
    pub has_context_logits: bool,
    /// The type of `context_logits` and `generation_logits`.
    pub logits: DataType,
    /// Of each GPU, beside weights and KV cache.
    pub runtime_bytes: u64,
}

impl LoadedEngine {
    /// It stands for an engine of vLLM, behind vLLM's own server or Triton's vLLM backend.
    pub fn is_vllm(&self) -> bool {
        self.limits.policy == SchedulerPolicy::Vllm
    }
}
