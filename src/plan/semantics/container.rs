//! What the types cannot express about `container:` and `image:`: mounts and sizes that can be read, limits that exist, and
//! stages that start a program which could be put into one.

use super::StageChecker;
use crate::actions::{ActionFacts, ActionKind, Check};
use crate::manifest::model::{Container, Image, Mlperf, Serve, Stage};
use base::diag::did_you_mean;
use base::spec::ContainerEngine;

/// What docker and podman call the limits of getrlimit(2).
const LIMITS: [&str; 15] = [
    "core",
    "cpu",
    "data",
    "fsize",
    "locks",
    "memlock",
    "msgqueue",
    "nice",
    "nofile",
    "nproc",
    "rss",
    "rtprio",
    "rttime",
    "sigpending",
    "stack",
];

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
        // A repository's address is no local file.
        files.filter(|(_, path)| !path.contains("://")).collect()
    }

    fn check(&self, _: &Stage, checker: &mut StageChecker<'_>) {
        checker.image(self);
    }
}

impl StageChecker<'_> {
    pub(super) fn containers(&mut self, stage: &Stage) {
        let Some(container) = &stage.container else { return };
        if let Some(why) = cannot_run_in_container(stage) {
            let hint = "`container` is for `shell`, `engine`, `trtllm_bench`, every `serve` that starts a program, `mlperf: package`";
            self.push_error(&["container"], "would have no effect", why, Some(hint.to_owned()));
        } else if matches!(stage.serve.as_deref(), Some(Serve::Triton(server)) if server.container.is_some()) {
            let hint = Some("keep this one, or that of `serve.triton`".to_owned());
            self.push_error(&["container"], "is there twice", "`serve.triton` has one, too", hint);
        }
        self.container_at(&["container"], container);
    }

    fn image(&mut self, image: &Image) {
        if matches!(image.engine, Some(ContainerEngine::Enroot | ContainerEngine::Apptainer)) && image.build.is_some() {
            let hint = "build it with docker or podman; `pull` makes a file of what is in a registry".to_owned();
            self.push_error(&["image", "build"], "needs docker or podman", "this engine does not build", Some(hint));
        }
        for (key, text) in [("pull", image.pull.as_deref()), ("platform", image.platform.as_deref())] {
            if text.is_some_and(|text| text.trim().is_empty() || text.starts_with('-')) {
                self.push_error(&["image", key], "must be a name", "this is none", None);
            }
        }
        for name in image.build.iter().flat_map(|build| build.args.keys()) {
            self.variable(&["image", "build", "args", name], name);
        }
    }

    /// At a `container`, wherever it stands.
    pub(super) fn container_at(&mut self, path: &[&str], container: &Container) {
        let at =
            |more: &[&'static str]| -> Vec<String> { path.iter().chain(more).map(|&step| step.to_owned()).collect() };
        let mut error = |path: Vec<String>, what: &str, label: &str, hint: Option<String>| {
            let path: Vec<&str> = path.iter().map(String::as_str).collect();
            self.push_error(&path, what, label, hint);
        };
        if container.image.trim().is_empty() {
            error(at(&["image"]), "must name an image", "it is empty", None);
        }
        for (index, mount) in container.mounts.iter().enumerate() {
            if let Some(why) = unmountable(mount) {
                let mut path = at(&["mounts"]);
                path.push(index.to_string());
                error(path, "must be `/from:/to`, `/from:/to:ro` or `/from:/to:rw`", why, None);
            }
        }
        if let Some(size) = &container.shm_size {
            let digits = size.trim_end_matches(|c: char| c.is_ascii_alphabetic());
            let unit = &size[digits.len()..];
            if digits.parse::<u64>().is_err() || !matches!(unit.to_lowercase().as_str(), "" | "b" | "k" | "m" | "g") {
                let hint = Some("for example `2g`".to_owned());
                error(at(&["shm_size"]), "must be a size", "a number with b, k, m or g", hint);
            }
        }
        for (name, limit) in container.ulimits.iter().flatten() {
            let mut path = at(&["ulimits"]);
            path.push(name.clone());
            if *limit < -1 {
                error(path.clone(), "must be -1 (no limit) or more", "less than -1", None);
            }
            if !LIMITS.contains(&name.as_str()) {
                error(path, "is not a limit", "not known", did_you_mean(name, LIMITS));
            }
        }
        for name in container.env.keys() {
            let mut path = path.to_vec();
            path.extend(["env", name]);
            self.variable(&path, name);
        }
    }
}

/// Why a stage starts no program that could run in a container.
fn cannot_run_in_container(stage: &Stage) -> Option<&'static str> {
    match (stage.serve.as_deref(), stage.mlperf.as_deref()) {
        (Some(Serve::Simulator(_)), _) => Some("the simulator is a part of this program"),
        (Some(Serve::Attach(_)), _) => Some("the servers are there already"),
        (_, Some(Mlperf::Package(_))) => None,
        (_, Some(_)) => Some("this program does this step itself"),
        _ => stage.action_kind().map(ActionKind::facts)?.container_obstacle,
    }
}

fn unmountable(mount: &str) -> Option<&'static str> {
    let parts: Vec<&str> = mount.split(':').collect();
    match parts.as_slice() {
        [from, to] | [from, to, "ro" | "rw"] => match (from.starts_with(['/', '⟦']), to.starts_with(['/', '⟦'])) {
            (true, true) => None,
            (false, _) => Some("the first path is not absolute"),
            (_, false) => Some("the second path is not absolute"),
        },
        // A reference has a colon of its own.
        _ if mount.contains('⟦') => None,
        _ => Some("this is not"),
    }
}
