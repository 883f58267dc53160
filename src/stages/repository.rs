//! `repository:` — Triton model repositories, one for each server.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use walkdir::WalkDir;

use super::task_context::TaskContext;
use crate::Run;
use crate::serve::refused;
use base::event::{Done, Failure};
use base::files::{Digest, read_text};
use base::units::replace_folder;
use plan::manifest::model::Repository;
use runner::store::{OutputPlace, PathError, WithPath as _, place_of_output};
use triton::pbtxt;
use triton::repository::{RepositoryError, write};

impl Run for Repository {
    // 2: its digest is without paths of the machine.
    const FORMAT: Option<u32> = Some(2);

    async fn run(&self, context: TaskContext) -> Result<Done, Failure> {
        let context = &context;
        let leased = context.lease.gpus.len() as u32;
        let path = |text: &String| context.path(text).display().to_string();
        let spec = Self {
            engine: path(&self.engine),
            gpus: self.gpus.or((leased > 0).then_some(leased)),
            tokenizer: self.tokenizer.as_ref().map(path),
            files: self.files.as_ref().map(path),
            ..self.clone()
        };
        let written = write(&spec, &context.lease.out).map_err(|error| match error {
            RepositoryError::Invalid { problems } => refused(&problems),
            RepositoryError::Write { ref path, ref source } => {
                Failure::system(format!("cannot write {}: {source}", path.display()))
            }
            other => Failure::refused(other.to_string()),
        })?;
        verify_written(&written.repositories)?;
        // What a real Triton would miss does not concern the simulator.
        if !sim::simulated(Path::new(&spec.engine)) {
            for note in &written.notes {
                context.lease.notice(note.clone());
            }
        }
        let count = written.repositories.len();
        Ok(Done {
            headline: Some(format!("{count} model repositor{}", if count == 1 { "y" } else { "ies" })),
            ..Done::default()
        })
    }
}

/// Why a finished repository is of no use any more: a config of it names an output, mostly the engine, that is gone, or
/// by the place where the project was when it was made. `state` is the state folder now. No key has that place: it
/// differs from machine to machine, and several outputs can have the same bytes.
pub fn unusable_output(folder: &Path, state: &Path) -> Option<String> {
    configs(folder).find_map(|path| {
        let text = read_text(&path).ok()?;
        let mut named =
            text.split(['"', ',', ';']).map(Path::new).filter(|path| path.is_absolute()).flat_map(Path::ancestors);
        let (output, reason) = named.find_map(|output| {
            let reason = match place_of_output(output, state)? {
                OutputPlace::Elsewhere => "where this project was before",
                OutputPlace::Here if !output.exists() => "which is gone",
                OutputPlace::Here => return None,
            };
            Some((output, reason))
        })?;
        let config = path.strip_prefix(folder).unwrap_or(&path).display();
        Some(format!("{config} names {}, {reason}", output.display()))
    })
}

/// The digest of each config that names an output or a file of the project, without the place where that is.
pub fn portable_configs(
    folder: &Path,
    places: &dyn Fn() -> Vec<(PathBuf, String)>,
) -> Result<BTreeMap<PathBuf, Digest>, PathError> {
    let places = places();
    let mut portable = BTreeMap::new();
    for path in configs(folder) {
        let text = read_text(&path).at("read", &path)?;
        let mut without = text.clone();
        for (place, instead) in &places {
            if let Some(replaced) = place.to_str().and_then(|place| replace_folder(&without, place, instead)) {
                without = replaced;
            }
        }
        if without != text {
            let name = path.strip_prefix(folder).unwrap_or(&path).to_owned();
            portable.insert(name, Digest::hash(without.as_bytes()));
        }
    }
    Ok(portable)
}

/// The configs of a repository's models; of several repositories beside each other, those of all.
fn configs(folder: &Path) -> impl Iterator<Item = PathBuf> {
    let items = WalkDir::new(folder).min_depth(2).max_depth(3).sort_by_file_name().into_iter().flatten();
    items.filter(|item| item.file_name() == "config.pbtxt").map(walkdir::DirEntry::into_path)
}

