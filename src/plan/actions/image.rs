//! `image:` — a container image: built or fetched, and remembered by its id.

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ActionFacts, Check, StageChecker};
use crate::manifest::model::Stage;
use base::spec::ContainerEngine;

/// A container image, built or fetched: exactly one of `build`, `pull`. Other stages run in it with
/// `container: { image: "{{ stages.NAME.image }}" }`.
#[base::omit_empty]
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Image {
    /// enroot writes a `.sqsh`, apptainer a `.sif`. [default: docker, or podman without docker]
    pub engine: Option<ContainerEngine>,
    /// Path of the engine's program, where its name is not found.
    pub program: Option<String>,
    /// Build it from a Dockerfile. docker, podman.
    pub build: Option<ImageBuild>,
    /// Fetch it: `registry.example/nvidia/tritonserver:24.12-trtllm-python-py3`; `@sha256:…` pins it.
    pub pull: Option<String>,
    /// `linux/arm64`. [default: this machine's]
    pub platform: Option<String>,
    /// Further arguments of `build` or `pull`, unchanged.
    pub args: Vec<String>,
}

impl Image {
    /// Of these keys exactly one is there.
    pub const KINDS: [&'static str; 2] = ["build", "pull"];
}

/// What is built. The names under the stage's `secrets` are given to the build as secrets of the same id.
#[base::omit_empty]
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ImageBuild {
    /// The build's folder, relative to the current one. Its files are inputs.
    pub context: String,
    /// Relative to the current folder. [default: `Dockerfile` in the context]
    pub dockerfile: Option<String>,
    /// The stage of the Dockerfile to stop at.
    pub target: Option<String>,
    /// Build arguments. They stay in the image's history: no secrets.
    pub args: IndexMap<String, String>,
    /// A tag for the image. [default: none; stages use its id]
    pub tag: Option<String>,
}

impl Check for Image {
    const FACTS: ActionFacts = ActionFacts {
        is_files: false,
        container_obstacle: Some("an image is made by the engine itself"),
        sharing_obstacle: Some("an image is in a container program's own store; a registry shares it"),
        ..ActionFacts::STEP
    };

    fn reads(&self) -> Vec<(&'static str, &str)> {
        let files = self.build.iter().flat_map(|build| {
            let dockerfile = build.dockerfile.as_deref().map(|path| ("image.build.dockerfile", path));
            std::iter::once(("image.build.context", build.context.as_str())).chain(dockerfile)
        });
        // The address of a repository is not a local file.
        files.filter(|(_, path)| !path.contains("://")).collect()
    }

    fn check(&self, _: &Stage, checker: &mut StageChecker<'_>) {
        if matches!(self.engine, Some(ContainerEngine::Enroot | ContainerEngine::Apptainer)) && self.build.is_some() {
            let hint = "build it with docker or podman; `pull` makes a file of what is in a registry".to_owned();
            checker.fault(&["image", "build"], "needs docker or podman", "this engine does not build").hint(hint);
        }
        for (key, text) in [("pull", self.pull.as_deref()), ("platform", self.platform.as_deref())] {
            if text.is_some_and(|text| text.trim().is_empty() || text.starts_with('-')) {
                checker.fault(&["image", key], "must be a name", "this is none");
            }
        }
        for name in self.build.iter().flat_map(|build| build.args.keys()) {
            checker.variable(&["image", "build", "args", name], name);
        }
    }
}
