//! What is in a lock file.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::PrivateValues;
use base::files::Digest;
use plan::{ActionError, ActionKind, Lifetime, Plan, Task, key_action};
use runner::store::TaskKey;

/// A benchmark's number is part of its environment, and no part of what is measured.
const REPEAT: &str = "REGATTA_REPEAT";
/// How facts of a key begin that a retry has put there.
const LOWERED: &str = "lowered ";

/// All runs of one project.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LockFile {
    /// The version of this format.
    pub lock: u32,
    /// By the manifest's name and the parameters that were given: `llama2-70b system=h200-x8`.
    #[serde(default)]
    pub runs: BTreeMap<String, LockSection>,
}

/// The last good run of one manifest with these parameters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LockSection {
    /// Version of the program that wrote it.
    pub regatta: String,
    /// All parameters, also those that were not given.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub params: BTreeMap<String, String>,
    /// `arch`; with GPUs: `GPUs`, `driver`, `CUDA`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub machine: BTreeMap<String, String>,
    /// Programs that its stages start outside of containers → the version they print.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tools: BTreeMap<String, String>,
    /// By task.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub stages: BTreeMap<String, LockedTask>,
}

impl LockSection {
    /// The same tools and the same machine.
    pub fn has_same_makers(&self, other: &Self) -> bool {
        (&self.tools, &self.machine) == (&other.tools, &other.machine)
    }
}

/// One task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LockedTask {
    pub kind: ActionKind,
    /// `action`, `env`, `facts`, `inputs`, `needs`, `outputs`, `secrets`: everything that decides its output, but what its needs made.
    #[serde(alias = "asked")]
    pub requested: BTreeMap<String, Value>,
    /// `key`, `output`, and what the output reports: commits, image ids, weights, versions.
    #[serde(default, alias = "became", skip_serializing_if = "BTreeMap::is_empty")]
    pub resolved: BTreeMap<String, Value>,
}

impl LockedTask {
    /// The request of a task.
    ///
    /// # Errors
    /// The key's action is no JSON: without it the lock would hold for every action.
    pub fn new(plan: &Plan, task: &Task, key: &TaskKey, private: &PrivateValues) -> Result<Self, ActionError> {
        let mut requested: BTreeMap<String, Value> = BTreeMap::new();
        let mut put = |name: &str, fields: serde_json::Map<String, Value>| {
            if !fields.is_empty() {
                let (is_of_manifest, value) = (name == "action" || name == "env", Value::Object(fields));
                let value = if is_of_manifest { private.manifest_value(value) } else { private.value(value) };
                requested.insert(name.to_owned(), value);
            }
        };
        let texts = |map: &BTreeMap<String, String>, leave: &dyn Fn(&str) -> bool| {
            let kept = map.iter().filter(|(name, _)| !leave(name));
            kept.map(|(name, value)| (name.clone(), Value::from(value.as_str()))).collect()
        };
        if let Value::Object(action) = key_action(&task.id, &key.action)? {
            put("action", action);
        }
        put("env", texts(&key.env, &|name| name == REPEAT));
        put("facts", texts(&key.facts, &|name| name.starts_with(LOWERED)));
        put("inputs", key.inputs.iter().map(|(name, digest)| (name.clone(), digest.to_string().into())).collect());
        let needs = task.needs.iter().filter(|need| need.data);
        let needs: Vec<String> = needs.map(|need| plan.tasks[need.task as usize].id.to_string()).collect();
        for (name, mut list) in [("needs", needs), ("outputs", key.outputs.clone()), ("secrets", key.secrets.clone())] {
            list.sort();
            if !list.is_empty() {
                requested.insert(name.to_owned(), list.into());
            }
        }
        Ok(Self { kind: task.kind, requested, resolved: BTreeMap::new() })
    }

    /// The key with the settings that a retry had lowered when it was locked. `None` for one of several repeats: their keys differ.
    pub fn with_locked_settings(&self, key: &TaskKey) -> Option<TaskKey> {
        if key.env.contains_key(REPEAT) {
            return None;
        }
        let mut key = key.clone();
        key.facts.retain(|name, _| !name.starts_with(LOWERED));
        let lowered = self.resolved.iter().filter(|(name, _)| name.starts_with(LOWERED));
        key.facts.extend(lowered.filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned()))));
        Some(key)
    }

    /// With the outcome. `output`: only where making it again can give the same bytes.
    #[must_use]
    pub fn with(mut self, resolved: BTreeMap<String, Value>, key: &TaskKey, output: Option<&Digest>) -> Self {
        let lowered = key.facts.iter().filter(|(name, _)| name.starts_with(LOWERED));
        self.resolved = resolved;
        self.resolved.extend(lowered.map(|(name, value)| (name.clone(), Value::from(value.as_str()))));
        self.resolved.insert("key".to_owned(), key.digest().to_string().into());
        if let Some(output) = output {
            self.resolved.insert("output".to_owned(), output.to_string().into());
        }
        self
    }
}

/// Which tasks of a plan measure something, or are made of a measurement: their outputs are new each time.
pub fn measured(plan: &Plan) -> Vec<bool> {
    let mut all: Vec<bool> = Vec::with_capacity(plan.tasks.len());
    for task in &plan.tasks {
        let itself = task.kind.facts().measures;
        let by_need = task.needs.iter().filter(|need| need.data).any(|need| {
            let at = need.task as usize;
            all[at] || plan.tasks[at].lifetime == Lifetime::Service
        });
        all.push(itself || by_need);
    }
    all
}
