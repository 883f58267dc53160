//! `container:` — the place that a stage's programs run in, beside any action that starts one.

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use base::spec::{ContainerEngine, ContainerGpus};

/// The container that a stage's programs run in. The project and the inputs are mounted read-only at their own paths, the output
/// folder can be written to; a Triton server sees its repository and its engines. The image's id is part of the key.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Container {
    /// A reference or `{{ stages.NAME.image }}` for docker and podman; a file, too, for apptainer (`.sif`) and enroot (`.sqsh`, or the name of a container).
    pub image: String,
    /// [default: by the ending of `image`; else docker, or podman where there is no docker]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine: Option<ContainerEngine>,
    /// The engine's program, where it is not found by its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// Further mounts: `/from:/to`, `/from:/to:ro`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mounts: Vec<String>,
    /// Size of /dev/shm: `2g`. docker, podman. [default: 2g]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shm_size: Option<String>,
    /// Limits by name; -1 is without limit. docker, podman. [default: memlock -1, stack 67108864]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ulimits: Option<IndexMap<String, i64>>,
    /// [default: leased]
    #[serde(default)]
    pub gpus: ContainerGpus,
    /// docker, podman; the others always use the host's. [default: host]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<String>,
    /// docker, podman: `1000:1000`. [default: the current user; for `serve: triton` the image's user]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Environment inside, in addition to the stage's `env`, which is passed on.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub env: IndexMap<String, String>,
    /// The container's name; `-<n>` is added for several. [default: made of the run and the task]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Further arguments of the engine, before the image: `--entrypoint=` removes the image's entry point, which otherwise runs the command.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
}

impl Container {
    /// The image, if it is a file to be read.
    pub fn file(&self) -> Option<&str> {
        let is_file = self.image.starts_with(['/', '.']) || ContainerEngine::of_file(&self.image).is_some();
        (is_file && !self.image.contains("://")).then_some(self.image.as_str())
    }
}
