//! The JSON Schema of the model in a form that can be walked quickly: which keys, which types, which bounds.
//!
//! Compiled from schemars' description of the Rust types, so that there is one description of the language.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use indexmap::IndexMap;
use serde_json::Value;

use super::model::{Action, Image, ManifestDocument, PARAM_KINDS};
use base::spec::TextFormat;

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
