//! Lists of llmb-run: its YAML, and `gpu_type` of a cluster_config.yaml.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use indexmap::IndexMap;
use serde::Deserialize;
use serde_json::Value;

use crate::bulk::{BulkFile, BulkRun, command_line_value};
use crate::cli::{KeyValueArg, Subject};
use crate::doctor;
use crate::project::Project;
use base::diag::{ErrorText, in_file};
use base::files::{parse_yaml, read_text};
use interop::{GpuScale, gpu_name, recipe_manifests};
use plan::manifest::Manifest;
use plan::manifest::model::OneOrMany;

/// One combination of a data type and a scale.
#[derive(Clone, Debug, PartialEq)]
pub struct LlmbJob {
    /// `inference_llama3.3`
    pub workload: String,
    /// `70b`
    pub size: String,
    pub dtype: String,
    pub scale: u32,
    pub repeats: u32,
    /// Requested, and not available here.
    pub extras: BTreeSet<&'static str>,
    pub env: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Workload {
    #[serde(default)]
    defaults: Overrides,
    dtypes: Option<OneOrMany<String>>,
    scales: Option<OneOrMany<u32>>,
    #[serde(default = "once")]
    repeats: u32,
    #[serde(default)]
    add_profile: bool,
    #[serde(default)]
    tasks: Vec<Task>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Task {
    dtypes: Option<OneOrMany<String>>,
    scales: Option<OneOrMany<u32>>,
    repeats: Option<u32>,
    #[serde(default)]
    profile: bool,
    add_profile: Option<bool>,
    #[serde(default)]
    proxy: bool,
    #[serde(default)]
    overrides: Overrides,
}

/// `params` reach a workload as variables in capitals; a list is swept.
#[derive(Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Overrides {
    #[serde(default)]
    env: IndexMap<String, Value>,
    #[serde(default)]
    params: IndexMap<String, Value>,
}

const fn once() -> u32 {
    1
}

/// Reads a list.
pub fn read(text: &str) -> Result<Vec<LlmbJob>, ErrorText> {
    let file: IndexMap<String, Workload> = parse_yaml(text).map_err(ErrorText::new)?;
    let mut jobs = Vec::new();
    for (header, workload) in &file {
        let (key, size) = named(header).ok_or_else(|| no_workload(header))?;
        for task in &workload.tasks {
            let lacks = |key| ErrorText::new(format_args!("a task of `{header}` has no `{key}`"));
            let dtypes = task.dtypes.as_ref().or(workload.dtypes.as_ref()).ok_or_else(|| lacks("dtypes"))?.all();
            let scales = task.scales.as_ref().or(workload.scales.as_ref()).ok_or_else(|| lacks("scales"))?.all();
            let mut extras = BTreeSet::new();
            if task.profile || task.add_profile.unwrap_or(workload.add_profile) {
                extras.insert("profile");
            }
            if task.proxy {
                extras.insert("proxy");
            }
            for env in environments(&workload.defaults, &task.overrides)? {
                for (dtype, scale) in dtypes.iter().flat_map(|dtype| scales.iter().map(move |scale| (dtype, *scale))) {
                    jobs.push(LlmbJob {
                        workload: key.to_owned(),
                        size: size.to_owned(),
                        dtype: dtype.clone(),
                        scale,
                        repeats: task.repeats.unwrap_or(workload.repeats),
                        extras: extras.clone(),
                        env: env.clone(),
                    });
                }
            }
        }
    }
    Ok(jobs)
}

/// Variables of each point of a sweep; one without a sweep.
fn environments(defaults: &Overrides, own: &Overrides) -> Result<Vec<BTreeMap<String, String>>, ErrorText> {
    let plain = |name: &str, value: &Value| {
        let wrong = || ErrorText::new(format_args!("`{name}` is not a plain value (text, number or boolean)"));
        command_line_value(value).ok_or_else(wrong)
    };
    let mut base = BTreeMap::new();
    for (name, value) in defaults.env.iter().chain(&own.env) {
        base.insert(name.clone(), plain(name, value)?);
    }
    for (name, value) in &defaults.params {
        base.insert(name.to_uppercase(), plain(name, value)?);
    }
    let mut points = vec![base];
    for (name, value) in &own.params {
        let values = match value {
            Value::Array(values) => values.clone(),
            value => vec![value.clone()],
        };
        let mut next = Vec::new();
        for point in &points {
            for value in &values {
                let mut point = point.clone();
                point.insert(name.to_uppercase(), plain(name, value)?);
                next.push(point);
            }
        }
        points = next;
    }
    Ok(points)
}

/// `inference_llama3.3_70b` → `inference_llama3.3`, `70b`. `None` if it is not a workload with its size.
pub fn named(header: &str) -> Option<(&str, &str)> {
    let is_size = |size: &str| {
        let digits = size.strip_suffix('b').unwrap_or_default();
        !digits.is_empty()
            && digits.split('.').count() <= 2
            && digits.split('.').all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()))
    };
    header.rsplit_once('_').filter(|(_, size)| is_size(size))
}

