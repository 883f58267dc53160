//! How TensorRT-LLM's backend and its Python models use their parameters, and what the engine supports: batch sizes,
//! the dynamic batcher, sequences, caches.

use std::path::Path;

use serde_json::Value;

use super::{ModelChecker, near, parameter, placeholder};
use crate::EngineConfig;
use crate::pbtxt::PbtxtStep::{self, Key, Name, Nth};
use crate::proto::inference::batch_input::Kind as BatchKind;
use crate::proto::inference::model_config::SchedulingChoice;
use crate::proto::inference::model_sequence_batching::StrategyChoice;
use crate::proto::inference::model_sequence_batching::control::Kind;
use crate::proto::inference::{DataType, ModelDynamicBatching, ModelSequenceBatching};
use crate::repository::ParameterKind;
use crate::repository::fill::limits;
use crate::repository::parameters::{by_key, find, of_model};
use base::diag::did_you_mean;

/// Placeholders that the backend itself compares against: left as they are, they mean "not set".
const KNOWN_PLACEHOLDERS: [&str; 3] = ["guided_decoding_backend", "tokenizer_dir", "xgrammar_tokenizer_info_path"];
/// Written by the templates, not by a user.
const LITERALS: [&str; 2] = ["FORCE_CPU_ONLY_INPUT_TENSORS", "executor_worker_path"];

/// Keys that templates before v0.19 have and those after do not. What was released with them reads them.
const OLDER: [(&str, &str); 3] =
    [("preprocessing", "visual_model_path"), ("tensorrt_llm", "enable_trt_overlap"), ("tensorrt_llm", "worker_path")];

pub(super) fn check(look: &mut ModelChecker<'_>, given: Option<&EngineConfig>) {
    let Some(role) = role(look) else {
        for (key, value) in &look.model.config.parameters {
            unfilled(look, key, &value.string_value);
        }
        return;
    };
    for (key, value) in &look.model.config.parameters {
        check_parameter(look, role, key, &value.string_value);
    }
    if role == "tensorrt_llm" {
        engine(look, given);
    }
}

/// A placeholder that reaches a model whose code is not known here.
fn unfilled(look: &mut ModelChecker<'_>, key: &str, value: &str) {
    if let Some(name) = placeholder(value) {
        let message = format!("`${{{name}}}` was never filled: the model gets it as its `{key}`");
        look.warn(&parameter(key), message, "");
    }
}

