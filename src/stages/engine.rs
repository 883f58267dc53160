//! `engine:` — a TensorRT-LLM engine: quantize or convert the checkpoint, then build.
//!
//! The commands are a pure function of the manifest, so that they can be read before anything runs.

use std::ffi::OsString;
use std::io;
use std::path::Path;

use indexmap::IndexMap;
use serde_json::Value;

use crate::Run;
use crate::task_context::{TaskContext, out_of_memory};
use base::diag::ErrorText;
use base::event::{Done, Failure};
use base::files::{metadata_if_there, read_text_up_to};
use plan::manifest::model::{Engine, EngineBackend, EngineOnly, Repository, SystemShape};
use sim::{Chunking, EngineServing, EngineSpec, SchedulerPolicy};
use triton::LARGEST_CONFIG;

impl Run for Engine {
    const FORMAT: Option<u32> = Some(1);

    /// Since 2 the ranks of a simulated engine hold its model by the manifest's keys.
    fn format(&self) -> Option<u32> {
        if self.backend == EngineBackend::Simulator { Some(2) } else { Self::FORMAT }
    }

    async fn run(&self, context: TaskContext) -> Result<Done, Failure> {
        let context = &context;
        let lowered = context.lease.lowered.as_ref().map(|lowered| out_of_memory::lower(self, lowered));
        let engine = lowered.as_ref().unwrap_or(self);
        match engine.backend {
            EngineBackend::TensorrtLlm => build(context, engine).await,
            EngineBackend::Simulator => simulate(context, engine),
        }
    }
}

fn simulate(context: &TaskContext, engine: &Engine) -> Result<Done, Failure> {
    if engine.only.is_some() || engine.trtllm_checkpoint.is_some() {
        return Err(Failure::refused("the simulator has no checkpoints").hint("remove `only` and `trtllm_checkpoint`"));
    }
    let spec = engine_spec(engine);
    let gpus = engine.tensor_parallelism * engine.pipeline_parallelism;
    if gpus > engine.system.gpus {
        return Err(Failure::refused(format!(
            "{} has {} of the {gpus} GPUs that tensor × pipeline parallelism needs",
            engine.system.name, engine.system.gpus
        )));
    }
    sim::write_engine(&spec, &context.lease.out).map_err(|error| Failure::refused(error.to_string()))?;
    Ok(Done::default())
}

/// An engine as the simulator builds it.
pub fn engine_spec(engine: &Engine) -> EngineSpec {
    EngineSpec {
        model: (*engine.model).clone(),
        gpu: gpu_timing(&engine.system),
        calibration: engine.system.calibration.as_deref().cloned().unwrap_or_default(),
        precision: engine.precision.clone(),
        tensor_parallelism: engine.tensor_parallelism,
        pipeline_parallelism: engine.pipeline_parallelism,
        checkpoint_flags: engine.checkpoint_flags.clone().into_iter().collect(),
        build_flags: engine.build_flags.clone().into_iter().collect(),
        // Its keys were checked with the plan.
        drafting: engine.speculative_config.as_deref().and_then(|config| config.drafting().ok()),
        lora: engine.lora_config,
        max_cudagraph_capture_size: engine.max_cudagraph_capture_size,
    }
}

/// How a repository's runtime flags serve an engine in the simulator.
pub fn twin_serving(repository: Option<&Repository>) -> EngineServing {
    let flag = |name: &str| repository.and_then(|repository| repository.runtime_flags.get(name));
    let number = |name: &str| flag(name).and_then(|value| value.as_f64().or_else(|| value.as_str()?.parse().ok()));
    let is_on = |name: &str| match flag(name) {
        Some(Value::Bool(on)) => *on,
        Some(Value::String(text)) => text.eq_ignore_ascii_case("true"),
        _ => false,
    };
    let word = |name: &str| flag(name).and_then(Value::as_str).unwrap_or_default().to_lowercase();
    EngineServing {
        policy: match word("batch_scheduler_policy").as_str() {
            "max_util" | "max_utilization" => SchedulerPolicy::MaxUtilization,
            "static" | "static_batch" => SchedulerPolicy::StaticBatch,
            _ => SchedulerPolicy::GuaranteedNoEvict,
        },
        chunking: match (is_on("enable_chunked_context"), word("context_chunking_policy").as_str()) {
            (false, _) => Chunking::Off,
            (true, "equal_progress") => Chunking::EqualProgress,
            (true, _) => Chunking::FirstComeFirstServed,
        },
        kv_fraction: number("kvcache_free_gpu_mem_frac").unwrap_or(0.9),
        max_num_tokens: number("max_num_tokens").map(|tokens| tokens as u32),
        ..EngineServing::default()
    }
}

