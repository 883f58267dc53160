//! `engine:` — a TensorRT-LLM engine: its settings, and flags that would change nothing or that another key decides.
//!
//! `engine.lora_config` — LoRA adapters of a simulated engine.
//!
//! `engine.speculative_config` — speculative decoding of a simulated engine.
//!
//! `engine.speculative_config`, `engine.lora_config` and `engine.max_cudagraph_capture_size`: which of their keys
//! stand together, and where they have an effect.

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{StageChecker, faults};
use base::diag::ErrorText;
use base::spec::{
    AcceptanceRate, Drafter, Drafting, LONGEST_LENGTH, LoraConfig, MOST_PARTS, ModelShape, SimCalibration, SimScheduler,
};

/// A TensorRT-LLM engine. Names are those of NVIDIA's harness and of `trtllm-build`.
#[base::omit_empty]
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Engine {
    pub backend: EngineBackend,
    pub model: Box<ModelShape>,
    /// The GPU it is built for.
    pub system: SystemShape,
    /// `fp16, bf16, fp8, fp4` (NVFP4); with TensorRT-LLM also quantize.py's `int8_sq, int4_awq, w4a8_awq, int8_wo,
    /// int4_wo`.
    pub precision: String,
    #[serde(default = "super::one")]
    #[schemars(range(min = 1, max = MOST_PARTS))]
    pub tensor_parallelism: u32,
    #[serde(default = "super::one")]
    #[schemars(range(min = 1, max = MOST_PARTS))]
    pub pipeline_parallelism: u32,
    /// Folder of the Hugging Face checkpoint. The simulator needs none.
    pub checkpoint: Option<String>,
    /// TensorRT-LLM checkout with the scripts that convert and quantize.
    pub trtllm: Option<String>,
    /// The Python that has TensorRT-LLM. [default: `python3` and `trtllm-build` of PATH]
    pub python: Option<String>,
    /// What to make. [default: an engine and the checkpoint it needs]
    pub only: Option<EngineOnly>,
    /// An existing TensorRT-LLM checkpoint, such as the output of `only: checkpoint`.
    pub trtllm_checkpoint: Option<String>,
    /// Flags of quantize.py / convert_checkpoint.py, e.g. `kv_cache_dtype: fp8`.
    #[serde(default)]
    pub checkpoint_flags: IndexMap<String, Value>,
    /// Flags of trtllm-build, e.g. `max_batch_size, max_num_tokens, max_seq_len`.
    #[serde(default)]
    pub build_flags: IndexMap<String, Value>,
    /// Speculative decoding of a simulated engine. For a real one set the build flags `speculative_decoding_mode` and
    /// `max_draft_len`.
    pub speculative_config: Option<Box<SpeculativeConfig>>,
    /// LoRA adapters of a simulated engine (`request.lora_task_id`). For a real one set the build flags `lora_plugin`
    /// and `max_lora_rank`.
    pub lora_config: Option<LoraConfig>,
    /// Largest step with a CUDA graph, tokens, of a simulated vLLM; 0 is `enforce_eager`. [default: twice a decode step
    /// of `max_batch_size` requests, at most the calibration's `cuda_graph_tokens`]
    #[schemars(range(max = LONGEST_LENGTH))]
    pub max_cudagraph_capture_size: Option<u32>,
}

impl Engine {
    /// Values of quantize.py's `--qformat` that are written as they are. The simulator has no times for them.
    pub const QUANTIZED_FORMATS: [&str; 5] = ["int8_sq", "int4_awq", "w4a8_awq", "int8_wo", "int4_wo"];
    /// What other keys of the manifest decide, and flags of the checkpoint therefore may not (NVIDIA's flag
    /// dictionaries).
    pub const CHECKPOINT_DECIDED: [(&str, &str); 7] = [
        ("qformat", "precision"),
        ("tp_size", "tensor_parallelism"),
        ("pp_size", "pipeline_parallelism"),
        ("model_dir", "checkpoint"),
        ("output_dir", "the stage"),
        ("dtype", "precision"),
        ("workers", "the stage"),
    ];
    /// What other keys of the manifest decide, and flags of trtllm-build therefore may not.
    pub const BUILD_DECIDED: [(&str, &str); 7] = [
        ("tensor_parallelism", "tensor_parallelism"),
        ("pipeline_parallelism", "pipeline_parallelism"),
        ("tp_size", "tensor_parallelism"),
        ("pp_size", "pipeline_parallelism"),
        ("checkpoint_dir", "the stage"),
        ("output_dir", "the stage"),
        ("workers", "the stage"),
    ];
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EngineOnly {
    /// Only quantize or convert.
    Checkpoint,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EngineBackend {
    /// The simulator: an engine folder in TensorRT-LLM's layout, with a timing model in its rank files.
    Simulator,
    /// Quantize or convert, then `trtllm-build`.
    TensorrtLlm,
}

/// The numbers of a GPU that decide the simulator's step time. From data sheets; marked as a model wherever it is
/// shown.
#[base::omit_empty]
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SystemShape {
    /// `H200-SXM-141GBx1`
    pub name: String,
    /// GPUs in one host.
    #[schemars(range(max = MOST_PARTS))]
    pub gpus: u32,
    /// Memory of one GPU, GB (10^9 bytes).
    pub memory_gb: f64,
    /// Memory bandwidth of one GPU, GB/s.
    pub bandwidth_gbs: f64,
    /// Links to the other GPUs of a host, GB/s in one direction. [default: an eighth of the memory bandwidth]
    pub link_gbs: Option<u16>,
    /// Dense peak of one GPU at 16 bits, Tflop/s; fp8 counts twice, fp4 four times.
    pub tflops_16bit: f64,
    /// The share of these numbers that the software reaches, from `regatta sim calibrate`. [default: assumed]
    pub calibration: Option<Box<SimCalibration>>,
}

/// Speculative decoding of a simulated engine, by the names of TensorRT-LLM (`decoding_type`, `max_draft_len`) or of
/// vLLM (`method`, `num_speculative_tokens`). A draft of 0 tokens turns it off.
#[base::omit_empty]
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SpeculativeConfig {
    /// What drafts, by TensorRT-LLM's names.
    pub decoding_type: Option<DecodingType>,
    /// Tokens drafted for each request in each step.
    #[schemars(range(max = 64))]
    pub max_draft_len: Option<u32>,
    /// What drafts, by vLLM's names.
    pub method: Option<SpeculativeMethod>,
    /// Tokens drafted for each request in each step.
    #[schemars(range(max = 64))]
    pub num_speculative_tokens: Option<u32>,
    /// Share of drafts that the model accepts; it depends on model, drafter and texts. One number: the probability that
    /// a draft is accepted if those before it are. A list: the share of steps that accept each position, as servers
    /// count it.
    pub acceptance_rate: AcceptanceRate,
    /// The drafting model of `Draft_Target` and `draft_model`, with the model's precision and GPUs.
    pub draft_model: Option<ModelShape>,
}

/// TensorRT-LLM's `decoding_type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum DecodingType {
    /// A layer on the model's states.
    Eagle,
    /// A layer on the model's states.
    Eagle3,
    /// The model's own multi-token layers.
    #[serde(rename = "MTP")]
    Mtp,
    /// What followed the same words before; no GPU time.
    NGram,
    /// A smaller model.
    #[serde(rename = "Draft_Target")]
    DraftTarget,
}

/// `method` of vLLM.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SpeculativeMethod {
    /// A layer on the model's states.
    Eagle,
    /// A layer on the model's states.
    Eagle3,
    /// The model's own multi-token layers.
    Mtp,
    /// What followed the same words before; no GPU time.
    Ngram,
    /// A smaller model.
    DraftModel,
}