fn no_workload(header: &str) -> ErrorText {
    ErrorText::new(format_args!("`{header}` is not a workload with its size, as `inference_llama3.3_70b` is"))
}

/// What names of llmb-run mean here.
pub struct LlmbCluster {
    pub gpu_type: Option<String>,
    /// Names of manifests.
    pub manifests: Vec<String>,
    /// `system=` was given for all of them.
    pub has_system: bool,
}

impl LlmbCluster {
    /// The runs, or everything that cannot be translated.
    pub fn items(&self, jobs: Vec<LlmbJob>) -> Result<BulkFile, ErrorText> {
        let (mut items, mut wrong, mut notes) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
        for job in jobs {
            let Some(manifest) = self.manifest(&job, &mut wrong) else { continue };
            let mut settings = Vec::new();
            if self.has_system {
                notes.insert("`system=` is given, so scales have no effect".to_owned());
            } else if let Some(gpu_type) = &self.gpu_type {
                let value = format!("{}-x{}", gpu_type.to_lowercase(), job.scale);
                settings.push(KeyValueArg { key: "system".to_owned(), value });
            } else {
                let need = "a scale needs its GPU: `--gpu-type gb200`, or `system=gb200-x1` for all runs";
                wrong.insert(need.to_owned());
            }
            settings.push(KeyValueArg { key: "dtype".to_owned(), value: job.dtype });
            for extra in job.extras {
                notes.insert(format!("`{extra}` of {}_{} is left out: it has no counterpart", job.workload, job.size));
            }
            let item = BulkRun {
                subject: Subject { manifest, settings },
                list_keys: BTreeSet::new(),
                env: job.env,
                repeat: 1,
            };
            items.extend(item.repeated(job.repeats));
        }
        if wrong.is_empty() {
            Ok(BulkFile { items, notes: notes.into_iter().collect() })
        } else {
            Err(ErrorText::new(wrong.into_iter().collect::<Vec<_>>().join("\n")))
        }
    }

    /// `inference_llama3.3` of `70b` is `llama3.3-70b`.
    fn manifest(&self, job: &LlmbJob, wrong: &mut BTreeSet<String>) -> Option<String> {
        let names = recipe_manifests(&job.workload, Some(&job.size));
        let manifest = names.iter().find(|name| self.manifests.contains(*name)).cloned();
        if manifest.is_none() {
            let not_shipped = |name| format!("this recipe is not shipped, and there is no manifest `{name}`");
            wrong.extend(names.into_iter().next_back().map(not_shipped));
        }
        manifest
    }
}

/// llmb-run's description of its cluster.
const FILE: &str = "cluster_config.yaml";

/// The GPU type of this folder's `cluster_config.yaml`: `gb200`. `None` if the file or its `gpu_type` is missing; an
/// error if it is there and cannot be used.
pub(super) fn gpu_type_of_file(folder: &Path) -> Result<Option<String>, ErrorText> {
    let path = folder.join(FILE);
    let text = match read_text(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(in_file(&path)(error)),
    };
    let value: Value = parse_yaml(&text).map_err(in_file(&path))?;
    let gpu_type = value.get("gpu_type").or_else(|| value.pointer("/launcher/gpu_type"));
    Ok(gpu_type.and_then(Value::as_str).map(str::to_lowercase))
}

/// The system that a scale stands for, and how it was found; or one sentence on why none was. `fits`: whether the
/// manifest takes a system with the other settings.
pub fn system(
    project: &Project,
    name: &str,
    manifest: &Manifest,
    scale: &GpuScale,
    fits: &dyn Fn(&str) -> bool,
) -> Result<(String, String), ErrorText> {
    let Some(systems) = systems(project, name, manifest) else {
        return Err(ErrorText::new(format!("the manifest `{name}` has no systems to choose from")));
    };
    let real: Vec<&String> = systems.iter().filter(|system| !system.starts_with("sim-")).collect();
    let listed = real.iter().map(|system| system.as_str()).collect::<Vec<_>>().join(", ");
    let typed = gpu_type(scale)?;
    if let Some((gpu_type, origin)) = typed {
        let system = format!("{gpu_type}-x{}", scale.gpus);
        if systems.contains(&system) {
            return Ok((system, format!("the GPU type is from {origin}")));
        }
        return Err(ErrorText::new(format!(
            "{origin} has {gpu_type}, and the manifest `{name}` has no system `{system}`; it has {listed}"
        )));
    }
    let mut fitting = real.into_iter().filter(|system| system.ends_with(&format!("-x{}", scale.gpus)) && fits(system));
    match (fitting.next(), fitting.next()) {
        (Some(only), None) => Ok((
            only.clone(),
            format!(
                "no other system of the manifest has {} and these settings",
                base::units::counted(scale.gpus, "GPU")
            ),
        )),
        _ => Err(ErrorText::new(format!(
            "unknown GPU type: set GPU_TYPE, or add one of these, `system=NAME`: {listed}; without it the \
             default runs, `{}`",
            manifest.params.get("system").and_then(|param| param.value.as_str()).unwrap_or_default()
        ))),
    }
}

