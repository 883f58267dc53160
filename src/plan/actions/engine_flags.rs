//! Flags of `engine:` that would change nothing, and those that another key decides. NVIDIA's tools take most of them
//! without a message.
//!
//! Numbers of `engine:` that no model, machine or engine has: found here, and not after what comes before the
//! build.
//!
//! Flags of one stage checked against those of another: a server's settings, and what its engine was built for.

use std::collections::HashMap;

use indexmap::IndexMap;
use serde_json::Value;

use super::repository::repository_facts;
use super::{Check, StageChecker};
use crate::manifest::Node;
use crate::manifest::model::{Action, Engine, EngineBackend, Repository, Stage};
use crate::{ActionFacts, PlanReference, Task};
use base::diag::{Diagnostics, nearest};
use base::event::TaskId;

/// Flags of trtllm-build, to detect typing errors; others are passed on, because newer versions have more.
const BUILD: &str = "\
    max_batch_size max_input_len max_seq_len max_beam_width max_num_tokens opt_num_tokens opt_batch_size \
    kv_cache_type paged_kv_cache input_timing_cache output_timing_cache strip_plan weight_sparsity weight_streaming \
    fast_build log_level profiling_verbosity dry_run monitor_memory visualize_network gather_context_logits \
    gather_generation_logits max_lora_rank lora_plugin speculative_decoding_mode max_draft_len bert_attention_plugin \
    gpt_attention_plugin gemm_plugin gemm_swiglu_plugin low_latency_gemm_plugin low_latency_gemm_swiglu_plugin \
    gemm_allreduce_plugin nccl_plugin moe_plugin context_fmha remove_input_padding use_paged_context_fmha \
    use_fp8_context_fmha use_fused_mlp reduce_fusion norm_quant_fusion user_buffer tokens_per_block multiple_profiles \
    pp_reduce_scatter paged_state streamingllm mamba_conv1d_plugin bert_context_fmha_fp32_acc model_config \
    build_config auto_parallel logits_dtype max_encoder_input_len max_prompt_embedding_table_size";

const HOPPER: [&str; 4] = ["H100", "H200", "H20", "H800"];
const NOT_HOPPER: [&str; 9] = ["B200", "B300", "B100", "A100", "A30", "A40", "L40", "L4", "RTX"];

/// Whether a GPU is a Hopper; `None` for names that show neither.
fn is_hopper(name: &str) -> Option<bool> {
    let has = |names: &[&str]| names.iter().any(|one| name.contains(one));
    let is_hopper = has(&HOPPER);
    (is_hopper || has(&NOT_HOPPER)).then_some(is_hopper)
}

