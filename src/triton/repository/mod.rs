//! Writes Triton model repositories for a TensorRT-LLM engine: `triton_model_repo_<n>/<model>/{config.pbtxt,1/}`.
//!
//! The configs come from the templates in `templates/triton`, which are part of this program. Everything is checked
//! before the first byte is written: names, values, and values against the engine's own `config.json`. The programs of
//! the Python models (`1/model.py`) are not written: they belong to TensorRT-LLM's backend. Same input, same bytes.

mod check;
mod fill;
mod parameters;
mod template_tree;

use std::fs;
use std::path::{Path, PathBuf};

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{EngineConfig, EngineError, pbtxt};
use base::spec::MOST_PARTS;

pub use check::{RepositoryCheckResult, check};
pub use parameters::{
    FLAGS as RUNTIME_FLAGS, FlagMeaning, PARAMETERS, Parameter, ParameterKind, meaning, number_parameter,
};
pub use template_tree::{FilledModel, TreeError, Values, fill_tree, pairs, substitute};

/// The five models of TensorRT-LLM's Triton backend, and their templates.
const TEMPLATES: [(&str, &str); 5] = [
    ("ensemble", include_str!("../../../templates/triton/ensemble/config.pbtxt.j2")),
    ("preprocessing", include_str!("../../../templates/triton/preprocessing/config.pbtxt.j2")),
    ("tensorrt_llm", include_str!("../../../templates/triton/tensorrt_llm/config.pbtxt.j2")),
    ("postprocessing", include_str!("../../../templates/triton/postprocessing/config.pbtxt.j2")),
    ("tensorrt_llm_bls", include_str!("../../../templates/triton/tensorrt_llm_bls/config.pbtxt.j2")),
];

/// Triton model repositories, one for each server: `triton_model_repo_<n>/`.
#[base::omit_empty]
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Repository {
    /// The engine folder.
    pub engine: String,
    /// How many servers, each with its own repository.
    #[serde(default = "crate::engine::one")]
    #[schemars(range(min = 1, max = MOST_PARTS))]
    pub triton_num_servers: u32,
    /// GPUs that all servers share evenly; each server has as many copies of the engine as its part allows. [default:
    /// those that the stage leases, or one copy in each]
    #[schemars(range(min = 1, max = MOST_PARTS))]
    pub gpus: Option<u32>,
    /// What each repository holds: `five` (the models below), or `harness` (NVIDIA's: `model-<rank>` for each copy of
    /// the engine).
    #[serde(default, skip_serializing_if = "RepositoryLayout::is_five")]
    pub layout: RepositoryLayout,
    /// Copies of the engine in one server, in the harness layout. [default: as many as its GPUs allow]
    #[schemars(range(min = 1, max = MOST_PARTS))]
    pub triton_num_models_per_server: Option<u32>,
    /// Token streaming (`decoupled`): true for Server and Interactive.
    #[serde(default)]
    pub streaming: bool,
    /// Folder of the tokenizer, for preprocessing and postprocessing.
    pub tokenizer: Option<String>,
    /// Which of the five models to write.
    #[serde(default = "five")]
    pub models: Vec<String>,
    /// Folder with the models' programs, like TensorRT-LLM's `all_models/inflight_batcher_llm`: all but each
    /// config.pbtxt is copied.
    pub files: Option<String>,
    /// The runtime flags of NVIDIA's harness, e.g.
    /// `kvcache_free_gpu_mem_frac, batch_scheduler_policy, enable_chunked_context`. They are written to config.pbtxt.
    #[serde(default)]
    pub runtime_flags: IndexMap<String, Value>,
    /// Any further parameter of the templates by its template name, e.g. `max_queue_size`.
    #[serde(default)]
    pub parameters: IndexMap<String, Value>,
}

/// What a repository holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RepositoryLayout {
    /// The models of TensorRT-LLM's backend.
    #[default]
    Five,
    /// One `tensorrt_llm` for each copy of the engine, called `model-<rank>`.
    Harness,
}

impl RepositoryLayout {
    /// Serde passes a reference.
    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
    fn is_five(&self) -> bool {
        *self == Self::Five
    }
}

fn five() -> Vec<String> {
    MODELS.map(str::to_owned).to_vec()
}

/// The five models of TensorRT-LLM's Triton backend.
pub const MODELS: [&str; 5] = ["ensemble", "preprocessing", "tensorrt_llm", "postprocessing", "tensorrt_llm_bls"];

/// What was written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WrittenRepositories {
    /// In the order of the servers.
    pub repositories: Vec<PathBuf>,
    /// Notes for the user before a real Triton reads the files.
    pub notes: Vec<String>,
}

/// One error in a [`Repository`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpecProblem {
    pub message: String,
    pub hint: Option<String>,
}

