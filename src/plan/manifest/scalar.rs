//! What a plain (unquoted) scalar means: null, a switch, a number or a text. `serde_yaml` decides.

use std::sync::Arc;

use serde_json::{Number, Value};

use super::yaml_node::NodeValue;

/// A number that YAML knows and JSON does not: `.inf`, `.nan`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a number that can be worked with")]
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
