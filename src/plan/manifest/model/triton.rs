//! `engine:` and `repository:` — a TensorRT-LLM engine and the Triton model repositories that serve it.

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::lora_config::LoraConfig;
use super::speculative_config::SpeculativeConfig;
use base::spec::{LARGEST_SHAPE, LONGEST_LENGTH, MOST_PARAMETERS, MOST_PARTS, SimCalibration};

/// A TensorRT-LLM engine. Names are those of NVIDIA's harness and of `trtllm-build`.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Engine {
    pub backend: EngineBackend,
    pub model: Box<ModelShape>,
    /// The GPU it is built for.
    pub system: SystemShape,
    /// `fp16, bf16, fp8, fp4` (fp4 is NVFP4), or with TensorRT-LLM also a format of quantize.py: `int8_sq, int4_awq, w4a8_awq, int8_wo,
    /// int4_wo`.
    pub precision: String,
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = MOST_PARTS))]
    pub tensor_parallelism: u32,
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = MOST_PARTS))]
    pub pipeline_parallelism: u32,
    /// Folder of the Hugging Face checkpoint. The simulator needs none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<String>,
    /// Folder of the TensorRT-LLM checkout, whose example scripts convert and quantize.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trtllm: Option<String>,
    /// The Python that has TensorRT-LLM. [default: `python3` and `trtllm-build` of PATH]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub python: Option<String>,
    /// What to make. [default: an engine, with the checkpoint it needs on the way]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub only: Option<EngineOnly>,
    /// Folder of a TensorRT-LLM checkpoint, the output of a stage with `only: checkpoint`: nothing is quantized or converted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trtllm_checkpoint: Option<String>,
    /// Flags of quantize.py / convert_checkpoint.py, e.g. `kv_cache_dtype: fp8`.
    #[serde(default)]
    pub checkpoint_flags: IndexMap<String, Value>,
    /// Flags of trtllm-build, e.g. `max_batch_size, max_num_tokens, max_input_len, max_seq_len, tokens_per_block`.
    #[serde(default)]
    pub build_flags: IndexMap<String, Value>,
    /// Speculative decoding of a simulated engine. A real one has `speculative_decoding_mode` and `max_draft_len` among its build flags.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speculative_config: Option<Box<SpeculativeConfig>>,
    /// LoRA adapters of a simulated engine, which requests name (`request.lora_task_id`). A real one has `lora_plugin` and `max_lora_rank` among its build flags.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lora_config: Option<LoraConfig>,
    /// The largest step with a CUDA graph, tokens, of a simulated engine of vLLM (`calibration.scheduler: vllm`); 0: none has one, as with `enforce_eager`. [default: vLLM's, twice the tokens of a decode step of `max_batch_size` requests, at most the calibration's `cuda_graph_tokens`]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = LONGEST_LENGTH))]
    pub max_cudagraph_capture_size: Option<u32>,
}

