//! Texts from servers: short, printable, without credentials.

use serde_json::Value;

use base::units::UrlParts;

/// Characters.
const LONGEST: usize = 200;

/// One line of at most 200 characters. The user part of a URL is taken out.
pub(super) fn bounded(text: &str) -> Option<String> {
    let line: String = text.trim().chars().map(|c| if c.is_control() { '·' } else { c }).take(LONGEST).collect();
    let line = address_only(line.trim());
    (!line.is_empty()).then_some(line)
}

/// A text, a number or a boolean of a JSON answer; None for null, objects and arrays.
pub(super) fn bounded_value(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => bounded(text),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(is) => Some(is.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// `https://user:key@host/path?token=x` → `https://host/path`.
fn address_only(text: &str) -> String {
    let Some(UrlParts { scheme, host, rest, .. }) = UrlParts::parse(text) else { return text.to_owned() };
    let path = rest.split(['?', '#']).next().unwrap_or_default();
    format!("{scheme}://{host}{path}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_and_control_characters_are_taken_out() {
        for (from, to) in [
            ("meta/Llama-3.1-8B", "meta/Llama-3.1-8B"),
            ("https://me:secret@hub.example/a/b?token=t#x", "https://hub.example/a/b"),
            ("s3://key@bucket", "s3://bucket"),
            ("a\u{1b}[31mb\nc", "a·[31mb·c"),
        ] {
            assert_eq!(bounded(from).as_deref(), Some(to));
        }
        assert_eq!(bounded(" \n"), None);
        assert_eq!(bounded(&"x".repeat(10_000)).map(|text| text.len()), Some(LONGEST));
    }
}
