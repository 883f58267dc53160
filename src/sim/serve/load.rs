//! Reads a model repository as a Triton would, and refuses what a Triton refuses.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde_json::Value;

use super::vllm;
use crate::core::{Chunking, EngineLimits, SchedulerPolicy};
use crate::engine::{self, EngineServing};
use crate::timing::GpuMemory;
use base::diag::ErrorText;
use base::files::read_text;
use triton::proto::inference::model_config::SchedulingChoice;
use triton::proto::inference::{DataType, ModelConfig, ModelOutput};
use triton::{EngineConfig, pbtxt};

/// A model that did not load: its name and why, in the words of the server that is simulated. A failure of the whole
/// repository has the repository's path for a name.
pub type LoadFailure = (String, ErrorText);

/// Loads every model of a repository, or returns why each failed one did.
pub(super) fn load(repository: &Path) -> Result<BTreeMap<String, LoadedModel>, Vec<LoadFailure>> {
    let folders = folders(repository).map_err(|error| vec![(repository.display().to_string(), error)])?;
    let mut models = BTreeMap::new();
    let mut failed = Vec::new();
    for (name, folder) in folders {
        match model(&name, &folder) {
            Ok(model) => {
                models.insert(name, model);
            }
            Err(why) => failed.push((name, why)),
        }
    }
    if models.is_empty() && failed.is_empty() {
        failed.push((repository.display().to_string(), ErrorText::new("the repository holds no model")));
    }
    connect(&mut models, &mut failed);
    if failed.is_empty() { Ok(models) } else { Err(failed) }
}

fn folders(repository: &Path) -> Result<BTreeMap<String, PathBuf>, ErrorText> {
    let entries = fs::read_dir(repository)
        .map_err(|error| ErrorText::new(format_args!("failed to open the model repository: {error}")))?;
    let mut folders = BTreeMap::new();
    for entry in entries {
        let path = entry.map_err(ErrorText::new)?.path();
        let name = path.file_name().and_then(|name| name.to_str()).map(str::to_owned);
        if let Some(name) = name.filter(|name| path.is_dir() && !name.starts_with('.')) {
            folders.insert(name, path);
        }
    }
    Ok(folders)
}

fn model(name: &str, folder: &Path) -> Result<LoadedModel, ErrorText> {
    let path = folder.join("config.pbtxt");
    let text =
        read_text(&path).map_err(|error| ErrorText::new(format_args!("failed to read {}: {error}", path.display())))?;
    let mut config = pbtxt::read_as_server(&text).map_err(|error| {
        let hint = error.hint.as_ref().map_or_else(String::new, |hint| format!(" ({hint})"));
        // The line with a caret below.
        let excerpt = error.excerpt(&text);
        ErrorText::new(format_args!("failed to read text proto from {}: {error}{hint}\n{excerpt}", path.display()))
    })?;
    if !config.name.is_empty() && config.name != name {
        return Err(ErrorText::new(format_args!(
            "unexpected directory name '{name}' for model '{}', directory name must equal model name",
            config.name
        )));
    }
    if config.max_batch_size < 0 {
        return Err(ErrorText::new(format_args!(
            "'max_batch_size' must be non-negative value in model configuration for model {name}"
        )));
    }
    let versions = versions(folder);
    if versions.is_empty() {
        return Err(ErrorText::new(format_args!(
            "at least one version must be available under the version policy of model '{name}'"
        )));
    }
    if config.backend == "vllm" {
        vllm::complete(&mut config);
    }
    let mut is_decoupled = config.model_transaction_policy.is_some_and(|policy| policy.decoupled);
    let kind = match (config.backend.as_str(), config.platform.as_str()) {
        ("tensorrtllm", _) => {
            let engine = engine_of(&config).map_err(|error| {
                ErrorText::new(format_args!("unexpected error when creating modelInstanceState: {error}"))
            })?;
            ModelKind::Engine(Box::new(engine))
        }
        ("vllm", _) => ModelKind::Vllm(Box::new(vllm::engine(&folder.join(versions[0].to_string()))?)),
        ("python", _) if config.parameters.contains_key("tensorrt_llm_model_name") => {
            // As in the backend's `lib/triton_decoder.py`.
            ModelKind::Text {
                engine: config.parameters["tensorrt_llm_model_name"].string_value.clone(),
                before: vec!["preprocessing".to_owned()],
                after: vec!["postprocessing".to_owned()],
            }
        }
        ("python", _) => ModelKind::Python,
        (_, "ensemble") => ModelKind::Text { engine: String::new(), before: Vec::new(), after: Vec::new() },
        ("", "") => {
            return Err(ErrorText::new(format_args!("must specify 'platform' or 'backend' for model {name}")));
        }
        (other, _) => {
            return Err(ErrorText::new(format_args!("unable to find backend library for backend '{other}'")));
        }
    };
    if matches!(kind, ModelKind::Python) {
        is_decoupled = false;
    }
    Ok(LoadedModel { name: name.to_owned(), config, versions, is_decoupled, kind })
}

