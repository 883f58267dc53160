//! What a launch needs to know of model repositories: which models run an engine, over how many GPUs, on which
//! devices.
//!
//! The output of the `repository:` stage is shared and stays as it is. Where a retry has lowered a number, the server
//! gets a copy of it in its own folder, in which that parameter of the engines' models is another. The number is part
//! of the server's key.

use std::fs;
use std::path::{Path, PathBuf};

use crate::container::wrap;
use crate::task_context::TaskContext;
use base::event::{Failure, ReducedSetting};
use base::files::read_text_up_to;
use triton::launch::LaunchModel;
use triton::pbtxt::{self, PbtxtDocument};
use triton::proto::inference::ModelConfig;
use triton::repository::{Parameter, number_parameter};
use triton::{EngineConfig, LARGEST_CONFIG};

/// The backend that runs TensorRT-LLM engines.
const BACKEND: &str = "tensorrtllm";

/// `triton_model_repo_<n>` in a folder, by number; or the folder itself, if it holds models.
pub fn repositories(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let entries = fs::read_dir(folder).map_err(|error| Failure::files(format!("{}: {error}", folder.display())))?;
    let mut numbered: Vec<(u32, PathBuf)> = entries
        .flatten()
        .filter_map(|entry| {
            let number = entry.file_name().to_str()?.strip_prefix("triton_model_repo_")?.parse().ok()?;
            Some((number, entry.path()))
        })
        .collect();
    numbered.sort();
    if numbered.is_empty() {
        if !configs(folder).is_empty() {
            return Ok(vec![folder.to_owned()]);
        }
        return Err(Failure::files(format!(
            "no triton_model_repo_<n> and no <model>/config.pbtxt in {}",
            folder.display()
        ))
        .hint("`repository` is the output of a `repository:` stage: `{{ stages.NAME.out }}`"));
    }
    Ok(numbered.into_iter().map(|(_, path)| path).collect())
}

/// Folder name and text of every model's config.pbtxt, by name.
fn configs(repository: &Path) -> Vec<(String, String)> {
    /// The limit of their bytes together; no repository that a server loads exceeds it.
    const MOST: usize = 64 << 20;
    let mut room = MOST;
    let mut configs: Vec<(String, String)> = fs::read_dir(repository)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let text = read_text_up_to(entry.path().join("config.pbtxt"), LARGEST_CONFIG).ok()?;
            room = room.checked_sub(text.len())?;
            Some((entry.file_name().into_string().ok()?, text))
        })
        .collect();
    configs.sort();
    configs
}

/// The paths that the parameters of the models and their model.json name, of whatever backend: tokenizers, engines of
/// other models, checkpoints.
pub fn paths_named_in(repository: &Path) -> Vec<String> {
    let mut named = Vec::new();
    for (folder, text) in configs(repository) {
        let Ok(config) = pbtxt::read_as_server(&text) else { continue };
        named.extend(wrap::in_arguments(config.parameters.values().map(|value| value.string_value.trim())));
        let versions = fs::read_dir(repository.join(folder)).into_iter().flatten().flatten();
        let files =
            versions.filter_map(|version| read_text_up_to(version.path().join("model.json"), LARGEST_CONFIG).ok());
        named.extend(files.filter_map(|text| serde_json::from_str(&text).ok()).flat_map(|json| wrap::in_json(&json)));
    }
    named.sort();
    named.dedup();
    named.into_iter().map(|path| path.display().to_string()).collect()
}

/// The models of a repository that run an engine. An unreadable config is left for the server to reject with its own
/// message.
pub fn models(repository: &Path) -> Vec<LaunchModel> {
    configs(repository)
        .into_iter()
        .filter_map(|(folder, text)| {
            let config = pbtxt::read_as_server(&text).ok()?;
            (config.backend == BACKEND).then(|| model(&folder, &config))
        })
        .collect()
}

fn model(folder: &str, config: &ModelConfig) -> LaunchModel {
    let parameter = |name: &str| {
        let text = config.parameters.get(name).map(|value| value.string_value.trim().to_owned());
        text.filter(|text| !text.is_empty() && !text.starts_with("${"))
    };
    let engine = parameter("gpt_model_path");
    let loaded = engine.as_deref().and_then(|folder| EngineConfig::load(Path::new(folder)).ok());
    let groups = config.instance_group.first();
    LaunchModel {
        name: folder.to_owned(),
        parallelism: loaded.map(|config| {
            let mapping = config.pretrained_config.mapping;
            (mapping.tp_size, mapping.pp_size)
        }),
        engine,
        copies: groups.map_or(1, |group| u32::try_from(group.count).unwrap_or(1).max(1)),
        gpu_device_ids: parameter("gpu_device_ids").map(|text| groups_of(&text)).unwrap_or_default(),
        participant_ids: parameter("participant_ids").map(|text| groups_of(&text)).unwrap_or_default(),
    }
}