/// A manifest's GPU as the simulator takes it.
pub fn gpu_timing(system: &SystemShape) -> sim::GpuTiming {
    sim::GpuTiming {
        name: system.name.clone(),
        memory_gb: system.memory_gb,
        bandwidth_gbs: system.bandwidth_gbs,
        link_gbs: system.link_gbs.map(f64::from),
        tflops_16bit: system.tflops_16bit,
    }
}

async fn build(context: &TaskContext, engine: &Engine) -> Result<Done, Failure> {
    // In the output folder, so that a cleanup after a crash finds it; removed before the engine is published.
    let scratch = context.lease.out.join(".checkpoint");
    let located = |path: &Option<String>| path.as_deref().map(|path| context.path(path).to_string_lossy().into_owned());
    let engine = Engine {
        checkpoint: located(&engine.checkpoint),
        trtllm: located(&engine.trtllm),
        trtllm_checkpoint: located(&engine.trtllm_checkpoint),
        ..engine.clone()
    };
    let commands =
        engine_commands(&engine, &scratch, &context.lease.out).map_err(|error| Failure::refused(error.to_string()))?;
    let total = commands.len() as u64;
    let mut outcome = Ok(());
    for (index, argv) in commands.into_iter().enumerate() {
        // The name of the script or module is more useful than `python`.
        let named =
            argv.iter().skip(usize::from(argv.len() > 1 && argv[0].contains("python"))).find(|word| *word != "-m");
        let name = Path::new(named.unwrap_or(&argv[0])).file_name();
        let name = name.unwrap_or_default().to_string_lossy().into_owned();
        context.lease.report_progress(name, index as u64, Some(total));
        outcome = context.run(context.command(argv.into_iter().map(OsString::from).collect())).await.map(drop);
        outcome = outcome.map_err(|failure| {
            out_of_memory::explain(failure, context, &engine, index == 0 && engine.trtllm_checkpoint.is_none())
        });
        if outcome.is_err() {
            break;
        }
    }
    outcome?;
    if scratch.exists() {
        std::fs::remove_dir_all(&scratch)
            .map_err(|error| Failure::system(format!("the intermediate checkpoint cannot be removed: {error}")))?;
    }
    check_files(&context.lease.out, &engine).map_err(|incomplete| {
        let failure = Failure::files(format!("its commands succeeded, but {incomplete}"));
        Failure { log: Some(context.lease.log.clone()), ..failure }
            .hint("the log has what they printed; a wrapper script has to pass on the exit code of what it calls")
    })?;
    Ok(Done::default())
}

/// The commands that build an engine, in order. `checkpoint` is where the converted weights go between them, `out`
/// where the engine goes.
///
/// All but fp16 and bf16 are quantized by `examples/quantization/quantize.py`; fp16 and bf16 are converted by the
/// `convert_checkpoint.py` of the model's family.
pub fn engine_commands(engine: &Engine, checkpoint: &Path, out: &Path) -> Result<Vec<Vec<String>>, ErrorText> {
    check_conflicts("build_flags", &engine.build_flags, &Engine::BUILD_DECIDED)?;
    let (checkpoint, out) = (checkpoint.display().to_string(), out.display().to_string());
    Ok(match (engine.only, &engine.trtllm_checkpoint) {
        (Some(EngineOnly::Checkpoint), _) => vec![checkpoint_command(engine, &out)?],
        (None, Some(made)) => vec![build_command(engine, made, &out)?],
        (None, None) => vec![checkpoint_command(engine, &checkpoint)?, build_command(engine, &checkpoint, &out)?],
    })
}

