//! Writes Triton model repositories for a TensorRT-LLM engine: `triton_model_repo_<n>/<model>/{config.pbtxt,1/}`.
//!
//! The configs come from the templates in `templates/triton`, which are part of this program. Everything is checked
//! before the first byte is written: names, values, and values against the engine's own `config.json`. The programs of
//! the Python models (`1/model.py`) are not written: they belong to TensorRT-LLM's backend. Same input, same bytes.

mod fill;
mod flags;
mod parameters;

use std::fs;
use std::path::{Path, PathBuf};

use indexmap::IndexMap;
use serde_json::Value;

use super::{EngineConfig, EngineError, pbtxt};

/// The five models of TensorRT-LLM's Triton backend, and their templates.
const TEMPLATES: [(&str, &str); 5] = [
    ("ensemble", include_str!("../../../templates/triton/ensemble/config.pbtxt.j2")),
    ("preprocessing", include_str!("../../../templates/triton/preprocessing/config.pbtxt.j2")),
    ("tensorrt_llm", include_str!("../../../templates/triton/tensorrt_llm/config.pbtxt.j2")),
    ("postprocessing", include_str!("../../../templates/triton/postprocessing/config.pbtxt.j2")),
    ("tensorrt_llm_bls", include_str!("../../../templates/triton/tensorrt_llm_bls/config.pbtxt.j2")),
];

/// What to write.
#[derive(Clone, Debug, PartialEq)]
pub struct RepositorySpec {
    /// The engine folder, as the server will see it.
    pub engine: PathBuf,
    /// One repository for each.
    pub triton_num_servers: u32,
    /// GPUs that all servers share evenly. Not given: each server has one engine's worth (tp × pp).
    pub gpus: Option<u32>,
    /// Token streaming (`decoupled`).
    pub streaming: bool,
    pub tokenizer: Option<PathBuf>,
    /// From the five.
    pub models: Vec<String>,
    /// In the words of NVIDIA's harness.
    pub runtime_flags: IndexMap<String, Value>,
    /// By template name; wins over nothing: the same thing said twice is a mistake.
    pub parameters: IndexMap<String, Value>,
}

/// What was written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// In the order of the servers.
    pub repositories: Vec<PathBuf>,
    /// What a person should know before a real Triton reads them.
    pub notes: Vec<String>,
}

/// One mistake in a [`RepositorySpec`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub message: String,
    pub hint: Option<String>,
}

/// Why no repository was written.
#[derive(Debug, thiserror::Error)]
pub enum RepositoryError {
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error("{}", problems.iter().map(Problem::line).collect::<Vec<_>>().join("; "))]
    Invalid { problems: Vec<Problem> },
    #[error("the template of {model} does not fit: {message}")]
    Template { model: String, message: String },
    #[error("cannot write {}", path.display())]
    Write { path: PathBuf, source: std::io::Error },
}

impl Problem {
    pub fn line(&self) -> String {
        self.hint.as_ref().map_or_else(|| self.message.clone(), |hint| format!("{} ({hint})", self.message))
    }
}

/// Writes one repository for each server under `out`, which must exist.
pub fn write(spec: &RepositorySpec, out: &Path) -> Result<Written, RepositoryError> {
    let engine = EngineConfig::load(&spec.engine)?;
    let filled = fill::fill(spec, &engine)?;
    let mut configs = Vec::new();
    for model in &spec.models {
        configs.push((model, render(model, &filled)?));
    }
    let mut written = Written { repositories: Vec::new(), notes: filled.notes };
    for server in 0..spec.triton_num_servers {
        let repository = out.join(format!("triton_model_repo_{server}"));
        for (model, text) in &configs {
            let version = repository.join(model).join("1");
            fs::create_dir_all(&version).map_err(|source| RepositoryError::Write { path: version.clone(), source })?;
            let path = repository.join(model).join("config.pbtxt");
            fs::write(&path, text).map_err(|source| RepositoryError::Write { path, source })?;
        }
        written.repositories.push(repository);
    }
    Ok(written)
}

/// One model's config.pbtxt, read back once so that what is written is known to be readable.
fn render(model: &str, filled: &fill::Filled) -> Result<String, RepositoryError> {
    let wrong = |message: String| RepositoryError::Template { model: model.to_owned(), message };
    let template = TEMPLATES.iter().find(|(name, _)| *name == model).map(|(_, text)| *text);
    let template = template.ok_or_else(|| wrong("there is none".to_owned()))?;
    let mut environment = minijinja::Environment::new();
    environment.set_undefined_behavior(minijinja::UndefinedBehavior::Strict);
    environment.add_filter("quoted", |text: String| pbtxt::quoted(&text));
    let mut text = environment.render_str(template, filled.of(model)).map_err(|error| wrong(error.to_string()))?;
    text.push('\n');
    pbtxt::read(&text).map_err(|error| wrong(error.to_string()))?;
    Ok(text)
}

#[cfg(test)]
mod tests;
