//! Writes a simulated engine: a folder in TensorRT-LLM's layout with a timing model instead of kernels in its rank
//! files, and reads it back. The files are marked as simulated. Same spec, same bytes. And the scheduler's limits of an
//! engine, from what it was built with and how it is served.

use std::fmt::Display;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::core::{Chunking, EngineLimits, SchedulerPolicy};
use super::timing::{
    Coefficients, GpuMemory, GpuTiming, LoraCost, ModelOnGpus, Parallelism, Precision, Speculation, StepTimeBasis,
    derive, derive_drafter, resolve,
};
use base::diag::{ErrorText, error_chain};
use base::files::read_bytes;
use base::spec::{Drafting, LoraConfig, ModelShape, SimCalibration, SimScheduler};
use triton::{BuildConfig, EngineConfig, Mapping, PluginConfig, PretrainedConfig, Quantization};

/// The version that simulated engines claim: the last one with an engine layout and Triton templates that this program
/// supports.
const VERSION: &str = "0.19.0";

/// What to build.
#[derive(Clone, Debug, PartialEq)]
pub struct EngineSpec {
    pub model: ModelShape,
    pub gpu: GpuTiming,
    /// What the software reaches of the GPU's numbers.
    pub calibration: SimCalibration,
    /// `fp16, bf16, fp8, fp4`.
    pub precision: String,
    pub tensor_parallelism: u32,
    pub pipeline_parallelism: u32,
    /// Flags of quantize.py; `kv_cache_dtype` matters here.
    pub checkpoint_flags: Map<String, Value>,
    /// Flags of trtllm-build, by its names: limits, `tokens_per_block` and plugins.
    pub build_flags: Map<String, Value>,
    /// Speculative decoding.
    pub drafting: Option<Drafting>,
    pub lora: Option<LoraConfig>,
    /// Of an engine of vLLM: the largest step with a CUDA graph, tokens. `None`: vLLM's default.
    pub max_cudagraph_capture_size: Option<u32>,
}

impl EngineSpec {
    /// What its step times rest on.
    pub fn basis(&self) -> StepTimeBasis {
        StepTimeBasis::new(&self.model, Precision::parse(&self.precision), &self.calibration)
    }
}

/// One `rank<N>.engine`.
#[base::omit_empty]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RankFile {
    pub simulated: bool,
    pub note: String,
    pub rank: u32,
    pub model: ModelShape,
    pub gpu: GpuTiming,
    #[serde(default)]
    pub calibration: SimCalibration,
    pub timing: Coefficients,
    pub memory: GpuMemory,
    pub speculation: Option<Speculation>,
    pub lora: Option<LoraCost>,
    pub max_cudagraph_capture_size: Option<u32>,
}

impl RankFile {
    /// Basis of the step times, with the band of tokens per second.
    pub(super) fn step_times(&self, config: &EngineConfig) -> String {
        let is_fp4 = config.pretrained_config.quantization.quant_algo.as_deref() == Some("NVFP4");
        let basis = StepTimeBasis::new(&self.model, is_fp4.then_some(Precision::Fp4), &self.calibration);
        format!("{}: {basis}", basis.with_band())
    }
}

const NOTE: &str = "A simulated engine: a timing model, not measured, and no kernels. \
                    Only Regatta's simulator can serve it.";

