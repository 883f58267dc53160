//! The published JSON Schema: what schemars derives from the types, plus what serde cannot express.
//!
//! Inside `stages` a `{{ expression }}` may stand for anything; a stage has exactly one action, a param exactly one
//! kind.
//!
//! The JSON Schema of the model in a form that can be walked quickly: which keys, which types, which bounds.
//!
//! Compiled from schemars' description of the Rust types, so that there is one description of the language.
//!
//! What a plain (unquoted) scalar means: null, a switch, a number or a text. `serde_yaml` decides.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use indexmap::IndexMap;
use schemars::JsonSchema as _;
use serde_json::{Map, Number, Value, json};

use super::model::{
    Action, Image, ListRule, ManifestDocument, NoBounds, NumberBounds, PARAM_KINDS, Param, PathNeed, Stage,
};
use super::read::NodeValue;
use base::spec::{TextFormat, schema_id};

/// The JSON Schema of a manifest, as it is committed in `schemas/manifest.json`.
pub fn schema() -> Value {
    let mut schema = schemars::schema_for!(ManifestDocument).to_value();
    join_lines(&mut schema);
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
    ordered.insert("$id".to_owned(), json!(schema_id("manifest")));
    ordered.insert("title".to_owned(), json!("Regatta manifest"));
    ordered.insert("description".to_owned(), schema["description"].take());
    for (key, value) in schema.as_object().into_iter().flatten() {
        if !value.is_null() {
            ordered.entry(key.clone()).or_insert_with(|| value.clone());
        }
    }
    Value::Object(ordered)
}

/// Descriptions are paragraphs: where a line of the source ends is of no meaning to an editor or a table.
fn join_lines(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            for (key, value) in map.iter_mut() {
                match value {
                    Value::String(text) if key == "description" => {
                        let paragraphs: Vec<String> = text.split("\n\n").map(joined).collect();
                        *text = paragraphs.join("\n\n");
                    }
                    _ => join_lines(value),
                }
            }
        }
        Value::Array(list) => list.iter_mut().for_each(join_lines),
        _ => {}
    }
}

/// A paragraph as one line, unless it is a list or a block of code.
fn joined(paragraph: &str) -> String {
    let is_own_line = |line: &str| line.starts_with([' ', '-', '*', '|', '`']);
    if paragraph.lines().skip(1).any(is_own_line) {
        return paragraph.to_owned();
    }
    paragraph.lines().collect::<Vec<_>>().join(" ")
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

/// A file that is merged with others, for example of a catalog, may give a parameter another default; its kind stands
/// elsewhere.
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

/// Allows an expression at this position, unless it takes any text anyway.
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

/// What a value may be.
#[derive(Debug)]
pub enum ValueShape {
    Any,
    Null,
    Text,
    /// A text with a form of its own.
    Formatted(&'static TextFormat),
    Bool,
    Int(Range),
    Number(Range),
    List(Arc<Self>),
    /// Free keys, all of one shape.
    Map(Arc<Self>),
    Object(Object),
    /// One of these values.
    Words(Vec<String>),
    Either(Vec<Arc<Self>>),
}

#[derive(Clone, Copy, Debug)]
pub struct Range {
    pub min: Option<f64>,
    pub max: Option<f64>,
}

/// Fixed keys.
#[derive(Debug)]
pub struct Object {
    /// The type's name, for messages: `stage`, `bench`.
    pub name: String,
    pub fields: IndexMap<String, Arc<ValueShape>>,
    pub required: Vec<String>,
    /// Of these keys exactly one must be there.
    pub one_of: Vec<String>,
}

/// The shape of a whole document.
pub fn document() -> &'static ValueShape {
    static SHAPE: OnceLock<Arc<ValueShape>> = OnceLock::new();
    SHAPE.get_or_init(|| {
        let schema = schemars::schema_for!(ManifestDocument).to_value();
        Compiler { root: &schema, named: HashMap::new() }.compile(&schema, "manifest")
    })
}

/// The shape of one stage.
pub fn stage() -> &'static ValueShape {
    let ValueShape::Object(document) = document() else { return &ValueShape::Any };
    match document.fields.get("stages").map(AsRef::as_ref) {
        Some(ValueShape::Map(stage)) => stage,
        _ => &ValueShape::Any,
    }
}

struct Compiler<'a> {
    root: &'a Value,
    named: HashMap<String, Arc<ValueShape>>,
}

