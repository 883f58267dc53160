//! Turns a spec and an engine into a value for every parameter, or into a list of all errors.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use super::parameters::{FLAGS, FlagMeaning, PARAMETERS, find, meaning};
use super::{MODELS, Repository, RepositoryError, RepositoryLayout, SpecProblem};
use crate::EngineConfig;
use base::diag::did_you_mean;
use base::units::counted;

/// Every parameter by its template name; `None` is not written.
pub(super) struct FilledParameters {
    values: BTreeMap<&'static str, Option<String>>,
    /// Copies of the engine in one server.
    pub copies: u32,
    pub notes: Vec<String>,
}

impl FilledParameters {
    /// The names that one model's template may use.
    pub(super) fn for_model(&self, model: &str) -> BTreeMap<&'static str, Option<String>> {
        let mut values = self.values.clone();
        if model == "preprocessing" {
            // The preprocessor opens the engine only for encoder-decoder models.
            values.insert("engine_dir", None);
        }
        values
    }
}

/// Formats every parameter and checks it against the engine.
pub(super) fn fill(spec: &Repository, engine: &EngineConfig) -> Result<FilledParameters, RepositoryError> {
    let mut problems = Vec::new();
    check_models(spec, &mut problems);
    let given = given(spec, &mut problems);
    let mut values: BTreeMap<&'static str, Option<String>> =
        PARAMETERS.iter().map(|p| (p.name, p.default.map(str::to_owned))).collect();
    let build = &engine.build_config;
    values.insert("triton_max_batch_size", Some(build.max_batch_size.to_string()));
    values.insert("decoupled_mode", Some(spec.streaming.to_string()));
    values.insert("engine_dir", Some(spec.engine.clone()));
    values.insert("tokenizer_dir", spec.tokenizer.clone());
    let is_five = spec.layout == RepositoryLayout::Five;
    let copies = copies(spec, engine, &mut problems);
    if is_five {
        values.insert("gpu_device_ids", Some(groups(copies, engine.ranks())));
        values.insert("instance_count", Some(copies.to_string()));
    } else {
        // The harness sends requests one by one; the engine makes batches of them.
        values.insert("triton_max_batch_size", Some("1".to_owned()));
        values.insert("gpu_device_ids", Some(groups(1, engine.ranks())));
        values.insert("instance_count", Some("1".to_owned()));
        if given.contains_key("gpu_device_ids") {
            let text = "the harness layout gives each model its own `gpu_device_ids`".to_owned();
            problems.push(SpecProblem::new(text, "remove the parameter"));
        }
    }
    for (name, value) in given {
        values.insert(name, Some(value));
    }
    let value = |name: &str| values.get(name).and_then(Clone::clone);
    problems.extend(limits(&value, engine).into_iter().map(|(_, problem)| problem));
    check_experts(engine, &mut problems);
    check_files(spec, values["triton_backend"].as_deref().unwrap_or_default(), &mut problems);
    if problems.is_empty() {
        let notes = notes(spec, &values);
        Ok(FilledParameters { values, copies, notes })
    } else {
        Err(RepositoryError::Invalid { problems })
    }
}

fn check_models(spec: &Repository, problems: &mut Vec<SpecProblem>) {
    if spec.triton_num_servers == 0 {
        problems.push(SpecProblem::new("triton_num_servers is 0: there would be no server", ""));
    }
    if spec.layout != RepositoryLayout::Five {
        return;
    }
    for (at, model) in spec.models.iter().enumerate() {
        if !MODELS.contains(&model.as_str()) {
            problems.push(unknown("model", model, &MODELS));
        } else if spec.models[..at].contains(model) {
            problems.push(SpecProblem::new(format!("model `{model}` is named twice"), ""));
        }
    }
    if !spec.models.iter().any(|m| m == "tensorrt_llm") {
        problems.push(SpecProblem::new("a repository for an engine needs the model `tensorrt_llm`", ""));
    }
    if spec.models.iter().any(|m| m == "ensemble") {
        for part in ["preprocessing", "postprocessing"] {
            if !spec.models.iter().any(|m| m == part) {
                let hint = format!("add `{part}` to the models");
                problems.push(SpecProblem::new(format!("`ensemble` needs `{part}`"), &hint));
            }
        }
    }
}

