//! The system's JSON: which fields there are, which of them this machine provides, and which the user must set.

mod facts;

use std::path::Path;
use std::sync::LazyLock;

use serde_json::{Map, Value};

use base::diag::nearest;
use base::spec::Division;
pub use facts::machine;

/// A field that only the user can set, with its meaning and an example.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingField {
    pub field: &'static SystemField,
    /// It was given, and is empty.
    pub empty: bool,
}

/// Whether a value has content: not null, not empty, no place-holder. The official checker takes `false` and 0 for
/// empty.
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
    let mut fields = Map::new();
    let mut missing = Vec::new();
    for field in FIELDS.iter() {
        let value = given.get(field.name).or_else(|| known.get(field.name));
        if field.meaningful && !is_meaningful(value) {
            missing.push(MissingField { field, empty: value.is_some() });
        }
        fields.insert(field.name.to_owned(), value.cloned().unwrap_or_else(|| Value::String(String::new())));
    }
    // A field of power or of network submissions, or one of a later round.
    for (name, value) in given {
        fields.entry(name.clone()).or_insert_with(|| value.clone());
    }
    (fields, missing)
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

// Accelerators, as `nvidia-smi` prints them to a file.

/// One accelerator as `nvidia-smi` prints it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accelerator {
    pub name: String,
    /// MiB.
    pub memory_mib: u64,
    pub driver: String,
}

/// Lines of `nvidia-smi --query-gpu=name,memory.total,driver_version --format=csv,noheader,nounits`.
pub fn gpus_of_table(text: &str) -> Vec<Accelerator> {
    text.lines()
        .filter_map(|line| {
            let mut cells = line.split(',').map(str::trim);
            let name = cells.next()?.to_owned();
            let memory_mib = cells.next()?.parse().ok()?;
            Some(Accelerator { name, memory_mib, driver: cells.next()?.to_owned() })
        })
        .collect()
}

// What is wrong with given fields of the system's JSON.

const STATUS: [&str; 3] = ["available", "preview", "rdi"];
const TYPES: [&str; 4] = ["datacenter", "edge", "datacenter,edge", "edge,datacenter"];

/// A value that its field cannot have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrongValue {
    pub field: &'static str,
    pub what: String,
    pub why: &'static str,
    pub fix: &'static str,
}

/// All values that their fields cannot have. What is missing or empty is not among them.
pub fn wrong_values(fields: &Map<String, Value>) -> Vec<WrongValue> {
    let mut wrong = Vec::new();
    // The official checker takes a status in any case, and ends at a type that is not written so.
    for (field, known, is_exact) in [("status", &STATUS[..], false), ("system_type", &TYPES[..], true)] {
        let text = fields.get(field).and_then(Value::as_str).unwrap_or_default();
        let is_known = known.iter().any(|one| *one == text || !is_exact && one.eq_ignore_ascii_case(text));
        if !text.is_empty() && !is_known {
            let message = format!("`{field}` is {text:?}, not one of {}", known.join(" | "));
            let (why, fix) = ("the table of results is sorted by it", "take one of them");
            wrong.push(WrongValue { field, what: message, why, fix });
        }
    }
    for field in ["number_of_nodes", "accelerators_per_node", "host_processors_per_node"] {
        let value = fields.get(field);
        let number = match value {
            Some(Value::String(text)) => text.trim().parse::<u64>().ok(),
            other => other.and_then(Value::as_u64),
        };
        if is_meaningful(value) && number.is_none() {
            let message = format!("`{field}` is not a whole number: {}", fields[field]);
            wrong.push(WrongValue {
                field,
                what: message,
                why: "results are divided by it",
                fix: "write a whole number",
            });
        }
    }
    wrong
}

/// Fields that the rules do not have, each with the one that it may be. Others are of power or of network submissions,
/// or of a later round.
pub fn misspelt_fields(given: &Map<String, Value>) -> Vec<(&str, &'static str)> {
    let names = || FIELDS.iter().map(|field| field.name);
    given
        .keys()
        .filter(|name| names().all(|known| known != name.as_str()))
        .filter_map(|name| Some((name.as_str(), nearest(name, names())?)))
        .collect()
}

// The fields of a system's JSON, as the rules and the official checker have them.

/// One field.
#[derive(Debug, PartialEq, Eq)]
pub struct SystemField {
    pub name: &'static str,
    /// It must not be empty; others may be empty, but must exist.
    pub meaningful: bool,
    pub meaning: &'static str,
    pub example: &'static str,
}

/// The default submitter: a placeholder.
pub const EXAMPLE_SUBMITTER: &str = "Example";

/// A line for each: `must` is never empty, `may` may be, and so may `network`, which a system behind a network has,
/// too.
const TABLE: &str = include_str!("fields.txt");

/// In the order of the rules.
pub static FIELDS: LazyLock<Vec<SystemField>> = LazyLock::new(|| {
    let field = |line: &'static str| {
        let mut cells = line.split(" | ");
        let (need, name) = cells.next()?.split_once(' ')?;
        Some(SystemField { name, meaningful: need == "must", meaning: cells.next()?, example: cells.next()? })
    };
    TABLE.lines().filter_map(field).collect()
});

/// What the description of a system behind a network has in addition.
pub fn network_fields() -> impl Iterator<Item = &'static str> {
    TABLE.lines().filter_map(|line| line.strip_prefix("network "))
}