/// `0,1;2,3` → two groups.
pub fn groups_of(text: &str) -> Vec<Vec<u32>> {
    text.split(';').map(|group| group.split(',').filter_map(|id| id.trim().parse().ok()).collect()).collect()
}

/// Removes the copies when the servers are gone.
pub struct RepositoryCopies<'a>(pub &'a Path);

impl Drop for RepositoryCopies<'_> {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(self.0.join(FOLDER));
    }
}

const FOLDER: &str = "lowered";

/// The repositories to serve: these, or copies of them.
pub fn private_copies(context: &TaskContext, all: Vec<PathBuf>) -> Result<Vec<PathBuf>, Failure> {
    let Some(lowered) = &context.lease.lowered else { return Ok(all) };
    let parameter = number_parameter(&lowered.setting)
        .ok_or_else(|| Failure::refused(format!("`{}` is not a number of an engine's model", lowered.setting)))?;
    let folder = context.lease.out.join(FOLDER);
    all.iter()
        .enumerate()
        .map(|(index, repository)| {
            let to = folder.join(format!("triton_model_repo_{index}"));
            copy(repository, &to, parameter, lowered).map_err(|error| {
                let message = format!("the repository with {lowered} cannot be written: {error}");
                Failure::system(message)
            })?;
            Ok(to)
        })
        .collect()
}

fn copy(from: &Path, to: &Path, parameter: &Parameter, lowered: &ReducedSetting) -> std::io::Result<()> {
    for entry in walkdir::WalkDir::new(from).follow_links(true) {
        let entry = entry?;
        let target = to.join(entry.path().strip_prefix(from).unwrap_or(entry.path()));
        if entry.file_type().is_dir() {
            fs::create_dir_all(&target)?;
        } else {
            fs::copy(entry.path(), &target)?;
        }
    }
    for model in models(from) {
        let path = to.join(&model.name).join("config.pbtxt");
        let mut document =
            PbtxtDocument::parse(read_text_up_to(&path, LARGEST_CONFIG)?).map_err(std::io::Error::other)?;
        document.set_parameter(parameter.key, &lowered.to.to_string()).map_err(std::io::Error::other)?;
        // Outputs can be read-only; a copy keeps the mode.
        fs::remove_file(&path)?;
        fs::write(&path, document.text())?;
    }
    Ok(())
}

/// What a number is in a repository: the greatest of its engines' models, else what the backend takes without it.
pub fn value(repository: &Path, name: &str) -> Option<f64> {
    let parameter = number_parameter(name)?;
    let written = models(repository).into_iter().filter_map(|model| {
        let text = read_text_up_to(repository.join(&model.name).join("config.pbtxt"), LARGEST_CONFIG).ok()?;
        let config = pbtxt::read_as_server(&text).ok()?;
        let text = config.parameters.get(parameter.key).map(|value| value.string_value.trim().to_owned());
        let written = text.and_then(|text| text.parse::<f64>().ok());
        written.or_else(|| parameter.unset.parse().ok()).or_else(|| built(model.engine.as_deref()?, parameter.key))
    });
    written.max_by(f64::total_cmp)
}

/// What the engine was built with.
fn built(engine: &str, key: &str) -> Option<f64> {
    let config = triton::EngineConfig::load(Path::new(engine)).ok()?.build_config;
    match key {
        "max_batch_size" => Some(f64::from(config.max_batch_size)),
        "max_num_tokens" => Some(f64::from(config.max_num_tokens)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_whose_files_have_no_end_is_left_to_the_server() {
        let folder = tempfile::tempdir().unwrap();
        let repository = folder.path();
        let pipe = |path: &Path| {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0).unwrap();
        };
        pipe(&repository.join("pipe/config.pbtxt"));
        fs::create_dir_all(repository.join("endless")).unwrap();
        std::os::unix::fs::symlink("/dev/zero", repository.join("endless/config.pbtxt")).unwrap();
        pipe(&repository.join("vllm/1/model.json"));
        fs::write(repository.join("vllm/config.pbtxt"), "backend: \"vllm\"").unwrap();
        assert!(models(repository).is_empty());
        assert!(paths_named_in(repository).is_empty());
        assert_eq!(repositories(repository).unwrap(), [repository]);
    }
}
