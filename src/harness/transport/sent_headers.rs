//! The headers that every request of a run has beside those of its protocol, over HTTP and gRPC alike: those of
//! `request.headers`, and the key of `api_key_env`. Values from the environment, or from the command line of this
//! process, are in no text that is kept of an answer.

use std::collections::BTreeMap;
use std::env::VarError;

use http::{HeaderMap, HeaderName, HeaderValue};
use parking_lot::RwLock;
use serde_json::Value;

use crate::{ApiKeyFault, BenchSpec, HarnessError, Transport};
use base::spec::{AUTHORIZATION, HeaderPart, RequestHeaders, header_parts};

/// Name and value of each, and the values that must not be shown.
#[derive(Clone, Default, PartialEq)]
pub struct SentHeaders {
    headers: Vec<(String, String)>,
    secrets: Vec<String>,
}

impl SentHeaders {
    /// Those of a run.
    ///
    /// # Errors
    /// The environment lacks a value.
    pub fn of_run(spec: &BenchSpec) -> Result<Self, HarnessError> {
        Self::new(&spec.protocol, &spec.request.headers)
    }

    /// # Errors
    /// The environment lacks a value.
    pub fn new(transport: &Transport, given: &RequestHeaders) -> Result<Self, HarnessError> {
        let mut sent = Self::default();
        for (name, value) in &given.0 {
            let mut whole = String::new();
            // One that cannot be read was refused with the manifest.
            for part in header_parts(value).unwrap_or_default() {
                match part {
                    HeaderPart::Text(text) => whole.push_str(text),
                    HeaderPart::Variable(variable) => whole.push_str(&sent.secret(api_key(variable)?)),
                }
            }
            sent.headers.push((name.clone(), whole));
        }
        if let Transport::Http(http) = transport
            && let Some(variable) = &http.api_key_env
            && !given.has(AUTHORIZATION)
        {
            // From a copied header, or from a file whose quotes were taken as part of it.
            let key = api_key(variable)?;
            let key = key.strip_prefix("Bearer ").unwrap_or(&key).trim().trim_matches(['"', '\'']).to_owned();
            let value = format!("Bearer {}", sent.secret(key));
            sent.headers.push(("Authorization".to_owned(), value));
        }
        Ok(sent)
    }

    fn secret(&mut self, key: String) -> String {
        self.secrets.push(key.clone());
        // One that contains another is taken out as a whole.
        self.secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        key
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.headers.iter().any(|(other, _)| other.eq_ignore_ascii_case(name))
    }

    /// As lines of an HTTP/1.1 head.
    pub(super) fn lines(&self) -> String {
        let parts = self.headers.iter().flat_map(|(name, value)| [name.as_str(), ": ", value.as_str(), "\r\n"]);
        parts.collect()
    }

    /// As metadata of a gRPC call, and for HTTP libraries.
    pub fn map(&self) -> HeaderMap {
        let each = self.headers.iter().filter_map(|(name, value)| {
            let mut value = HeaderValue::from_bytes(value.as_bytes()).ok()?;
            value.set_sensitive(true);
            Some((HeaderName::from_bytes(name.as_bytes()).ok()?, value))
        });
        each.collect()
    }

    /// The values that must not be shown, the longest first.
    pub(super) fn secrets(&self) -> &[String] {
        &self.secrets
    }

    /// A text of the server without them.
    pub(crate) fn hide(&self, text: String) -> String {
        without_secrets(text, &self.secrets)
    }

    /// A text that a server has about itself, without them.
    pub(crate) fn hide_in_description(&self, text: String) -> String {
        self.secrets.iter().filter(|secret| secret.len() >= LEAST_KEY).fold(text, |text, key| without_key(text, key))
    }

