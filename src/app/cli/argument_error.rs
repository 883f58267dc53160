//! Errors of arguments, and the check that several commands share.

use std::collections::BTreeMap;

use base::diag::ErrorText;
use clap::error::ErrorKind;

use super::key_value_arg::KeyValueArg;

/// What is wrong with arguments that clap itself accepts, for clap to print.
pub(super) type ArgumentError = (ErrorKind, String);

/// A value that its option does not take.
pub(super) fn invalid_value<T>(text: impl Into<String>) -> Result<T, ArgumentError> {
    Err((ErrorKind::InvalidValue, text.into()))
}

/// Twice the same value is harmless; two values for one key are an error; the last one does not win.
pub(super) fn reject_duplicates(settings: &[KeyValueArg]) -> Result<(), ArgumentError> {
    let mut seen = BTreeMap::new();
    for KeyValueArg { key, value } in settings {
        if let Some(before) = seen.insert(key, value).filter(|before| *before != value) {
            let hint = format!("write it once; a list is one argument: `{key}={before},{value}`");
            let text =
                ErrorText::new(format!("`{key}` is given twice: `{before}` and `{value}`")).hint(hint).to_string();
            return Err((ErrorKind::ArgumentConflict, text));
        }
    }
    Ok(())
}