fn checkpoint_command(engine: &Engine, out: &str) -> Result<Vec<String>, ErrorText> {
    let need = |key: &str, value: &Option<String>| {
        let missing = || ErrorText::new(format_args!("`{key}` is needed to build an engine with TensorRT-LLM"));
        value.clone().ok_or_else(missing)
    };
    let weights = need("checkpoint", &engine.checkpoint)?;
    let trtllm = need("trtllm", &engine.trtllm)?;
    check_conflicts("checkpoint_flags", &engine.checkpoint_flags, &Engine::CHECKPOINT_DECIDED)?;
    let (script, words) = match engine.precision.as_str() {
        "fp8" => (quantize(&trtllm), vec![pair("dtype", "auto"), pair("qformat", "fp8")]),
        "fp4" | "nvfp4" => (quantize(&trtllm), vec![pair("dtype", "auto"), pair("qformat", "nvfp4")]),
        format if Engine::QUANTIZED_FORMATS.contains(&format) => {
            (quantize(&trtllm), vec![pair("dtype", "auto"), pair("qformat", format)])
        }
        "fp16" => (convert(&trtllm, &engine.model.architecture)?, vec![pair("dtype", "float16")]),
        "bf16" => (convert(&trtllm, &engine.model.architecture)?, vec![pair("dtype", "bfloat16")]),
        other => {
            return Err(ErrorText::new(format_args!(
                "the precision `{other}` is not one of fp16, bf16, fp8, fp4, int8_sq, int4_awq, w4a8_awq, int8_wo, \
                 int4_wo"
            )));
        }
    };
    let mut argv = vec![engine.python.clone().unwrap_or_else(|| "python3".to_owned()), script];
    argv.extend(pair("model_dir", &weights));
    argv.extend(pair("output_dir", out));
    argv.extend(words.into_iter().flatten());
    argv.extend(pair("tp_size", &engine.tensor_parallelism.to_string()));
    argv.extend(pair("pp_size", &engine.pipeline_parallelism.to_string()));
    argv.extend(flags(&engine.checkpoint_flags)?);
    Ok(argv)
}

fn build_command(engine: &Engine, checkpoint: &str, out: &str) -> Result<Vec<String>, ErrorText> {
    let mut argv = match &engine.python {
        // `trtllm-build` as a Python module. Its installed script contains the path of Python at the time of
        // installation, which may be gone.
        Some(python) => vec![python.clone(), "-m".to_owned(), "tensorrt_llm.commands.build".to_owned()],
        None => vec!["trtllm-build".to_owned()],
    };
    argv.extend(pair("checkpoint_dir", checkpoint));
    argv.extend(pair("output_dir", out));
    let world = engine.tensor_parallelism * engine.pipeline_parallelism;
    if world > 1 {
        argv.extend(pair("workers", &world.to_string()));
    }
    argv.extend(flags(&engine.build_flags)?);
    Ok(argv)
}

fn pair(name: &str, value: &str) -> [String; 2] {
    [format!("--{name}"), value.to_owned()]
}

fn quantize(trtllm: &str) -> String {
    format!("{trtllm}/examples/quantization/quantize.py")
}

