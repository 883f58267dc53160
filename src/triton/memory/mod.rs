//! The GPU memory that serving an engine takes, and which setting to lower to which value when it does not fit.
//!
//! Arithmetic that can be checked by hand, shown with its numbers. For one GPU, with tp × pp ranks:
//!
//! ```text
//! weights      the size of rank0.engine, or from the log, or parameters × bytes / (tp × pp)
//! KV of token  2 (key and value) × layers / pp × ⌈kv_heads / tp⌉ × head size × bytes
//! activations  max_num_tokens × 2 bytes × (4 × hidden + 3 × intermediate / tp)            an estimate
//! buffers      max_batch_size × max_beam_width × vocabulary × 8 bytes (logits in 32 bits, and a copy)   an estimate
//! free         memory − weights − activations, or from the log
//! KV pool      fraction × free; what is left, (1 − fraction) × free, must hold the buffers and what the runtime takes
//! ```
//!
//! Unknown numbers are not made up: they are named, and the advice does without them.

mod advise;

use crate::EngineConfig;
pub use advise::{Advice, MemorySetting, advise};

// The numbers that the memory of one GPU is computed from. Bytes and tokens.

/// A model, cut over GPUs.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelSplit {
    pub layers: f64,
    pub hidden: f64,
    pub intermediate: Option<f64>,
    pub heads: f64,
    pub kv_heads: f64,
    pub vocabulary: Option<f64>,
    pub kv_bytes: f64,
    pub tp: f64,
    pub pp: f64,
}

/// Bytes of one number of a type, by its names in manifests and in `config.json`.
pub fn bytes_of(name: &str) -> Option<f64> {
    match name.to_lowercase().as_str() {
        "fp32" | "float32" => Some(4.0),
        "fp16" | "float16" | "bf16" | "bfloat16" => Some(2.0),
        "fp8" | "int8" => Some(1.0),
        "fp4" | "nvfp4" => Some(0.5),
        _ => None,
    }
}

impl ModelSplit {
    pub fn new(engine: &EngineConfig) -> Self {
        let model = &engine.pretrained_config;
        let kv = model.quantization.kv_cache_quant_algo.as_deref().and_then(bytes_of);
        Self {
            layers: f64::from(model.num_hidden_layers),
            hidden: f64::from(model.hidden_size),
            intermediate: model.intermediate_size.map(f64::from),
            heads: f64::from(model.num_attention_heads.max(1)),
            kv_heads: f64::from(model.num_key_value_heads.unwrap_or(model.num_attention_heads).max(1)),
            vocabulary: model.vocab_size.map(f64::from),
            kv_bytes: kv.or_else(|| bytes_of(&model.dtype)).unwrap_or(2.0),
            tp: f64::from(model.mapping.tp_size.max(1)),
            pp: f64::from(model.mapping.pp_size.max(1)),
        }
    }

    /// KV cache of one token on one GPU. Ranks beyond the number of KV heads have copies of them.
    pub fn kv_of_token(&self) -> f64 {
        2.0 * self.layers / self.pp * (self.kv_heads / self.tp).ceil() * (self.hidden / self.heads) * self.kv_bytes
    }

    /// Activations of one token of a step.
    pub fn activations_of_token(&self) -> Option<f64> {
        Some(2.0 * (4.0 * self.hidden + 3.0 * self.intermediate? / self.tp))
    }

    /// Buffers of one request of a batch.
    pub fn buffers_of_request(&self, beams: f64) -> Option<f64> {
        Some(8.0 * beams * self.vocabulary?)
    }
}

/// The base of the KV cache fraction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KvFractionBase {
    /// The free memory after the engine was loaded: TensorRT-LLM.
    FreeMemory,
    /// The whole memory, weights included: the simulator.
    TotalMemory,
}

/// An engine and how it is served, as far as it is known.
#[derive(Clone, Debug, PartialEq)]
pub struct Fit {
    pub shape: Option<ModelSplit>,
    /// The memory of one GPU.
    pub memory: Option<f64>,
    /// The weights on one GPU, and the source of the number.
    pub weights: Option<(f64, &'static str)>,
    /// Other known memory of the runtime.
    pub workspace: f64,
    /// Free after loading, from the log.
    pub free: Option<f64>,
    pub max_batch_size: Option<f64>,
    pub max_num_tokens: Option<f64>,
    pub max_seq_len: Option<f64>,
    pub max_beam_width: f64,
    /// The fraction for the KV cache.
    pub fraction: Option<f64>,
    pub share: KvFractionBase,
}

impl Default for Fit {
    fn default() -> Self {
        Self {
            shape: None,
            memory: None,
            weights: None,
            workspace: 0.0,
            free: None,
            max_batch_size: None,
            max_num_tokens: None,
            max_seq_len: None,
            max_beam_width: 1.0,
            fraction: None,
            share: KvFractionBase::FreeMemory,
        }
    }
}

impl Fit {
    /// From an engine, with its build limits.
    pub fn new(engine: &EngineConfig) -> Self {
        let build = &engine.build_config;
        Self {
            shape: Some(ModelSplit::new(engine)),
            max_batch_size: Some(f64::from(build.max_batch_size)),
            max_num_tokens: Some(f64::from(build.max_num_tokens)),
            max_seq_len: Some(f64::from(engine.max_seq_len())),
            max_beam_width: f64::from(build.max_beam_width.max(1)),
            ..Self::default()
        }
    }

    pub fn activations(&self) -> Option<f64> {
        Some(self.max_num_tokens? * self.shape.as_ref()?.activations_of_token()?)
    }

    /// Activations that have no room in the workspace.
    pub fn beside_workspace(&self) -> Option<f64> {
        Some((self.activations()? - self.workspace).max(0.0))
    }

    pub fn buffers(&self) -> Option<f64> {
        Some(self.max_batch_size? * self.shape.as_ref()?.buffers_of_request(self.max_beam_width)?)
    }

    /// Free after loading: from the log, else the rest of the memory.
    pub fn free_after_loading(&self) -> Option<f64> {
        self.free.or_else(|| {
            Some(self.memory? - self.weights?.0 - self.workspace - self.beside_workspace().unwrap_or_default())
        })
    }

    /// The memory that a fraction of 1 would be.
    pub fn base(&self) -> Option<f64> {
        match self.share {
            KvFractionBase::FreeMemory => self.free_after_loading(),
            KvFractionBase::TotalMemory => self.memory,
        }
    }

    /// KV cache of one sequence of the full length.
    pub fn one_sequence(&self) -> Option<f64> {
        Some(self.max_seq_len? * self.shape.as_ref()?.kv_of_token())
    }

    /// The smallest fraction with which one sequence of the full length has room.
    pub fn least_fraction(&self) -> Option<f64> {
        let taken = match self.share {
            KvFractionBase::FreeMemory => 0.0,
            KvFractionBase::TotalMemory => self.weights.map_or(0.0, |(bytes, _)| bytes) + self.workspace,
        };
        Some((self.one_sequence()? + taken) / self.base()?)
    }
}