/// The engine without its files: what its config says, and rank 0.
pub(super) fn design(spec: &EngineSpec) -> Result<(EngineConfig, RankFile), ErrorText> {
    let precision = Precision::parse(&spec.precision).ok_or_else(|| {
        ErrorText::new(format_args!("precision `{}` is not one of fp16, bf16, fp8, fp4", spec.precision))
    })?;
    let (kv, kv_algo) = kv_precision(spec, precision)?;
    let (tp, pp) = (spec.tensor_parallelism.max(1), spec.pipeline_parallelism.max(1));
    let parallelism = Parallelism { tensor: tp, pipeline: pp };
    let (model, gpu, calibration) = (&spec.model, &spec.gpu, &spec.calibration);
    let on_gpus = ModelOnGpus { model, gpu, precision, kv, parallelism, calibration };
    let (timing, mut memory) = derive(&on_gpus);
    let mut speculation = None;
    // Speculation needs a draft.
    if let Some(drafting) = spec.drafting.as_ref().filter(|drafting| drafting.draft_len > 0) {
        let drafter = derive_drafter(drafting, &on_gpus);
        if let Some((_, of_drafter)) = &drafter {
            memory.weight_bytes += of_drafter.weight_bytes;
            memory.kv_bytes_per_token += of_drafter.kv_bytes_per_token;
        }
        let resolved = resolve(drafting, drafter.map(|(pass, _)| pass));
        speculation = Some(resolved.map_err(|error| ErrorText::new(format_args!("acceptance_rate: {error}")))?);
    }
    let lora = spec.lora.map(|lora| {
        let (cost, bytes) = LoraCost::new(&lora, &on_gpus);
        // Adapters take memory that the KV cache would have.
        memory.workspace_bytes += bytes;
        cost
    });
    let needed = memory.weight_bytes + memory.workspace_bytes;
    if needed >= memory.gpu_bytes {
        return Err(ErrorText::new(format_args!(
            "the model does not fit: {:.1} GB of weights and workspace for each GPU of {:.1} GB ({} GPUs); more GPUs \
             (tensor or pipeline parallelism) or a smaller precision",
            needed / 1e9,
            memory.gpu_bytes / 1e9,
            tp * pp
        )));
    }
    let config = config(spec, precision, kv_algo, tp, pp)?;
    let rank = RankFile {
        simulated: true,
        note: NOTE.to_owned(),
        rank: 0,
        model: spec.model.clone(),
        gpu: spec.gpu.clone(),
        calibration: spec.calibration.clone(),
        timing,
        memory,
        speculation,
        lora,
        max_cudagraph_capture_size: spec.max_cudagraph_capture_size,
    };
    Ok((config, rank))
}

/// Builds the engine into `out`, which must exist.
pub fn write(spec: &EngineSpec, out: &Path) -> Result<(), ErrorText> {
    let (config, first) = design(spec)?;
    publish(&out.join("config.json"), &config.to_text())?;
    for rank in 0..spec.tensor_parallelism.max(1) * spec.pipeline_parallelism.max(1) {
        let file = RankFile { rank, ..first.clone() };
        // Plain numbers and texts: serializing cannot fail.
        let mut text = serde_json::to_string_pretty(&file).expect("a rank file is JSON");
        text.push('\n');
        publish(&out.join(format!("rank{rank}.engine")), &text)?;
    }
    Ok(())
}

/// The size limit for a rank's file of a simulated engine; such a file has some hundred bytes.
const MOST_RANK_FILE_BYTES: u64 = 1 << 20;

/// Reads a simulated engine: its config and the file of rank 0 (all ranks are the same).
pub fn load(folder: &Path) -> Result<(EngineConfig, RankFile), ErrorText> {
    let config = EngineConfig::load(folder).map_err(|error| ErrorText::new(error_chain(&error)))?;
    let path = folder.join("rank0.engine");
    let wrong = |message: &dyn Display| ErrorText::new(format_args!("{}: {message}", path.display()));
    let of_another_kind = || wrong(&"not a simulated engine; this server has no GPU to run another kind");
    // A real one has tens of gigabytes, which are not read to find that out.
    let length = fs::metadata(&path).map_err(|error| wrong(&error))?.len();
    if length > MOST_RANK_FILE_BYTES {
        return Err(of_another_kind());
    }
    let bytes = read_bytes(&path).map_err(|error| wrong(&error))?;
    let file: RankFile = serde_json::from_slice(&bytes).map_err(|_| of_another_kind())?;
    let fits = file.model.num_hidden_layers == config.pretrained_config.num_hidden_layers
        && file.model.hidden_size == config.pretrained_config.hidden_size;
    if !fits {
        return Err(wrong(&"it was built for a different model than the one in config.json"));
    }
    Ok((config, file))
}

/// Whether a folder is an engine that only the simulator can run.
pub fn simulated(folder: &Path) -> bool {
    load(folder).is_ok()
}

fn publish(path: &Path, text: &str) -> Result<(), ErrorText> {
    fs::write(path, text).map_err(|error| ErrorText::new(format_args!("cannot write {}: {error}", path.display())))
}