/// Where a family's converter lies in a TensorRT-LLM checkout since 0.19 (`examples/models/core/…`).
fn convert(trtllm: &str, architecture: &str) -> Result<String, ErrorText> {
    let family = match architecture {
        // Mixtral is converted by the script of its dense sibling.
        "LlamaForCausalLM" | "MistralForCausalLM" | "MixtralForCausalLM" => "llama",
        "Qwen2ForCausalLM" | "Qwen2MoeForCausalLM" | "Qwen3ForCausalLM" => "qwen",
        "GPT2LMHeadModel" => "gpt",
        "GPTJForCausalLM" => "gptj",
        "PhiForCausalLM" | "Phi3ForCausalLM" => "phi",
        "Gemma2ForCausalLM" | "GemmaForCausalLM" => "gemma",
        other => {
            let text = format!("no converter is known for the architecture `{other}`; use precision fp8 or fp4");
            return Err(ErrorText::new(text));
        }
    };
    let folder = if family == "gptj" { "contrib" } else { "core" };
    Ok(format!("{trtllm}/examples/models/{folder}/{family}/convert_checkpoint.py"))
}

fn check_conflicts(
    key: &'static str,
    flags: &IndexMap<String, Value>,
    decided: &[(&'static str, &'static str)],
) -> Result<(), ErrorText> {
    match decided.iter().find(|(flag, _)| flags.contains_key(*flag)) {
        Some((flag, by)) => Err(ErrorText::new(format_args!("`{key}.{flag}` may not be given: {by} decides it"))),
        None => Ok(()),
    }
}

/// `name: value` → `--name value`; true → `--name`; false and null → nothing; a list → one argument for each element.
fn flags(flags: &IndexMap<String, Value>) -> Result<Vec<String>, ErrorText> {
    let mut words = Vec::new();
    for (name, value) in flags {
        match value {
            Value::Null | Value::Bool(false) => {}
            Value::Bool(true) => words.push(format!("--{name}")),
            Value::Array(items) => {
                words.push(format!("--{name}"));
                let fault = || ErrorText::new(format_args!("the flag `{name}` must be a list of plain values"));
                for item in items {
                    words.push(text(item).ok_or_else(fault)?);
                }
            }
            value => {
                let fault = || ErrorText::new(format_args!("the flag `{name}` must be a plain value"));
                let value = text(value).ok_or_else(fault)?;
                words.extend(pair(name, &value));
            }
        }
    }
    Ok(words)
}

pub(super) fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

// Whether a folder holds what TensorRT-LLM's tools leave: `config.json`, and a file for each rank.

/// What is missing or cannot be read; the text follows "but".
fn check_files(folder: &Path, engine: &Engine) -> Result<(), ErrorText> {
    let (what, suffix) = match engine.only {
        Some(EngineOnly::Checkpoint) => ("checkpoint", "safetensors"),
        None => ("engine", "engine"),
    };
    let config = read_config(folder, what)?;
    let ranks = match config.pointer("/pretrained_config/mapping/world_size").and_then(Value::as_u64) {
        Some(ranks) => ranks,
        // A checkpoint that was given decides how many there are.
        None if engine.trtllm_checkpoint.is_some() => 1,
        None => {
            let ranks = config.pointer("/mapping/world_size").and_then(Value::as_u64);
            ranks.unwrap_or_else(|| u64::from(engine.tensor_parallelism * engine.pipeline_parallelism))
        }
    };
    let mut missing: Vec<String> = Vec::new();
    // A damaged config could contain any number.
    for name in (0..ranks.min(4096)).map(|rank| format!("rank{rank}.{suffix}")) {
        match metadata_if_there(&folder.join(&name)) {
            Ok(Some(file)) if file.is_file() && file.len() > 0 => {}
            Ok(_) => missing.push(name),
            Err(error) => {
                return Err(ErrorText::new(format_args!("{name} of the {what} cannot be looked at: {error}")));
            }
        }
    }
    Err(ErrorText::new(match missing.as_slice() {
        [] if ranks > 0 => return Ok(()),
        [] => format!("the config.json of the {what} names no rank"),
        [name] => format!("the {what} has no {name}, or it is empty"),
        [first, .., last] => {
            format!("the {what} lacks {} of its {ranks} files, {first} to {last}", missing.len())
        }
    }))
}

