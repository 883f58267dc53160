//! A config as text: the same config gives the same bytes, with fields in the order of their numbers and maps by their
//! keys. And as JSON, in the form of Triton's HTTP interface: names as in the schema, defaults written out, enums by
//! name, 64-bit numbers as numbers.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use prost_reflect::{DynamicMessage, FieldDescriptor, Kind, MapKey, ReflectMessage as _, Value as Reflected};
use serde_json::{Map, Value, json};

use super::{quoted, schema};
use crate::proto::inference::ModelConfig;

/// The whole config, every message on lines of its own.
pub fn write(config: &ModelConfig) -> String {
    let mut out = String::new();
    fields(&reflected("ModelConfig", config), 0, &mut out);
    out
}

fn reflected(name: &str, message: &impl prost::Message) -> DynamicMessage {
    let mut reflected = DynamicMessage::new(schema::message(name));
    // Both sides are generated from the same descriptors, so the bytes of one are always readable by the other.
    reflected.transcode_from(message).expect("the generated type and its descriptor agree");
    reflected
}

fn fields(message: &DynamicMessage, depth: usize, out: &mut String) {
    for (field, value) in message.fields() {
        match value {
            Reflected::List(items) => items.iter().for_each(|item| line(&field, item, depth, out)),
            Reflected::Map(map) => {
                let mut entries: Vec<(&MapKey, &Reflected)> = map.iter().collect();
                entries.sort_by_key(|(key, _)| spelled_key(key));
                for (key, value) in entries {
                    entry(&field, key, value, depth, out);
                }
            }
            single => line(&field, single, depth, out),
        }
    }
}

fn line(field: &FieldDescriptor, value: &Reflected, depth: usize, out: &mut String) {
    let indent = "  ".repeat(depth);
    if let Reflected::Message(message) = value {
        let _ = writeln!(out, "{indent}{} {{", field.name());
        fields(message, depth + 1, out);
        let _ = writeln!(out, "{indent}}}");
    } else {
        let _ = writeln!(out, "{indent}{}: {}", field.name(), spelled(&field.kind(), value));
    }
}

/// A map is a list of entries with two fields.
fn entry(field: &FieldDescriptor, key: &MapKey, value: &Reflected, depth: usize, out: &mut String) {
    let indent = "  ".repeat(depth);
    let _ = writeln!(out, "{indent}{} {{", field.name());
    let _ = writeln!(out, "{indent}  key: {}", spelled_key(key));
    if let Kind::Message(pair) = field.kind()
        && let Some(of_value) = pair.get_field_by_name("value")
    {
        line(&of_value, value, depth + 1, out);
    }
    let _ = writeln!(out, "{indent}}}");
}

fn spelled_key(key: &MapKey) -> String {
    spelled(&Kind::String, &key.clone().into())
}

fn spelled(kind: &Kind, value: &Reflected) -> String {
    match (value, single(kind, value)) {
        // JSON has a point in every fraction, and the digits of a longer one.
        (Reflected::F32(it), _) => it.to_string(),
        (Reflected::F64(it), _) => it.to_string(),
        (Reflected::EnumNumber(_), Value::String(name)) => name,
        (_, Value::String(text)) => quoted(&text),
        (_, plain) => plain.to_string(),
    }
}

/// The whole config as an object. Messages and choices that are not set are left out.
pub fn json(config: &ModelConfig) -> Value {
    message_json("ModelConfig", config)
}

/// The same for another message of the protocol, of this name in `inference`.
pub fn message_json(name: &str, message: &impl prost::Message) -> Value {
    object(&reflected(name, message))
}

fn object(message: &DynamicMessage) -> Value {
    let mut fields = Map::new();
    for field in message.descriptor().fields() {
        let is_plain = field.containing_oneof().is_none() && !matches!(field.kind(), Kind::Message(_));
        if message.has_field(&field) || field.is_list() || field.is_map() || is_plain {
            fields.insert(field.name().to_owned(), value(&field, &message.get_field(&field)));
        }
    }
    Value::Object(fields)
}

