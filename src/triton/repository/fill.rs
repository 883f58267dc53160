//! From a spec and an engine to a value for every parameter, or to every mistake at once.

use std::collections::BTreeMap;

use serde_json::Value;

use super::flags::{FLAGS, Meaning, meaning};
use super::limits::limits;
use super::parameters::{PARAMETERS, find};
use super::{Problem, RepositoryError, RepositorySpec, TEMPLATES};
use crate::triton::EngineConfig;

/// Every parameter by its template name; `None` is not written.
pub(super) struct Filled {
    values: BTreeMap<&'static str, Option<String>>,
    pub notes: Vec<String>,
}

impl Filled {
    /// The names that one model's template may use.
    pub(super) fn of(&self, model: &str) -> BTreeMap<&'static str, Option<String>> {
        let mut values = self.values.clone();
        if model == "preprocessing" {
            // The preprocessor opens the engine only for encoder-decoder models.
            values.insert("engine_dir", None);
        }
        values
    }
}

/// Spells every parameter and holds it against the engine.
pub(super) fn fill(spec: &RepositorySpec, engine: &EngineConfig) -> Result<Filled, RepositoryError> {
    let mut problems = Vec::new();
    check_models(spec, &mut problems);
    let given = given(spec, &mut problems);
    let mut values: BTreeMap<&'static str, Option<String>> =
        PARAMETERS.iter().map(|p| (p.name, p.default.map(str::to_owned))).collect();
    let build = &engine.build_config;
    values.insert("triton_max_batch_size", Some(build.max_batch_size.to_string()));
    values.insert("decoupled_mode", Some(spec.streaming.to_string()));
    values.insert("engine_dir", Some(spec.engine.display().to_string()));
    values.insert("tokenizer_dir", spec.tokenizer.as_ref().map(|path| path.display().to_string()));
    if let Some((ids, instances)) = gpu_groups(spec, engine, &mut problems) {
        values.insert("gpu_device_ids", Some(ids));
        values.insert("instance_count", Some(instances.to_string()));
    }
    for (name, value) in given {
        values.insert(name, Some(value));
    }
    let value = |name: &str| values.get(name).and_then(Clone::clone);
    problems.extend(limits(&value, engine).into_iter().map(|limit| problem(limit.message, limit.hint)));
    if problems.is_empty() {
        let notes = notes(spec, &values);
        Ok(Filled { values, notes })
    } else {
        Err(RepositoryError::Invalid { problems })
    }
}

fn check_models(spec: &RepositorySpec, problems: &mut Vec<Problem>) {
    let names: Vec<&str> = TEMPLATES.iter().map(|(name, _)| *name).collect();
    for (at, model) in spec.models.iter().enumerate() {
        if !names.contains(&model.as_str()) {
            problems.push(unknown("model", model, &names));
        } else if spec.models[..at].contains(model) {
            problems.push(problem(format!("model `{model}` is named twice"), None));
        }
    }
    if !spec.models.iter().any(|m| m == "tensorrt_llm") {
        problems.push(problem("a repository for an engine needs the model `tensorrt_llm`".to_owned(), None));
    }
    if spec.models.iter().any(|m| m == "ensemble") {
        for part in ["preprocessing", "postprocessing"] {
            if !spec.models.iter().any(|m| m == part) {
                problems
                    .push(problem(format!("`ensemble` needs `{part}`"), Some(format!("add `{part}` to the models"))));
            }
        }
    }
    if spec.triton_num_servers == 0 {
        problems.push(problem("triton_num_servers is 0: there would be no server".to_owned(), None));
    }
}