/// Why no repository was written.
#[derive(Debug, thiserror::Error)]
pub enum RepositoryError {
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error("{}", problems.iter().map(SpecProblem::line).collect::<Vec<_>>().join("; "))]
    Invalid { problems: Vec<SpecProblem> },
    #[error("the template of {model} does not fit: {message}")]
    Template { model: String, message: String },
    #[error("cannot write {}", path.display())]
    Write { path: PathBuf, source: std::io::Error },
}

impl SpecProblem {
    /// An empty `hint` means no hint.
    pub fn new(message: impl Into<String>, hint: &str) -> Self {
        Self { message: message.into(), hint: (!hint.is_empty()).then(|| hint.to_owned()) }
    }

    pub fn line(&self) -> String {
        self.hint.as_ref().map_or_else(|| self.message.clone(), |hint| format!("{} ({hint})", self.message))
    }
}

/// Writes one repository for each server under `out`, which must exist.
pub fn write(spec: &Repository, out: &Path) -> Result<WrittenRepositories, RepositoryError> {
    let engine = EngineConfig::load(Path::new(&spec.engine))?;
    let filled = fill::fill(spec, &engine)?;
    let mut written = WrittenRepositories { repositories: Vec::new(), notes: filled.notes.clone() };
    for server in 0..spec.triton_num_servers {
        let repository = out.join(format!("triton_model_repo_{server}"));
        for planned in planned(spec, &filled, server, engine.ranks())? {
            let folder = repository.join(&planned.name);
            let io = |source| RepositoryError::Write { path: folder.clone(), source };
            fs::create_dir_all(folder.join("1")).map_err(io)?;
            if let Some(files) = &spec.files {
                copy(&Path::new(files).join(planned.role), &folder).map_err(io)?;
            }
            fs::write(folder.join("config.pbtxt"), planned.text).map_err(io)?;
        }
        written.repositories.push(repository);
    }
    Ok(written)
}

/// One model of one server.
struct Planned<'a> {
    /// Which of the five it is.
    role: &'a str,
    name: String,
    text: String,
}

fn planned<'a>(
    spec: &'a Repository,
    filled: &fill::FilledParameters,
    server: u32,
    ranks: u32,
) -> Result<Vec<Planned<'a>>, RepositoryError> {
    let mut planned = Vec::new();
    if spec.layout == RepositoryLayout::Five {
        for role in &spec.models {
            planned.push(Planned { role, name: role.clone(), text: render(role, filled)? });
        }
        return Ok(planned);
    }
    let role = "tensorrt_llm";
    let text = render(role, filled)?;
    for copy in 0..filled.copies {
        let name = format!("model-{}", server * filled.copies + copy);
        // Devices are counted inside the server's visible ones.
        let devices: Vec<String> = (copy * ranks..(copy + 1) * ranks).map(|gpu| gpu.to_string()).collect();
        let wrong =
            |error: pbtxt::PbtxtError| RepositoryError::Template { model: role.to_owned(), message: error.to_string() };
        let mut document = pbtxt::PbtxtDocument::parse(text.clone()).map_err(wrong)?;
        document.set(&[pbtxt::PbtxtStep::Name("name")], &pbtxt::quoted(&name)).map_err(wrong)?;
        document.set_parameter("gpu_device_ids", &devices.join(",")).map_err(wrong)?;
        planned.push(Planned { role, name, text: document.text().to_owned() });
    }
    Ok(planned)
}

/// Everything in a model's folder but its config.pbtxt.
fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    for entry in walkdir::WalkDir::new(from).follow_links(true).min_depth(1).sort_by_file_name() {
        let entry = entry?;
        let target = to.join(entry.path().strip_prefix(from).unwrap_or(entry.path()));
        if entry.file_type().is_dir() {
            fs::create_dir_all(&target)?;
        } else if entry.path() != from.join("config.pbtxt") {
            fs::copy(entry.path(), &target)?;
        }
    }
    Ok(())
}

/// One model's config.pbtxt, read back once so that what is written is known to be readable.
fn render(model: &str, filled: &fill::FilledParameters) -> Result<String, RepositoryError> {
    let wrong = |message: String| RepositoryError::Template { model: model.to_owned(), message };
    let template = TEMPLATES.iter().find(|(name, _)| *name == model).map(|(_, text)| *text);
    let template = template.ok_or_else(|| wrong("there is none".to_owned()))?;
    let mut environment = minijinja::Environment::new();
    environment.set_undefined_behavior(minijinja::UndefinedBehavior::Strict);
    environment.add_filter("quoted", |text: String| pbtxt::quoted(&text));
    let mut text =
        environment.render_str(template, filled.for_model(model)).map_err(|error| wrong(error.to_string()))?;
    text.push('\n');
    pbtxt::read(&text).map_err(|error| wrong(error.to_string()))?;
    Ok(text)
}

#[cfg(test)]
mod tests;
