//! One stage: the common keys and exactly one action key.

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    Bench, CompareResults, Container, Engine, Git, Host, Image, Mlperf, Repository, Serve, ShellScript, Template,
    TrtllmBench, Weights,
};
use crate::for_each_action;
use base::spec::{GpuClocks, MOST_PARTS, MOST_USERS, TimeSpan};

macro_rules! define_stage {
    ($($(#[doc = $about:literal])* $key:ident: $name:ident($settings:ty),)+) => {
        /// A stage: common keys, and exactly one of `shell, git, image, template, weights, engine, repository, serve, bench,
        /// trtllm_bench, mlperf, compare`.
        // Its large parts are in boxes: a stage has one action at most, and a plan moves the whole several times.
        #[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
        #[serde(deny_unknown_fields)]
        pub struct Stage {
            /// A one-line description.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub about: Option<String>,
            /// One task for each combination of these lists. Inside, each name stands for its value.
            #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
            pub foreach: IndexMap<String, serde_json::Value>,
            /// Skip the stage when this is false.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub when: Option<bool>,
            /// Stages that must end before this one, where no data flows. References make edges by themselves.
            #[serde(default, skip_serializing_if = "Vec::is_empty")]
            pub needs: Vec<String>,
            /// Files and folders it reads: a path, a glob, or a list of them, relative to the current folder. `{{ inputs.NAME }}` is the absolute path. Several have a space between them, and `:` in the variable `INPUT_NAME`; where a path may have one of these in it, name the folder.
            #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
            pub inputs: IndexMap<String, InputPaths>,
            /// Files it must leave in its output folder.
            #[serde(default, skip_serializing_if = "Vec::is_empty")]
            pub outputs: Vec<String>,
            /// Environment variables, part of the key. The rest of the environment is passed through and is not.
            #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
            pub env: IndexMap<String, String>,
            /// Names of environment variables that are passed through and never shown, logged or hashed.
            #[serde(default, skip_serializing_if = "Vec::is_empty")]
            pub secrets: Vec<String>,
            /// Where it runs: `slurm` makes a job of it. [default: here]
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub host: Option<Box<Host>>,
            /// How many GPUs it leases (→ `CUDA_VISIBLE_DEVICES`).
            #[serde(default)]
            #[schemars(range(max = MOST_PARTS))]
            pub gpus: u32,
            /// Lock the clocks of its GPUs while it runs, and unlock them at its end, however it ends. Part of the key.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub gpu_clocks: Option<GpuClocks>,
            /// How many of the run's `-j` slots it takes. `bench` takes all by default.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            #[schemars(range(max = MOST_USERS))]
            pub cpus: Option<u32>,
            /// End it after this long: `90s`, `30m`, `2h`.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub timeout: Option<TimeSpan>,
            /// Retry when it fails.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub retry: Option<Retry>,
            /// false: run it every time. true: keep also what was measured on servers that the run does not start (attached ones, and a `target` that is an address), as long as they report the same version, model and start time. [default: true, for such measurements false]
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub cache: Option<bool>,
            /// false: its output is for this machine only and never goes to a shared store (`--store`).
            #[serde(default = "yes")]
            pub share: bool,
            /// Keep unfinished work, so that the next attempt continues in the same folder.
            #[serde(default)]
            pub resume: bool,
            /// false: a `shell` text runs without `-e`, `-u` and `pipefail`, so that only its last command decides whether it failed.
            #[serde(default = "yes")]
            pub strict: bool,
            /// true: the command of a `shell` may read its inputs, outputs of the stages that it names, and system folders such as `/usr` and `/etc`, and write in its output folder; everything else is an error. `HOME` and `TMPDIR` are an empty folder. Needs Linux 5.13 with Landlock.
            #[serde(default)]
            pub confine: bool,
            /// Run its programs in a container: for `shell`, `engine`, `trtllm_bench`, every `serve` that starts a program and `mlperf: package`.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub container: Option<Box<Container>>,

            $(
                $(#[doc = $about])*
                #[serde(default, skip_serializing_if = "Option::is_none")]
                pub $key: Option<Box<$settings>>,
            )+
        }
    };
}
for_each_action!(define_stage);

const fn yes() -> bool {
    true
}

/// One path, or several.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum InputPaths {
    One(String),
    Many(Vec<String>),
}

/// How often and how soon a failed task is retried.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Retry {
    /// How many more attempts after the first. Not needed with `lower`, which has one attempt for each step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100))]
    pub times: Option<u32>,
    /// Wait this long before each: `10s`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<TimeSpan>,
    /// After which failures: `any`, or `oom` when memory ran out.
    #[serde(default, skip_serializing_if = "RetryAfter::is_any")]
    pub on: RetryAfter,
    /// With `on: oom`: the number to lower before each further attempt. Of an `engine` a build flag (`max_num_tokens`), of `serve` a parameter of its engine models (`kv_cache_free_gpu_mem_fraction`, `max_batch_size`, `max_num_tokens`), of a command one of its options. The lowered number is part of the key, and is shown in journal, result and report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lower: Option<String>,
    /// By how much each time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<f64>,
    /// Never below this. [default: half of the first value]
    #[serde(default, skip_serializing_if = "Option::is_none")]
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

impl RetryAfter {
    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
    fn is_any(&self) -> bool {
        *self == Self::Any
    }
}

/// The variable that has the path of an input: `train-data` → `INPUT_TRAIN_DATA`.
pub fn input_variable(name: &str) -> String {
    let name: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' }).collect();
    format!("INPUT_{name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_inputs_become_names_of_variables() {
        assert_eq!(input_variable("train-data"), "INPUT_TRAIN_DATA");
    }
}
