//! The values of a stage's secrets, in the forms in which a program may print them.

use std::env::{self, VarError};
use std::ffi::OsStr;

/// A secret that could not be found in what a program prints.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("the secret {name} is not UTF-8, so it could not be kept out of logs")]
pub struct SecretNotText {
    pub name: String,
}

/// What must not be printed of an environment variable: its value, and the value without white space around it. The
/// file that a secret comes from often ends with a newline, which programs strip. Nothing where it is not set, or is
/// only white space.
///
/// # Errors
/// It is not UTF-8.
pub fn secret_values(name: &str) -> Result<Vec<String>, SecretNotText> {
    match env::var(name) {
        Ok(value) => Ok(forms(value)),
        Err(VarError::NotPresent) => Ok(Vec::new()),
        Err(VarError::NotUnicode(_)) => Err(SecretNotText { name: name.to_owned() }),
    }
}

/// Why a variable has no value to hide, as it reads after its name.
pub fn no_secret_text(value: Option<&OsStr>) -> &'static str {
    match value {
        None => "is not set",
        Some(value) if value.is_empty() => "is empty",
        Some(_) => "is only white space",
    }
}

/// Like `secret_values`, for several secrets, without those that are not UTF-8: no stage runs with them.
pub fn usable_secret_values(names: &[String]) -> impl Iterator<Item = String> {
    names.iter().filter_map(|name| secret_values(name).ok()).flatten()
}

fn forms(value: String) -> Vec<String> {
    let trimmed = value.trim();
    match trimmed.len() {
        0 => Vec::new(),
        length if length == value.len() => vec![value],
        _ => vec![trimmed.to_owned(), value],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_also_hidden_without_the_newline_after_it() {
        assert_eq!(forms("abc".to_owned()), ["abc"]);
        assert_eq!(forms("abc\n".to_owned()), ["abc", "abc\n"]);
        assert!(forms(" \n".to_owned()).is_empty() && forms(String::new()).is_empty());
    }

    #[test]
    fn an_empty_variable_is_not_called_unset() {
        let texts = [None, Some(""), Some("\n")].map(|value| no_secret_text(value.map(OsStr::new)));
        assert_eq!(texts, ["is not set", "is empty", "is only white space"]);
    }
}
