//! Name, backend, version folders, and the files that a backend opens.

use std::path::{Path, PathBuf};
use std::{fs, io};

use super::{ModelChecker, near};
use crate::pbtxt::PbtxtStep::{Name, Nth};
use crate::proto::inference::model_version_policy::PolicyChoice;
use base::diag::list_of;

/// Backends of Triton's containers, and the file that each opens in a version folder (empty: it has no fixed one).
const BACKENDS: [(&str, &str); 10] = [
    ("python", "model.py"),
    ("tensorrtllm", ""),
    ("tensorrt", "model.plan"),
    ("onnxruntime", "model.onnx"),
    ("pytorch", "model.pt"),
    ("openvino", "model.xml"),
    ("tensorflow", ""),
    ("vllm", "model.json"),
    ("dali", "model.dali"),
    ("fil", ""),
];

const PLATFORMS: &str =
    "ensemble tensorrt_plan onnxruntime_onnx pytorch_libtorch tensorflow_graphdef tensorflow_savedmodel";

pub(super) fn check(look: &mut ModelChecker<'_>) {
    let (name, config) = (look.model.name.clone(), &look.model.config);
    if !config.name.is_empty() && config.name != name {
        let message = format!("the model is called `{}` and its folder `{name}`", config.name);
        look.error(&[Name("name")], message, "the server requires the same name; rename one of them");
    }
    backend(look);
    policy(look);
    labels(look);
}

/// Versions are folders named by numbers without a leading zero.
pub(super) fn versions(folder: &Path) -> io::Result<Vec<u64>> {
    let numbers = folders(folder)?.into_iter().map(|path| name_of(&path));
    let plain = numbers.filter(|name| name == "0" || !name.starts_with('0'));
    let mut versions: Vec<u64> = plain.filter_map(|name| name.parse().ok()).collect();
    versions.sort_unstable_by(|a, b| b.cmp(a));
    Ok(versions)
}

/// The versions that the policy makes available.
pub(super) fn available(look: &ModelChecker<'_>) -> Vec<u64> {
    let there = &look.model.versions;
    match look.model.config.version_policy.as_ref().and_then(|policy| policy.policy_choice.as_ref()) {
        None => there.iter().copied().take(1).collect(),
        Some(PolicyChoice::Latest(latest)) => there.iter().copied().take(latest.num_versions as usize).collect(),
        Some(PolicyChoice::All(_)) => there.clone(),
        Some(PolicyChoice::Specific(these)) => {
            there.iter().copied().filter(|version| these.versions.contains(&(*version as i64))).collect()
        }
    }
}

fn backend(look: &mut ModelChecker<'_>) {
    let config = &look.model.config;
    let (backend, platform, runtime) = (config.backend.clone(), config.platform.clone(), config.runtime.clone());
    if platform == "ensemble" || !look.model.is_whole && backend.is_empty() && platform.is_empty() {
        return;
    }
    if !platform.is_empty() && !PLATFORMS.split(' ').any(|known| known == platform) {
        let others = || format!("there is: {}; name other backends in `backend`", list_of(PLATFORMS.split(' ')));
        let hint = near(&platform, PLATFORMS.split(' ')).unwrap_or_else(others);
        look.error(&[Name("platform")], format!("unknown platform `{platform}`"), hint);
        return;
    }
    let folder = &look.model.folder;
    let library = format!("libtriton_{backend}.so");
    let brings = |file: &str| {
        folder.join(file).is_file()
            || look.model.versions.iter().any(|v| folder.join(v.to_string()).join(file).exists())
    };
    let usual_file = BACKENDS.iter().find(|(name, _)| *name == backend);
    let names = BACKENDS.map(|(name, _)| name);
    if backend.is_empty() && platform.is_empty() {
        let file = BACKENDS.iter().find(|(_, file)| !file.is_empty() && brings(file));
        match file {
            Some((name, file)) => look.warn(
                &[],
                format!("no backend is named; the server takes `{name}` because of {file}"),
                format!("write `backend: \"{name}\"`"),
            ),
            None => look.error(&[], "no backend is named", format!("there is: {}", list_of(names))),
        }
    } else if usual_file.is_none() && !backend.is_empty() && !brings(&library) && runtime.is_empty() {
        let others = || format!("there is: {}; one of your own brings its {library}", list_of(names));
        let hint = near(&backend, names).unwrap_or_else(others);
        look.error(&[Name("backend")], format!("unknown backend `{backend}`"), hint);
    }
    let given = look.model.config.default_model_filename.clone();
    let usual = usual_file.map_or("", |(_, file)| file);
    let file = if given.is_empty() { usual } else { given.as_str() };
    for version in available(look) {
        let path = look.model.folder.join(version.to_string()).join(file);
        if !file.is_empty() && !path.exists() {
            let hangs = if backend == "python" { "; the server hangs without it" } else { "" };
            let way = if given.is_empty() { [Name("backend")] } else { [Name("default_model_filename")] };
            look.error(&way, format!("{} is missing{hangs}", path.display()), "");
        }
    }
}

fn policy(look: &mut ModelChecker<'_>) {
    let way = [Name("version_policy")];
    let folder = look.model.folder.display().to_string();
    if available(look).is_empty() {
        let message = match look.model.versions.as_slice() {
            [] => format!("{folder} has no version folder"),
            there => format!("the version policy selects none of the existing versions ({there:?})"),
        };
        look.error(&way, message, "a version is a folder named by a number without a leading zero: `1`");
    } else if let Some(PolicyChoice::Specific(these)) =
        look.model.config.version_policy.as_ref().and_then(|policy| policy.policy_choice.clone())
    {
        for version in these.versions {
            if !u64::try_from(version).is_ok_and(|version| look.model.versions.contains(&version)) {
                look.warn(&way, format!("version {version} is missing; the server continues without it"), "");
            }
        }
    }
}

fn labels(look: &mut ModelChecker<'_>) {
    for (index, output) in look.model.config.output.iter().enumerate() {
        let path = look.model.folder.join(&output.label_filename);
        if !output.label_filename.is_empty() && !path.is_file() {
            let way = [Name("output"), Nth(index), Name("label_filename")];
            look.error(&way, format!("{} is missing", path.display()), "");
        }
    }
}

// The folders of a repository.

pub(super) fn name_of(folder: &Path) -> String {
    folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// The folders in a folder, by name; hidden ones are not models.
pub(super) fn folders(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder)
        .map_err(|error| io::Error::new(error.kind(), format!("cannot read {}: {error}", folder.display())))?;
    let mut folders = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() && !name_of(&path).starts_with('.') {
            folders.push(path);
        }
    }
    folders.sort();
    Ok(folders)
}