/// Reads what was written as a server would: each repository has models, each with a version and a config that can be
/// read.
fn verify_written(repositories: &[PathBuf]) -> Result<(), Failure> {
    let broken =
        |path: &Path, why: String| Failure::files(format!("the repository {} is not whole: {why}", path.display()));
    if repositories.is_empty() {
        return Err(Failure::files("no model repository was written"));
    }
    for repository in repositories {
        let entries = fs::read_dir(repository).map_err(|error| broken(repository, error.to_string()))?;
        let models: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
        if models.is_empty() {
            return Err(broken(repository, "it has no model".to_owned()));
        }
        for model in models {
            let config = model.join("config.pbtxt");
            let text = read_text(&config).map_err(|error| broken(&config, error.to_string()))?;
            pbtxt::read(&text).map_err(|error| broken(&config, error.to_string()))?;
            if !model.join("1").is_dir() {
                return Err(broken(&model, "it has no version 1".to_owned()));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repository_that_names_an_output_at_another_place_or_one_that_is_gone_is_of_no_use() {
        let folder = tempfile::tempdir().unwrap();
        let model = folder.path().join("triton_model_repo_0/tensorrt_llm");
        fs::create_dir_all(&model).unwrap();
        let state = folder.path().join("now/.regatta");
        let here = state.join("out/0123456789abcdef-4/engine").display().to_string();
        fs::create_dir_all(&here).unwrap();
        let reason = |engine: &str| {
            let text = format!("parameters {{ key: \"gpt_model_path\" value {{ string_value: \"{engine}\" }} }}");
            fs::write(model.join("config.pbtxt"), text).unwrap();
            unusable_output(folder.path(), &state)
        };
        assert_eq!(
            reason("/before/.regatta/out/0123456789abcdef-4/engine").unwrap(),
            "triton_model_repo_0/tensorrt_llm/config.pbtxt names /before/.regatta/out/0123456789abcdef-4, where this \
             project was before"
        );
        // A resumed output, and one from a shared store.
        for folder in ["0123456789abcdef-fedcba9876543210-resume", "0123456789abcdef-0-from-resume"] {
            assert!(reason(&format!("/before/.regatta/out/{folder}/tokenizer")).is_some(), "{folder}");
        }
        // Its own, and paths that are not the runner's, which may be those of a container.
        for engine in [&here, "/before/out/engine", "/engines/0123456789abcdef-4", ""] {
            assert_eq!(reason(engine), None, "{engine}");
        }
        fs::remove_dir_all(state.join("out/0123456789abcdef-4")).unwrap();
        let gone = reason(&here).unwrap();
        assert!(gone.ends_with("out/0123456789abcdef-4, which is gone"), "{gone}");
    }

    #[test]
    fn a_repository_that_is_not_whole_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let repository = folder.path().join("triton");
        let reason = || verify_written(std::slice::from_ref(&repository)).map_err(|failure| failure.what);
        let cut_off = |what: &str| {
            let reason = reason().unwrap_err();
            assert!(reason.contains(what), "{reason}");
        };
        assert_eq!(verify_written(&[]).unwrap_err().what, "no model repository was written");
        cut_off("triton is not whole: No such file or directory");
        fs::create_dir(&repository).unwrap();
        cut_off("it has no model");
        let model = repository.join("tensorrt_llm");
        fs::create_dir(&model).unwrap();
        cut_off("config.pbtxt is not whole: No such file or directory");
        fs::write(model.join("config.pbtxt"), "name: \"tensorrt_llm\"\ninput [").unwrap();
        cut_off("config.pbtxt is not whole: ");
        fs::write(model.join("config.pbtxt"), "name: \"tensorrt_llm\"").unwrap();
        cut_off("it has no version 1");
        fs::create_dir(model.join("1")).unwrap();
        assert_eq!(reason(), Ok(()));
    }
}
