//! How the value of an expression is written into a text. Shells, YAML, JSON and Triton's configurations have `true` and `false`, so a
//! switch is written so, and not as minijinja does (`True`).

use std::borrow::Cow;

use minijinja::value::ValueKind;
use minijinja::{Error, Output, State, Value, escape_formatter};

/// The formatter of an environment.
///
/// # Errors
/// The output cannot be written, or has no form for the value.
pub fn write_value(out: &mut Output<'_>, state: &mut State<'_, '_>, value: &Value) -> Result<(), Error> {
    match switch_text(value) {
        Some(text) => Ok(out.write_str(text)?),
        None => escape_formatter(out, state, value),
    }
}

/// The text of a value of a `foreach`.
pub fn value_text(value: &Value) -> Cow<'static, str> {
    switch_text(value).map_or_else(|| value.to_string().into(), Cow::Borrowed)
}

fn switch_text(value: &Value) -> Option<&'static str> {
    (value.kind() == ValueKind::Bool).then(|| if value.is_true() { "true" } else { "false" })
}