fn value(field: &FieldDescriptor, value: &Reflected) -> Value {
    match value {
        Reflected::List(items) => items.iter().map(|item| single(&field.kind(), item)).collect(),
        Reflected::Map(map) => {
            let of_value = match field.kind() {
                Kind::Message(entry) => entry.get_field_by_name("value").map(|field| field.kind()),
                _ => None,
            };
            let entries: BTreeMap<String, Value> = map
                .iter()
                .map(|(key, value)| {
                    let value = of_value.as_ref().map_or(Value::Null, |kind| single(kind, value));
                    let key = key.as_str().map_or_else(|| spelled_key(key), str::to_owned);
                    (key, value)
                })
                .collect();
            json!(entries)
        }
        one => single(&field.kind(), one),
    }
}

fn single(kind: &Kind, value: &Reflected) -> Value {
    match value {
        Reflected::Message(message) => object(message),
        Reflected::EnumNumber(number) => match kind {
            Kind::Enum(names) => names.get_value(*number).map_or_else(|| json!(number), |name| json!(name.name())),
            _ => json!(number),
        },
        Reflected::Bool(it) => json!(it),
        Reflected::I32(it) => json!(it),
        Reflected::I64(it) => json!(it),
        Reflected::U32(it) => json!(it),
        Reflected::U64(it) => json!(it),
        Reflected::F32(it) => json!(it),
        Reflected::F64(it) => json!(it),
        Reflected::String(it) => json!(it),
        Reflected::Bytes(it) => json!(String::from_utf8_lossy(it)),
        Reflected::List(_) | Reflected::Map(_) => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::pbtxt::read;

    #[test]
    fn what_is_written_is_read_back_and_is_the_same_every_time() {
        let text = r#"
            name: "m" backend: "python" max_batch_size: 8
            input [
                { name: "a \"b\"" data_type: TYPE_INT32 dims: [ -1, 2 ] }, { name: "c" data_type: TYPE_BOOL dims: 1 }
            ]
            instance_group [ { count: 2 kind: KIND_GPU gpus: [ 0, 1 ] } ]
            dynamic_batching { preferred_batch_size: [ 4 ] default_queue_policy { max_queue_size: 3 } }
            parameters { key: "z" value { string_value: "1" } } parameters { key: "b" value { string_value: "${x}" } }
            model_transaction_policy { decoupled: true }
        "#;
        let config = crate::pbtxt::read_as_server(text).unwrap();
        let written = write(&config);
        assert_eq!(crate::pbtxt::read_as_server(&written).unwrap(), config, "{written}");
        assert!(written.find("key: \"b\"").unwrap() < written.find("key: \"z\"").unwrap());
        for _ in 0..20 {
            assert_eq!(write(&config.clone()), written);
        }
        assert!(read(&written).is_err(), "a placeholder stays one");
    }

    #[test]
    fn a_config_reads_as_triton_shows_it() {
        let config = read(
            r#"name: "m" backend: "tensorrtllm" max_batch_size: 8
               model_transaction_policy { decoupled: true }
               input [ { name: "x" data_type: TYPE_INT32 dims: [ -1 ] allow_ragged_batch: true } ]
               parameters: { key: "gpt_model_type" value: { string_value: "inflight_fused_batching" } }"#,
        )
        .unwrap();
        let value = json(&config);
        assert_eq!(value["max_batch_size"], json!(8));
        assert_eq!(value["platform"], json!(""));
        assert_eq!(value["model_transaction_policy"], json!({"decoupled": true}));
        assert_eq!(value["input"][0]["data_type"], json!("TYPE_INT32"));
        assert_eq!(value["input"][0]["dims"], json!([-1]));
        assert_eq!(value["input"][0]["format"], json!("FORMAT_NONE"));
        assert_eq!(value["output"], json!([]));
        assert_eq!(value["parameters"]["gpt_model_type"], json!({"string_value": "inflight_fused_batching"}));
        assert!(value.get("ensemble_scheduling").is_none(), "{value:#}");
    }
}
