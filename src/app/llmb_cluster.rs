//! The cluster of an llmb-run installation: which GPUs it has, and which system of a manifest a number of them is.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::project::Project;
use crate::doctor;
use base::files::read_text;
use interop::{GpuScale, gpu_name};
use plan::manifest::Manifest;

/// llmb-run's description of its cluster.
const FILE: &str = "cluster_config.yaml";

/// A `cluster_config.yaml` that is there and cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{}: {why}", path.display())]
pub(super) struct ClusterFileError {
    path: PathBuf,
    why: String,
}

/// The GPU type of this folder's `cluster_config.yaml`: `gb200`. None: there is no such file, or it has no `gpu_type`.
pub(super) fn gpu_type_of_file(folder: &Path) -> Result<Option<String>, ClusterFileError> {
    let path = folder.join(FILE);
    let text = match read_text(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(ClusterFileError { path, why: error.to_string() }),
    };
    let value: Value =
        serde_yaml::from_str(&text).map_err(|error| ClusterFileError { path, why: error.to_string() })?;
    let found = value.get("gpu_type").or_else(|| value.pointer("/launcher/gpu_type"));
    Ok(found.and_then(Value::as_str).map(str::to_lowercase))
}

/// One sentence on why a scale stands for no system.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct NoSystem(String);

/// The system that a scale stands for, and how it was found; or one sentence on why there is none. `fits`: whether the manifest takes a
/// system with the other settings.
pub(super) fn system(
    project: &Project,
    name: &str,
    manifest: &Manifest,
    scale: &GpuScale,
    fits: &dyn Fn(&str) -> bool,
) -> Result<(String, String), NoSystem> {
    let Some(systems) = systems(project, name, manifest) else {
        return Err(NoSystem(format!("the manifest `{name}` has no systems to choose from")));
    };
    let real: Vec<&String> = systems.iter().filter(|system| !system.starts_with("sim-")).collect();
    let listed = real.iter().map(|system| system.as_str()).collect::<Vec<_>>().join(", ");
    let known = gpu_type(scale).map_err(|error| NoSystem(error.to_string()))?;
    if let Some((gpu_type, origin)) = known {
        let system = format!("{gpu_type}-x{}", scale.gpus);
        if systems.contains(&system) {
            return Ok((system, format!("the GPU type is from {origin}")));
        }
        return Err(NoSystem(format!(
            "{origin} has {gpu_type}, and the manifest `{name}` has no system `{system}`; it has {listed}"
        )));
    }
    let mut fitting = real.into_iter().filter(|system| system.ends_with(&format!("-x{}", scale.gpus)) && fits(system));
    match (fitting.next(), fitting.next()) {
        (Some(only), None) => {
            Ok((only.clone(), format!("no other system of the manifest has {} GPUs and these settings", scale.gpus)))
        }
        _ => Err(NoSystem(format!(
            "the GPU type is not known: set GPU_TYPE, or add one of these, `system=NAME`: {listed}; without it the default runs, `{}`",
            manifest.params.get("system").and_then(|param| param.value.as_str()).unwrap_or_default()
        ))),
    }
}

/// The GPU type, and where it is from.
fn gpu_type(scale: &GpuScale) -> Result<Option<(String, String)>, ClusterFileError> {
    if let Some(gpu_type) = &scale.gpu_type {
        return Ok(Some((gpu_type.clone(), "GPU_TYPE before the line".to_owned())));
    }
    if let Some(gpu_type) = std::env::var("GPU_TYPE").ok().filter(|value| !value.is_empty()) {
        return Ok(Some((gpu_type.to_lowercase(), "GPU_TYPE in the environment".to_owned())));
    }
    let installed = std::env::var_os("LLMB_INSTALL").map(PathBuf::from);
    for folder in [Some(PathBuf::new()), installed].into_iter().flatten() {
        if let Some(found) = gpu_type_of_file(&folder)? {
            return Ok(Some((found, folder.join(FILE).display().to_string())));
        }
    }
    let of_machine = doctor::gpu_names().first().and_then(|name| gpu_name(name));
    Ok(of_machine.map(|name| (name, "this machine".to_owned())))
}

/// The names in the catalog of the manifest's parameter `system`.
fn systems(project: &Project, name: &str, manifest: &Manifest) -> Option<BTreeSet<String>> {
    let _ = manifest.params.get("system")?;
    let file = project.manifests.find(name)?;
    Some(file.sibling(".")?.catalog(&file))
}
