//! The system's JSON: which fields there are, which of them this machine provides, and which the user must set.

mod facts;
mod fields;
mod gpus;
mod values;

use std::path::Path;

use serde_json::{Map, Value};

pub use facts::machine;
pub use fields::{EXAMPLE_SUBMITTER, FIELDS, SystemField};
pub use gpus::{Accelerator, gpus_of_table};
pub use values::{WrongValue, misspelt_fields, wrong_values};

/// A field that only the user can set, with its meaning and an example.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingField {
    pub field: &'static SystemField,
    /// It was given, and is empty.
    pub empty: bool,
}

/// Whether a value has content: not null, not empty, no place-holder. The official checker takes `false` and 0 for empty.
pub fn is_meaningful(value: Option<&Value>) -> bool {
    match value {
        None | Some(Value::Null) => false,
        Some(Value::String(text)) => {
            let text = text.trim();
            !text.is_empty()
                && !["todo", "tbd", "fixme", "xxx", "?", "...", "…"].contains(&text.to_lowercase().as_str())
        }
        Some(Value::Number(number)) => number.as_f64() != Some(0.0),
        Some(Value::Array(items)) => !items.is_empty(),
        Some(Value::Object(fields)) => !fields.is_empty(),
        Some(Value::Bool(flag)) => *flag,
    }
}

/// The system's JSON: what was given, then the machine's facts, then empty where that is allowed; in the order of the
/// rules. With it, everything that is missing.
pub fn compose(given: &Map<String, Value>, known: &Map<String, Value>) -> (Map<String, Value>, Vec<MissingField>) {
    let mut all = Map::new();
    let mut missing = Vec::new();
    for field in &FIELDS {
        let value = given.get(field.name).or_else(|| known.get(field.name));
        if field.meaningful && !is_meaningful(value) {
            missing.push(MissingField { field, empty: value.is_some() });
        }
        all.insert(field.name.to_owned(), value.cloned().unwrap_or_else(|| Value::String(String::new())));
    }
    // A field of power or of network submissions, or one of a later round.
    for (name, value) in given {
        all.entry(name.clone()).or_insert_with(|| value.clone());
    }
    (all, missing)
}

/// Everything that is missing at once, as a part of a manifest to be filled in.
pub fn snippet(missing: &[MissingField], measurements: &[(&str, &str, &str)]) -> String {
    use std::fmt::Write as _;
    let mut text = String::from("mlperf:\n  package:\n");
    if !missing.is_empty() {
        text.push_str("    system_json:\n");
        for MissingField { field, .. } in missing {
            let _ = writeln!(text, "      {}:   # {}, e.g. {}", field.name, field.meaning, field.example);
        }
    }
    if !measurements.is_empty() {
        text.push_str("    measurements:\n");
        for (name, meaning, example) in measurements {
            let _ = writeln!(text, "      {name}:   # {meaning}, e.g. {example}");
        }
    }
    text
}

/// Facts of the machine below `root` (`/` of a running one), with the output of nvidia-smi if there is any.
pub fn known(root: &Path, gpus: &[Accelerator]) -> Map<String, Value> {
    machine(root, gpus)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn given_values_win_and_unknown_ones_are_requested() {
        let given = serde_json::json!({"system_name": "box", "cooling": "TBD", "is_network": "false"});
        let known = serde_json::json!({"system_name": "host", "operating_system": "Ubuntu 24.04"});
        let (all, missing) = compose(given.as_object().unwrap(), known.as_object().unwrap());
        assert_eq!(all["system_name"], "box");
        assert_eq!(all["operating_system"], "Ubuntu 24.04");
        assert_eq!(all["is_network"], "false");
        assert_eq!(all["hw_notes"], "");
        let names: Vec<&str> = missing.iter().map(|missing| missing.field.name).collect();
        assert!(names.contains(&"cooling") && names.contains(&"host_networking") && !names.contains(&"system_name"));
        assert!(!names.contains(&"hw_notes"));
        let text = snippet(&missing, &[("retraining", "whether it was", "No")]);
        assert!(text.contains("\n      cooling:   # "), "{text}");
        assert!(text.ends_with("    measurements:\n      retraining:   # whether it was, e.g. No\n"));
        assert!(serde_yaml::from_str::<serde_yaml::Value>(&text).is_ok());
    }
}