impl Compiler<'_> {
    fn compile(&mut self, schema: &Value, name: &str) -> Arc<ValueShape> {
        if let Some(reference) = schema["$ref"].as_str() {
            let name = reference.rsplit('/').next().unwrap_or(reference);
            if let Some(known) = self.named.get(name) {
                return Arc::clone(known);
            }
            let target = self.root["$defs"][name].clone();
            let shape = self.compile(&target, name);
            self.named.insert(name.to_owned(), Arc::clone(&shape));
            return shape;
        }
        Arc::new(self.shape(schema, name))
    }

    fn shape(&mut self, schema: &Value, name: &str) -> ValueShape {
        if let Some(branches) = schema["oneOf"].as_array().or_else(|| schema["anyOf"].as_array()) {
            return self.branches(branches, name);
        }
        if let Some(words) = schema["enum"].as_array() {
            return ValueShape::Words(words.iter().filter_map(Value::as_str).map(str::to_owned).collect());
        }
        if let Some(word) = schema["const"].as_str() {
            return ValueShape::Words(vec![word.to_owned()]);
        }
        match &schema["type"] {
            Value::Array(types) => ValueShape::Either(
                types
                    .iter()
                    .map(|one| {
                        let mut schema = schema.clone();
                        schema["type"] = one.clone();
                        self.compile(&schema, name)
                    })
                    .collect(),
            ),
            Value::String(one) => self.typed(one, schema, name),
            _ => ValueShape::Any,
        }
    }

    fn typed(&mut self, one: &str, schema: &Value, name: &str) -> ValueShape {
        match one {
            "null" => ValueShape::Null,
            "string" => TextFormat::ALL
                .iter()
                .find(|format| schema["format"] == format.name)
                .map_or(ValueShape::Text, ValueShape::Formatted),
            "boolean" => ValueShape::Bool,
            "integer" => {
                let (low, high) = match schema["format"].as_str() {
                    Some("uint16") => (Some(0.0), Some(f64::from(u16::MAX))),
                    Some("uint32") => (Some(0.0), Some(f64::from(u32::MAX))),
                    Some("int64") => (None, None),
                    Some("int32") => (Some(f64::from(i32::MIN)), Some(f64::from(i32::MAX))),
                    _ => (Some(0.0), None),
                };
                ValueShape::Int(Range {
                    min: schema["minimum"].as_f64().or(low),
                    max: schema["maximum"].as_f64().or(high),
                })
            }
            "number" => ValueShape::Number(Range { min: schema["minimum"].as_f64(), max: schema["maximum"].as_f64() }),
            "array" => ValueShape::List(self.compile(&schema["items"], name)),
            "object" => match schema["properties"].as_object() {
                Some(fields) => self.object(fields, schema, name),
                None => ValueShape::Map(self.compile(&schema["additionalProperties"], name)),
            },
            _ => ValueShape::Any,
        }
    }

    fn object(&mut self, fields: &serde_json::Map<String, Value>, schema: &Value, name: &str) -> ValueShape {
        let one_of = match name {
            "Stage" => Action::KEYS.map(str::to_owned).to_vec(),
            "Param" => PARAM_KINDS.map(str::to_owned).to_vec(),
            "Image" => Image::KINDS.map(str::to_owned).to_vec(),
            _ => Vec::new(),
        };
        let fields = fields.iter().map(|(key, field)| (key.clone(), self.compile(field, key))).collect();
        let required = schema["required"].as_array().into_iter().flatten();
        let required = required.filter_map(Value::as_str).map(str::to_owned).collect();
        ValueShape::Object(Object { name: plain_name(name), fields, required, one_of })
    }

    fn branches(&mut self, branches: &[Value], name: &str) -> ValueShape {
        let shapes: Vec<Arc<ValueShape>> = branches.iter().map(|branch| self.compile(branch, name)).collect();
        let is_words = |shape: &Arc<ValueShape>| matches!(**shape, ValueShape::Words(_));
        let words_of =
            |shape: &Arc<ValueShape>| if let ValueShape::Words(words) = &**shape { words.clone() } else { Vec::new() };
        if shapes.iter().all(is_words) {
            return ValueShape::Words(shapes.iter().flat_map(words_of).collect());
        }
        // An externally tagged enum: objects of exactly one required key each.
        let tagged = |schema: &Value| {
            schema["properties"].as_object().is_some_and(|fields| fields.len() == 1)
                && schema["required"].as_array().is_some_and(|required| required.len() == 1)
        };
        let (objects, words): (Vec<_>, Vec<_>) = shapes.iter().zip(branches).partition(|(_, branch)| tagged(branch));
        if !objects.is_empty() && words.iter().all(|(shape, _)| is_words(shape)) {
            let mut fields = IndexMap::new();
            for (shape, _) in objects {
                if let ValueShape::Object(object) = &**shape {
                    fields.extend(object.fields.iter().map(|(key, field)| (key.clone(), Arc::clone(field))));
                }
            }
            let one_of = fields.keys().cloned().collect();
            let object = ValueShape::Object(Object { name: plain_name(name), fields, required: Vec::new(), one_of });
            // Some of the enum's cases may be plain strings; they are one choice.
            let words: Vec<String> = words.into_iter().flat_map(|(shape, _)| words_of(shape)).collect();
            return if words.is_empty() {
                object
            } else {
                ValueShape::Either(vec![Arc::new(ValueShape::Words(words)), Arc::new(object)])
            };
        }
        ValueShape::Either(shapes)
    }
}