impl SpeculativeConfig {
    /// The same, by whichever names it is set.
    pub fn drafting(&self) -> Result<Drafting, ErrorText> {
        let (has_model, is_ngram, draft_len) =
            match (self.decoding_type, self.max_draft_len, self.method, self.num_speculative_tokens) {
                (Some(kind), Some(draft_len), None, None) => {
                    (kind == DecodingType::DraftTarget, kind == DecodingType::NGram, draft_len)
                }
                (None, None, Some(method), Some(draft_len)) => {
                    (method == SpeculativeMethod::DraftModel, method == SpeculativeMethod::Ngram, draft_len)
                }
                _ => {
                    let text = "it needs `decoding_type` and `max_draft_len`, or `method` and `num_speculative_tokens`";
                    return Err(ErrorText::new(text));
                }
            };
        let drafter = match (&self.draft_model, has_model) {
            (Some(model), true) => Drafter::Model(Box::new(model.clone())),
            (None, true) => return Err(ErrorText::new("a drafting model has a shape: `draft_model`")),
            (Some(_), false) => {
                return Err(ErrorText::new("`draft_model` is for `Draft_Target` and `draft_model` only"));
            }
            (None, false) if is_ngram => Drafter::NGram,
            (None, false) => Drafter::Layer,
        };
        Ok(Drafting { drafter, draft_len, acceptance: self.acceptance_rate.clone() })
    }
}

impl StageChecker<'_> {
    /// What only a simulated engine reads.
    pub(super) fn simulated(&mut self, engine: &Engine) {
        const NO_EFFECT: &str = "has no effect";
        const SIMULATED: &str = "only a simulated engine reads it";
        let is_built = engine.backend == EngineBackend::TensorrtLlm;
        let has_size = engine.max_cudagraph_capture_size.is_some();
        let calibration = engine.system.calibration.as_deref();
        let is_vllm = calibration.is_some_and(|calibration| calibration.scheduler == SimScheduler::Vllm);
        faults! { self;
            ["engine", "speculative_config"], is_built && engine.speculative_config.is_some(), NO_EFFECT, SIMULATED,
                "set `build_flags.speculative_decoding_mode` and `build_flags.max_draft_len`; for trtllm-serve \
                 and vLLM, `options.speculative_config` of the server";
            ["engine", "lora_config"], is_built && engine.lora_config.is_some(), NO_EFFECT, SIMULATED,
                "set `build_flags.lora_plugin` and `build_flags.max_lora_rank`; for trtllm-serve and vLLM, \
                 `options` of the server";
            ["engine", "max_cudagraph_capture_size"], is_built && has_size, NO_EFFECT, SIMULATED,
                "for trtllm-serve and vLLM, set `options` of the server";
            ["engine", "max_cudagraph_capture_size"], !is_built && has_size && !is_vllm, NO_EFFECT,
                "only a simulated engine with vLLM's scheduler reads it",
                "set `scheduler: vllm` in the calibration of the system";
        }
        let Some(config) = engine.speculative_config.as_ref().filter(|_| !is_built) else { return };
        match config.drafting() {
            Err(error) => {
                self.fault(&["engine", "speculative_config"], "does not say how to draft", &error.to_string());
            }
            Ok(drafting) => {
                if let Err(error) = drafting.acceptance.given_those_before(drafting.draft_len) {
                    let path = ["engine", "speculative_config", "acceptance_rate"];
                    self.fault(&path, "cannot be", &error.to_string());
                }
            }
        }
    }
}
