//! Numbers between JSON and the arguments of a command.

use serde_json::{Value, json};

use base::spec::Quantity;

/// A whole number of a key, or the formula that it has in its place.
pub(crate) fn quantity(value: &Value) -> Option<Quantity<u64>> {
    match value {
        Value::String(text) => text.parse().ok(),
        value => value.as_u64().map(Quantity::Known),
    }
}

/// As JSON: whole where it is.
pub(crate) fn number(value: f64) -> Value {
    if value.fract() == 0.0 && value.abs() < 1e15 { json!(value as i64) } else { json!(value) }
}