/// Which of the five models a config is for, by its backend and parameters.
fn role(look: &ModelChecker<'_>) -> Option<&'static str> {
    let config = &look.model.config;
    let has = |key: &str| config.parameters.contains_key(key);
    let takes = |name: &str| config.input.iter().any(|input| input.name == name);
    if config.backend == "tensorrtllm" || has("gpt_model_type") || has("gpt_model_path") && takes("input_ids") {
        Some("tensorrt_llm")
    } else if takes("QUERY") && has("tokenizer_dir") {
        Some("preprocessing")
    } else if takes("TOKENS_BATCH") && has("tokenizer_dir") {
        Some("postprocessing")
    } else if has("accumulate_tokens") || has("tensorrt_llm_model_name") {
        Some("tensorrt_llm_bls")
    } else {
        None
    }
}

fn check_parameter(look: &mut ModelChecker<'_>, role: &str, key: &str, value: &str) {
    let way = parameter(key);
    if LITERALS.contains(&key) {
        return;
    }
    if OLDER.contains(&(role, key)) {
        return unfilled(look, key, value);
    }
    let Some(known) = by_key(role, key) else {
        let names: Vec<&str> = of_model(role).map(|parameter| parameter.key).collect();
        let hint = near(key, names).unwrap_or_default();
        look.warn(&[way[0], way[1]], format!("`{key}` is not a parameter of {role}: it has no effect"), hint);
        return;
    };
    if let Some(name) = placeholder(value) {
        let fate = match key {
            "gpt_model_type" => "the backend fails to load with it",
            // The tokenizer's model reads the engine only beside a vision model; NVIDIA's page leaves it unfilled.
            "gpt_model_path" if role == "preprocessing" && !has_vision_model(look) => {
                let message = format!("`${{{name}}}` was never filled: only a multimodal model reads it");
                look.warn(&way, message, "");
                return;
            }
            "gpt_model_path" | "tokenizer_dir" if role != "tensorrt_llm" || key == "gpt_model_path" => {
                "it is treated as a folder of that name"
            }
            _ => {
                let fate = if KNOWN_PLACEHOLDERS.contains(&key) && name == key {
                    "the backend treats it as not set".to_owned()
                } else if known.unset.is_empty() {
                    "it reaches the backend unchanged".to_owned()
                } else {
                    format!("the backend takes its default ({})", known.unset)
                };
                look.warn(&way, format!("`${{{name}}}` was never filled: {fate}"), "");
                return;
            }
        };
        let hint = format!("fill `{name}`: {}", known.kind);
        look.error(&way, format!("`${{{name}}}` was never filled: {fate}"), hint);
        return;
    }
    // The backend takes `1`, `True` and `TRUE` as well.
    let lower = value.to_ascii_lowercase();
    let text = match lower.as_str() {
        "true" | "false" => lower.as_str(),
        _ => value,
    };
    let switch = matches!(value, "0" | "1") && matches!(known.kind, ParameterKind::Switch);
    if switch || value.is_empty() && !known.unset.is_empty() {
        return;
    }
    if known.kind.spell(&Value::from(text)).is_err() {
        let fate = match key {
            "gpt_model_type" => "the backend fails to load with it".to_owned(),
            _ if known.unset.is_empty() => "the backend cannot use it".to_owned(),
            _ => format!("the backend takes its default ({}) and reports it in its log only", known.unset),
        };
        let hint = match known.kind.words() {
            [] => format!("it is {}", known.kind),
            words => did_you_mean(value, words.iter().copied()).unwrap_or_default(),
        };
        look.error(&way, format!("`{value}` is not a {key}: {fate}"), hint);
    }
}

fn has_vision_model(look: &ModelChecker<'_>) -> bool {
    let named = |key: &str| {
        let path = look.model.config.parameters.get(key).map(|value| value.string_value.as_str());
        path.is_some_and(|path| !path.is_empty() && placeholder(path).is_none())
    };
    // The second is its name in older templates.
    named("multimodal_model_path") || named("visual_model_path")
}

fn engine(look: &mut ModelChecker<'_>, given: Option<&EngineConfig>) {
    let model = look.model;
    let config = &model.config;
    let named = config.parameters.get("gpt_model_path").map(|value| value.string_value.clone()).unwrap_or_default();
    let has_encoder = config.parameters.get("encoder_model_path").is_some_and(|path| !path.string_value.is_empty());
    for key in ["gpt_model_type", "gpt_model_path"] {
        let missing = config.parameters.get(key).is_none_or(|value| value.string_value.is_empty());
        if missing && model.is_whole && !(key == "gpt_model_path" && has_encoder) && config.backend == "tensorrtllm" {
            let hint = find(if key == "gpt_model_type" { "batching_strategy" } else { "engine_dir" });
            let hint = hint.map_or_else(String::new, |known| format!("it is {}", known.kind));
            look.error(&[Name("parameters")], format!("the parameter `{key}` is missing"), hint);
        }
    }
    let path = parameter("gpt_model_path");
    let loaded;
    let engine = if let Some(given) = given {
        given
    } else {
        if named.is_empty() || placeholder(&named).is_some() {
            return;
        }
        match EngineConfig::load(Path::new(&named)) {
            Ok(engine) => {
                loaded = engine;
                &loaded
            }
            Err(error) => {
                look.error(&path, error.to_string(), "if the engine is elsewhere on this machine, set `--engine DIR`");
                return;
            }
        }
    };
    fits(look, engine);
}

fn fits(look: &mut ModelChecker<'_>, engine: &EngineConfig) {
    let model = look.model;
    let config = &model.config;
    let value = |name: &str| {
        if name == "triton_max_batch_size" {
            return Some(config.max_batch_size.to_string());
        }
        let parameter = find(name)?;
        let text = config.parameters.get(parameter.key)?.string_value.to_ascii_lowercase();
        // The backend takes what was never filled for not set.
        if placeholder(&text).is_some() {
            return None;
        }
        Some(if name == "batching_strategy" && text == "v1" { "V1".to_owned() } else { text })
    };
    for (name, limit) in limits(&value, engine) {
        let key = find(name).map_or("", |known| known.key);
        let way = if key.is_empty() { vec![Name("max_batch_size")] } else { parameter(key).to_vec() };
        // The message shows the name in config.pbtxt, not the template's.
        look.error(
            &way,
            limit.message.replace("triton_max_batch_size", "max_batch_size"),
            limit.hint.unwrap_or_default(),
        );
    }
    for (index, output) in config.output.iter().enumerate() {
        let built = engine.build_config.rest.get(match output.name.as_str() {
            "context_logits" => "gather_context_logits",
            "generation_logits" => "gather_generation_logits",
            _ => continue,
        });
        let logits = engine.pretrained_config.rest.get("logits_dtype").and_then(Value::as_str).unwrap_or("float32");
        let wanted = match logits {
            "float16" => DataType::TypeFp16,
            "bfloat16" => DataType::TypeBf16,
            _ => DataType::TypeFp32,
        };
        let is_built = built.and_then(Value::as_bool).unwrap_or(false);
        if output.data_type() != wanted && output.data_type() != DataType::TypeInvalid && is_built {
            let way = [Name("output"), Nth(index), Name("data_type")];
            let message = format!(
                "`{}` is {}, but the engine's logits are {logits}",
                output.name,
                output.data_type().as_str_name()
            );
            look.error(&way, message, format!("write {}", wanted.as_str_name()));
        }
    }
}

pub(super) fn check_batching(look: &mut ModelChecker<'_>) {
    let model = look.model;
    let config = &model.config;
    if config.max_batch_size < 0 {
        look.error(&[Name("max_batch_size")], "max_batch_size is below 0", "0 means no batching");
    }
    match &config.scheduling_choice {
        Some(SchedulingChoice::DynamicBatching(batching)) => dynamic(look, batching),
        Some(SchedulingChoice::SequenceBatching(batching)) => sequence(look, batching),
        _ => {}
    }
    let is_decoupled = config.model_transaction_policy.is_some_and(|policy| policy.decoupled);
    if is_decoupled && config.response_cache.is_some_and(|cache| cache.enable) {
        look.error(&[Name("response_cache")], "a decoupled model has no response cache", "turn one of them off");
    }
    for (index, agent) in config.model_repository_agents.iter().flat_map(|agents| &agents.agents).enumerate() {
        if agent.name != "checksum" {
            let way = [Name("model_repository_agents"), Name("agents"), Nth(index)];
            let hint =
                format!("Triton brings `checksum`; another needs libtritonrepoagent_{}.so on the server", agent.name);
            look.error(&way, format!("unknown repository agent `{}`", agent.name), hint);
        }
    }
    batch_tensors(look);
}

fn dynamic(look: &mut ModelChecker<'_>, batching: &ModelDynamicBatching) {
    let section = Name("dynamic_batching");
    preferred(look, &[section], &batching.preferred_batch_size);
    if look.model.config.max_batch_size == 0 && look.model.is_whole && batching.preferred_batch_size.is_empty() {
        look.warn(&[section], "the dynamic batcher does nothing: max_batch_size is 0", "");
    }
    let (levels, default) = (batching.priority_levels, batching.default_priority_level);
    if levels > 0 && !(1..=levels).contains(&default) {
        let way = [section, Name("default_priority_level")];
        let hint = format!("levels go from 1 to priority_levels ({levels})");
        look.error(&way, format!("default_priority_level is {default}"), hint);
    }
    for level in batching.priority_queue_policy.keys().filter(|level| levels > 0 && !(1..=levels).contains(*level)) {
        let key = level.to_string();
        let way = [section, Name("priority_queue_policy"), Key(&key)];
        look.error(&way, format!("no priority level {level}: the model has {levels}"), "");
    }
    if levels == 0 && default > 0 {
        look.warn(&[section, Name("default_priority_level")], "a priority without priority_levels does nothing", "");
    }
}

fn preferred(look: &mut ModelChecker<'_>, batcher: &[PbtxtStep<'_>], sizes: &[i32]) {
    let most = look.model.config.max_batch_size;
    for (nth, size) in sizes.iter().enumerate() {
        let way = [batcher, &[Name("preferred_batch_size"), Nth(nth)]].concat();
        if *size <= 0 {
            look.error(&way, format!("{size} is not a batch size"), "it is 1 or more");
        } else if *size > most && look.model.is_whole {
            look.error(
                &way,
                format!("the preferred batch size {size} is above max_batch_size {most}"),
                "lower it, or raise max_batch_size",
            );
        }
    }
}

