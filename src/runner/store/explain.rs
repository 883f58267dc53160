//! Why will this run? The difference of two keys, field by field, as text.

use std::collections::BTreeMap;

use serde_json::Value;

use super::TaskKey;

/// The differences from `old` to `new`, one line each; empty if the keys are the same.
pub fn explain(old: &TaskKey, new: &TaskKey) -> Vec<String> {
    let mut why = Vec::new();
    if old.version != new.version {
        why.push(format!("key version: {} → {}", old.version, new.version));
    }
    if old.action != new.action {
        match (serde_json::from_str(&old.action), serde_json::from_str(&new.action)) {
            (Ok(a), Ok(b)) => values("", &a, &b, &mut why),
            _ => why.push("action changed".to_owned()),
        }
    }
    texts("env ", &old.env, &new.env, &mut why);
    texts("", &old.facts, &new.facts, &mut why);
    if old.outputs != new.outputs {
        why.push(format!("outputs: {} → {}", old.outputs.join(", "), new.outputs.join(", ")));
    }
    if old.secrets != new.secrets {
        why.push(format!("secrets: {} → {}", old.secrets.join(", "), new.secrets.join(", ")));
    }
    names(&old.inputs, &new.inputs, &mut why, |name, change| match change {
        Change::Added => format!("input {name} is new"),
        Change::Gone => format!("input {name} is missing"),
        Change::Different => format!("input {name} changed"),
    });
    names(&old.upstream, &new.upstream, &mut why, |name, change| match change {
        Change::Added => format!("{name} is a new need"),
        Change::Gone => format!("{name} is no need any more"),
        Change::Different => format!("output of {name} changed"),
    });
    why
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
        old.upstream.insert(TaskId::new("clone"), Digest::of(b"1"));
        new.upstream.insert(TaskId::new("clone"), Digest::of(b"2"));
        new.inputs.insert("weights".into(), Digest::of(b"w"));
        old.env.insert("CC".into(), "gcc".into());
        assert_eq!(explain(&old, &new), ["env CC: was gcc", "input weights is new", "output of clone changed"]);
    }

    #[test]
    fn the_same_key_needs_no_words() {
        assert!(explain(&key("{}"), &key("{}")).is_empty());
    }
}
