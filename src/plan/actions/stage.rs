//! One stage: the common keys and exactly one action key.
//!
//! Variables that a run sets itself: one of the same name under `env:` would be replaced without a word.

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{PlanReference, StageChecker, faults};
use crate::for_each_action;
use crate::manifest::model::{Container, Host, Serve, ShellScript};
use base::spec::{GpuClocks, MOST_PARTS, MOST_USERS, TimeSpan};

macro_rules! define_stage {
    ($($(#[doc = $about:literal])* $key:ident: $name:ident($settings:ty),)+) => {
        /// A stage: common keys, and the key of exactly one action.
        // Its large parts are in boxes: a stage has one action at most, and a plan moves the whole several times.
        #[base::omit_empty]
        #[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
        #[serde(deny_unknown_fields)]
        pub struct Stage {
            /// A one-line description.
            pub about: Option<String>,
            /// One task for each combination of these lists; in the stage each name is its value.
            pub foreach: IndexMap<String, serde_json::Value>,
            /// Skip the stage when this is false.
            pub when: Option<bool>,
            /// Stages that must end first although no output is used. References are dependencies already.
            pub needs: Vec<String>,
            /// Files and folders that it reads: a path, a glob or a list, relative to the current folder. `{{
            /// inputs.NAME }}` has the absolute paths, separated by spaces, `$INPUT_NAME` by `:`; for paths with these
            /// name the folder.
            pub inputs: IndexMap<String, OneOrMany<String>>,
            /// Files that it must write to its output folder.
            pub outputs: Vec<String>,
            /// Environment variables, part of the key. The rest of the environment is passed on, but is not part of the
            /// key; `LC_ALL` is C.UTF-8 and `TZ` is UTC unless set here.
            pub env: IndexMap<String, String>,
            /// Environment variables that are passed on and never shown, logged or hashed.
            pub secrets: Vec<String>,
            /// Where it runs: `slurm` makes a job of it. [default: here]
            pub host: Option<Box<Host>>,
            /// How many GPUs it leases (→ `CUDA_VISIBLE_DEVICES`).
            #[serde(default)]
            #[schemars(range(max = MOST_PARTS))]
            pub gpus: u32,
            /// Lock the clocks of its GPUs while it runs. Part of the key.
            pub gpu_clocks: Option<GpuClocks>,
            /// How many of the run's `-j` slots it takes. [default: 1; `bench`: all]
            #[schemars(range(max = MOST_USERS))]
            pub cpus: Option<u32>,
            /// End it after this long: `90s`, `30m`, `2h`.
            pub timeout: Option<TimeSpan>,
            /// Retry when it fails.
            pub retry: Option<Retry>,
            /// false: always run. true: also cache measurements of servers that the run does not start, while their
            /// version, model and start time stay the same. [default: true; false for such measurements]
            pub cache: Option<bool>,
            /// false: never send its output to a shared store (`--store`).
            #[serde(default = "super::yes")]
            pub share: bool,
            /// The next attempt continues in the folder of an unfinished one.
            #[serde(default)]
            pub resume: bool,
            /// false: a `shell` text runs without `-e`, `-u` and `pipefail`: only its last command decides.
            #[serde(default = "super::yes")]
            pub strict: bool,
            /// true: a `shell` command reads only its inputs, the outputs that it refers to, and system folders, and
            /// writes only its output folder. `HOME` and `TMPDIR` are an empty folder. Needs Linux 5.13 with Landlock.
            #[serde(default)]
            pub confine: bool,
            /// Run its programs in a container: for `shell`, `engine`, `trtllm_bench`, `serve` of a program and
            /// `mlperf: package`.
            pub container: Option<Box<Container>>,

            $(
                $(#[doc = $about])*
                pub $key: Option<Box<$settings>>,
            )+
        }
    };
}
for_each_action!(define_stage);

/// One value, or several.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum OneOrMany<T> {
    One(T),
    Many(Vec<T>),
}

impl<T> OneOrMany<T> {
    pub fn all(&self) -> &[T] {
        match self {
            Self::One(value) => std::slice::from_ref(value),
            Self::Many(values) => values,
        }
    }
}

/// How often and how soon a failed task is retried.
#[base::omit_empty]
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Retry {
    /// Attempts after the first. With `lower`, one for each step.
    #[schemars(range(min = 1, max = 100))]
    pub times: Option<u32>,
    /// Wait this long before each: `10s`.
    pub delay: Option<TimeSpan>,
    /// After which failures: `any`, or `oom` when memory ran out.
    #[serde(default, skip_serializing_if = "super::bench::is_usual")]
    pub on: RetryAfter,
    /// With `on: oom`: the number to lower before each attempt: a build flag of `engine` (`max_num_tokens`), a
    /// parameter of the engine models of `serve` (`kv_cache_free_gpu_mem_fraction`, `max_batch_size`,
    /// `max_num_tokens`), or an option of a command. The lowered number is part of the key and shown in results.
    pub lower: Option<String>,
    /// The step.
    pub by: Option<f64>,
    /// Never below this. [default: half of the first value]
    pub to: Option<f64>,
}

/// After which failures a task is tried again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RetryAfter {
    #[default]
    Any,
    /// When memory ran out, of a GPU or of the host.
    Oom,
}

/// The variable that has the path of an input: `train-data` → `INPUT_TRAIN_DATA`.
pub fn input_variable(name: &str) -> String {
    let name: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' }).collect();
    format!("INPUT_{name}")
}

impl StageChecker<'_> {
    pub(super) fn common(&mut self, stage: &Stage) {
        self.retry(stage);
        self.gpu_clocks(stage);
        let has_script = matches!(stage.shell.as_deref(), Some(ShellScript::Text(_)));
        faults! { self;
            ["strict"], !stage.strict && !has_script, "has no effect", "only a `shell` text runs in a shell",
                "remove it";
            ["confine"], stage.confine && stage.shell.is_none(), "has no effect", "only a `shell` is confined",
                "remove it";
            ["confine"], stage.confine && stage.shell.is_some() && stage.container.is_some(), "has no effect",
                "a container sees only what is mounted into it", "remove it";
        }
        self.time_fault(&["timeout"], stage.timeout.as_ref().map(TimeSpan::time), "the stage would end at once");
        for name in stage.env.keys() {
            self.variable(&["env", name], name);
        }
        self.own_variables(stage);
        for (index, name) in stage.secrets.iter().enumerate() {
            self.variable(&["secrets", &index.to_string()], name);
        }
        for (index, path) in stage.outputs.iter().enumerate() {
            let index = index.to_string();
            if path.is_empty() || path.starts_with('/') || escapes_folder(path) {
                self.fault(&["outputs", &index], "must be in the output folder", "outside")
                    .hint("it is relative to the output folder, $OUT");
            } else if path.contains(['*', '?']) {
                self.fault(&["outputs", &index], "must be a path", "outputs are not globs, as inputs are")
                    .hint("name each file, or the folder that they are in");
            }
        }
        for (name, paths) in &stage.inputs {
            for (index, path) in paths.all().iter().enumerate() {
                let index = index.to_string();
                let many = matches!(paths, OneOrMany::Many(_));
                let place: &[&str] = if many { &["inputs", name, &index] } else { &["inputs", name] };
                if path.is_empty() {
                    self.fault(place, "is empty", "no path");
                } else if path.starts_with("~/") {
                    self.fault(place, "begins with `~`", "it is not expanded to a home folder here")
                        .hint("write the whole path, or declare a parameter `path: required`");
                } else if PlanReference::all_in(path).iter().any(|one| matches!(one, PlanReference::Input(_))) {
                    self.fault(place, "refers to an input", "inputs cannot refer to other inputs");
                } else if !path.starts_with('/') && !path.contains('⟦') && escapes_folder(path) {
                    self.fault(place, "leaves the project folder", "outside")
                        .hint("give an absolute path to something outside of it");
                }
            }
        }
    }

    pub(super) fn own_variables(&mut self, stage: &Stage) {
        for name in stage.env.keys() {
            let input = stage.inputs.keys().find(|input| input_variable(input) == *name);
            let (why, hint) = match (name.as_str(), input) {
                ("OUT", _) => ("the output folder".to_owned(), "name it otherwise"),
                (_, Some(input)) => (format!("the input `{input}`"), "name one of them otherwise"),
                ("CUDA_VISIBLE_DEVICES", _) if stage.gpus > 0 => {
                    ("the GPUs that the stage leases".to_owned(), "remove it; `regatta run --gpus` chooses among them")
                }
                _ => continue,
            };
            self.key_fault(&["env", name], "has no effect", &format!("the run sets it: {why}")).hint(hint);
        }
    }

    pub(super) fn retry(&mut self, stage: &Stage) {
        let Some(retry) = &stage.retry else { return };
        let needs_memory = stage.action_kind().is_none_or(|kind| kind.facts().needs_memory);
        faults! { self;
            ["retry"], retry.times.is_none() && retry.lower.is_none(), "needs `times`", "how often?", "add `times: 2`";
            ["retry"], matches!(stage.serve.as_deref(), Some(Serve::Attach(_))), "has no effect",
                "the run does not start these servers";
            ["retry", "on"], retry.on == RetryAfter::Oom && !needs_memory, "has no effect here",
                "this stage never runs out of memory", "remove `on: oom`";
        }
        self.lowering(stage, retry);
    }

    fn lowering(&mut self, stage: &Stage, retry: &Retry) {
        let Some(setting) = &retry.lower else {
            let hint = usual_setting(stage).map_or_else(
                || "remove it, or name the number with `lower`".to_owned(),
                |setting| format!("add `lower: {setting}`"),
            );
            for (key, _) in [("by", retry.by), ("to", retry.to)].iter().filter(|(_, value)| value.is_some()) {
                self.idle(&["retry", key], "nothing is lowered", &hint);
            }
            return;
        };
        faults! { self;
            ["retry", "lower"], retry.on != RetryAfter::Oom, "needs `on: oom`", "a lower number helps only then",
                "add `on: oom`";
            ["retry"], retry.by.is_none(), "needs `by`", "how far down each time?", "add `by: 0.05`";
        }
        self.number_fault(&["retry", "by"], retry.by, "it is taken away each time");
        self.number_fault(&["retry", "to"], retry.to, "the lowest value");
        let lacks = match (stage.serve.as_deref(), stage.shell.as_deref()) {
            _ if stage.engine.is_some() => None,
            (Some(Serve::Simulator(_) | Serve::Triton(_)), _) if is_of_a_model(setting) => None,
            (Some(Serve::Simulator(_) | Serve::Triton(_)), _) => Some("a server's models have no number of that name"),
            (Some(Serve::TrtllmServe(server)), _) => {
                let has_key = match setting.as_str() {
                    "max_batch_size" => server.max_batch_size.is_some(),
                    "max_num_tokens" => server.max_num_tokens.is_some(),
                    _ => false,
                };
                let is_there = has_key || server.option(setting).is_some();
                if is_there { None } else { unsupported_reason(&server.args, setting) }
            }
            (Some(Serve::Vllm(server)), _) if server.number(setting).is_some() => None,
            (Some(Serve::Vllm(server)), _) => unsupported_reason(&server.args, setting),
            (Some(Serve::Command(server)), _) => unsupported_reason(&server.words, setting),
            (_, Some(ShellScript::Words(words))) => unsupported_reason(words, setting),
            (_, Some(ShellScript::Text(_))) => Some("the command is a text: write it as a list of arguments"),
            _ => Some("this stage has nothing to lower"),
        };
        if let Some(why) = lacks {
            let hint = "of an `engine` a build flag (`max_num_tokens`), of `serve` kv_cache_free_gpu_mem_fraction, \
                max_batch_size or max_num_tokens, of trtllm_serve also one of its `options`, of vllm one of its \
                numbers (`gpu_memory_utilization`), of a command one of its options";
            self.fault(&["retry", "lower"], &format!("has no `{setting}`"), why).hint(hint);
        }
    }
}