impl Engine {
    /// Values of quantize.py's `--qformat` that are written as they are. The simulator has no times for them.
    pub const QUANTIZED_FORMATS: [&str; 5] = ["int8_sq", "int4_awq", "w4a8_awq", "int8_wo", "int4_wo"];
    /// What other keys of the manifest decide, and flags of the checkpoint therefore may not (NVIDIA's flag dictionaries).
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

const fn one() -> u32 {
    1
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EngineOnly {
    /// Quantize or convert, and no engine: the output is a TensorRT-LLM checkpoint.
    Checkpoint,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EngineBackend {
    /// The embedded simulator: an engine folder in TensorRT-LLM's layout, with a timing model in its rank files.
    Simulator,
    /// Quantize or convert, then `trtllm-build`.
    TensorrtLlm,
}

/// The numbers of a decoder model that decide its memory and its speed.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ModelShape {
    /// `llama2-70b`
    pub name: String,
    /// As in `config.json`: `LlamaForCausalLM`.
    pub architecture: String,
    /// Weights in units of one parameter, e.g. 68976648192.
    #[schemars(range(max = MOST_PARAMETERS))]
    pub parameters: u64,
    /// Parameters that one token touches (smaller than `parameters` for mixtures of experts).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = MOST_PARAMETERS))]
    pub active_parameters: Option<u64>,
    /// Mixtures of experts: the experts of each layer. The simulator then reads only the weights of those that a batch touches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = LARGEST_SHAPE))]
    pub num_experts: Option<u32>,
    /// Mixtures of experts: the experts that one token uses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = LARGEST_SHAPE))]
    pub experts_per_token: Option<u32>,
    #[schemars(range(max = LARGEST_SHAPE))]
    pub num_hidden_layers: u32,
    #[schemars(range(max = LARGEST_SHAPE))]
    pub hidden_size: u32,
    #[schemars(range(max = LARGEST_SHAPE))]
    pub intermediate_size: u32,
    #[schemars(range(max = LARGEST_SHAPE))]
    pub num_attention_heads: u32,
    #[schemars(range(max = LARGEST_SHAPE))]
    pub num_key_value_heads: u32,
    #[schemars(range(max = LARGEST_SHAPE))]
    pub vocab_size: u32,
    #[schemars(range(max = LONGEST_LENGTH))]
    pub max_position_embeddings: u32,
}

/// The numbers of a GPU that decide the simulator's step time. From data sheets; marked as a model wherever it is shown.
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
    /// To the other GPUs of a host, GB/s in one direction: NVLink, or PCIe. [default: an eighth of the memory bandwidth]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link_gbs: Option<u16>,
    /// Dense peak of one GPU at 16 bits, Tflop/s; fp8 counts twice, fp4 four times.
    pub tflops_16bit: f64,
    /// How much of these numbers the software reaches, as `regatta sim calibrate` prints it. [default: assumed values]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calibration: Option<Box<SimCalibration>>,
}

/// Triton model repositories, one for each server: `triton_model_repo_<n>/`.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Repository {
    /// The engine folder.
    pub engine: String,
    /// How many servers, each with its own repository.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = MOST_PARTS))]
    pub triton_num_servers: u32,
    /// GPUs that all servers share evenly; each server has as many copies of the engine as its part allows. [default: those that the stage leases, or one copy in each]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MOST_PARTS))]
    pub gpus: Option<u32>,
    /// What each repository holds: `five` (the models below), or `harness` (NVIDIA's: `model-<rank>` for each copy of the engine).
    #[serde(default, skip_serializing_if = "RepositoryLayout::is_five")]
    pub layout: RepositoryLayout,
    /// Copies of the engine in one server, in the harness layout. [default: as many as its GPUs allow]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MOST_PARTS))]
    pub triton_num_models_per_server: Option<u32>,
    /// Token streaming (`decoupled`): true for Server and Interactive.
    #[serde(default)]
    pub streaming: bool,
    /// Folder of the tokenizer, for preprocessing and postprocessing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokenizer: Option<String>,
    /// Which of the five models to write.
    #[serde(default = "five")]
    pub models: Vec<String>,
    /// Folder with the models' programs, like TensorRT-LLM's `all_models/inflight_batcher_llm`: all but each config.pbtxt is copied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<String>,
    /// The runtime flags of NVIDIA's harness, e.g. `kvcache_free_gpu_mem_frac, batch_scheduler_policy, enable_chunked_context`. They are written to config.pbtxt.
    #[serde(default)]
    pub runtime_flags: IndexMap<String, Value>,
    /// Any further parameter of the templates by its template name, e.g. `max_queue_size`.
    #[serde(default)]
    pub parameters: IndexMap<String, Value>,
}

/// What a repository holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RepositoryLayout {
    /// The models of TensorRT-LLM's backend.
    #[default]
    Five,
    /// One `tensorrt_llm` for each copy of the engine, called `model-<rank>`.
    Harness,
}

impl RepositoryLayout {
    /// Serde passes a reference.
    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
    fn is_five(&self) -> bool {
        *self == Self::Five
    }
}

fn five() -> Vec<String> {
    ["ensemble", "preprocessing", "tensorrt_llm", "postprocessing", "tensorrt_llm_bls"].map(str::to_owned).to_vec()
}