/// The GPU type, and where it is from.
fn gpu_type(scale: &GpuScale) -> Result<Option<(String, String)>, ErrorText> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FILE: &str = "
inference_llama3.3_70b:
  defaults: { env: { NUM_REQUESTS: 100 } }
  dtypes: nvfp4
  repeats: 2
  tasks:
    - scales: [1, 4]
      overrides: { env: { USE_CASES: 'chat:128/128 reasoning:1000/1000' } }
    - { dtypes: [fp8], scales: 2, repeats: 1, profile: true, overrides: { params: { max_batch_size: [1, 2] } } }
";

    fn cluster(gpu_type: Option<&str>) -> LlmbCluster {
        let manifests = ["llama3.3-70b", "quickstart", "gpt-oss-120b"].map(str::to_owned).to_vec();
        LlmbCluster { gpu_type: gpu_type.map(str::to_owned), manifests, has_system: false }
    }

    #[test]
    fn every_combination_is_a_run() {
        let read = cluster(Some("GB200")).items(read(FILE).unwrap()).unwrap_or_else(|wrong| panic!("{wrong:?}"));
        let commands: Vec<String> = read.items.iter().map(ToString::to_string).collect();
        insta::assert_snapshot!(commands.join("\n"), @"
        NUM_REQUESTS=100 USE_CASES='chat:128/128 reasoning:1000/1000' regatta run llama3.3-70b system=gb200-x1 \
        dtype=nvfp4
        NUM_REQUESTS=100 USE_CASES='chat:128/128 reasoning:1000/1000' regatta run llama3.3-70b system=gb200-x1 \
        dtype=nvfp4 --repeat-number 2
        NUM_REQUESTS=100 USE_CASES='chat:128/128 reasoning:1000/1000' regatta run llama3.3-70b system=gb200-x4 \
        dtype=nvfp4
        NUM_REQUESTS=100 USE_CASES='chat:128/128 reasoning:1000/1000' regatta run llama3.3-70b system=gb200-x4 \
        dtype=nvfp4 --repeat-number 2
        MAX_BATCH_SIZE=1 NUM_REQUESTS=100 regatta run llama3.3-70b system=gb200-x2 dtype=fp8
        MAX_BATCH_SIZE=2 NUM_REQUESTS=100 regatta run llama3.3-70b system=gb200-x2 dtype=fp8
        ");
        assert_eq!(read.notes, ["`profile` of inference_llama3.3_70b is left out: it has no counterpart"]);
    }

    #[test]
    fn unsupported_keys_are_reported_at_once() {
        let text = format!("{FILE}\npretrain_grok1_314b:\n  tasks: [{{ dtypes: fp8, scales: 8 }}]\n");
        let Err(wrong) = cluster(None).items(read(&text).unwrap()) else { panic!("accepted") };
        let wrong = wrong.to_string();
        let lines: Vec<&str> = wrong.lines().collect();
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert!(lines[0].contains("--gpu-type") && lines[1].contains("grok1-314b"), "{lines:?}");
        // MLPerf's benchmark of the same model is not the recipe.
        let text = "inference_gpt-oss_120b:\n  tasks: [{ dtypes: mxfp4, scales: 8 }]\n";
        let Err(wrong) = cluster(Some("b200")).items(read(text).unwrap()) else { panic!("accepted") };
        let sentence = "this recipe is not shipped, and there is no manifest `inference_gpt-oss-120b`";
        assert_eq!(wrong.to_string(), sentence);
    }

    #[test]
    fn a_header_has_a_size() {
        assert_eq!(named("pretrain_nemotron-h_56b"), Some(("pretrain_nemotron-h", "56b")));
        assert_eq!(named("a_1.5b"), Some(("a", "1.5b")));
        for bad in ["pretrain_nemotron-h", "pretrain_llama_7x", "_b", "x_.b", "x_1.2.3b", ""] {
            assert_eq!(named(bad), None, "{bad}");
        }
        assert!(read("x_7b: { tasks: [{ dtypes: a }] }").unwrap_err().to_string().contains("scales"));
        assert!(read("x_7b: { task: [] }").unwrap_err().to_string().contains("task"));
    }

    proptest! {
        #[test]
        fn no_text_makes_a_reader_of_lists_panic(text in "[a-z_0-9:()\\[\\]',\"True\n# ]{0,60}") {
            let _ = read(&text);
            let _ = super::super::read_regatta_list(&text);
        }
    }
}