/// Folders named by a whole number from 1 without leading zeros.
fn versions(folder: &Path) -> Vec<u64> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut versions: Vec<u64> = entries
        .filter(|entry| entry.path().is_dir())
        .filter_map(|entry| {
            entry.file_name().to_str().filter(|name| !name.starts_with('0')).and_then(|name| name.parse().ok())
        })
        .collect();
    versions.sort_unstable_by(|a, b| b.cmp(a));
    versions
}

/// Finds the engine under each text model; an ensemble streams when its engine is decoupled.
fn connect(models: &mut BTreeMap<String, LoadedModel>, failed: &mut Vec<LoadFailure>) {
    let engines: BTreeMap<String, bool> = models
        .values()
        .filter(|model| matches!(model.kind, ModelKind::Engine(_)))
        .map(|model| (model.name.clone(), model.is_decoupled))
        .collect();
    let loaded: Vec<String> = models.keys().cloned().collect();
    let broken: Vec<String> = failed.iter().map(|(name, _)| name.clone()).collect();
    for model in models.values_mut() {
        let ModelKind::Text { engine, before, after } = &mut model.kind else { continue };
        let name = &model.name;
        let mut reason = None;
        if let Some(SchedulingChoice::EnsembleScheduling(ensemble)) = &model.config.scheduling_choice {
            for step in ensemble.step.iter().map(|step| &step.model_name) {
                if broken.contains(step) {
                    reason = Some(format!("ensemble '{name}' depends on '{step}' which has no loaded version"));
                } else if !loaded.contains(step) {
                    reason =
                        Some(format!("ensemble {name} contains models that are not available or ambiguous: {step}"));
                } else if let Some(is_decoupled) = engines.get(step) {
                    step.clone_into(engine);
                    model.is_decoupled = *is_decoupled;
                } else if engine.is_empty() {
                    before.push(step.clone());
                } else {
                    after.push(step.clone());
                }
            }
        }
        if reason.is_none() && !engines.contains_key(engine) && !broken.contains(engine) {
            reason = Some(format!("the engine model '{engine}' is not in the repository"));
        }
        failed.extend(reason.map(|reason| (name.clone(), ErrorText::new(reason))));
    }
}

/// How the TensorRT-LLM backend reads its parameters: an unreadable number or boolean is a default, an unreadable
/// model type or path is a failure.
fn engine_of(config: &ModelConfig) -> Result<LoadedEngine, ErrorText> {
    let chunked = parameter::<bool>(config, "enable_chunked_context").unwrap_or(false);
    let policy = match text(config, "gpt_model_type") {
        Some("inflight_fused_batching" | "inflight_batching") => match text(config, "batch_scheduler_policy") {
            Some("max_utilization") => SchedulerPolicy::MaxUtilization,
            // The backend only warns about a value that it does not know.
            _ => SchedulerPolicy::GuaranteedNoEvict,
        },
        Some("V1" | "v1") => SchedulerPolicy::StaticBatch,
        other => {
            return Err(ErrorText::new(format_args!("invalid gpt_model_type '{}'", other.unwrap_or_default())));
        }
    };
    let path = text(config, "gpt_model_path").unwrap_or_default();
    if !Path::new(path).is_dir() {
        return Err(ErrorText::new(format_args!(
            "both encoder and decoder model paths are empty (gpt_model_path '{path}' is not a folder)"
        )));
    }
    let (engine, rank) = engine::load(Path::new(path))?;
    let build = &engine.build_config;
    let fraction = parameter::<f64>(config, "kv_cache_free_gpu_mem_fraction").unwrap_or(0.9);
    let max_num_tokens =
        parameter::<u32>(config, "max_num_tokens").unwrap_or(build.max_num_tokens).min(build.max_num_tokens);
    let max_batch_size =
        parameter::<u32>(config, "max_batch_size").unwrap_or(build.max_batch_size).min(build.max_batch_size);
    let chunking = match (chunked, text(config, "context_chunking_policy")) {
        (false, _) => Chunking::Off,
        (true, Some("equal_progress")) => Chunking::EqualProgress,
        (true, _) => Chunking::FirstComeFirstServed,
    };
    let serving = EngineServing {
        policy,
        chunking,
        kv_fraction: fraction,
        kv_tokens: parameter::<u64>(config, "max_tokens_in_paged_kv_cache"),
        max_batch_size: Some(max_batch_size),
        max_num_tokens: Some(max_num_tokens),
    };
    let limits = engine::limits(&engine, &rank, &serving);
    if limits.blocks == 0 {
        return Err(ErrorText::new(format_args!(
            "no GPU memory is left for the KV cache: {:.1} GB of {:.1} GB are weights and workspace, and \
             kv_cache_free_gpu_mem_fraction is {fraction}",
            (rank.memory.weight_bytes + rank.memory.workspace_bytes) / 1e9,
            rank.memory.gpu_bytes / 1e9
        )));
    }
    check_memory(&engine, &rank.memory, limits.blocks, max_batch_size, max_num_tokens, fraction)?;
    Ok(LoadedEngine {
        has_lora: limits.lora.is_some()
            || is_on(build.plugin_config.rest.get("lora_plugin").or_else(|| build.rest.get("lora_plugin")))
            || text(config, "lora_prefetch_dir").is_some_and(|folder| !folder.is_empty()),
        limits,
        step_times: rank.step_times(&engine),
        instances: config.instance_group.iter().map(|group| group.count.max(1) as usize).sum::<usize>().max(1),
        max_input_len: u64::from(build.max_input_len),
        max_seq_len: u64::from(engine.max_seq_len()),
        max_beam_width: i64::from(build.max_beam_width),
        vocab_size: rank.model.vocab_size.max(8),
        exclude_input: parameter::<bool>(config, "exclude_input_in_output").unwrap_or(false),
        has_context_logits: is_on(build.rest.get("gather_context_logits")),
        logits: config
            .output
            .iter()
            .find(|output| output.name == "context_logits")
            .map_or(DataType::TypeFp32, ModelOutput::data_type),
        runtime_bytes: rank.memory.workspace_bytes as u64,
    })
}

