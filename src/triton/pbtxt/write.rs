//! A config as text. The same config gives the same bytes: fields in the order of their numbers, maps by their keys.

use std::fmt::Write as _;

use prost::Message as _;
use prost_reflect::{DynamicMessage, FieldDescriptor, Kind, MapKey, Value as Reflected};

use super::{quoted, schema};
use crate::proto::inference::ModelConfig;

/// The whole config, every message on lines of its own.
pub fn write(config: &ModelConfig) -> String {
    let mut message = DynamicMessage::new(schema::model_config().clone());
    // Both sides are generated from the same descriptors, so the bytes of one are always readable by the other.
    message.merge(config.encode_to_vec().as_slice()).expect("the generated type and its descriptor agree");
    let mut out = String::new();
    fields(&message, 0, &mut out);
    out
}

pub(super) fn fields(message: &DynamicMessage, depth: usize, out: &mut String) {
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
pub(super) fn entry(field: &FieldDescriptor, key: &MapKey, value: &Reflected, depth: usize, out: &mut String) {
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

pub(super) fn spelled_key(key: &MapKey) -> String {
    match key {
        MapKey::Bool(it) => it.to_string(),
        MapKey::I32(it) => it.to_string(),
        MapKey::I64(it) => it.to_string(),
        MapKey::U32(it) => it.to_string(),
        MapKey::U64(it) => it.to_string(),
        MapKey::String(it) => quoted(it),
    }
}

fn spelled(kind: &Kind, value: &Reflected) -> String {
    match value {
        Reflected::Bool(it) => it.to_string(),
        Reflected::I32(it) => it.to_string(),
        Reflected::I64(it) => it.to_string(),
        Reflected::U32(it) => it.to_string(),
        Reflected::U64(it) => it.to_string(),
        Reflected::F32(it) => it.to_string(),
        Reflected::F64(it) => it.to_string(),
        Reflected::String(it) => quoted(it),
        Reflected::Bytes(it) => quoted(&String::from_utf8_lossy(it)),
        Reflected::EnumNumber(number) => match kind {
            Kind::Enum(known) => {
                known.get_value(*number).map_or_else(|| number.to_string(), |value| value.name().to_owned())
            }
            _ => number.to_string(),
        },
        // Those have lines of their own.
        Reflected::Message(_) | Reflected::List(_) | Reflected::Map(_) => String::new(),
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
}