/// What the spec says itself, spelled; flags first, then parameters.
fn given(spec: &RepositorySpec, problems: &mut Vec<Problem>) -> BTreeMap<&'static str, String> {
    let mut said: Vec<(&'static str, String, Value)> = Vec::new();
    for (flag, value) in &spec.runtime_flags {
        match meaning(flag, value) {
            Meaning::Parameters(list) => {
                said.extend(list.into_iter().map(|(name, v)| (name, format!("runtime flag `{flag}`"), v)));
            }
            Meaning::Wrong(message) => problems.push(problem(format!("runtime flag `{flag}`: {message}"), None)),
            Meaning::Elsewhere => problems.push(problem(
                format!("runtime flag `{flag}` belongs to another executor; no config.pbtxt has a place for it"),
                Some("take it away".to_owned()),
            )),
            Meaning::Unknown if find(flag).is_some() => problems.push(problem(
                format!("`{flag}` is a template parameter, not a runtime flag"),
                Some("put it under `parameters`".to_owned()),
            )),
            Meaning::Unknown => problems.push(unknown("runtime flag", flag, FLAGS)),
        }
    }
    let names: Vec<&str> = PARAMETERS.iter().map(|p| p.name).collect();
    for (name, value) in &spec.parameters {
        match find(name).filter(|_| name != "engine_dir") {
            Some(parameter) => said.push((parameter.name, format!("parameter `{name}`"), value.clone())),
            None if name == "engine_dir" => {
                problems.push(problem("parameter `engine_dir` is `engine` of the stage".to_owned(), None));
            }
            None => problems.push(unknown("parameter", name, &names)),
        }
    }
    let mut values: BTreeMap<&'static str, (String, String)> = BTreeMap::new();
    for (name, by, value) in said {
        let Some(parameter) = find(name) else { continue };
        match parameter.kind.spell(&value) {
            Err(message) => problems.push(problem(format!("{by}: {message}"), None)),
            Ok(text) => match values.get(name) {
                Some((other, before)) if *before != text => {
                    problems.push(problem(format!("{other} says {before} and {by} says {text} for `{name}`"), None));
                }
                _ => {
                    values.insert(name, (by, text));
                }
            },
        }
    }
    values.into_iter().map(|(name, (_, text))| (name, text)).collect()
}

/// Devices counted inside a server's visible ones: `0,1` for one copy of the model, `0,1;2,3` for two.
fn gpu_groups(spec: &RepositorySpec, engine: &EngineConfig, problems: &mut Vec<Problem>) -> Option<(String, u32)> {
    let ranks = engine.ranks();
    let here = match spec.gpus {
        None => ranks,
        Some(_) if spec.triton_num_servers == 0 => return None,
        Some(gpus) if gpus % spec.triton_num_servers != 0 => {
            let message = format!("{gpus} GPUs cannot be shared evenly by {} servers", spec.triton_num_servers);
            problems.push(problem(message, None));
            return None;
        }
        Some(gpus) => gpus / spec.triton_num_servers,
    };
    if here == 0 || !here.is_multiple_of(ranks) {
        let message = format!("a server has {here} GPUs, and the engine needs {ranks} (tp × pp) for each copy");
        problems
            .push(problem(message, Some("change triton_num_servers or build the engine for other sizes".to_owned())));
        return None;
    }
    let groups = (0..here / ranks)
        .map(|copy| (copy * ranks..(copy + 1) * ranks).map(|gpu| gpu.to_string()).collect::<Vec<_>>().join(","));
    Some((groups.collect::<Vec<_>>().join(";"), here / ranks))
}

fn notes(spec: &RepositorySpec, values: &BTreeMap<&'static str, Option<String>>) -> Vec<String> {
    let text_models: Vec<&str> =
        spec.models.iter().map(String::as_str).filter(|m| matches!(*m, "preprocessing" | "postprocessing")).collect();
    let mut notes = Vec::new();
    if !text_models.is_empty() && values.get("tokenizer_dir").is_none_or(Option::is_none) {
        notes.push(format!("no tokenizer is set: Triton cannot load {} without one", text_models.join(" and ")));
    }
    notes
}

fn problem(message: String, hint: Option<String>) -> Problem {
    Problem { message, hint }
}

fn unknown(what: &str, name: &str, known: &[&str]) -> Problem {
    let close = known
        .iter()
        .map(|candidate| (strsim::jaro_winkler(name, candidate), *candidate))
        .filter(|(likeness, _)| *likeness > 0.8)
        .max_by(|a, b| a.0.total_cmp(&b.0));
    let hint = close.map_or_else(|| format!("known: {}", known.join(", ")), |(_, it)| format!("did you mean `{it}`?"));
    problem(format!("unknown {what} `{name}`"), Some(hint))
}
