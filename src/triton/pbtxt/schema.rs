//! Checks the fields of a text against the schema: returns a message, and every error with its place.

use std::sync::OnceLock;

use prost_reflect::{
    DescriptorPool, DynamicMessage, FieldDescriptor, Kind, MapKey, MessageDescriptor, Value as Reflected,
};

use super::PbtxtError;
use super::tree::{PbtxtField, PbtxtShape, PbtxtValue};
use crate::proto::DESCRIPTORS;
use base::diag::{MOST_ERRORS, did_you_mean};

/// A message of the protocol, by its name in `inference`.
pub(super) fn message(name: &str) -> MessageDescriptor {
    static POOL: OnceLock<DescriptorPool> = OnceLock::new();
    let pool =
        POOL.get_or_init(|| DescriptorPool::decode(DESCRIPTORS).expect("the build embeds the descriptors of proto/"));
    pool.get_message_by_name(&format!("inference.{name}")).expect("proto/ has the message")
}

/// The message that the fields spell, as far as they can be read.
pub(super) fn read(text: &str, fields: &[PbtxtField]) -> (DynamicMessage, Vec<PbtxtError>) {
    let mut reader = Reader { text, wrong: Vec::new() };
    let message = reader.message(&message("ModelConfig"), fields);
    (message, reader.wrong)
}

struct Reader<'t> {
    text: &'t str,
    wrong: Vec<PbtxtError>,
}

impl Reader<'_> {
    fn push_error(&mut self, bytes: &std::ops::Range<usize>, message: impl Into<String>, hint: impl Into<String>) {
        // Each is searched for in the text: of a text with more of them the first are enough.
        if self.wrong.len() == MOST_ERRORS {
            return;
        }
        self.wrong.push(PbtxtError::new(self.text, bytes.clone(), message, hint));
    }

    fn message(&mut self, schema: &MessageDescriptor, fields: &[PbtxtField]) -> DynamicMessage {
        let mut message = DynamicMessage::new(schema.clone());
        let mut seen: Vec<&str> = Vec::new();
        for field in fields {
            let Some(known) = schema.get_field_by_name(&field.name) else {
                let names: Vec<String> = schema.fields().map(|field| field.name().to_owned()).collect();
                let problem = format!("`{}` has no field `{}`", schema.name(), field.name);
                let hint = did_you_mean(&field.name, names.iter().map(String::as_str));
                self.push_error(&field.at, problem, hint.unwrap_or_default());
                continue;
            };
            self.check_set_once(&known, field, &seen);
            if !seen.contains(&field.name.as_str()) {
                seen.push(&field.name);
            }
            self.field(&mut message, &known, field);
        }
        message
    }

    /// Unless it is a list, a field may be set only once, and only one field of a `oneof`.
    fn check_set_once(&mut self, known: &FieldDescriptor, field: &PbtxtField, seen: &[&str]) {
        if known.is_list() || known.is_map() {
            return;
        }
        if seen.contains(&field.name.as_str()) {
            self.push_error(&field.at, format!("`{}` is set twice", field.name), "keep one of them");
        } else if let Some(choice) = known.containing_oneof()
            && let Some(other) = choice.fields().find(|other| seen.contains(&other.name()))
        {
            let message = format!("`{}` and `{}` exclude each other", other.name(), field.name);
            self.push_error(&field.at, message, "keep one of them");
        }
    }

    fn field(&mut self, message: &mut DynamicMessage, known: &FieldDescriptor, field: &PbtxtField) {
        let is_message = matches!(known.kind(), Kind::Message(_));
        if field.is_list && !(known.is_list() || known.is_map()) {
            let error = format!("`{}` is one value, not a list", field.name);
            self.push_error(&field.at, error, "remove the `[` and `]`");
            return;
        }
        // Before messages, also in a list, the colon may be left out.
        if !field.has_colon && !is_message {
            let error = format!("`{}` needs a colon before its value", field.name);
            self.push_error(&field.at, error, format!("write `{}: …`", field.name));
            return;
        }
        for value in &field.values {
            let Some(read) = self.value(known, value) else { continue };
            if known.is_map() {
                let Reflected::Message(entry) = read else { continue };
                let (key, value) = entry_of(&entry);
                if let Some(map) = message.get_field_mut(known).as_map_mut() {
                    map.insert(key, value);
                }
            } else if known.is_list() {
                if let Some(list) = message.get_field_mut(known).as_list_mut() {
                    list.push(read);
                }
            } else {
                message.set_field(known, read);
            }
        }
    }

    fn value(&mut self, known: &FieldDescriptor, value: &PbtxtValue) -> Option<Reflected> {
        if let PbtxtShape::Placeholder(name) = &value.shape {
            let error = if name.is_empty() {
                format!("`{}` has a `$` for its value", known.name())
            } else {
                format!("the placeholder `{name}` was never filled")
            };
            let hint = format!("`{}` is {}: fill it, or the server cannot read the file", known.name(), sort(known));
            self.push_error(&value.bytes, error, hint);
            return None;
        }
        if let (Kind::Message(schema), PbtxtShape::Message(fields)) = (known.kind(), &value.shape) {
            return Some(Reflected::Message(self.message(&schema, fields)));
        }
        let read = scalar(known, &value.shape).map_err(|hint| {
            let shown: String = self.text[value.bytes.clone()].chars().take(60).collect();
            self.push_error(
                &value.bytes,
                format!("`{}` is {}, not `{shown}`", known.name(), sort(known)),
                hint.unwrap_or_default(),
            );
        });
        read.ok()
    }
}

