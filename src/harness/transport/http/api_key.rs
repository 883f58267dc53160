//! The key that requests over HTTP are sent with.

use crate::harness::{HarnessError, Http};

/// The value of the variable that `api_key_env` names, without the white space around it: the file that it comes from often ends
/// with a newline. `None`: no variable is named.
pub(in crate::harness) fn api_key(http: &Http) -> Result<Option<String>, HarnessError> {
    let Some(variable) = http.api_key_env.clone() else { return Ok(None) };
    let value = std::env::var(&variable).ok();
    let Some(key) = value.as_deref().and_then(trimmed) else { return Err(HarnessError::NoApiKey { variable }) };
    if is_of_one_line(key) { Ok(Some(key.to_owned())) } else { Err(HarnessError::ApiKeyLines { variable }) }
}

fn trimmed(value: &str) -> Option<&str> {
    let key = value.trim();
    (!key.is_empty()).then_some(key)
}

/// A line break would end the header, and what is behind it would be one of its own.
fn is_of_one_line(key: &str) -> bool {
    !key.contains(char::is_control)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::spec::transport::Api;

    #[test]
    fn a_key_has_no_newline_in_it() {
        assert_eq!((trimmed(" sk-1\n"), trimmed(" \n")), (Some("sk-1"), None));
        assert!(is_of_one_line("sk-1 ü") && !is_of_one_line("sk-1\r\nX-Other: 1") && !is_of_one_line("a\u{7f}"));
        let http = Http { api_key_env: Some("REGATTA_NO_SUCH_VARIABLE".to_owned()), ..Http::new(Api::OpenaiChat) };
        let error = api_key(&http).unwrap_err().to_string();
        assert!(error.contains("REGATTA_NO_SUCH_VARIABLE, which is not set, is empty or is not text"), "{error}");
    }
}
