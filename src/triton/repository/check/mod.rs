//! Reports everything that is wrong with an existing model repository, whatever its origin.
//!
//! An error is what a Triton server refuses or hangs at, or what a backend cannot do; a warning is what it silently
//! accepts although a user would not want it. What the real server refuses was tried on it (tests/it/repository.rs).

mod backend;
mod ensemble;
mod files;
mod model;

use std::io;
use std::path::{Path, PathBuf};

use self::files::{folders, name_of};
use crate::pbtxt::PbtxtDocument;
use crate::{EngineConfig, LARGEST_CONFIG};
use base::diag::{Diagnostic, Diagnostics, SourceText};
use base::files::{read_bytes_up_to, text_of};
use model::{Model, ModelChecker, near, parameter, placeholder};

/// The checked models, and the findings.
#[derive(Debug, Default)]
pub struct RepositoryCheckResult {
    /// Folders of the models, in order.
    pub models: Vec<PathBuf>,
    pub found: Diagnostics,
}

/// Checks one repository, or each `triton_model_repo_<n>` of a folder. `engine` is looked at in the place of the one
/// that a config names; `gpus` is how many the serving machine has.
pub fn check(folder: &Path, engine: Option<&Path>, gpus: Option<u32>) -> io::Result<RepositoryCheckResult> {
    let mut checked = RepositoryCheckResult::default();
    let servers: Vec<PathBuf> =
        folders(folder)?.into_iter().filter(|path| name_of(path).starts_with("triton_model_repo_")).collect();
    let engine = engine.map(EngineConfig::load).transpose();
    let engine = engine.map_err(|error| checked.found.push(Diagnostic::error(error.to_string()))).ok().flatten();
    if servers.is_empty() {
        repository(folder, engine.as_ref(), gpus, &mut checked)?;
    }
    for server in servers {
        repository(&server, engine.as_ref(), gpus, &mut checked)?;
    }
    Ok(checked)
}

fn repository(
    folder: &Path,
    engine: Option<&EngineConfig>,
    gpus: Option<u32>,
    checked: &mut RepositoryCheckResult,
) -> io::Result<()> {
    let mut models = Vec::new();
    let model_folders = folders(folder)?;
    for path in &model_folders {
        checked.models.push(path.clone());
        models.extend(read(path, &mut checked.found)?);
    }
    if model_folders.is_empty() {
        let message = format!("{} holds no model: each model is a folder in it", folder.display());
        checked.found.push(Diagnostic::error(message));
    }
    let names: Vec<&str> = model_folders.iter().filter_map(|path| path.file_name()?.to_str()).collect();
    for model in &models {
        let mut look = ModelChecker { model, found: &mut checked.found };
        files::check(&mut look);
        model::check_tensors(&mut look);
        backend::check_batching(&mut look);
        model::check_instances(&mut look, gpus);
        model::check_warmup(&mut look);
        backend::check(&mut look, engine);
        ensemble::check(&mut look, &models, &names);
    }
    Ok(())
}

/// One model's config.pbtxt; None if it cannot be read at all.
fn read(folder: &Path, found: &mut Diagnostics) -> io::Result<Option<Model>> {
    let path = folder.join("config.pbtxt");
    let shown = path.display().to_string();
    let bytes = match read_bytes_up_to(&path, LARGEST_CONFIG) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            found.push(
                Diagnostic::error(format!("{shown} is missing"))
                    .hint("every folder in a repository is a model; remove it if it is not one"),
            );
            return Ok(None);
        }
        Err(error) => return Err(io::Error::new(error.kind(), format!("cannot read {shown}: {error}"))),
    };
    let text = match text_of(bytes) {
        Ok(text) => text,
        Err(error) => {
            let at = error.utf8_error().valid_up_to();
            found.push(Diagnostic::error(format!("{shown} is not UTF-8 at byte {at}")));
            return Ok(None);
        }
    };
    let source = SourceText::new(shown, text.clone());
    let document = match PbtxtDocument::parse(text) {
        Ok(document) => document,
        Err(wrong) => {
            let syntax = Diagnostic::error(wrong.message).at(source.span(wrong.bytes), "");
            found.push(syntax.maybe_hint(wrong.hint));
            return Ok(None);
        }
    };
    let (config, wrong) = document.config();
    let is_whole = wrong.is_empty();
    for wrong in wrong {
        found.push(Diagnostic::error(wrong.message).at(source.span(wrong.bytes), "").maybe_hint(wrong.hint));
    }
    let versions = files::versions(folder)?;
    Ok(Some(Model { name: name_of(folder), folder: folder.to_owned(), source, document, config, is_whole, versions }))
}