/// The value of one token, or a hint.
fn scalar(known: &FieldDescriptor, shape: &PbtxtShape) -> Result<Reflected, Option<String>> {
    match (known.kind(), shape) {
        (Kind::String, PbtxtShape::Text(bytes)) => String::from_utf8(bytes.clone())
            .map(Reflected::String)
            .map_err(|_| Some("text must be UTF-8; the server hangs on anything else".to_owned())),
        (Kind::Bytes, PbtxtShape::Text(bytes)) => Ok(Reflected::Bytes(bytes.clone().into())),
        (Kind::String | Kind::Bytes, PbtxtShape::Bare(_)) => Err(Some("put it in quotes".to_owned())),
        (Kind::Message(_), _) => Err(Some(format!("write `{} {{ … }}`", known.name()))),
        (Kind::Enum(words), PbtxtShape::Bare(word)) => {
            let names: Vec<String> = words.values().map(|value| value.name().to_owned()).collect();
            // The server also reads numbers that have no enum name; their meaning is undefined, so they are refused
            // here.
            let number = words.get_value_by_name(word).map(|value| value.number()).or_else(|| {
                parse_integer(word)
                    .and_then(|number| i32::try_from(number).ok())
                    .filter(|n| words.get_value(*n).is_some())
            });
            let prefixed = names.iter().find(|name| name.ends_with(&format!("_{}", word.to_uppercase())));
            let hint = || match prefixed {
                Some(name) => Some(format!("did you mean `{name}`?")),
                None => did_you_mean(word, names.iter().map(String::as_str)),
            };
            number.map(Reflected::EnumNumber).ok_or_else(hint)
        }
        (Kind::Bool, PbtxtShape::Bare(word)) => match word.as_str() {
            "true" | "True" | "t" => Ok(Reflected::Bool(true)),
            "false" | "False" | "f" => Ok(Reflected::Bool(false)),
            number => match parse_integer(number) {
                Some(0) => Ok(Reflected::Bool(false)),
                Some(1) => Ok(Reflected::Bool(true)),
                _ => Err(Some("write `true` or `false`".to_owned())),
            },
        },
        (Kind::Float, PbtxtShape::Bare(word)) => fraction(word).map(|x| Reflected::F32(x as f32)).ok_or(None),
        (Kind::Double, PbtxtShape::Bare(word)) => fraction(word).map(Reflected::F64).ok_or(None),
        (kind, PbtxtShape::Bare(word)) => {
            let number = parse_integer(word).ok_or(None)?;
            let fits = || Some("it does not fit into the field".to_owned());
            match kind {
                Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => {
                    i32::try_from(number).map(Reflected::I32).map_err(|_| fits())
                }
                Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => {
                    i64::try_from(number).map(Reflected::I64).map_err(|_| fits())
                }
                Kind::Uint32 | Kind::Fixed32 => u32::try_from(number).map(Reflected::U32).map_err(|_| fits()),
                _ => u64::try_from(number).map(Reflected::U64).map_err(|_| fits()),
            }
        }
        (_, PbtxtShape::Text(_)) => Err(Some("remove the quotes".to_owned())),
        (_, _) => Err(None),
    }
}

/// Decimal, `0x…` hexadecimal or `0…` octal.
fn parse_integer(word: &str) -> Option<i128> {
    let (sign, digits) = word.strip_prefix('-').map_or((1, word), |rest| (-1, rest));
    let (radix, digits) = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(hexadecimal) => (16, hexadecimal),
        None if digits.len() > 1 && digits.starts_with('0') => (8, &digits[1..]),
        None => (10, digits),
    };
    let plain = !digits.is_empty() && digits.chars().all(|c| c.is_digit(radix));
    plain.then(|| i128::from_str_radix(digits, radix).ok()).flatten().map(|number| sign * number)
}

fn fraction(word: &str) -> Option<f64> {
    let (sign, digits) = word.strip_prefix('-').map_or((1.0, word), |rest| (-1.0, rest));
    let named = match digits.to_ascii_lowercase().as_str() {
        "inf" | "infinity" => Some(f64::INFINITY),
        "nan" => Some(f64::NAN),
        _ => None,
    };
    let plain = digits.starts_with(|c: char| c.is_ascii_digit() || c == '.');
    let octal = digits.len() > 1 && digits.starts_with('0') && digits.chars().all(|c| c.is_ascii_digit());
    let read = || digits.trim_end_matches(['f', 'F']).parse().ok().filter(|_| plain && !octal);
    named.or_else(read).map(|x: f64| sign * x)
}

/// A description of what a field holds.
fn sort(known: &FieldDescriptor) -> String {
    match known.kind() {
        Kind::Message(_) => "a message in braces".to_owned(),
        Kind::String | Kind::Bytes => "a text in quotes".to_owned(),
        Kind::Bool => "true or false".to_owned(),
        Kind::Enum(words) => format!("a value of {}", words.name()),
        Kind::Float | Kind::Double => "a number".to_owned(),
        Kind::Uint32 | Kind::Uint64 | Kind::Fixed32 | Kind::Fixed64 => "a whole number of at least 0".to_owned(),
        _ => "a whole number".to_owned(),
    }
}

/// What is left out of `{ key: … value: … }` has its default.
fn entry_of(entry: &DynamicMessage) -> (MapKey, Reflected) {
    let get = |name| entry.get_field_by_name(name).map(std::borrow::Cow::into_owned);
    let key = get("key").and_then(Reflected::into_map_key).unwrap_or(MapKey::String(String::new()));
    (key, get("value").unwrap_or_else(|| Reflected::String(String::new())))
}