/// The memory left beside weights, workspace and KV cache must hold the buffers of a full batch: a real server
/// allocates them after the cache, and ends here with CUDA's message.
fn check_memory(
    engine: &EngineConfig,
    memory: &GpuMemory,
    blocks: u64,
    max_batch_size: u32,
    max_num_tokens: u32,
    fraction: f64,
) -> Result<(), ErrorText> {
    let model = &engine.pretrained_config;
    let beams = f64::from(engine.build_config.max_beam_width.max(1));
    // Logits in 32 bits, and a copy of them.
    let buffers = f64::from(max_batch_size) * beams * f64::from(model.vocab_size.unwrap_or_default()) * 8.0;
    let shard = f64::from(model.intermediate_size.unwrap_or_default()) / f64::from(model.mapping.tp_size.max(1));
    let activations = f64::from(max_num_tokens) * 2.0 * (4.0 * f64::from(model.hidden_size) + 3.0 * shard);
    let cache = blocks as f64 * f64::from(engine.tokens_per_block()) * memory.kv_bytes_per_token;
    let left = memory.gpu_bytes - memory.weight_bytes - memory.workspace_bytes - cache;
    // Activations are in the workspace, as far as it goes.
    let needed = buffers + (activations - memory.workspace_bytes).max(0.0);
    if left >= needed {
        return Ok(());
    }
    Err(ErrorText::new(format_args!(
        "[TensorRT-LLM][ERROR] CUDA runtime error in ::cudaMallocAsync(ptr, n, mCudaStream->get()): out of memory \
         (simulated: with kv_cache_free_gpu_mem_fraction {fraction} the KV cache takes {:.1} of {:.1} GB and leaves \
         {:.3} GB, and max_batch_size {max_batch_size} and max_num_tokens {max_num_tokens} need {:.3} GB)",
        cache / 1e9,
        memory.gpu_bytes / 1e9,
        left.max(0.0) / 1e9,
        needed / 1e9
    )))
}

/// A build flag that is set to any value except those for "no".
fn is_on(flag: Option<&Value>) -> bool {
    match flag {
        None | Some(Value::Null | Value::Bool(false)) => false,
        Some(Value::String(text)) => !matches!(text.as_str(), "" | "disable" | "false"),
        Some(_) => true,
    }
}

fn text<'a>(config: &'a ModelConfig, key: &str) -> Option<&'a str> {
    config.parameters.get(key).map(|value| value.string_value.as_str()).filter(|value| !value.starts_with("${"))
}

fn parameter<T: FromStr>(config: &ModelConfig, key: &str) -> Option<T> {
    let value = text(config, key)?;
    // The backend takes true, True, TRUE and 1.
    let value = match value {
        "True" | "TRUE" => "true",
        "False" | "FALSE" => "false",
        other => other,
    };
    value.parse().ok().or_else(|| match value {
        "1" => "true".parse().ok(),
        "0" => "false".parse().ok(),
        _ => None,
    })
}

// A model of the repository as the server loaded it.

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
    /// Basis of the step times, with the band of tokens per second.
    pub step_times: String,
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