/// The spec's own values as text; flags first, then parameters.
fn given(spec: &Repository, problems: &mut Vec<SpecProblem>) -> BTreeMap<&'static str, String> {
    let mut entries: Vec<(&'static str, String, Value)> = Vec::new();
    for (flag, value) in &spec.runtime_flags {
        match meaning(flag, value) {
            FlagMeaning::Parameters(mut list) => {
                // In the harness layout the engine does the batching, not the server.
                list.retain(|(name, _)| spec.layout == RepositoryLayout::Five || *name != "triton_max_batch_size");
                entries.extend(list.into_iter().map(|(name, v)| (name, format!("runtime flag `{flag}`"), v)));
            }
            FlagMeaning::InvalidValue(message) => {
                problems.push(SpecProblem::new(format!("runtime flag `{flag}`: {message}"), ""));
            }
            FlagMeaning::NotInRepository => problems.push(SpecProblem::new(
                format!("runtime flag `{flag}` belongs to another executor; no config.pbtxt has a place for it"),
                "remove it",
            )),
            FlagMeaning::Unknown if find(flag).is_some() => problems.push(SpecProblem::new(
                format!("`{flag}` is a template parameter, not a runtime flag"),
                "put it under `parameters`",
            )),
            FlagMeaning::Unknown => problems.push(unknown("runtime flag", flag, FLAGS)),
        }
    }
    let names: Vec<&str> = PARAMETERS.iter().map(|p| p.name).collect();
    for (name, value) in &spec.parameters {
        match find(name).filter(|_| name != "engine_dir") {
            Some(parameter) => {
                entries.push((parameter.name, format!("parameter `{name}`"), parameter.kind.canonical(value)));
            }
            None if name == "engine_dir" => {
                problems.push(SpecProblem::new("parameter `engine_dir` is `engine` of the stage", ""));
            }
            None => problems.push(unknown("parameter", name, &names)),
        }
    }
    let mut values: BTreeMap<&'static str, (String, String)> = BTreeMap::new();
    for (name, by, value) in entries {
        let Some(parameter) = find(name) else { continue };
        match parameter.kind.spell(&value) {
            Err(message) => problems.push(SpecProblem::new(format!("{by}: {message}"), "")),
            Ok(text) => match values.get(name) {
                Some((other, before)) if *before != text => {
                    problems
                        .push(SpecProblem::new(format!("{other} sets {before} and {by} sets {text} for `{name}`"), ""));
                }
                _ => {
                    values.insert(name, (by, text));
                }
            },
        }
    }
    values.into_iter().map(|(name, (_, text))| (name, text)).collect()
}

/// How many copies of the engine (data-parallel ranks) each server has: its GPUs / (tp × pp).
fn copies(spec: &Repository, engine: &EngineConfig, problems: &mut Vec<SpecProblem>) -> u32 {
    let (ranks, servers) = (engine.ranks(), spec.triton_num_servers.max(1));
    let wanted = spec.triton_num_models_per_server.filter(|_| spec.layout == RepositoryLayout::Harness);
    let Some(gpus) = spec.gpus else { return wanted.unwrap_or(1) };
    if gpus % servers != 0 {
        problems.push(SpecProblem::new(format!("{gpus} GPUs cannot be shared evenly by {servers} servers"), ""));
        return 1;
    }
    let here = gpus / servers;
    if here == 0 || !here.is_multiple_of(ranks) {
        let message =
            format!("a server has {}, but each copy of the engine needs {ranks} (tp × pp)", counted(here, "GPU"));
        let hint = "change triton_num_servers or build the engine for other sizes";
        problems.push(SpecProblem::new(message, hint));
        return 1;
    }
    let copies = here / ranks;
    if let Some(wanted) = wanted.filter(|wanted| *wanted != copies) {
        let message = format!(
            "triton_num_models_per_server is {wanted}: {servers} servers would use {} GPUs, but {gpus} exist",
            u64::from(wanted) * u64::from(servers) * u64::from(ranks)
        );
        let (total, each) = (gpus / ranks, counted(ranks, "GPU"));
        let hint = if wanted > 0 && total.is_multiple_of(wanted) {
            format!("{total} copies of {each}, {wanted} in each server: triton_num_servers: {}", total / wanted)
        } else {
            format!("{total} copies of {each} cannot be divided like this")
        };
        problems.push(SpecProblem::new(message, &hint));
    }
    copies
}

/// Devices counted inside a server's visible ones: `0,1` for one copy of the model, `0,1;2,3` for two.
fn groups(copies: u32, ranks: u32) -> String {
    let group = |copy: u32| (copy * ranks..(copy + 1) * ranks).map(|gpu| gpu.to_string()).collect::<Vec<_>>().join(",");
    (0..copies).map(group).collect::<Vec<_>>().join(";")
}

/// Experts are split over the ranks of tensor parallelism.
fn check_experts(engine: &EngineConfig, problems: &mut Vec<SpecProblem>) {
    let mapping = &engine.pretrained_config.mapping;
    let size = |key: &str| mapping.rest.get(key).and_then(Value::as_u64).unwrap_or(1);
    let (tp, ep) = (size("moe_tp_size"), size("moe_ep_size"));
    let named = mapping.rest.contains_key("moe_tp_size") && mapping.rest.contains_key("moe_ep_size");
    if named && tp * ep != u64::from(mapping.tp_size) {
        let message = format!(
            "the engine's moe_tp_size {tp} × moe_ep_size {ep} is not its tp_size {}: experts share the ranks of \
             tensor parallelism",
            mapping.tp_size
        );
        problems.push(SpecProblem::new(message, "build the engine again"));
    }
}

/// The folder that the files of the models come from has what each model needs.
fn check_files(spec: &Repository, backend: &str, problems: &mut Vec<SpecProblem>) {
    let Some(files) = &spec.files else { return };
    for role in roles(spec).filter(|role| is_python(role, backend)) {
        let path = Path::new(files).join(role).join("1/model.py");
        if !path.is_file() {
            problems.push(SpecProblem::new(
                format!("`files` has no {role}/1/model.py: {} is not there", path.display()),
                "name a tree like TensorRT-LLM's all_models/inflight_batcher_llm",
            ));
        }
    }
}