/// `ReadyWhen` → `ready when`.
fn plain_name(name: &str) -> String {
    let mut plain = String::new();
    for c in name.chars() {
        if c.is_uppercase() && !plain.is_empty() {
            plain.push(' ');
        }
        plain.extend(c.to_lowercase());
    }
    plain
}

impl ValueShape {
    /// Whether a text may stand here, whatever else it must be.
    pub const fn is_text(&self) -> bool {
        matches!(self, Self::Text | Self::Formatted(_))
    }

    /// The form that a text must have here.
    pub fn format(&self) -> Option<&'static TextFormat> {
        match self {
            Self::Formatted(format) => Some(format),
            Self::Either(shapes) => shapes.iter().find_map(|shape| shape.format()),
            _ => None,
        }
    }

    /// What it is, for "must be …".
    pub fn describe(&self) -> String {
        match self {
            Self::Any => "anything".to_owned(),
            Self::Null => "nothing".to_owned(),
            Self::Text => "a text".to_owned(),
            Self::Formatted(format) => format.what.to_owned(),
            Self::Bool => "true or false".to_owned(),
            Self::Int(_) => "a whole number".to_owned(),
            Self::Number(_) => "a number".to_owned(),
            Self::List(item) => match &**item {
                Self::Text => "a list of texts".to_owned(),
                _ => "a list".to_owned(),
            },
            Self::Object(object) if object.fields.is_empty() => "a map without keys, `{}`".to_owned(),
            Self::Object(object) if object.one_of.len() == object.fields.len() => {
                format!("a map with one of the keys {}", base::diag::list_of(object.fields.keys().map(String::as_str)))
            }
            Self::Map(_) | Self::Object(_) => "a map".to_owned(),
            Self::Words(words) => format!("one of {}", base::diag::list_of(words.iter().map(String::as_str))),
            Self::Either(shapes) => {
                let parts: Vec<String> = shapes
                    .iter()
                    .filter(|shape| !matches!(***shape, Self::Null))
                    .map(|shape| shape.describe())
                    .collect();
                parts.join(" or ")
            }
        }
    }
}

/// A number that YAML knows and JSON does not: `.inf`, `.nan`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` cannot be used as a number")]
pub struct UnusableNumber(String);

/// The meaning of a plain scalar; `Err` for numbers that no JSON number can hold (`.inf`, `1e999`).
pub fn parse_plain_scalar(text: &str) -> Result<NodeValue, UnusableNumber> {
    if !may_be_special(text) {
        return Ok(NodeValue::Text(Arc::from(text)));
    }
    match serde_yaml::from_str::<Value>(text) {
        Ok(Value::Null) if !matches!(text, "" | "~" | "null" | "Null" | "NULL") => Err(UnusableNumber(text.to_owned())),
        Ok(Value::Null) => Ok(NodeValue::Null),
        Ok(Value::Bool(value)) => Ok(NodeValue::Bool(value)),
        Ok(Value::Number(number)) => Ok(NodeValue::Number(number)),
        Ok(Value::String(_) | Value::Array(_) | Value::Object(_)) => Ok(NodeValue::Text(Arc::from(text))),
        // Whole numbers beyond 64 bits.
        Err(_) => Ok(text
            .parse::<f64>()
            .ok()
            .and_then(Number::from_f64)
            .map_or_else(|| NodeValue::Text(Arc::from(text)), NodeValue::Number)),
    }
}

/// A quick look at the first character spares most scalars the parser.
fn may_be_special(text: &str) -> bool {
    match text.as_bytes().first() {
        None => true,
        Some(first) if text.len() <= 128 => {
            first.is_ascii_digit()
                || matches!(first, b'+' | b'-' | b'.' | b'~')
                || matches!(text, "null" | "Null" | "NULL" | "true" | "True" | "TRUE" | "false" | "False" | "FALSE")
        }
        Some(_) => false,
    }
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
        let mut unbounded_keys = BTreeSet::new();
        unbounded(&schema(), "", &mut unbounded_keys);
        let exceptions = [
            // `ulimits` of a container, ids of adapters, seeds, clocks, bytes for a server: nothing is made of them
            // here.
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
        assert_eq!(unbounded_keys, exceptions.map(str::to_owned).into());
    }
}