/// Whether a relative path climbs out of where it begins.
fn escapes_folder(path: &str) -> bool {
    let mut depth = 0_i32;
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => depth -= 1,
            _ => depth += 1,
        }
        if depth < 0 {
            return true;
        }
    }
    false
}

/// The number that is lowered most often, where the stage has it.
fn usual_setting(stage: &Stage) -> Option<&'static str> {
    const OF_VLLM: &str = "gpu_memory_utilization";
    match stage.serve.as_deref() {
        _ if stage.engine.is_some() => Some("max_num_tokens"),
        Some(Serve::Simulator(_) | Serve::Triton(_)) => Some("kv_cache_free_gpu_mem_fraction"),
        Some(Serve::Vllm(server)) => server.number(OF_VLLM).map(|_| OF_VLLM),
        _ => None,
    }
}

fn is_of_a_model(setting: &str) -> bool {
    triton::repository::number_parameter(setting).is_some()
}

/// A number that stands on a command, `--name 0.9` or `--name=0.9`; one with a reference in it is known later.
fn unsupported_reason(words: &[String], setting: &str) -> Option<&'static str> {
    let option = |word: &String| {
        let name = word.strip_prefix("--").unwrap_or_default().split('=').next().unwrap_or_default();
        name.replace('-', "_") == setting.replace('-', "_")
    };
    (!words.iter().any(option)).then_some("the command has no such option")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_inputs_become_names_of_variables() {
        assert_eq!(input_variable("train-data"), "INPUT_TRAIN_DATA");
    }
}
