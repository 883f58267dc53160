//! JSON values as a user types them.

use serde_json::Value;

/// A text without its quotes; everything else as JSON.
pub fn unquoted(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
