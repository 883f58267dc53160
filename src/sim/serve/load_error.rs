//! Why a model does not load, in the words of the server that is simulated.

use std::io;
use std::path::PathBuf;

use crate::engine::SimEngineError;
use triton::pbtxt::PbtxtError;

/// A model that did not load: its name and why. A failure of the whole repository has the repository's path for a name.
pub type LoadFailure = (String, LoadError);

/// Why a model, or a whole repository, does not load.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error("failed to open the model repository: {0}")]
    Repository(#[source] io::Error),
    #[error("{0}")]
    RepositoryEntry(#[source] io::Error),
    #[error("the repository holds no model")]
    NoModels,
    #[error("failed to read {}: {source}", path.display())]
    ReadConfig { path: PathBuf, source: io::Error },
    /// `excerpt` is the line with a caret below.
    #[error(
        "failed to read text proto from {}: {error}{}\n{excerpt}",
        path.display(),
        error.hint.as_ref().map_or_else(String::new, |hint| format!(" ({hint})"))
    )]
    Config { path: PathBuf, error: PbtxtError, excerpt: String },
    #[error("unexpected directory name '{folder}' for model '{name}', directory name must equal model name")]
    FolderName { folder: String, name: String },
    #[error("'max_batch_size' must be non-negative value in model configuration for model {model}")]
    MaxBatchSize { model: String },
    #[error("at least one version must be available under the version policy of model '{model}'")]
    NoVersion { model: String },
    #[error("must specify 'platform' or 'backend' for model {model}")]
    NoBackend { model: String },
    #[error("unable to find backend library for backend '{backend}'")]
    UnknownBackend { backend: String },
    #[error("ensemble '{ensemble}' depends on '{step}' which has no loaded version")]
    BrokenStep { ensemble: String, step: String },
    #[error("ensemble {ensemble} contains models that are not available or ambiguous: {step}")]
    UnknownStep { ensemble: String, step: String },
    #[error("the engine model '{0}' is not in the repository")]
    NoEngineModel(String),
    #[error("cannot load {}: {why}", file.display())]
    Tokenizer { file: PathBuf, why: String },
    #[error("unexpected error when creating modelInstanceState: {0}")]
    Instance(InstanceError),
    /// `path` is vLLM's `model.json`.
    #[error("{}: {error}", path.display())]
    Vllm { path: PathBuf, error: VllmLoadError },
}

/// Why the TensorRT-LLM backend makes no instance of its model.
#[derive(Debug, thiserror::Error)]
pub enum InstanceError {
    #[error("invalid gpt_model_type '{0}'")]
    ModelType(String),
    #[error("both encoder and decoder model paths are empty (gpt_model_path '{0}' is not a folder)")]
    NoEngineFolder(String),
    #[error(transparent)]
    Engine(#[from] SimEngineError),
    /// Sizes in bytes.
    #[error(
        "no GPU memory is left for the KV cache: {:.1} GB of {:.1} GB are weights and workspace, and \
         kv_cache_free_gpu_mem_fraction is {fraction}",
        taken / 1e9,
        gpu / 1e9
    )]
    NoKvCache { taken: f64, gpu: f64, fraction: f64 },
    /// The buffers of a full batch do not fit beside the rest. Sizes in bytes.
    #[error(
        "[TensorRT-LLM][ERROR] CUDA runtime error in ::cudaMallocAsync(ptr, n, mCudaStream->get()): out of memory \
         (simulated: with kv_cache_free_gpu_mem_fraction {fraction} the KV cache takes {:.1} of {:.1} GB and leaves {:.3} GB, \
         and max_batch_size {max_batch_size} and max_num_tokens {max_num_tokens} need {:.3} GB)",
        cache / 1e9,
        gpu / 1e9,
        left / 1e9,
        needed / 1e9
    )]
    OutOfMemory {
        fraction: f64,
        cache: f64,
        gpu: f64,
        left: f64,
        needed: f64,
        max_batch_size: u32,
        max_num_tokens: u32,
    },
}

/// Why vLLM's backend starts no engine.
#[derive(Debug, thiserror::Error)]
pub enum VllmLoadError {
    #[error("{0}")]
    Read(#[source] io::Error),
    #[error("{0}")]
    Json(#[source] serde_json::Error),
    #[error("`model` is missing")]
    NoModel,
    #[error(transparent)]
    Engine(#[from] SimEngineError),
    #[error("No available memory for the cache blocks. Try increasing `gpu_memory_utilization`")]
    NoKvCache,
}
