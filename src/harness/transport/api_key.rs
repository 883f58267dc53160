//! Keys that requests are sent with: their values are in the environment, or were given on the command line of this process.

use std::collections::BTreeMap;
use std::env::VarError;

use parking_lot::RwLock;

use crate::{ApiKeyFault, HarnessError};

/// Values from the command line, in place of variables. A manifest of the line has the variable only.
static GIVEN: RwLock<BTreeMap<String, String>> = RwLock::new(BTreeMap::new());

/// From now on this value is that of the variable, in this process.
pub fn give_key(variable: String, value: String) {
    GIVEN.write().insert(variable, value);
}

/// The key in an environment variable, without the white space around it: the file that it comes from often ends with a newline.
///
/// # Errors
/// There is none that can be sent.
pub fn api_key_in(variable: &str) -> Result<String, ApiKeyFault> {
    let given = GIVEN.read().get(variable).cloned();
    match given.map_or_else(|| std::env::var(variable), Ok) {
        Ok(value) => key_of(&value),
        Err(VarError::NotPresent) => Err(ApiKeyFault::NotSet),
        Err(VarError::NotUnicode(_)) => Err(ApiKeyFault::NotText),
    }
}

/// The key of a run.
pub(super) fn api_key(variable: &str) -> Result<String, HarnessError> {
    api_key_in(variable).map_err(|fault| HarnessError::ApiKey { variable: variable.to_owned(), fault })
}

fn key_of(value: &str) -> Result<String, ApiKeyFault> {
    match value.trim() {
        "" => Err(ApiKeyFault::Empty),
        key if key.contains(char::is_control) => Err(ApiKeyFault::ControlCharacter),
        key => Ok(key.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_no_newline_in_it() {
        assert_eq!((key_of(" sk-1\n"), key_of(" \n")), (Ok("sk-1".to_owned()), Err(ApiKeyFault::Empty)));
        assert!(key_of("sk-1 ü").is_ok());
        for other in ["sk-1\r\nX-Other: 1", "a\u{7f}"] {
            assert_eq!(key_of(other), Err(ApiKeyFault::ControlCharacter));
        }
        let error = api_key("REGATTA_NO_SUCH_VARIABLE").unwrap_err().to_string();
        assert!(error.ends_with("the environment variable REGATTA_NO_SUCH_VARIABLE, which is not set"), "{error}");
    }
}
