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
use base::event::Failure;
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
    /// GPUs that all servers share evenly; each has as many copies of the engine as fit. [default: the leased ones, or
    /// one copy in each]
    #[schemars(range(min = 1, max = MOST_PARTS))]
    pub gpus: Option<u32>,
    /// What each repository holds.
    #[serde(default, skip_serializing_if = "RepositoryLayout::is_five")]
    pub layout: RepositoryLayout,
    /// Harness layout: copies of the engine in one server. [default: as many as fit]
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
    /// Folder with the models' programs (TensorRT-LLM's `all_models/inflight_batcher_llm`); each config.pbtxt is
    /// replaced.
    pub files: Option<String>,
    /// Runtime flags of NVIDIA's harness for config.pbtxt, e.g. `kvcache_free_gpu_mem_frac, batch_scheduler_policy,
    /// enable_chunked_context`.
    #[serde(default)]
    pub runtime_flags: IndexMap<String, Value>,
    /// Other parameters of the templates by name, e.g. `max_queue_size`.
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

/// What is wrong with a [`Repository`], with servers to be started or with a host, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SpecProblem {
    // As an agent of an older build on another host writes it.
    #[serde(alias = "what")]
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

impl From<Failure> for SpecProblem {
    fn from(failure: Failure) -> Self {
        Self { message: failure.what, hint: failure.hint }
    }
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
mod tests {
    // A repository's layout on disk, and the specs that are refused before anything is written.

    use indexmap::IndexMap;
    use pretty_assertions::assert_eq;
    use serde_json::{Value, json};
    use tempfile::TempDir;

    use super::*;
    use crate::proto::inference::ModelConfig;
    use base::spec::{FieldKind, REQUEST_FIELDS, WireForm};

    fn engine(world: u32) -> TempDir {
        let folder = tempfile::tempdir().unwrap();
        let config = json!({"version": "0.19.0",
            "pretrained_config": {"architecture": "LlamaForCausalLM", "dtype": "float16", "num_hidden_layers": 2,
                "hidden_size": 64, "num_attention_heads": 4,
                "mapping": {"world_size": world, "tp_size": world, "pp_size": 1}},
            "build_config": {"max_input_len": 1024, "max_seq_len": 2048, "max_batch_size": 64, "max_num_tokens": 4096,
                "plugin_config": {"tokens_per_block": 32}}});
        std::fs::write(folder.path().join("config.json"), config.to_string()).unwrap();
        for rank in 0..world {
            std::fs::write(folder.path().join(format!("rank{rank}.engine")), "").unwrap();
        }
        folder
    }

    fn spec(engine: &TempDir) -> Repository {
        Repository {
            engine: engine.path().display().to_string(),
            triton_num_servers: 1,
            gpus: None,
            streaming: true,
            tokenizer: None,
            layout: RepositoryLayout::Five,
            triton_num_models_per_server: None,
            files: None,
            models: TEMPLATES.iter().map(|(name, _)| (*name).to_owned()).collect(),
            runtime_flags: IndexMap::new(),
            parameters: IndexMap::new(),
        }
    }

    fn map(value: &Value) -> IndexMap<String, Value> {
        value.as_object().unwrap().iter().map(|(k, v)| (k.clone(), v.clone())).collect()
    }

    fn config(out: &TempDir, server: u32, model: &str) -> ModelConfig {
        let path = out.path().join(format!("triton_model_repo_{server}/{model}/config.pbtxt"));
        pbtxt::read(&std::fs::read_to_string(path).unwrap()).unwrap()
    }

    fn parameter(config: &ModelConfig, key: &str) -> Option<String> {
        config.parameters.get(key).map(|p| p.string_value.clone())
    }

    fn problems(spec: &Repository) -> Vec<String> {
        let out = tempfile::tempdir().unwrap();
        let error = write(spec, out.path()).unwrap_err();
        assert_eq!(std::fs::read_dir(out.path()).unwrap().count(), 0, "nothing may be written");
        let RepositoryError::Invalid { problems } = error else { panic!("{error}") };
        problems.iter().map(SpecProblem::line).collect()
    }