fn read_config(folder: &Path, what: &str) -> Result<Value, ErrorText> {
    let path = folder.join("config.json");
    let unreadable = |error: io::Error| {
        ErrorText::new(match error.kind() {
            io::ErrorKind::NotFound => format!("the {what} has no config.json: {error}"),
            _ => format!("the config.json of the {what} cannot be read: {error}"),
        })
    };
    let text = read_text_up_to(&path, LARGEST_CONFIG).map_err(unreadable)?;
    serde_json::from_str(&text).map_err(|error| unreadable(error.into()))
}

#[cfg(test)]
mod engine_files_tests {
    use std::fs;

    use super::*;

    fn engine(change: &Value) -> Engine {
        let mut engine = serde_json::json!({
            "backend": "tensorrt_llm", "precision": "fp8", "tensor_parallelism": 2,
            "model": {"name": "m", "architecture": "LlamaForCausalLM", "parameters": 1, "num_hidden_layers": 1,
                "hidden_size": 1, "intermediate_size": 1, "num_attention_heads": 1, "num_key_value_heads": 1,
                "vocab_size": 1, "max_position_embeddings": 1},
            "system": {"name": "x", "gpus": 2, "memory_gb": 1.0, "bandwidth_gbs": 1.0, "tflops_16bit": 1.0},
        });
        for (key, value) in change.as_object().unwrap() {
            engine[key] = value.clone();
        }
        serde_json::from_value(engine).unwrap()
    }

