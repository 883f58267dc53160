//! The published JSON Schema: what schemars derives from the types, plus what serde cannot express.
//!
//! Inside `stages` a `{{ expression }}` may stand for anything; a stage has exactly one action, a param exactly one kind.

use std::borrow::Cow;

use schemars::JsonSchema as _;
use serde_json::{Map, Value, json};

use super::model::{
    Action, Image, ListRule, ManifestDocument, NoBounds, NumberBounds, PARAM_KINDS, Param, PathNeed, Stage,
};

/// The JSON Schema of a manifest, as it is committed in `schemas/manifest.json`.
pub fn schema() -> Value {
    let mut schema = schemars::schema_for!(ManifestDocument).to_value();
    let template = json!({
        "type": "string",
        "pattern": r"\{\{|\{%",
        "description": "An expression: {{ … }}"
    });
    if let Some(definitions) = schema["$defs"].as_object_mut() {
        // Everything that a stage is made of.
        let without = without_expressions();
        for (name, definition) in definitions.iter_mut() {
            if without.iter().any(|known| known == name) {
                continue;
            }
            // Which tasks there are is written, not computed; the lists themselves may be.
            let foreach = (*name == Stage::schema_name()).then(|| definition["properties"]["foreach"].clone());
            below(definition);
            if let Some(foreach) = foreach {
                definition["properties"]["foreach"] = foreach;
            }
        }
        exactly_one(definitions, &Stage::schema_name(), &Action::KEYS);
        exactly_one(definitions, &Param::schema_name(), &PARAM_KINDS);
        or_default_alone(definitions);
        exactly_one(definitions, &Image::schema_name(), &Image::KINDS);
        definitions.insert("expression".to_owned(), template);
    }
    // The keys that describe the schema itself come first.
    let mut ordered = Map::new();
    ordered.insert("$schema".to_owned(), schema["$schema"].take());
    ordered.insert("title".to_owned(), json!("Regatta manifest"));
    ordered.insert("description".to_owned(), schema["description"].take());
    for (key, value) in schema.as_object().into_iter().flatten() {
        if !value.is_null() {
            ordered.entry(key.clone()).or_insert_with(|| value.clone());
        }
    }
    Value::Object(ordered)
}

/// The definitions of params and their rules.
fn without_expressions() -> [Cow<'static, str>; 5] {
    [
        Param::schema_name(),
        NumberBounds::schema_name(),
        NoBounds::schema_name(),
        ListRule::schema_name(),
        PathNeed::schema_name(),
    ]
}

fn exactly_one(definitions: &mut Map<String, Value>, name: &str, keys: &[&str]) {
    let choices: Vec<Value> = keys.iter().map(|key| json!({ "required": [key] })).collect();
    if let Some(definition) = definitions.get_mut(name).and_then(Value::as_object_mut) {
        definition.insert("oneOf".to_owned(), Value::Array(choices));
    }
}

/// A file that is merged with others, for example of a catalog, may give a parameter another default; its kind stands elsewhere.
fn or_default_alone(definitions: &mut Map<String, Value>) {
    let kinds: Vec<Value> = PARAM_KINDS.iter().map(|key| json!({ "required": [key] })).collect();
    if let Some(choices) = definitions.get_mut(&*Param::schema_name()).and_then(|param| param["oneOf"].as_array_mut()) {
        choices.push(json!({ "required": ["default"], "not": { "anyOf": kinds } }));
    }
}

/// Allows an expression at every position below a definition, but not in place of the definition itself.
fn below(schema: &mut Value) {
    let Some(object) = schema.as_object_mut() else { return };
    for field in object.get_mut("properties").and_then(Value::as_object_mut).into_iter().flat_map(Map::values_mut) {
        or_expression(field);
    }
    for key in ["additionalProperties", "items"] {
        if let Some(field) = object.get_mut(key) {
            or_expression(field);
        }
    }
    for key in ["oneOf", "anyOf"] {
        for branch in object.get_mut(key).and_then(Value::as_array_mut).into_iter().flatten() {
            below(branch);
        }
    }
}

/// Lets an expression stand for this position, unless any text may stand there already.
fn or_expression(schema: &mut Value) {
    below(schema);
    let Some(object) = schema.as_object_mut() else { return };
    let is_text = match &object.get("type") {
        Some(Value::String(one)) => one == "string" && !object.contains_key("enum"),
        Some(Value::Array(types)) => types.iter().any(|one| one == "string"),
        _ => object.is_empty(),
    };
    if is_text {
        return;
    }
    let mut outer = Map::new();
    for key in ["description", "default"] {
        if let Some(value) = object.remove(key) {
            outer.insert(key.to_owned(), value);
        }
    }
    let inner = schema.take();
    outer.insert("anyOf".to_owned(), json!([inner, { "$ref": "#/$defs/expression" }]));
    *schema = Value::Object(outer);
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The names of integers without a maximum.
    fn unbounded(schema: &Value, name: &str, found: &mut BTreeSet<String>) {
        let is_narrow = matches!(schema["format"].as_str(), Some("uint16" | "int32"));
        let is_integer = schema["type"] == "integer"
            || schema["type"].as_array().is_some_and(|types| types.contains(&json!("integer")));
        if is_integer && !is_narrow && schema["maximum"].is_null() {
            found.insert(name.to_owned());
        }
        match schema {
            Value::Object(pairs) => {
                for (key, value) in pairs {
                    match value.as_object().filter(|_| key == "properties") {
                        Some(fields) => fields.iter().for_each(|(name, field)| unbounded(field, name, found)),
                        None => unbounded(value, if key == "additionalProperties" { key } else { name }, found),
                    }
                }
            }
            Value::Array(items) => items.iter().for_each(|item| unbounded(item, name, found)),
            _ => {}
        }
    }

    #[test]
    fn params_and_their_rules_hold_no_expressions() {
        let schema = schema();
        for name in without_expressions() {
            let definition = schema["$defs"][&*name].to_string();
            assert!(definition != "null" && !definition.contains("#/$defs/expression"), "{name}: {definition}");
        }
        let expression = json!({ "$ref": "#/$defs/expression" });
        assert_eq!(schema["$defs"]["Stage"]["properties"]["gpus"]["anyOf"][1], expression);
    }

    /// A number that multiplies memory or time must be refused with its place, before it is used.
    #[test]
    fn every_count_has_a_maximum() {
        let mut found = BTreeSet::new();
        unbounded(&schema(), "", &mut found);
        let known = [
            // `ulimits` of a container, ids of adapters, seeds, clocks, bytes for a server: nothing is made of them here.
            "additionalProperties",
            "lora_task_id",
            "seed",
            "graphics",
            "multimodal_gpu0_cuda_mem_pool_bytes",
            // Lengths, which `Length::fault` checks, and a seed.
            "fixed",
            "max",
            "min",
        ];
        assert_eq!(found, known.map(str::to_owned).into());
    }
}