fn roles(spec: &Repository) -> impl Iterator<Item = &str> {
    let harness = ["tensorrt_llm"].into_iter().filter(|_| spec.layout != RepositoryLayout::Five);
    let five = spec.models.iter().map(String::as_str).filter(|_| spec.layout == RepositoryLayout::Five);
    harness.chain(five)
}

fn is_python(role: &str, backend: &str) -> bool {
    matches!(role, "preprocessing" | "postprocessing" | "tensorrt_llm_bls")
        || role == "tensorrt_llm" && backend == "python"
}

fn notes(spec: &Repository, values: &BTreeMap<&'static str, Option<String>>) -> Vec<String> {
    let text_models: Vec<&str> = roles(spec).filter(|m| matches!(*m, "preprocessing" | "postprocessing")).collect();
    let mut notes = Vec::new();
    if !text_models.is_empty() && values.get("tokenizer_dir").is_none_or(Option::is_none) {
        notes.push(format!("no tokenizer is set: Triton cannot load {} without one", text_models.join(" and ")));
    }
    let backend = values["triton_backend"].as_deref().unwrap_or_default();
    let programs: Vec<&str> = roles(spec).filter(|role| is_python(role, backend)).collect();
    if spec.files.is_none() && !programs.is_empty() {
        let names = programs.join(", ");
        notes.push(format!("no `files` are set: Triton hangs at {names} until each has its 1/model.py"));
    }
    notes
}

fn unknown(what: &str, name: &str, known: &[&str]) -> SpecProblem {
    let hint = did_you_mean(name, known.iter().copied());
    SpecProblem { message: format!("unknown {what} `{name}`"), hint }
}

// Values checked against the engine's own `config.json`: what it was built for, and what it can do.

/// Every parameter that does not fit, by its template name. `value` gives a parameter by that name.
pub(super) fn limits(
    value: &dyn Fn(&str) -> Option<String>,
    engine: &EngineConfig,
) -> Vec<(&'static str, SpecProblem)> {
    let number = |name: &str| value(name).and_then(|text| text.trim().parse::<u64>().ok());
    let is_on = |name: &str| value(name).as_deref() == Some("true");
    let build = &engine.build_config;
    let mut actual = Vec::new();
    for (name, limit, flag) in [
        ("triton_max_batch_size", build.max_batch_size, "max_batch_size"),
        ("max_batch_size", build.max_batch_size, "max_batch_size"),
        ("max_num_tokens", build.max_num_tokens, "max_num_tokens"),
        ("max_beam_width", build.max_beam_width, "max_beam_width"),
    ] {
        if let Some(value) = number(name).filter(|value| *value > u64::from(limit)) {
            let message = format!("`{name}` is {value}, but the engine was built with {flag} {limit}");
            let hint = format!("lower it, or build the engine with a larger {flag}");
            actual.push((name, SpecProblem::new(message, &hint)));
        }
    }
    let block = u64::from(engine.tokens_per_block());
    let least = number("max_beam_width").unwrap_or(1) * u64::from(engine.max_seq_len()).div_ceil(block) * block;
    let name = "max_tokens_in_paged_kv_cache";
    if let Some(tokens) = number(name).filter(|tokens| *tokens < least) {
        let message = format!("`{name}` is {tokens}, too small for one sequence of the engine ({least} tokens)");
        actual.push((name, SpecProblem::new(message, "")));
    }
    if build
        .rest
        .get("kv_cache_type")
        .and_then(|kind| kind.as_str())
        .is_some_and(|kind| !kind.eq_ignore_ascii_case("paged") && !kind.ends_with("PAGED"))
        && value("batching_strategy").is_some_and(|strategy| strategy != "V1")
    {
        let message = "in-flight batching needs an engine with a paged KV cache";
        let hint = "build it with `kv_cache_type: paged`, or set V1";
        actual.push(("batching_strategy", SpecProblem::new(message, hint)));
    }
    if build.plugin_config.use_paged_context_fmha == Some(false) {
        for name in ["enable_chunked_context", "enable_kv_cache_reuse"] {
            if is_on(name) {
                let message = format!("`{name}` needs an engine built with use_paged_context_fmha");
                let hint = "build it with `use_paged_context_fmha: enable`";
                actual.push((name, SpecProblem::new(message, hint)));
            }
        }
    }
    let ranks = engine.ranks();
    let name = "gpu_device_ids";
    for group in value(name).iter().flat_map(|ids| ids.split(';')).filter(|group| !group.trim().is_empty()) {
        let count = group.split(',').count() as u32;
        if count != ranks {
            let [count, ranks] = [counted(count, "GPU"), counted(ranks, "rank")];
            let message = format!("`{name}` gives a copy {count} (`{group}`), but the engine has {ranks} (tp × pp)");
            let hint = "a copy needs as many GPUs as the engine has ranks";
            actual.push((name, SpecProblem::new(message, hint)));
        }
    }
    actual
}