/// How KV is stored, and what `config.json` calls it.
fn kv_precision(spec: &EngineSpec, weights: Precision) -> Result<(Precision, Option<&'static str>), ErrorText> {
    let sixteen = if weights == Precision::Bf16 { Precision::Bf16 } else { Precision::Fp16 };
    let Some(value) = spec.checkpoint_flags.get("kv_cache_dtype").filter(|value| !value.is_null()) else {
        return Ok((sixteen, None));
    };
    match value.as_str() {
        Some("auto" | "fp16" | "bf16" | "float16" | "bfloat16") => Ok((sixteen, None)),
        Some("fp8") => Ok((Precision::Fp8, Some("FP8"))),
        Some("int8") => Ok((Precision::Fp8, Some("INT8"))),
        other => {
            let value = other.map_or_else(|| value.to_string(), str::to_owned);
            Err(ErrorText::new(format_args!("kv_cache_dtype `{value}` is not one of auto, fp16, bf16, fp8, int8")))
        }
    }
}

pub(super) fn config(
    spec: &EngineSpec,
    precision: Precision,
    kv_algo: Option<&str>,
    tp: u32,
    pp: u32,
) -> Result<EngineConfig, ErrorText> {
    let mut flags = spec.build_flags.clone();
    // The defaults of trtllm-build.
    let max_seq_len = take(&mut flags, "max_seq_len")?.unwrap_or(spec.model.max_position_embeddings);
    let build = BuildConfig {
        max_input_len: take(&mut flags, "max_input_len")?.unwrap_or(1024),
        max_seq_len: Some(max_seq_len),
        max_batch_size: take(&mut flags, "max_batch_size")?.unwrap_or(2048),
        max_beam_width: take(&mut flags, "max_beam_width")?.unwrap_or(1),
        max_num_tokens: take(&mut flags, "max_num_tokens")?.unwrap_or(8192),
        plugin_config: PluginConfig {
            tokens_per_block: Some(take(&mut flags, "tokens_per_block")?.unwrap_or(32)),
            use_paged_context_fmha: Some(switch(&mut flags, "use_paged_context_fmha")?.unwrap_or(true)),
            rest: Map::new(),
        },
        rest: flags,
    };
    if build.max_input_len > max_seq_len {
        let message = format_args!("{} is more than max_seq_len {max_seq_len}", build.max_input_len);
        return Err(flag_error("max_input_len", message));
    }
    let model = &spec.model;
    let quant_algo = match precision {
        Precision::Fp8 => Some("FP8".to_owned()),
        Precision::Fp4 => Some("NVFP4".to_owned()),
        Precision::Fp16 | Precision::Bf16 => None,
    };
    let world = tp * pp;
    let mapping = json!({"gpus_per_node": 8, "moe_tp_size": tp, "moe_ep_size": 1});
    Ok(EngineConfig {
        version: VERSION.to_owned(),
        pretrained_config: PretrainedConfig {
            architecture: model.architecture.clone(),
            dtype: if precision == Precision::Bf16 { "bfloat16" } else { "float16" }.to_owned(),
            num_hidden_layers: model.num_hidden_layers,
            hidden_size: model.hidden_size,
            num_attention_heads: model.num_attention_heads,
            num_key_value_heads: Some(model.num_key_value_heads),
            intermediate_size: Some(model.intermediate_size),
            vocab_size: Some(model.vocab_size),
            max_position_embeddings: Some(model.max_position_embeddings),
            mapping: Mapping { world_size: world, tp_size: tp, pp_size: pp, rest: object(&mapping) },
            quantization: Quantization {
                quant_algo,
                kv_cache_quant_algo: kv_algo.map(str::to_owned),
                rest: Map::new(),
            },
            rest: Map::new(),
        },
        build_config: build,
        rest: object(&json!({"simulated": true})),
    })
}

fn object(value: &Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap_or_default()
}

fn flag_error(flag: &str, message: impl Display) -> ErrorText {
    ErrorText::new(format_args!("build flag `{flag}`: {message}"))
}

/// Takes a whole number of at least 1 out of the flags.
fn take(flags: &mut Map<String, Value>, flag: &str) -> Result<Option<u32>, ErrorText> {
    let Some(value) = flags.shift_remove(flag).filter(|value| !value.is_null()) else { return Ok(None) };
    let number = value.as_u64().or_else(|| value.as_str().and_then(|text| text.parse().ok()));
    let number = number.and_then(|n| u32::try_from(n).ok()).filter(|n| *n > 0);
    number.map(Some).ok_or_else(|| flag_error(flag, format_args!("{value} is not a whole number of at least 1")))
}

