//! Numbers between JSON and the arguments of a command.

use serde_json::{Value, json};

/// As JSON: whole where it is.
pub(in crate::interop) fn number(value: f64) -> Value {
    if value.fract() == 0.0 && value.abs() < 1e15 { json!(value as i64) } else { json!(value) }
}