    /// Like `hide_in_description`, for all texts in a value. After their escapes were read: a server may write a key in
    /// many ways.
    pub(crate) fn hide_in_value(&self, value: &mut Value) {
        match value {
            Value::String(text) => *text = self.hide_in_description(std::mem::take(text)),
            Value::Array(values) => values.iter_mut().for_each(|value| self.hide_in_value(value)),
            Value::Object(members) => members.values_mut().for_each(|value| self.hide_in_value(value)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
}

/// Without values.
impl std::fmt::Debug for SentHeaders {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.headers.iter().map(|(name, _)| name)).finish()
    }
}

/// Bytes of the beginning of a key that are taken out at the end of a text; fewer are there by chance.
const LEAST_PART: usize = 4;

/// Bytes of the shortest key that is taken out of what a server reports about itself: shorter ones are parts of
/// versions and names by chance.
const LEAST_KEY: usize = 6;

/// A text from the server with the keys that were sent removed. A truncated text ends with `…`.
pub(super) fn without_secrets(text: String, secrets: &[String]) -> String {
    secrets.iter().fold(text, |text, secret| without_key(text, secret))
}

fn without_key(mut text: String, key: &str) -> String {
    // A terminal drops them, and would put the key's letters together.
    if text.contains(|c: char| c.is_control() && c != '\n') {
        text = text.replace(|c: char| c.is_control() && c != '\n', "·");
    }
    if text.contains(key) {
        text = text.replace(key, "***");
    }
    let whole = text.trim_end_matches('…').len();
    if whole == text.len() {
        return text;
    }
    // The cut may be in the middle of the key.
    let cut =
        (LEAST_PART..key.len()).rev().find(|part| key.get(..*part).is_some_and(|start| text[..whole].ends_with(start)));
    if let Some(part) = cut {
        text.replace_range(whole - part..whole, "***");
    }
    text
}

#[cfg(test)]
impl SentHeaders {
    /// A key alone.
    pub fn of_key(key: &str) -> Self {
        Self { headers: Vec::new(), secrets: vec![key.to_owned()] }
    }
}

// Keys that requests are sent with: their values are in the environment, or were given on the command line of this
// process.

/// Values from the command line, in place of variables. A manifest of the line has the variable only.
static GIVEN: RwLock<BTreeMap<String, String>> = RwLock::new(BTreeMap::new());

/// From now on this value is that of the variable, in this process.
pub fn give_key(variable: String, value: String) {
    GIVEN.write().insert(variable, value);
}

/// The key in an environment variable, without the white space around it: the file that it comes from often ends with a
/// newline.
///
/// # Errors
/// The variable is unset, or its value cannot be sent.
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
    let key = "the key must be in the environment variable";
    api_key_in(variable).map_err(|fault| HarnessError::spec(format_args!("{key} {variable}, which {fault}")))
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
    use super::give_key;
    use super::*;
    use crate::{Api, Http};

    fn headers(each: &[(&str, &str)]) -> RequestHeaders {
        RequestHeaders(each.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
    }

    #[test]
    fn variables_have_their_values_and_are_hidden() {
        give_key("REGATTA_TEST_KEY".to_owned(), "sek-1".to_owned());
        let given = headers(&[("api-key", "a ${REGATTA_TEST_KEY}"), ("x-team", "perf")]);
        let sent = SentHeaders::new(&Transport::Kserve, &given).unwrap();
        assert_eq!(sent.lines(), "api-key: a sek-1\r\nx-team: perf\r\n");
        assert_eq!(sent.map()["api-key"], "a sek-1");
        assert_eq!(sent.hide("no key sek-1 of perf".to_owned()), "no key *** of perf");
        assert!(!format!("{sent:?} {:?}", sent.map()).contains("sek-1"));
        let missing = headers(&[("api-key", "${REGATTA_NO_SUCH_VARIABLE}")]);
        assert!(SentHeaders::new(&Transport::Kserve, &missing).is_err());
    }

    #[test]
    fn authorization_that_is_given_replaces_the_bearer() {
        give_key("REGATTA_TEST_BEARER".to_owned(), "sek-2".to_owned());
        let key = Some("REGATTA_TEST_BEARER".to_owned());
        let http = Transport::Http(Http { api_key_env: key, ..Http::new(Api::OpenaiChat) });
        let lines = |given: &[(&str, &str)]| SentHeaders::new(&http, &headers(given)).unwrap().lines();
        assert_eq!(lines(&[]), "Authorization: Bearer sek-2\r\n");
        assert_eq!(lines(&[("Authorization", "Basic x")]), "Authorization: Basic x\r\n");
        for copied in ["Bearer sek-3", "\"sek-3\"", "'sek-3'"] {
            give_key("REGATTA_TEST_BEARER".to_owned(), copied.to_owned());
            assert_eq!(lines(&[]), "Authorization: Bearer sek-3\r\n", "{copied}");
        }
    }
}

#[cfg(test)]
mod api_key_tests {
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
