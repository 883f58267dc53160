//! A config as JSON, in the form of Triton's HTTP interface: names as in the schema, defaults written out, enums by
//! name, 64-bit numbers as numbers.

use std::collections::BTreeMap;

use prost::Message as _;
use prost_reflect::{DynamicMessage, FieldDescriptor, Kind, ReflectMessage as _, Value as Reflected};
use serde_json::{Map, Value, json};

use super::schema;
use super::write::spelled_key;
use crate::proto::inference::ModelConfig;

/// The whole config as an object. Messages and choices that are not set are left out.
pub fn json(config: &ModelConfig) -> Value {
    message_json("ModelConfig", config)
}

/// The same for another message of the protocol, of this name in `inference`.
pub fn message_json(name: &str, message: &impl prost::Message) -> Value {
    let mut read = DynamicMessage::new(schema::message(name));
    // Both sides are generated from the same descriptors, so the bytes of one are always readable by the other.
    read.merge(message.encode_to_vec().as_slice()).expect("the generated type and its descriptor agree");
    object(&read)
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

pub(super) fn value(field: &FieldDescriptor, value: &Reflected) -> Value {
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

pub(super) fn single(kind: &Kind, value: &Reflected) -> Value {
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