// A system and its model as a package describes them: given, detected, or missing.
//
// Metrics as `accuracy.txt` has them.

/// Fields that every measurements' JSON has, each with a meaningful value, with what it means and an example.
pub const MEASUREMENT_FIELDS: [(&str, &str, &str); 5] = [
    ("input_data_types", "type of the token ids that go in", "int32"),
    ("retraining", "whether the model was trained further", "No"),
    ("starting_weights_filename", "the starting weights and their origin", "meta-llama/Llama-2-70b-chat-hf"),
    ("weight_data_types", "types of the weights as they are served", "fp8"),
    ("weight_transformations", "what was done to the weights", "quantization"),
];

/// What the user gives of them.
#[derive(Clone, Copy, Debug)]
pub struct GivenDescription<'a> {
    pub division: Division,
    pub submitter: &'a str,
    pub system: &'a str,
    pub system_json: &'a Map<String, Value>,
    pub measurements: &'a Map<String, Value>,
}

/// The same with the machine's facts.
#[derive(Clone, Debug)]
pub struct PackageDescription {
    pub system_json: Map<String, Value>,
    pub missing_fields: Vec<MissingField>,
    /// Fields of `measurements`: name, meaning, example.
    pub missing_measurements: Vec<(&'static str, &'static str, &'static str)>,
}

/// The fields with flags as texts: the official checker takes `false` for an empty value, and `true` for no text.
pub fn with_text_flags(fields: &Map<String, Value>) -> Map<String, Value> {
    let text = |value: &Value| if value.is_boolean() { Value::String(value.to_string()) } else { value.clone() };
    fields.iter().map(|(name, value)| (name.clone(), text(value))).collect()
}

impl GivenDescription<'_> {
    /// With the facts of the machine below a root folder, and of its GPUs. None: the system is another machine.
    pub fn completed(&self, machine: Option<&Path>, gpus: &[Accelerator]) -> PackageDescription {
        let mut given = with_text_flags(self.system_json);
        for (name, value) in
            [("division", self.division.as_str()), ("submitter", self.submitter), ("system_name", self.system)]
        {
            given.entry(name.to_owned()).or_insert_with(|| value.into());
        }
        let machine_facts = machine.map(|machine| facts::machine(machine, gpus)).unwrap_or_default();
        let (system_json, missing_fields) = compose(&given, &machine_facts);
        let measurements = with_text_flags(self.measurements);
        let is_set = |name: &str| is_meaningful(measurements.get(name));
        let missing_measurements = MEASUREMENT_FIELDS.into_iter().filter(|(name, ..)| !is_set(name)).collect();
        PackageDescription { system_json, missing_fields, missing_measurements }
    }
}

impl PackageDescription {
    /// Names of everything without which nothing is packed.
    pub fn missing(&self) -> Vec<&'static str> {
        let fields = self.missing_fields.iter().map(|missing| missing.field.name);
        fields.chain(self.missing_measurements.iter().map(|(name, ..)| *name)).collect()
    }
}

/// The name of a metric in `accuracy.txt`, and whether the official checker accepts it in quotes.
fn written(name: &str) -> Option<(&'static str, bool)> {
    let rest = include_str!("../metrics.txt").lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
    Some((rest.split(' ').next()?, rest.ends_with(" quoted")))
}

/// The name of a metric of the round in `accuracy.txt`.
pub fn written_name(name: &str) -> &str {
    written(name).map_or(name, |(written, _)| written)
}

/// Whether a score of this metric needs the model of English sentences.
pub fn needs_sentences(name: &str) -> bool {
    matches!(name, "ROUGELSUM" | "GEN_LEN")
}

/// A line's value, written the way the official checker reads it: the last one.
pub fn written_metric(line: &str, name: &str) -> Option<f64> {
    let (written, is_quoted) = written(name)?;
    let (_, rest) = line.rsplit_once(&format!("'{written}':"))?;
    let number = rest.strip_prefix(char::is_whitespace)?;
    let number = if is_quoted { number.trim_start().trim_start_matches('\'') } else { number };
    let end = number.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(number.len());
    number[..end].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn given_values_win_and_unknown_ones_are_requested() {
        let given = serde_json::json!({"system_name": "box", "cooling": "TBD", "is_network": "false"});
        let detected = serde_json::json!({"system_name": "host", "operating_system": "Ubuntu 24.04"});
        let (all, missing) = compose(given.as_object().unwrap(), detected.as_object().unwrap());
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

    #[test]
    fn values_that_a_field_cannot_have_and_names_near_a_field_are_found() {
        let given = serde_json::json!({
            "system_type": "cloud", "status": "Available", "number_of_nodes": "1",
            "accelerators_per_node": 7.5, "coolin": "air", "is_network": "false", "cooling": "",
        });
        let given = given.as_object().unwrap();
        let wrong: Vec<String> = wrong_values(given).into_iter().map(|wrong| wrong.what).collect();
        assert_eq!(
            wrong,
            [
                "`system_type` is \"cloud\", not one of datacenter | edge | datacenter,edge | edge,datacenter",
                "`accelerators_per_node` is not a whole number: 7.5",
            ]
        );
        assert_eq!(misspelt_fields(given), [("coolin", "cooling")]);
    }
}
