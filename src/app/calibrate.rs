//! `regatta sim calibrate` makes a preset of the simulator from step logs.

use std::path::Path;

use anyhow::Context as _;
use serde::de::DeserializeOwned;

use super::project::Project;
use crate::cli::{CalibrateRequest, CalibratedScheduler, CliExit, Global};
use crate::console::{print, print_as, print_error};
use crate::error::CommandError;
use base::files::read_text;
use base::spec::SimScheduler;
use plan::manifest::ManifestLibrary;
use plan::manifest::model::{ModelShape, SystemShape};
use report::{calibration, calibration_json, calibration_preset};
use runner::store::write_named;
use sim::{CalibrationTarget, Parallelism, Precision};
use stages::{decoder_model, gpu_timing};

pub(super) fn calibrate(global: &Global, request: &CalibrateRequest) -> Result<CliExit, CommandError> {
    let project = Project::open_current(global)?;
    let model: ModelShape = part(&project.manifests, "models", &request.model, "model")?;
    let mut gpu: serde_yaml::Value = part(&project.manifests, "gpus", &request.system, "gpu")?;
    if let Some(gpu) = gpu.as_mapping_mut() {
        // A system says how many it has of them; a fit is of one.
        gpu.entry("gpus".into()).or_insert_with(|| 1.into());
    }
    let gpu: SystemShape = serde_yaml::from_value(gpu).map_err(|error| wrong(&request.system, "gpu", &error))?;
    let precision = precision(&request.precision)?;
    let kv = match &request.kv_cache_dtype {
        Some(word) => self::precision(word)?,
        None if precision.bytes() < 2.0 => Precision::Fp16,
        None => precision,
    };
    let mut logs = Vec::new();
    for path in &request.logs {
        let text = read_text(path).with_context(|| format!("cannot read {}", path.display()))?;
        let log =
            sim::read_step_log(&text).map_err(|error| CommandError::usage(format!("{}: {error}", path.display())))?;
        logs.push(log);
    }
    let names: Vec<_> = request.logs.iter().filter_map(|path| Path::new(path).file_name()).collect();
    let names: Vec<_> = names.iter().map(|name| name.to_string_lossy()).collect();
    let target = CalibrationTarget {
        source: request.source.clone().unwrap_or_else(|| names.join(", ")),
        model: decoder_model(&model),
        gpu: gpu_timing(&gpu),
        precision,
        kv,
        parallelism: Parallelism { tensor: request.tensor_parallelism, pipeline: 1 },
        scheduler: match request.scheduler {
            CalibratedScheduler::Vllm => SimScheduler::Vllm,
            CalibratedScheduler::TensorrtLlm => SimScheduler::TensorrtLlm,
        },
        max_cudagraph_capture_size: request.max_cudagraph_capture_size,
    };
    let fit = sim::calibrate(&target, &logs).map_err(CommandError::usage)?;
    print_as(global.styler(), request.json, || calibration_json(&fit), |styler| calibration(&fit).terminal(styler));
    let preset = calibration_preset(&fit);
    match &request.output {
        Some(path) => {
            write_named(path, preset)?;
            print_error(&format!("the preset is in {}\n", path.display()));
        }
        None if !request.json => print(&format!("\n{preset}")),
        None => {}
    }
    Ok(CliExit::Done)
}

fn precision(word: &str) -> Result<Precision, CommandError> {
    Precision::parse(word).ok_or_else(|| CommandError::usage(format!("`{word}` is not one of fp16, bf16, fp8, fp4")))
}

/// `vars.KEY` of a file, or of a shipped one of this folder of `manifests`.
fn part<T: DeserializeOwned>(
    library: &ManifestLibrary,
    folder: &str,
    name: &str,
    key: &str,
) -> Result<T, CommandError> {
    let file = library
        .find(&format!("{folder}/{name}"))
        .or_else(|| library.find(name))
        .ok_or_else(|| CommandError::usage(format!("there is no `{name}`, and no manifests/{folder}/{name}.yaml")))?;
    let source = file.read().map_err(|error| CommandError::usage(format!("{name}: {error}")))?;
    let mut yaml: serde_yaml::Value =
        serde_yaml::from_slice(&source.bytes).map_err(|error| wrong(&source.name, key, &error))?;
    let value = yaml.get_mut("vars").and_then(|vars| vars.get_mut(key)).map(std::mem::take).unwrap_or_default();
    if value.is_null() {
        return Err(CommandError::usage(format!("{} has no `vars.{key}`", source.name)));
    }
    serde_yaml::from_value(value).map_err(|error| wrong(&source.name, key, &error))
}

fn wrong(name: &str, key: &str, error: &serde_yaml::Error) -> CommandError {
    CommandError::usage(format!("{name}: vars.{key}: {error}"))
}