    #[test]
    fn an_engine_is_its_config_and_a_file_for_each_rank() {
        let folder = tempfile::tempdir().unwrap();
        let error = |change: &Value| check_files(folder.path(), &engine(change)).unwrap_err().to_string();
        let none = serde_json::json!({});
        assert!(error(&none).starts_with("the engine has no config.json: "));
        fs::write(folder.path().join("config.json"), "built").unwrap();
        assert!(error(&none).starts_with("the config.json of the engine cannot be read: "));
        fs::write(folder.path().join("config.json"), "{}").unwrap();
        assert_eq!(error(&none), "the engine lacks 2 of its 2 files, rank0.engine to rank1.engine");
        fs::write(folder.path().join("rank0.engine"), "ftrt").unwrap();
        fs::write(folder.path().join("rank1.engine"), "").unwrap();
        assert_eq!(error(&none), "the engine has no rank1.engine, or it is empty");
        fs::remove_file(folder.path().join("rank1.engine")).unwrap();
        std::os::unix::fs::symlink("rank1.engine", folder.path().join("rank1.engine")).unwrap();
        let text = error(&none);
        assert!(text.starts_with("rank1.engine of the engine cannot be looked at: "), "{text}");
        // The config takes precedence over the manifest, and a checkpoint that was given decides.
        let config = r#"{"pretrained_config": {"mapping": {"world_size": 1}}}"#;
        fs::write(folder.path().join("config.json"), config).unwrap();
        assert!(check_files(folder.path(), &engine(&none)).is_ok());
        let made = serde_json::json!({"only": "checkpoint"});
        assert_eq!(error(&made), "the checkpoint has no rank0.safetensors, or it is empty");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn engine(change: &Value) -> Engine {
        let mut engine = serde_json::json!({
            "backend": "tensorrt_llm", "precision": "fp8", "tensor_parallelism": 2,
            "checkpoint": "/models/llama", "trtllm": "/src/trtllm",
            "model": {"name": "llama2-70b", "architecture": "LlamaForCausalLM", "parameters": 1, "num_hidden_layers": 1,
                "hidden_size": 1, "intermediate_size": 1, "num_attention_heads": 1, "num_key_value_heads": 1,
                "vocab_size": 1, "max_position_embeddings": 1},
            "system": {"name": "x", "gpus": 2, "memory_gb": 1.0, "bandwidth_gbs": 1.0, "tflops_16bit": 1.0},
            "checkpoint_flags": {"kv_cache_dtype": "fp8", "calib_size": 1024},
            "build_flags": {
                "max_batch_size": 1024, "max_num_tokens": 1536, "use_fp8_context_fmha": "enable", "strip_plan": false,
                "fast_build": true,
            },
        });
        for (key, value) in change.as_object().unwrap() {
            engine[key] = value.clone();
        }
        serde_json::from_value(engine).unwrap()
    }

    fn lines(change: &Value) -> String {
        match engine_commands(&engine(change), Path::new("CKPT"), Path::new("OUT")) {
            Ok(commands) => commands.iter().map(|argv| argv.join(" ")).collect::<Vec<_>>().join("\n"),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn fp8_is_quantized_and_built() {
        insta::assert_snapshot!(lines(&serde_json::json!({})), @"
        python3 /src/trtllm/examples/quantization/quantize.py --model_dir /models/llama --output_dir CKPT --dtype \
        auto --qformat fp8 --tp_size 2 --pp_size 1 --kv_cache_dtype fp8 --calib_size 1024
        trtllm-build --checkpoint_dir CKPT --output_dir OUT --workers 2 --max_batch_size 1024 --max_num_tokens 1536 \
        --use_fp8_context_fmha enable --fast_build
        ");
    }

    #[test]
    fn sixteen_bits_are_converted() {
        let change = serde_json::json!({
            "precision": "bf16", "tensor_parallelism": 1, "checkpoint_flags": {}, "build_flags": {},
        });
        insta::assert_snapshot!(lines(&change), @"
        python3 /src/trtllm/examples/models/core/llama/convert_checkpoint.py --model_dir /models/llama --output_dir \
        CKPT --dtype bfloat16 --tp_size 1 --pp_size 1
        trtllm-build --checkpoint_dir CKPT --output_dir OUT
        ");
    }

    #[test]
    fn formats_of_quantize_py_are_its_qformat() {
        for (precision, format) in
            [("int8_sq", "int8_sq"), ("int4_awq", "int4_awq"), ("w4a8_awq", "w4a8_awq"), ("nvfp4", "nvfp4")]
        {
            let text = lines(&serde_json::json!({ "precision": precision }));
            assert!(
                text.contains(&format!(
                    "quantize.py --model_dir /models/llama --output_dir CKPT --dtype auto --qformat {format} "
                )),
                "{text}"
            );
        }
    }

    #[test]
    fn a_checkpoint_is_made_alone_and_an_engine_of_it() {
        let change = serde_json::json!({"only": "checkpoint", "python": "/venv/bin/python", "build_flags": {}});
        insta::assert_snapshot!(lines(&change), @"/venv/bin/python /src/trtllm/examples/quantization/quantize.py \
         --model_dir /models/llama --output_dir OUT --dtype auto --qformat fp8 --tp_size 2 --pp_size 1 \
         --kv_cache_dtype fp8 --calib_size 1024");
        let change = serde_json::json!({
            "trtllm_checkpoint": "/made", "python": "/venv/bin/python", "checkpoint": null, "trtllm": null,
            "build_flags": {"max_batch_size": 8},
        });
        insta::assert_snapshot!(lines(&change), @"/venv/bin/python -m tensorrt_llm.commands.build --checkpoint_dir \
         /made --output_dir OUT --workers 2 --max_batch_size 8");
    }

    #[test]
    fn what_other_keys_decide_is_refused() {
        let change = serde_json::json!({"checkpoint_flags": {"qformat": "fp8"}});
        assert_eq!(lines(&change), "`checkpoint_flags.qformat` may not be given: precision decides it");
        let change = serde_json::json!({"build_flags": {"tensor_parallelism": 2}});
        assert_eq!(lines(&change), "`build_flags.tensor_parallelism` may not be given: tensor_parallelism decides it");
        let change = serde_json::json!({"trtllm": null});
        assert_eq!(lines(&change), "`trtllm` is needed to build an engine with TensorRT-LLM");
        let change = serde_json::json!({"precision": "int8"});
        assert_eq!(
            lines(&change),
            "the precision `int8` is not one of fp16, bf16, fp8, fp4, int8_sq, int4_awq, w4a8_awq, int8_wo, int4_wo"
        );
    }
}
