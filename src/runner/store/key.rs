//! What a task's result depends on, as a struct, so that "why did this run?" is its diff.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use base::event::TaskId;
use base::files::{Digest, Hasher};

/// Goes up when the meaning of a key changes.
///
/// 1: action, env, outputs, facts, inputs, upstream.
pub const KEY_VERSION: u32 = 1;

/// Everything that decides a task's output. No times, no secret values, and not the project's folder. Other absolute
/// paths are in it as the manifest and its parameters have them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskKey {
    pub version: u32,
    /// The action after rendering, with references still symbolic, `⟦project⟧` for the project's folder: canonical
    /// JSON.
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

// Why will this run? The difference of two keys, field by field, as text.

/// The differences from `old` to `new`, one line each; empty if the keys are the same.
pub fn explain(old: &TaskKey, new: &TaskKey) -> Vec<String> {
    let mut changes = Vec::new();
    if old.version != new.version {
        changes.push(format!("key version: {} → {}", old.version, new.version));
    }
    if old.action != new.action {
        match (serde_json::from_str(&old.action), serde_json::from_str(&new.action)) {
            (Ok(a), Ok(b)) => values("", &a, &b, &mut changes),
            _ => changes.push("action changed".to_owned()),
        }
    }
    texts("env ", &old.env, &new.env, &mut changes);
    texts("", &old.facts, &new.facts, &mut changes);
    if old.outputs != new.outputs {
        changes.push(format!("outputs: {} → {}", old.outputs.join(", "), new.outputs.join(", ")));
    }
    if old.secrets != new.secrets {
        changes.push(format!("secrets: {} → {}", old.secrets.join(", "), new.secrets.join(", ")));
    }
    names(&old.inputs, &new.inputs, &mut changes, |name, change| match change {
        Change::Added => format!("input {name} is new"),
        Change::Gone => format!("input {name} is missing"),
        Change::Different => format!("input {name} changed"),
    });
    names(&old.upstream, &new.upstream, &mut changes, |name, change| match change {
        Change::Added => format!("{name} is a new need"),
        Change::Gone => format!("{name} is no longer a dependency"),
        Change::Different => format!("output of {name} changed"),
    });
    changes
}

enum Change {
    Added,
    Gone,
    Different,
}

fn names<K: Ord, V: PartialEq>(
    old: &BTreeMap<K, V>,
    new: &BTreeMap<K, V>,
    why: &mut Vec<String>,
    describe: impl Fn(&K, Change) -> String,
) {
    for (name, value) in new {
        match old.get(name) {
            None => why.push(describe(name, Change::Added)),
            Some(before) if before != value => why.push(describe(name, Change::Different)),
            Some(_) => {}
        }
    }
    why.extend(old.keys().filter(|name| !new.contains_key(name)).map(|name| describe(name, Change::Gone)));
}

fn texts(label: &str, old: &BTreeMap<String, String>, new: &BTreeMap<String, String>, why: &mut Vec<String>) {
    names(old, new, why, |name, change| match change {
        Change::Added => format!("{label}{name}: new, {}", short(&new[name])),
        Change::Gone => format!("{label}{name}: was {}", short(&old[name])),
        Change::Different => format!("{label}{name}: {} → {}", short(&old[name]), short(&new[name])),
    });
}

fn values(at: &str, old: &Value, new: &Value, why: &mut Vec<String>) {
    match (old, new) {
        (Value::Object(a), Value::Object(b)) => {
            for (name, value) in b {
                let at = if at.is_empty() { name.clone() } else { format!("{at}.{name}") };
                match a.get(name) {
                    Some(before) => values(&at, before, value, why),
                    None => why.push(format!("{at}: new, {}", short(&value.to_string()))),
                }
            }
            for (name, value) in a.iter().filter(|(name, _)| !b.contains_key(*name)) {
                let dot = if at.is_empty() { "" } else { "." };
                why.push(format!("{at}{dot}{name}: was {}", short(&value.to_string())));
            }
        }
        _ if old == new => {}
        _ => {
            let label = if at.is_empty() { "action" } else { at };
            why.push(format!("{label}: {} → {}", short(&text(old)), short(&text(new))));
        }
    }
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn short(text: &str) -> String {
    let line = text.replace('\n', "⏎");
    if line.chars().count() <= 60 { line } else { format!("{}…", line.chars().take(59).collect::<String>()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::event::TaskId;
    use base::files::Digest;

    fn key(action: &str) -> TaskKey {
        TaskKey::of_action(action)
    }

    #[test]
    fn one_flag_names_its_path() {
        let old = key(r#"{"engine":{"build_flags":{"max_batch_size":2048}}}"#);
        let new = key(r#"{"engine":{"build_flags":{"max_batch_size":1024}}}"#);
        assert_eq!(explain(&old, &new), ["engine.build_flags.max_batch_size: 2048 → 1024"]);
        assert_ne!(old.digest(), new.digest());
    }

    #[test]
    fn upstream_and_inputs_are_named() {
        let mut old = key("{}");
        let mut new = key("{}");
        old.upstream.insert(TaskId::new("clone"), Digest::hash(b"1"));
        new.upstream.insert(TaskId::new("clone"), Digest::hash(b"2"));
        new.inputs.insert("weights".into(), Digest::hash(b"w"));
        old.env.insert("CC".into(), "gcc".into());
        assert_eq!(explain(&old, &new), ["env CC: was gcc", "input weights is new", "output of clone changed"]);
    }

    #[test]
    fn each_field_is_part_of_the_digest_and_of_the_explanation() {
        type Change = fn(&mut TaskKey);
        let changes: [(Change, &str); 7] = [
            (|key| key.version += 1, "key version: 1 → 2"),
            (|key| key.env = BTreeMap::from([("CC".to_owned(), "gcc".to_owned())]), "env CC: new, gcc"),
            (|key| key.facts = BTreeMap::from([("gpu".to_owned(), "H200".to_owned())]), "gpu: new, H200"),
            (|key| key.secrets = vec!["TOKEN".to_owned()], "secrets:  → TOKEN"),
            (|key| key.outputs = vec!["engine".to_owned()], "outputs:  → engine"),
            (|key| key.inputs = BTreeMap::from([("a".to_owned(), Digest::hash(b"1"))]), "input a is new"),
            (|key| key.upstream = BTreeMap::from([(TaskId::new("a"), Digest::hash(b"1"))]), "a is a new need"),
        ];
        let mut digests = std::collections::BTreeSet::from([key("{}").digest()]);
        for (change, text) in changes {
            let mut new = key("{}");
            change(&mut new);
            assert_eq!(explain(&key("{}"), &new), [text]);
            assert!(digests.insert(new.digest()), "{text}");
        }
        // Equal bytes under another name are another input.
        let of_input = |name: &str| {
            let inputs = BTreeMap::from([(name.to_owned(), Digest::hash(b"1"))]);
            TaskKey { inputs, ..key("{}") }.digest()
        };
        assert_ne!(of_input("a"), of_input("b"));
    }

    #[test]
    fn a_value_of_more_than_sixty_characters_is_cut() {
        assert_eq!(short(&"ä".repeat(60)), "ä".repeat(60));
        assert_eq!(short(&"ä".repeat(61)), format!("{}…", "ä".repeat(59)));
    }

    #[test]
    fn the_same_key_needs_no_words() {
        assert!(explain(&key("{}"), &key("{}")).is_empty());
    }
}
