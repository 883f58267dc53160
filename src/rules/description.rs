//! A system and its model as a package describes them: given, detected, or missing.
//!
//! Metrics as `accuracy.txt` has them.

use crate::system::{self, Accelerator, MissingField};
use base::spec::Division;
use serde_json::{Map, Value};
use std::path::Path;

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
        let machine_facts = machine.map(|machine| system::machine(machine, gpus)).unwrap_or_default();
        let (system_json, missing_fields) = system::compose(&given, &machine_facts);
        let measurements = with_text_flags(self.measurements);
        let is_set = |name: &str| system::is_meaningful(measurements.get(name));
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
    let rest = include_str!("metrics.txt").lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
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
