//! The key that requests over HTTP are sent with.

use std::env::VarError;

use crate::harness::{ApiKeyFault, HarnessError, Http};

/// The key in an environment variable, without the white space around it: the file that it comes from often ends with a newline.
///
/// # Errors
/// There is none that can be sent.
pub fn api_key_in(variable: &str) -> Result<String, ApiKeyFault> {
    match std::env::var(variable) {
        Ok(value) => key_of(&value),
        Err(VarError::NotPresent) => Err(ApiKeyFault::NotSet),
        Err(VarError::NotUnicode(_)) => Err(ApiKeyFault::NotText),
    }
}

/// That of the variable that `api_key_env` names. `None`: none is named.
pub(in crate::harness) fn api_key(http: &Http) -> Result<Option<String>, HarnessError> {
    let Some(variable) = &http.api_key_env else { return Ok(None) };
    api_key_in(variable).map(Some).map_err(|fault| HarnessError::ApiKey { variable: variable.clone(), fault })
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
    use crate::harness::spec::transport::Api;

    #[test]
    fn a_key_has_no_newline_in_it() {
        assert_eq!((key_of(" sk-1\n"), key_of(" \n")), (Ok("sk-1".to_owned()), Err(ApiKeyFault::Empty)));
        assert!(key_of("sk-1 ü").is_ok());
        for other in ["sk-1\r\nX-Other: 1", "a\u{7f}"] {
            assert_eq!(key_of(other), Err(ApiKeyFault::ControlCharacter));
        }
        let http = Http { api_key_env: Some("REGATTA_NO_SUCH_VARIABLE".to_owned()), ..Http::new(Api::OpenaiChat) };
        let error = api_key(&http).unwrap_err().to_string();
        assert!(error.ends_with("the environment variable REGATTA_NO_SUCH_VARIABLE, which is not set"), "{error}");
    }
}
