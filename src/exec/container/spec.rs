//! The request: an engine, an image, limits, and what the command inside must see.

use std::collections::BTreeMap;

use base::event::GpuId;
use base::spec::{ContainerEngine, ContainerGpus};

/// A container to be.
#[derive(Clone, Debug, PartialEq)]
pub struct ContainerSpec {
    pub engine: ContainerEngine,
    pub image: String,
    /// Where it is not called by its name.
    pub program: Option<String>,
    /// `/from:/to`, `/from:/to:ro`
    pub mounts: Vec<String>,
    pub shm_size: Option<String>,
    pub ulimits: Option<Vec<(String, i64)>>,
    pub gpus: ContainerGpus,
    pub network: Option<String>,
    pub user: Option<String>,
    pub env: BTreeMap<String, String>,
    /// Unique on the host.
    pub name: String,
    pub args: Vec<String>,
}

impl ContainerSpec {
    /// The engine's program, as it is called.
    pub fn program(&self) -> &str {
        self.program.as_deref().unwrap_or_else(|| self.engine.program_name())
    }

    /// Its name with everything replaced that no engine takes.
    pub fn safe_name(&self) -> String {
        let safe = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.') { c } else { '-' };
        self.name.chars().map(safe).collect()
    }
}

/// What the command inside must see, whatever the engine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContainerAccess {
    /// `/from:/to`, `/from:/to:ro`; those of the container come after them.
    pub mounts: Vec<String>,
    /// Variables with their values; those of the container come after them.
    pub set: Vec<(String, String)>,
    /// Names of variables: the engine takes their values from its own environment, so that no command line shows them.
    pub pass: Vec<String>,
    /// GPUs as the machine counts them; empty: none is leased.
    pub gpus: Vec<GpuId>,
    /// Where it starts; not given: the image decides.
    pub dir: Option<String>,
    /// How long `docker stop` waits until it kills, seconds.
    pub stop_after: u32,
}

/// A request that the engine does not support: the feature, and what to do about it.
pub fn contradictions(container: &ContainerSpec) -> Vec<(String, &'static str)> {
    let mut found = Vec::new();
    let word = container.engine.program_name();
    if container.image.trim().is_empty() {
        found.push(("a container needs an `image`".to_owned(), ""));
    }
    if !container.engine.is_detached() {
        for (key, given, why) in [
            ("shm_size", container.shm_size.is_some(), "uses the host's /dev/shm"),
            ("ulimits", container.ulimits.is_some(), "has the limits of the user that starts it"),
            ("network", container.network.is_some(), "uses the host's network"),
            ("user", container.user.is_some(), "runs as the user that starts it"),
        ] {
            if given {
                found.push((format!("`container.{key}`: {word} {why}"), "remove it"));
            }
        }
    }
    found
}