/// trtllm-build writes switches of plugins as `enable` and `disable`.
fn switch(flags: &mut Map<String, Value>, flag: &str) -> Result<Option<bool>, ErrorText> {
    match flags.shift_remove(flag) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Bool(on)) => Ok(Some(on)),
        Some(Value::String(text)) if text == "enable" => Ok(Some(true)),
        Some(Value::String(text)) if text == "disable" => Ok(Some(false)),
        Some(other) => Err(flag_error(flag, format_args!("{other} is not enable or disable"))),
    }
}

/// How a model repository serves an engine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EngineServing {
    /// Of a TensorRT-LLM; vLLM has its own.
    pub policy: SchedulerPolicy,
    pub chunking: Chunking,
    /// `kv_cache_free_gpu_mem_fraction`, or vLLM's `gpu_memory_utilization`.
    pub kv_fraction: f64,
    /// The most tokens that the KV cache may hold.
    pub kv_tokens: Option<u64>,
    /// Where the server sets other ones than the engine was built for.
    pub max_batch_size: Option<u32>,
    pub max_num_tokens: Option<u32>,
}

impl Default for EngineServing {
    fn default() -> Self {
        Self {
            policy: SchedulerPolicy::GuaranteedNoEvict,
            chunking: Chunking::Off,
            kv_fraction: 0.9,
            kv_tokens: None,
            max_batch_size: None,
            max_num_tokens: None,
        }
    }
}

/// The limits of one copy of an engine that is not written anywhere.
pub fn served_limits(spec: &EngineSpec, serving: &EngineServing) -> Result<EngineLimits, ErrorText> {
    let (config, rank) = design(spec)?;
    Ok(limits(&config, &rank, serving))
}

/// The limits of an engine as it is served.
pub(super) fn limits(config: &EngineConfig, rank: &RankFile, serving: &EngineServing) -> EngineLimits {
    let tokens_per_block = config.tokens_per_block();
    let mut blocks = rank.memory.blocks(rank.calibration.scheduler, serving.kv_fraction, tokens_per_block);
    if let Some(tokens) = serving.kv_tokens {
        blocks = blocks.min(tokens.div_ceil(u64::from(tokens_per_block)));
    }
    let build = &config.build_config;
    // Each stage of a pipeline works on a batch of its own.
    let stages = config.pretrained_config.mapping.pp_size.max(1);
    let limits = EngineLimits {
        policy: match rank.calibration.scheduler {
            SimScheduler::Vllm => SchedulerPolicy::Vllm,
            SimScheduler::TensorrtLlm => serving.policy,
        },
        chunking: serving.chunking,
        max_batch_size: serving.max_batch_size.unwrap_or(build.max_batch_size).max(1).saturating_mul(stages) as usize,
        max_num_tokens: u64::from(serving.max_num_tokens.unwrap_or(build.max_num_tokens)) * u64::from(stages),
        blocks,
        tokens_per_block: u64::from(tokens_per_block),
        timing: rank.timing,
        speculation: rank.speculation.clone(),
        lora: rank.lora,
    };
    match limits.policy {
        SchedulerPolicy::Vllm => {
            with_graphs(limits, rank.calibration.cuda_graph_tokens, rank.max_cudagraph_capture_size)
        }
        _ => limits,
    }
}

/// The largest step with a CUDA graph as vLLM 0.24 has it (`_set_cudagraph_sizes` in `vllm/config/vllm.py`): what is
/// set, or twice the tokens of a step in which as many requests as may be generate, at most `usual`; and not more than
/// the tokens of a step.
fn with_graphs(limits: EngineLimits, usual: u64, set: Option<u32>) -> EngineLimits {
    let drafts = limits.speculation.as_ref().map_or(0, |speculation| speculation.draft_len);
    let all_generate = limits.max_batch_size as u64 * (1 + drafts);
    let most = set.map_or_else(|| usual.min(2 * all_generate), u64::from).min(limits.max_num_tokens);
    let with = |timing: Coefficients| Coefficients { graph_tokens: most, ..timing };
    EngineLimits {
        timing: with(limits.timing),
        speculation: limits
            .speculation
            .map(|speculation| Speculation { drafter: speculation.drafter.map(with), ..speculation }),
        ..limits
    }
}