    #[test]
    fn all_five_models_are_written_for_each_server() {
        let (engine, out) = (engine(1), tempfile::tempdir().unwrap());
        let written = write(&Repository { triton_num_servers: 2, ..spec(&engine) }, out.path()).unwrap();
        assert_eq!(written.repositories.len(), 2);
        assert_eq!(written.notes.len(), 2, "a tokenizer and the programs are missing");
        for server in 0..2 {
            for (model, _) in TEMPLATES {
                assert_eq!(config(&out, server, model).name, model);
                assert!(written.repositories[server as usize].join(model).join("1").is_dir());
            }
        }
        let llm = config(&out, 1, "tensorrt_llm");
        assert_eq!(llm.max_batch_size, 64);
        assert!(llm.model_transaction_policy.unwrap().decoupled);
        assert_eq!(parameter(&llm, "gpt_model_path").unwrap(), engine.path().display().to_string());
        assert_eq!(parameter(&llm, "gpt_model_type").unwrap(), "inflight_fused_batching");
        assert_eq!(parameter(&llm, "kv_cache_free_gpu_mem_fraction").unwrap(), "0.9");
        assert_eq!(parameter(&llm, "medusa_choices"), None);
        assert_eq!(
            llm.input.iter().find(|i| i.name == "input_lengths").unwrap().reshape.as_ref().unwrap().shape,
            Vec::<i64>::new()
        );
    }

    #[test]
    fn the_same_spec_gives_the_same_bytes() {
        let engine = engine(1);
        let texts: Vec<String> = (0..2)
            .map(|_| {
                let out = tempfile::tempdir().unwrap();
                write(&spec(&engine), out.path()).unwrap();
                std::fs::read_to_string(out.path().join("triton_model_repo_0/tensorrt_llm/config.pbtxt")).unwrap()
            })
            .collect();
        assert_eq!(texts[0], texts[1]);
    }

    #[test]
    fn runtime_flags_reach_the_file() {
        let (engine, out) = (engine(1), tempfile::tempdir().unwrap());
        let flags = json!({"batch_scheduler_policy": "max_util", "kvcache_free_gpu_mem_frac": 0.95,
            "enable_chunked_context": true, "max_num_tokens": 2048, "exclude_input_from_output": false,
            "max_batch_size": 16, "context_chunking_policy": "equal_progress"});
        write(&Repository { runtime_flags: map(&flags), ..spec(&engine) }, out.path()).unwrap();
        let llm = config(&out, 0, "tensorrt_llm");
        for (key, value) in [
            ("batch_scheduler_policy", "max_utilization"),
            ("kv_cache_free_gpu_mem_fraction", "0.95"),
            ("enable_chunked_context", "true"),
            ("max_num_tokens", "2048"),
            ("exclude_input_in_output", "false"),
            ("context_chunking_policy", "equal_progress"),
        ] {
            assert_eq!(parameter(&llm, key).as_deref(), Some(value), "{key}");
        }
        assert_eq!(llm.max_batch_size, 16);
    }

    #[test]
    fn a_policy_in_capitals_is_written_as_the_backend_takes_it() {
        for spec_of in [
            |engine: &tempfile::TempDir| Repository {
                runtime_flags: map(&json!({"batch_scheduler_policy": "MAX_UTILIZATION"})),
                ..spec(engine)
            },
            |engine: &tempfile::TempDir| Repository {
                parameters: map(&json!({"batch_scheduler_policy": "MAX_UTILIZATION"})),
                ..spec(engine)
            },
        ] {
            let (engine, out) = (engine(1), tempfile::tempdir().unwrap());
            write(&spec_of(&engine), out.path()).unwrap();
            let policy = parameter(&config(&out, 0, "tensorrt_llm"), "batch_scheduler_policy");
            assert_eq!(policy.as_deref(), Some("max_utilization"));
        }
    }