/// The text of a flag that is there and not switched off.
fn on(flags: &IndexMap<String, Value>, name: &str) -> Option<String> {
    match flags.get(name)? {
        Value::Null | Value::Bool(false) => None,
        Value::String(text) if matches!(text.as_str(), "disable" | "false" | "none" | "") => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

fn is_off(flags: &IndexMap<String, Value>, name: &str) -> bool {
    flags.get(name).is_some_and(|value| !value.is_null()) && on(flags, name).is_none()
}

const PRECISIONS: [&str; 10] =
    ["fp16", "bf16", "fp8", "fp4", "nvfp4", "int8_sq", "int4_awq", "w4a8_awq", "int8_wo", "int4_wo"];

impl Check for Engine {
    const FACTS: ActionFacts = ActionFacts {
        is_determined_by_key: true,
        is_of_server: true,
        is_checked_across_stages: true,
        is_command: true,
        runs_programs: true,
        ..ActionFacts::STEP
    };

    fn reads(&self) -> Vec<(&'static str, &str)> {
        let paths = [
            ("engine.checkpoint", &self.checkpoint),
            ("engine.trtllm", &self.trtllm),
            ("engine.trtllm_checkpoint", &self.trtllm_checkpoint),
        ];
        paths.into_iter().filter_map(|(key, path)| Some((key, path.as_deref()?))).collect()
    }

    fn check(&self, _: &Stage, checker: &mut StageChecker<'_>) {
        checker.word(&["engine", "precision"], &self.precision, &PRECISIONS);
        checker.engine(self);
        checker.engine_numbers(self);
    }
}

impl StageChecker<'_> {
    pub(super) fn engine(&mut self, engine: &Engine) {
        self.decided(engine);
        self.supported(engine);
        self.simulated(engine);
        let flags = &engine.build_flags;
        let build = |name| ["engine", "build_flags", name];
        for name in flags.keys().filter(|name| !BUILD.split(' ').any(|flag| flag == *name)) {
            if let Some(near) = nearest(name, BUILD.split(' ')) {
                self.fault(&build(name), "is not a flag of trtllm-build", "not known")
                    .hint(format!("did you mean `{near}`?"));
            }
        }
        for name in ["enable_attention_dp", "torch_compile_config"] {
            if flags.contains_key(name) {
                self.idle(&build(name), "only the PyTorch backend supports it; this is a TensorRT engine", "remove it");
            }
        }
        if let Some(kind) = on(flags, "gemm_swiglu_plugin") {
            let gpu = &engine.system.name;
            if is_hopper(gpu) == Some(false) {
                let reason = format!("the {kind} kernels require Hopper; this is {gpu}");
                self.idle(&build("gemm_swiglu_plugin"), &reason, "remove it, or `disable`");
            } else if engine.precision != "fp8" {
                let reason = format!("its weights must be fp8, and `precision` is {}", engine.precision);
                self.idle(&build("gemm_swiglu_plugin"), &reason, "remove it, or `disable`");
            }
        }
        for name in ["gemm_allreduce_plugin", "reduce_fusion", "user_buffer"] {
            if on(flags, name).is_some() && engine.tensor_parallelism == 1 {
                self.idle(&build(name), "with tensor_parallelism 1 nothing is reduced over GPUs", "remove it");
            }
        }
        if on(flags, "pp_reduce_scatter").is_some() && engine.pipeline_parallelism == 1 {
            self.idle(&build("pp_reduce_scatter"), "pipeline_parallelism is 1", "remove it");
        }
        self.attention(engine);
        self.checkpoint(engine);
    }

    /// What neither the simulator nor the build here can do.
    fn supported(&mut self, engine: &Engine) {
        let precision = engine.precision.as_str();
        if engine.backend == EngineBackend::Simulator && Engine::QUANTIZED_FORMATS.contains(&precision) {
            let message = format!("cannot be `{precision}` on the simulator");
            self.fault(&["engine", "precision"], &message, "the simulator has no step times for this precision")
                .hint("fp16, bf16, fp8 or fp4; or `backend: tensorrt_llm`");
        }
        let architecture = engine.model.architecture.as_str();
        let is_encoder_decoder = ["T5", "MT5", "Bart", "MBart", "Whisper", "Florence"].iter().any(|family| {
            architecture.strip_prefix(family).is_some_and(|rest| rest.starts_with("For") || rest.starts_with("Model"))
        });
        let is_multimodal = architecture.ends_with("ForConditionalGeneration") && !is_encoder_decoder;
        if is_encoder_decoder || is_multimodal {
            let kind = if is_multimodal { "a multimodal model" } else { "an encoder-decoder model" };
            let message = format!("cannot be `{architecture}`: Regatta does not build engines of {kind}");
            self.fault(&["engine", "model", "architecture"], &message, "decoder-only text models are")
                .hint("start such a server with `serve: command` or attach to it, and measure that");
        }
    }

    fn attention(&mut self, engine: &Engine) {
        let flags = &engine.build_flags;
        let build = |name| ["engine", "build_flags", name];
        for name in ["use_paged_context_fmha", "use_fp8_context_fmha"] {
            if on(flags, name).is_some() && is_off(flags, "context_fmha") {
                self.idle(&build(name), "`context_fmha` is off", "enable `context_fmha`, or remove this option");
            }
        }
        let kv = on(&engine.checkpoint_flags, "kv_cache_dtype");
        // For an existing checkpoint, this manifest does not contain how it was made.
        let is_known = engine.trtllm_checkpoint.is_none();
        if is_known && on(flags, "use_fp8_context_fmha").is_some() && kv.as_deref() != Some("fp8") {
            let hint = "`checkpoint_flags: { kv_cache_dtype: fp8 }`, or remove it";
            self.idle(&build("use_fp8_context_fmha"), "the KV cache is not fp8", hint);
        }
        let paged = on(flags, "kv_cache_type").unwrap_or_else(|| "paged".to_owned());
        for name in ["tokens_per_block", "use_paged_context_fmha"] {
            if on(flags, name).is_some() && !paged.eq_ignore_ascii_case("paged") {
                self.idle(&build(name), &format!("the KV cache is {paged}, not paged"), "`kv_cache_type: paged`");
            }
        }
        let number = |name: &str| on(flags, name).and_then(|text| text.parse::<f64>().ok());
        for (name, limit) in [
            ("opt_num_tokens", "max_num_tokens"),
            ("opt_batch_size", "max_batch_size"),
            ("max_input_len", "max_seq_len"),
        ] {
            if let (Some(value), Some(most)) = (number(name), number(limit))
                && value > most
            {
                self.fault(&build(name), &format!("is more than `{limit}`"), &format!("{limit} is {most}"));
            }
        }
    }

    /// Sixteen bits are converted, not quantized: convert_checkpoint.py has other flags.
    fn checkpoint(&mut self, engine: &Engine) {
        if engine.backend != EngineBackend::TensorrtLlm || !matches!(engine.precision.as_str(), "fp16" | "bf16") {
            return;
        }
        for name in engine.checkpoint_flags.keys() {
            let is_calibration = name.starts_with("calib_") || name.starts_with("auto") || name == "num_score_steps";
            let (why, hint) = match name.as_str() {
                "kv_cache_dtype" => (
                    "convert_checkpoint.py knows `int8_kv_cache` and `fp8_kv_cache` only",
                    "`fp8_kv_cache: true`, or a `precision` of fp8 or fp4",
                ),
                _ if is_calibration => ("nothing is calibrated: weights of 16 bits are converted", "remove it"),
                _ => continue,
            };
            self.idle(&["engine", "checkpoint_flags", name], why, hint);
        }
    }

    /// What other keys decide.
    fn decided(&mut self, engine: &Engine) {
        for (key, flags, decided) in [
            ("checkpoint_flags", &engine.checkpoint_flags, Engine::CHECKPOINT_DECIDED),
            ("build_flags", &engine.build_flags, Engine::BUILD_DECIDED),
        ] {
            for (flag, by) in decided.iter().filter(|(flag, _)| flags.contains_key(*flag)) {
                let hint = if by.contains(' ') { "remove it".to_owned() } else { format!("write `{by}` in its place") };
                self.fault(&["engine", key, flag], "may not be given", &format!("{by} decides it")).hint(hint);
            }
        }
    }

    pub(super) fn engine_numbers(&mut self, engine: &Engine) {
        let (model, system) = (&engine.model, &engine.system);
        let counts = [
            ("model", "parameters", model.parameters == 0),
            ("model", "num_hidden_layers", model.num_hidden_layers == 0),
            ("model", "hidden_size", model.hidden_size == 0),
            ("model", "num_attention_heads", model.num_attention_heads == 0),
            ("model", "num_key_value_heads", model.num_key_value_heads == 0),
            ("model", "vocab_size", model.vocab_size == 0),
            ("model", "max_position_embeddings", model.max_position_embeddings == 0),
            ("system", "gpus", system.gpus == 0),
        ];
        for (part, key, _) in counts.into_iter().filter(|(.., is_none)| *is_none) {
            self.fault(&["engine", part, key], "must be at least 1", "this is 0");
        }
        let sizes = [
            ("memory_gb", system.memory_gb),
            ("bandwidth_gbs", system.bandwidth_gbs),
            ("tflops_16bit", system.tflops_16bit),
        ];
        for (key, size) in sizes.into_iter().filter(|(_, size)| !(*size > 0.0 && size.is_finite())) {
            self.fault(&["engine", "system", key], "must be above 0", &format!("this is {size}"));
        }
        for key in COUNTS {
            let Some(count) = engine.build_flags.get(key).and_then(Value::as_f64).filter(|count| *count < 1.0) else {
                continue;
            };
            let label = format!("this is {count}");
            self.fault(&["engine", "build_flags", key], "must be at least 1", &label);
        }
    }

    fn against(&mut self, repository: &Repository, engine: &Engine, id: &TaskId) {
        let facts = repository_facts(repository);
        let built = |flag: &str| {
            let written = match engine.build_flags.get(flag) {
                Some(Value::String(text)) => text.parse().ok(),
                Some(value) => value.as_f64(),
                None => None,
            };
            written.or_else(|| DEFAULTS.iter().find(|(name, _)| *name == flag).map(|(_, value)| *value))
        };
        for flag in ["max_batch_size", "max_num_tokens", "max_beam_width"] {
            let Some((key, word, text)) = facts.get(flag) else { continue };
            if let (Ok(value), Some(most)) = (text.parse::<f64>(), built(flag))
                && value > most
            {
                let reason = format!("{id} is built with {flag} {most}");
                let hint = format!("lower it, or build with `build_flags: {{ {flag}: {value} }}`");
                self.fault(&["repository", key, word], "is more than its engine can do", &reason).hint(hint);
            }
        }
        let paged = engine.build_flags.get("use_paged_context_fmha");
        let is_unpaged = paged.is_some_and(|value| value == "disable" || value == false);
        for flag in ["enable_chunked_context", "enable_kv_cache_reuse"] {
            let Some((key, word, text)) = facts.get(flag) else { continue };
            if text == "true" && is_unpaged {
                let reason = format!("{id} is built without paged context FMHA");
                let hint = "build it with `use_paged_context_fmha: enable`, or remove this";
                self.idle(&["repository", key, word], &reason, hint);
            }
        }
    }
}

/// Build flags that count something.
const COUNTS: [&str; 5] = ["max_batch_size", "max_num_tokens", "max_input_len", "max_seq_len", "max_beam_width"];

/// What trtllm-build takes without the flag.
const DEFAULTS: [(&str, f64); 3] = [("max_batch_size", 2048.0), ("max_num_tokens", 8192.0), ("max_beam_width", 1.0)];

/// Looks at every repository with an engine that is built in the same plan. Each task comes with its rendered stage.
pub fn across<'a>(tasks: impl Iterator<Item = (&'a Task, &'a Node)> + Clone, found: &mut Diagnostics) {
    let engines: HashMap<&TaskId, &Engine> = tasks
        .clone()
        .filter_map(|(task, _)| match task.action() {
            Some(Action::Engine(engine)) => Some((&task.id, engine)),
            _ => None,
        })
        .collect();
    for (task, node) in tasks {
        let Some(Action::Repository(repository)) = task.action() else { continue };
        let Some(PlanReference::OutputFolder(id)) = PlanReference::all_in(&repository.engine).into_iter().next() else {
            continue;
        };
        let Some(engine) = engines.get(&id) else { continue };
        StageChecker::new(node, &task.stage, found).against(repository, engine, &id);
    }
}