#[cfg(test)]
pub(super) mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::timing::tests::{h200, llama_8b};

    pub(crate) fn spec() -> EngineSpec {
        EngineSpec {
            model: llama_8b(),
            gpu: h200(),
            calibration: SimCalibration::default(),
            precision: "fp8".into(),
            tensor_parallelism: 2,
            pipeline_parallelism: 1,
            checkpoint_flags: object(&json!({"kv_cache_dtype": "fp8"})),
            build_flags: object(
                &json!({"max_batch_size": 64, "max_input_len": 2048, "max_seq_len": 4096, "max_num_tokens": 8192,
                "tokens_per_block": 64, "gemm_plugin": "fp8", "use_paged_context_fmha": "enable"}),
            ),
            drafting: None,
            lora: None,
            max_cudagraph_capture_size: None,
        }
    }

    #[test]
    fn an_engine_is_written_and_read_back() {
        let out = tempfile::tempdir().unwrap();
        write(&spec(), out.path()).unwrap();
        let (config, rank) = load(out.path()).unwrap();
        assert_eq!((config.ranks(), config.tokens_per_block(), config.max_seq_len()), (2, 64, 4096));
        assert_eq!(config.build_config.rest["gemm_plugin"], "fp8");
        assert_eq!(config.pretrained_config.quantization.kv_cache_quant_algo.as_deref(), Some("FP8"));
        assert!(rank.simulated && rank.note.contains("not measured"));
        assert!(out.path().join("rank1.engine").is_file());
    }

    #[test]
    fn the_same_spec_gives_the_same_bytes() {
        let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        for folder in &folders {
            write(&spec(), folder.path()).unwrap();
        }
        for file in ["config.json", "rank0.engine", "rank1.engine"] {
            let bytes = |folder: &tempfile::TempDir| read_bytes(folder.path().join(file)).unwrap();
            assert_eq!(bytes(&folders[0]), bytes(&folders[1]), "{file}");
        }
    }

    #[test]
    fn a_model_that_does_not_fit_is_refused_with_the_numbers() {
        let out = tempfile::tempdir().unwrap();
        let gpu = GpuTiming { memory_gb: 8.0, ..h200() };
        let error = write(&EngineSpec { gpu, ..spec() }, out.path()).unwrap_err().to_string();
        assert!(error.contains("9.0 GB") && error.contains("8.0 GB"), "{error}");
    }

    #[test]
    fn a_real_engine_is_refused() {
        let out = tempfile::tempdir().unwrap();
        write(&spec(), out.path()).unwrap();
        fs::write(out.path().join("rank0.engine"), b"ftrt\0\0\x01").unwrap();
        assert!(load(out.path()).unwrap_err().to_string().contains("not a simulated engine"));
    }
}

#[cfg(test)]
mod limits_tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;
    use crate::engine::tests::spec;
    use base::spec::Drafter;
    use base::spec::{AcceptanceRate, SimCalibration};

    fn graph_tokens(change: impl Fn(&mut EngineSpec)) -> u64 {
        let calibration =
            SimCalibration { scheduler: SimScheduler::Vllm, cuda_graph_tokens: 512, ..SimCalibration::default() };
        let mut spec = EngineSpec { calibration, ..spec() };
        change(&mut spec);
        served_limits(&spec, &EngineServing::default()).unwrap().timing.graph_tokens
    }

    #[test]
    fn the_largest_graph_is_the_one_that_vllm_captures() {
        let flag = |name: &'static str, value: u32| {
            move |spec: &mut EngineSpec| drop(spec.build_flags.insert(name.to_owned(), json!(value)))
        };
        // 64 requests.
        assert_eq!(graph_tokens(|_| {}), 128);
        assert_eq!(graph_tokens(flag("max_batch_size", 1024)), 512);
        assert_eq!(graph_tokens(|spec| spec.max_cudagraph_capture_size = Some(1024)), 1024);
        assert_eq!(graph_tokens(|spec| spec.max_cudagraph_capture_size = Some(0)), 0);
        // Never more than a step has.
        assert_eq!(graph_tokens(|spec| spec.max_cudagraph_capture_size = Some(100_000)), 8192);
        let drafts = Drafting { drafter: Drafter::NGram, draft_len: 2, acceptance: AcceptanceRate::Same(0.5) };
        assert_eq!(graph_tokens(|spec| spec.drafting = Some(drafts.clone())), 384);
        // TensorRT-LLM has other rules.
        assert_eq!(graph_tokens(|spec| spec.calibration.scheduler = SimScheduler::TensorrtLlm), 512);
    }
}
