//! The model repositories of a server for which a retry has lowered a number.
//!
//! The output of the `repository:` stage is shared and stays as it is. The server gets a copy of it in its own folder,
//! in which one parameter of the engines' models is another. The number is part of the server's key.

use std::fs;
use std::path::{Path, PathBuf};

use super::repository_models::models;
use crate::task_context::TaskContext;
use base::event::{Failure, ReducedSetting};
use base::files::read_text_up_to;
use triton::LARGEST_CONFIG;
use triton::pbtxt::{self, PbtxtDocument};
use triton::repository::{Parameter, number_parameter};

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