fn sequence(look: &mut ModelChecker<'_>, batching: &ModelSequenceBatching) {
    let section = Name("sequence_batching");
    match &batching.strategy_choice {
        Some(StrategyChoice::Oldest(oldest)) => {
            preferred(look, &[section, Name("oldest")], &oldest.preferred_batch_size);
        }
        Some(StrategyChoice::Direct(direct)) if !(0.0..=1.0).contains(&direct.minimum_slot_utilization) => {
            let way = [section, Name("direct"), Name("minimum_slot_utilization")];
            look.error(&way, "the slot utilization is a fraction from 0 to 1", "");
        }
        _ => {}
    }
    let mut seen = Vec::new();
    for (index, input) in batching.control_input.iter().enumerate() {
        let way = [section, Name("control_input"), Nth(index)];
        if input.name.is_empty() {
            look.error(&way, "a control input without a name", "");
        }
        if input.control.is_empty() {
            look.error(&way, format!("control input `{}` controls nothing", input.name), "");
        }
        for (nth, control) in input.control.iter().enumerate() {
            let way = [way[0], way[1], way[2], Name("control"), Nth(nth)];
            let word = control.kind().as_str_name();
            if seen.contains(&control.kind()) {
                look.error(&way, format!("{word} is controlled twice"), "");
            }
            seen.push(control.kind());
            if control.kind() == Kind::ControlSequenceCorrid {
                let allowed = [
                    DataType::TypeUint64,
                    DataType::TypeInt64,
                    DataType::TypeUint32,
                    DataType::TypeInt32,
                    DataType::TypeString,
                ];
                if !allowed.contains(&control.data_type()) {
                    let names: Vec<&str> = allowed.iter().map(DataType::as_str_name).collect();
                    look.error(&way, format!("{word} needs a data_type: {}", names.join(", ")), "");
                }
                continue;
            }
            let pairs = [control.int32_false_true.len(), control.fp32_false_true.len(), control.bool_false_true.len()];
            let given: Vec<usize> = pairs.into_iter().filter(|length| *length > 0).collect();
            if given != [2] {
                look.error(
                    &way,
                    format!("{word} needs one pair: the values for false and true"),
                    "for example `int32_false_true: [ 0, 1 ]`",
                );
            }
        }
    }
}

