//! llmb-run's list: workloads with data types, scales, repeats and variables.

use std::collections::{BTreeMap, BTreeSet};

use indexmap::IndexMap;
use serde::Deserialize;
use serde_json::Value;

use super::bulk_run::{BulkFile, BulkRun};
use super::error::{BulkFileError, LlmbJobProblem, LlmbJobsError};
use super::regatta_list::command_line_value;
use crate::cli::KeyValueArg;
use base::diag::did_you_mean;

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

#[derive(Clone, Deserialize)]
#[serde(untagged)]
enum OneOrMany<T> {
    One(T),
    Many(Vec<T>),
}

impl<T: Clone> OneOrMany<T> {
    fn all(&self) -> Vec<T> {
        match self {
            Self::One(one) => vec![one.clone()],
            Self::Many(many) => many.clone(),
        }
    }
}

const fn once() -> u32 {
    1
}

/// Reads the YAML form.
pub fn read(text: &str) -> Result<Vec<LlmbJob>, BulkFileError> {
    let file: IndexMap<String, Workload> = serde_yaml::from_str(text)?;
    let mut jobs = Vec::new();
    for (header, workload) in &file {
        let (key, size) = named(header).ok_or_else(|| BulkFileError::Header(header.clone()))?;
        for task in &workload.tasks {
            let lacks = |key| BulkFileError::Missing { header: header.clone(), key };
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
fn environments(defaults: &Overrides, own: &Overrides) -> Result<Vec<BTreeMap<String, String>>, BulkFileError> {
    let plain =
        |name: &str, value: &Value| command_line_value(value).ok_or_else(|| BulkFileError::Value(name.to_owned()));
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

/// `inference_llama3.3_70b` → `inference_llama3.3`, `70b`. None: it is no workload with its size.
pub fn named(header: &str) -> Option<(&str, &str)> {
    let is_size = |size: &str| {
        let digits = size.strip_suffix('b').unwrap_or_default();
        !digits.is_empty()
            && digits.split('.').count() <= 2
            && digits.split('.').all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()))
    };
    header.rsplit_once('_').filter(|(_, size)| is_size(size))
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
    /// The runs, or everything that has no meaning here.
    pub fn items(&self, jobs: Vec<LlmbJob>) -> Result<BulkFile, LlmbJobsError> {
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
                wrong.insert(LlmbJobProblem::NoGpuType);
            }
            settings.push(KeyValueArg { key: "dtype".to_owned(), value: job.dtype });
            for extra in job.extras {
                notes.insert(format!(
                    "`{extra}` of {}_{} is left out: there is no such thing here",
                    job.workload, job.size
                ));
            }
            let item = BulkRun { manifest, settings, list_keys: BTreeSet::new(), env: job.env, repeat: 1 };
            items.extend(item.repeated(job.repeats));
        }
        if wrong.is_empty() {
            Ok(BulkFile { items, notes: notes.into_iter().collect() })
        } else {
            Err(LlmbJobsError { problems: wrong.into_iter().collect() })
        }
    }

    /// `inference_llama3.3` of `70b` is `llama3.3-70b`.
    fn manifest(&self, job: &LlmbJob, wrong: &mut BTreeSet<LlmbJobProblem>) -> Option<String> {
        let bare = job.workload.split_once('_').map_or(job.workload.as_str(), |(_, rest)| rest);
        let names = [format!("{bare}-{}", job.size), format!("{}-{}", job.workload, job.size)];
        if let Some(name) = names.iter().find(|name| self.manifests.contains(*name)) {
            return Some(name.clone());
        }
        let hint = did_you_mean(&names[0], self.manifests.iter().map(String::as_str));
        let [manifest, _] = names;
        let workload = format!("{}_{}", job.workload, job.size);
        wrong.insert(LlmbJobProblem::NoManifest { manifest, workload, hint });
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let manifests = vec!["llama3.3-70b".to_owned(), "quickstart".to_owned()];
        LlmbCluster { gpu_type: gpu_type.map(str::to_owned), manifests, has_system: false }
    }

    #[test]
    fn every_combination_is_a_run() {
        let read = cluster(Some("GB200")).items(read(FILE).unwrap()).unwrap_or_else(|wrong| panic!("{wrong:?}"));
        let commands: Vec<String> = read.items.iter().map(ToString::to_string).collect();
        insta::assert_snapshot!(commands.join("\n"), @r"
        NUM_REQUESTS=100 USE_CASES='chat:128/128 reasoning:1000/1000' regatta run llama3.3-70b system=gb200-x1 dtype=nvfp4
        NUM_REQUESTS=100 USE_CASES='chat:128/128 reasoning:1000/1000' regatta run llama3.3-70b system=gb200-x1 dtype=nvfp4 --repeat-number 2
        NUM_REQUESTS=100 USE_CASES='chat:128/128 reasoning:1000/1000' regatta run llama3.3-70b system=gb200-x4 dtype=nvfp4
        NUM_REQUESTS=100 USE_CASES='chat:128/128 reasoning:1000/1000' regatta run llama3.3-70b system=gb200-x4 dtype=nvfp4 --repeat-number 2
        MAX_BATCH_SIZE=1 NUM_REQUESTS=100 regatta run llama3.3-70b system=gb200-x2 dtype=fp8
        MAX_BATCH_SIZE=2 NUM_REQUESTS=100 regatta run llama3.3-70b system=gb200-x2 dtype=fp8
        ");
        assert_eq!(read.notes, ["`profile` of inference_llama3.3_70b is left out: there is no such thing here"]);
    }

    #[test]
    fn unsupported_keys_are_reported_at_once() {
        let text = format!("{FILE}\npretrain_grok1_314b:\n  tasks: [{{ dtypes: fp8, scales: 8 }}]\n");
        let Err(wrong) = cluster(None).items(read(&text).unwrap()) else { panic!("accepted") };
        let lines: Vec<String> = wrong.problems.iter().map(ToString::to_string).collect();
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert!(lines[0].contains("--gpu-type") && lines[1].contains("grok1-314b"), "{lines:?}");
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
}
