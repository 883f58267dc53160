//! `container:` — the place that a stage's programs run in, beside any action that starts one.

use super::{ActionKind, StageChecker, faults};
use crate::manifest::model::{Mlperf, Serve, Stage};
use base::diag::did_you_mean;
use base::spec::Container;

/// What docker and podman call the limits of getrlimit(2).
const LIMITS: &str = "core cpu data fsize locks memlock msgqueue nice nofile nproc rss rtprio rttime sigpending stack";

impl StageChecker<'_> {
    pub(super) fn containers(&mut self, stage: &Stage) {
        let Some(container) = &stage.container else { return };
        if let Some(why) = cannot_run_in_container(stage) {
            let hint = "`container` is for `shell`, `engine`, `trtllm_bench`, every `serve` that starts a program, \
             `mlperf: package`";
            self.fault(&["container"], "would have no effect", why).hint(hint);
        } else if matches!(stage.serve.as_deref(), Some(Serve::Triton(server)) if server.container.is_some()) {
            self.fault(&["container"], "is given twice", "`serve.triton` also has one")
                .hint("keep this one, or that of `serve.triton`");
        }
        self.container_at(&["container"], container);
    }

    /// At a `container`, wherever it stands.
    pub(super) fn container_at(&mut self, path: &[&str], container: &Container) {
        if container.image.trim().is_empty() {
            self.fault(&[path, &["image"]].concat(), "must name an image", "it is empty");
        }
        for (index, mount) in container.mounts.iter().enumerate() {
            if let Some(why) = unmountable(mount) {
                let index = index.to_string();
                let path = [path, &["mounts", &index]].concat();
                self.fault(&path, "must be `/from:/to`, `/from:/to:ro` or `/from:/to:rw`", why);
            }
        }
        if let Some(size) = &container.shm_size {
            let digits = size.trim_end_matches(|c: char| c.is_ascii_alphabetic());
            let unit = &size[digits.len()..];
            let is_unit = matches!(unit.to_lowercase().as_str(), "" | "b" | "k" | "m" | "g");
            faults! { self;
                [path, &["shm_size"]].concat(), digits.parse::<u64>().is_err() || !is_unit, "must be a size",
                    "a number with b, k, m or g", "for example `2g`";
            }
        }
        for (name, limit) in container.ulimits.iter().flatten() {
            let path = [path, &["ulimits", name]].concat();
            faults! { self; path, *limit < -1, "must be -1 (no limit) or more", "less than -1"; }
            if !LIMITS.split(' ').any(|limit| limit == name) {
                let hint = did_you_mean(name, LIMITS.split(' '));
                self.fault(&path, "is not a limit", "not known").maybe_hint(hint);
            }
        }
        for name in container.env.keys() {
            self.variable(&[path, &["env", name]].concat(), name);
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
