//! What a task's result depends on, as a struct, so that "why did this run?" is its diff.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use base::event::TaskId;
use base::files::{Digest, Hasher};

/// Goes up when the meaning of a key changes.
///
/// 1: action, env, outputs, facts, inputs, upstream.
pub const KEY_VERSION: u32 = 1;

/// Everything that decides a task's output. No times, no secret values, and not the project's folder. Other absolute paths are in it as
/// the manifest and its parameters have them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskKey {
    pub version: u32,
    /// The action after rendering, with references still symbolic, `⟦project⟧` for the project's folder: canonical JSON.
    pub action: String,
    pub env: BTreeMap<String, String>,
    /// Names only.
    pub secrets: Vec<String>,
    pub outputs: Vec<String>,
    /// What else it depends on: the version of the stage's own code, declared facts of the machine.
    pub facts: BTreeMap<String, String>,
    /// Input name → digest of what it names (names and content).
    pub inputs: BTreeMap<String, Digest>,
    /// Task → digest of its output; for a service, of its key.
    pub upstream: BTreeMap<TaskId, Digest>,
}

impl TaskKey {
    pub fn digest(&self) -> Digest {
        let mut h = Hasher::new();
        h.field(&self.version.to_le_bytes()).field(self.action.as_bytes());
        for part in [&self.env, &self.facts] {
            h.field(&(part.len() as u64).to_le_bytes());
            for (name, value) in part {
                h.field(name.as_bytes()).field(value.as_bytes());
            }
        }
        for part in [&self.secrets, &self.outputs] {
            h.field(&(part.len() as u64).to_le_bytes());
            for name in part {
                h.field(name.as_bytes());
            }
        }
        h.field(&(self.inputs.len() as u64).to_le_bytes());
        for (name, digest) in &self.inputs {
            h.field(name.as_bytes()).field(digest.bytes());
        }
        h.field(&(self.upstream.len() as u64).to_le_bytes());
        for (task, digest) in &self.upstream {
            h.field(task.as_str().as_bytes()).field(digest.bytes());
        }
        h.finish()
    }
}

#[cfg(test)]
impl TaskKey {
    /// Of a task that has an action and nothing else.
    pub fn of_action(action: impl Into<String>) -> Self {
        Self {
            version: KEY_VERSION,
            action: action.into(),
            env: BTreeMap::new(),
            secrets: Vec::new(),
            outputs: Vec::new(),
            facts: BTreeMap::new(),
            inputs: BTreeMap::new(),
            upstream: BTreeMap::new(),
        }
    }
}