fn batch_tensors(look: &mut ModelChecker<'_>) {
    let model = look.model;
    let config = &model.config;
    let inputs: Vec<&str> = config.input.iter().map(|input| input.name.as_str()).collect();
    let outputs: Vec<&str> = config.output.iter().map(|output| output.name.as_str()).collect();
    let unknown = |look: &mut ModelChecker<'_>, way: &[PbtxtStep<'_>], what: &str, name: &str, known: &[&str]| {
        look.error(way, format!("there is no {what} `{name}`"), near(name, known.iter().copied()).unwrap_or_default());
    };
    for (index, batch) in config.batch_input.iter().enumerate() {
        let way = [Name("batch_input"), Nth(index)];
        if batch.target_name.is_empty() {
            look.error(&way, "a batch_input needs a target_name", "");
        }
        if !matches!(batch.data_type(), DataType::TypeInt32 | DataType::TypeFp32) {
            let way = [way[0], way[1], Name("data_type")];
            look.error(&way, "a batch_input must be TYPE_INT32 or TYPE_FP32", "");
        }
        if batch.source_input.is_empty() && batch.kind() != BatchKind::BatchItemShape {
            look.error(&way, "a batch_input needs a source_input", "");
        }
        for name in batch.source_input.iter().filter(|name| !inputs.contains(&name.as_str())) {
            unknown(look, &[way[0], way[1], Name("source_input")], "input", name, &inputs);
        }
    }
    for (index, batch) in config.batch_output.iter().enumerate() {
        let way = [Name("batch_output"), Nth(index)];
        for name in batch.target_name.iter().filter(|name| !outputs.contains(&name.as_str())) {
            unknown(look, &[way[0], way[1], Name("target_name")], "output", name, &outputs);
        }
        for name in batch.source_input.iter().filter(|name| !inputs.contains(&name.as_str())) {
            unknown(look, &[way[0], way[1], Name("source_input")], "input", name, &inputs);
        }
    }
}
