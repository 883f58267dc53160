//! How TensorRT-LLM's backend and its Python models use their parameters, and what the engine supports.

use std::path::Path;

use serde_json::Value;

use super::{ModelChecker, parameter, placeholder};
use crate::EngineConfig;
use crate::pbtxt::PbtxtStep;
use crate::proto::inference::DataType;
use crate::repository::fill::limits;
use crate::repository::parameters::{by_key, find, of_model};
use base::diag::{did_you_mean, nearest};

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
        look.warn(&parameter(key), message, None);
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
        let hint = nearest(key, names).map(|name| format!("did you mean `{name}`?"));
        look.warn(&[way[0], way[1]], format!("`{key}` is not a parameter of {role}: it has no effect"), hint);
        return;
    };
    if let Some(name) = placeholder(value) {
        let fate = match key {
            "gpt_model_type" => "the backend fails to load with it",
            // The tokenizer's model reads the engine only beside a vision model; NVIDIA's page leaves it unfilled.
            "gpt_model_path" if role == "preprocessing" && !has_vision_model(look) => {
                let message = format!("`${{{name}}}` was never filled: only a multimodal model reads it");
                look.warn(&way, message, None);
                return;
            }
            "gpt_model_path" | "tokenizer_dir" if role != "tensorrt_llm" || key == "gpt_model_path" => {
                "it is taken for a folder of that name"
            }
            _ => {
                let fate = if KNOWN_PLACEHOLDERS.contains(&key) && name == key {
                    "the backend knows it and takes it for not set".to_owned()
                } else if known.unset.is_empty() {
                    "it reaches the backend as this very text".to_owned()
                } else {
                    format!("the backend takes its default ({})", known.unset)
                };
                look.warn(&way, format!("`${{{name}}}` was never filled: {fate}"), None);
                return;
            }
        };
        let hint = Some(format!("fill `{name}`: {}", known.kind));
        look.error(&way, format!("`${{{name}}}` was never filled: {fate}"), hint);
        return;
    }
    // The backend takes `1`, `True` and `TRUE` as well.
    let lower = value.to_ascii_lowercase();
    let text = match lower.as_str() {
        "true" | "false" => lower.as_str(),
        _ => value,
    };
    let switch = known.kind.words().is_empty()
        && matches!(value, "0" | "1")
        && matches!(known.kind, super::super::ParameterKind::Switch);
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
            [] => Some(format!("it is {}", known.kind)),
            words => did_you_mean(value, words.iter().copied()),
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
            let hint = hint.map(|known| format!("it is {}", known.kind));
            look.error(&[PbtxtStep::Name("parameters")], format!("the parameter `{key}` is missing"), hint);
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
                let hint = "if the engine is elsewhere on this machine, set `--engine DIR`".to_owned();
                look.error(&path, error.to_string(), Some(hint));
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
        let way = if key.is_empty() { vec![PbtxtStep::Name("max_batch_size")] } else { parameter(key).to_vec() };
        // The message shows the name in config.pbtxt, not the template's.
        look.error(&way, limit.message.replace("triton_max_batch_size", "max_batch_size"), limit.hint);
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
            let way = [PbtxtStep::Name("output"), PbtxtStep::Nth(index), PbtxtStep::Name("data_type")];
            let message = format!(
                "`{}` is {}, and the engine's logits are {logits}",
                output.name,
                output.data_type().as_str_name()
            );
            look.error(&way, message, Some(format!("write {}", wanted.as_str_name())));
        }
    }
}