    #[test]
    fn nvidias_static_policy_is_a_batching_strategy() {
        let (engine, out) = (engine(1), tempfile::tempdir().unwrap());
        let flags = map(&json!({"batch_scheduler_policy": "static"}));
        write(&Repository { runtime_flags: flags, ..spec(&engine) }, out.path()).unwrap();
        assert_eq!(parameter(&config(&out, 0, "tensorrt_llm"), "gpt_model_type").unwrap(), "V1");
    }

    #[test]
    fn every_parameter_has_a_place_in_a_template() {
        let templates: String = TEMPLATES.iter().map(|(_, text)| *text).collect();
        for parameter in parameters::PARAMETERS.iter() {
            assert!(templates.contains(parameter.name), "{}", parameter.name);
        }
    }

    #[test]
    fn all_errors_are_reported_at_once_with_a_suggestion() {
        let engine = engine(1);
        let wrong = Repository {
            models: vec!["tensorrt_llm".into(), "ensembel".into()],
            runtime_flags: map(&json!({"batch_scheduler_polici": "max_util", "moe_backend": "CUTLASS"})),
            parameters: map(
                &json!({"max_queu_size": 1, "kv_cache_free_gpu_mem_fraction": 1.5, "triton_max_batch_size": 65}),
            ),
            ..spec(&engine)
        };
        insta::assert_snapshot!(problems(&wrong).join("\n"), @"
    unknown model `ensembel` (did you mean `ensemble`?)
    unknown runtime flag `batch_scheduler_polici` (did you mean `batch_scheduler_policy`?)
    runtime flag `moe_backend` belongs to another executor; no config.pbtxt has a place for it (remove it)
    unknown parameter `max_queu_size` (did you mean `max_queue_size`?)
    parameter `kv_cache_free_gpu_mem_fraction`: `1.5` is not a number from 0 to 1
    `triton_max_batch_size` is 65, but the engine was built with max_batch_size 64 (lower it, or build the engine with \
            a larger max_batch_size)
    ");
    }

    #[test]
    fn conflicting_settings_are_refused() {
        let engine = engine(1);
        let wrong = Repository {
            runtime_flags: map(&json!({"kvcache_free_gpu_mem_frac": 0.8})),
            parameters: map(&json!({"kv_cache_free_gpu_mem_fraction": 0.9})),
            ..spec(&engine)
        };
        assert_eq!(problems(&wrong).len(), 1);
    }

    #[test]
    fn gpus_are_counted_inside_a_servers_visible_ones() {
        let (engine, out) = (engine(2), tempfile::tempdir().unwrap());
        write(&Repository { gpus: Some(8), triton_num_servers: 2, ..spec(&engine) }, out.path()).unwrap();
        for server in 0..2 {
            let llm = config(&out, server, "tensorrt_llm");
            assert_eq!(parameter(&llm, "gpu_device_ids").unwrap(), "0,1;2,3");
            assert_eq!(llm.instance_group[0].count, 2);
        }
        assert_eq!(problems(&Repository { gpus: Some(8), triton_num_servers: 8, ..spec(&engine) }).len(), 1);
        assert_eq!(problems(&Repository { gpus: Some(8), triton_num_servers: 3, ..spec(&engine) }).len(), 1);
    }

    #[test]
    fn the_harness_layout_has_one_model_for_each_copy_counted_over_all_servers() {
        let (engine, out) = (engine(2), tempfile::tempdir().unwrap());
        let layout = RepositoryLayout::Harness;
        let flags = map(
            &json!({"max_batch_size": 32, "kvcache_free_gpu_mem_frac": 0.95, "batch_scheduler_policy": "max_util"}),
        );
        let spec = Repository { gpus: Some(8), triton_num_servers: 2, layout, runtime_flags: flags, ..spec(&engine) };
        write(&spec, out.path()).unwrap();
        for (server, model, devices) in
            [(0, "model-0", "0,1"), (0, "model-1", "2,3"), (1, "model-2", "0,1"), (1, "model-3", "2,3")]
        {
            let llm = config(&out, server, model);
            assert_eq!((llm.name.as_str(), llm.max_batch_size), (model, 1));
            assert_eq!(llm.instance_group[0].count, 1);
            for (key, value) in [
                ("gpu_device_ids", devices),
                ("max_batch_size", "32"),
                ("kv_cache_free_gpu_mem_fraction", "0.95"),
                ("batch_scheduler_policy", "max_utilization"),
                ("exclude_input_in_output", "true"),
                ("enable_kv_cache_reuse", "false"),
            ] {
                assert_eq!(parameter(&llm, key).as_deref(), Some(value), "{model} {key}");
            }
        }
        let triton_num_models_per_server = Some(1);
        insta::assert_snapshot!(
            problems(&Repository { triton_num_models_per_server, ..spec }).join("\n"),
            @"triton_num_models_per_server is 1: 2 servers would use 4 GPUs, but 8 exist (4 copies of 2 GPUs, 1 in \
              each server: triton_num_servers: 4)"
        );
    }

    #[test]
    fn a_value_of_a_wrong_kind_is_an_error_that_names_its_parameter() {
        let engine = engine(1);
        for known in parameters::PARAMETERS.iter().filter(|known| known.name != "engine_dir") {
            for wrong in [json!(null), json!([1]), json!({"a": 1}), json!("")] {
                let parameters = IndexMap::from([(known.name.to_owned(), wrong.clone())]);
                let lines = problems(&Repository { parameters, ..spec(&engine) });
                assert!(
                    lines.iter().any(|line| line.contains(&format!("`{}`", known.name))),
                    "{} {wrong}: {lines:?}",
                    known.name
                );
            }
        }
    }

    #[test]
    fn every_parameter_is_in_the_templates_of_its_models_and_stands_there_as_it_says() {
        for known in parameters::PARAMETERS.iter() {
            for (model, text) in TEMPLATES {
                let has = text.contains(&format!("{{{{ {} }}}}", known.name))
                    || text.contains(&format!(", {})", known.name))
                    || text.contains(&format!("{} | quoted", known.name));
                assert_eq!(has, known.models.contains(&model), "{} in {model}", known.name);
                if has && !known.key.is_empty() {
                    assert!(
                        text.contains(&format!("parameter(\"{}\", {})", known.key, known.name)),
                        "{} in {model}",
                        known.name
                    );
                }
            }
        }
    }

    #[test]
    fn experts_must_share_the_ranks_of_tensor_parallelism() {
        let engine = engine(2);
        let path = engine.path().join("config.json");
        let text = std::fs::read_to_string(&path)
            .unwrap()
            .replace("\"tp_size\":2", "\"tp_size\":2,\"moe_tp_size\":2,\"moe_ep_size\":2");
        std::fs::write(&path, text).unwrap();
        assert!(problems(&spec(&engine))[0].contains("moe_tp_size 2 × moe_ep_size 2 is not its tp_size 2"));
    }

    #[test]
    fn the_template_of_the_engine_has_the_tensor_of_each_field_of_a_request() {
        let template = TEMPLATES.iter().find(|(name, _)| *name == "tensorrt_llm").unwrap().1;
        for field in REQUEST_FIELDS {
            let Some(name) = field.names(WireForm::TokenIds).first() else { continue };
            let data_type = match field.kind {
                FieldKind::Int { .. } | FieldKind::WordIds => "INT32",
                FieldKind::Number(_) => "FP32",
                FieldKind::Seed | FieldKind::Turns => "UINT64",
                FieldKind::Switch | FieldKind::Client | FieldKind::WordTexts => "BOOL",
            };
            assert!(template.contains(&format!("{{ name: \"{name}\" data_type: TYPE_{data_type} ")), "{name}");
        }
    }
}
