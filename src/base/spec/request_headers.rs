//! `request.headers`: headers of every request, with values from the environment.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Name → value. `${VARIABLE}` in a value is read from the environment when requests are sent, so that a key is in no
/// manifest, plan or result. Over gRPC they are metadata.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(transparent)]
pub struct RequestHeaders(pub BTreeMap<String, String>);

/// The header that `api_key_env` sets.
pub const AUTHORIZATION: &str = "authorization";

/// What a header cannot be sent for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeaderFault {
    #[error("is not a header: write NAME:VALUE or NAME=VALUE")]
    NoName,
    #[error("has the name `{0}`; a header's name has letters, digits and `-`, without spaces")]
    Name(String),
    #[error("is given twice: names of headers are the same in capital and small letters")]
    Twice,
    /// By HTTP or gRPC, or by the harness.
    #[error("is set by Regatta itself: remove it")]
    Reserved,
    #[error("contains a line break or another control character in its value")]
    ControlCharacter,
    #[error("has a `${{` without the name of a variable and `}}` after it")]
    OpenVariable,
    #[error("holds a key: write `${{{0}}}`, and the key into that environment variable, so that it is in no file")]
    Secret(String),
}

/// A part of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderPart<'t> {
    Text(&'t str),
    /// The name of an environment variable.
    Variable(&'t str),
}

/// Framing, and what the harness needs as it is: the length and form of bodies, the reuse of connections, the number of
/// a request.
const RESERVED: &str = "accept-encoding connection content-encoding content-length content-type expect host \
    keep-alive proxy-connection te trailer transfer-encoding upgrade x-request-id";

/// Words of a header's name that has a secret: `api-key`, `x-goog-api-key`, `x-auth-token`,
/// `Ocp-Apim-Subscription-Key`.
const SECRET_WORDS: &str = "apikey auth authorization cookie credential key passwd password secret signature token \
    accesskey";

impl RequestHeaders {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether it has a header, in capital or small letters.
    pub fn has(&self, name: &str) -> bool {
        self.0.keys().any(|other| other.eq_ignore_ascii_case(name))
    }

    /// Adds `NAME:VALUE` or `NAME=VALUE`.
    ///
    /// # Errors
    /// The header cannot be sent, or one with this name is set already.
    pub fn add(&mut self, text: &str) -> Result<(), HeaderFault> {
        let (name, value) = text.split_once([':', '=']).ok_or(HeaderFault::NoName)?;
        let (name, value) = (name.trim(), value.trim());
        fault(name, value).map_or(Ok(()), Err)?;
        if self.has(name) {
            return Err(HeaderFault::Twice);
        }
        self.0.insert(name.to_owned(), value.to_owned());
        Ok(())
    }

    /// What cannot be sent: each with the key below `request`, where the header has one.
    pub fn faults(&self) -> impl Iterator<Item = (String, HeaderFault)> {
        let lower = |name: &str| name.to_ascii_lowercase();
        let is_twice = move |name: &str| self.0.keys().filter(|other| lower(other) == lower(name)).count() > 1;
        let each = self.0.iter().filter_map(move |(name, value)| {
            let fault = fault(name, value).or_else(|| secret(name, value));
            Some((name, fault.or_else(|| is_twice(name).then_some(HeaderFault::Twice))?))
        });
        each.map(|(name, fault)| {
            // A key of a manifest ends at a dot or a space.
            let is_key = is_name(name) && !name.contains('.');
            (if is_key { format!("headers.{name}") } else { "headers".to_owned() }, fault)
        })
    }

    /// The environment variables that values are read from.
    pub fn variables(&self) -> impl Iterator<Item = &str> {
        self.0.values().flat_map(|value| parts(value).into_iter().flatten()).filter_map(|part| match part {
            HeaderPart::Variable(name) => Some(name),
            HeaderPart::Text(_) => None,
        })
    }

    /// Puts a variable in place of each value that is a secret by its header's name. Returns the variables, with the
    /// values.
    pub fn take_secrets(&mut self) -> Vec<(String, String)> {
        let secrets = self.0.iter_mut().filter(|(name, value)| secret(name, value).is_some());
        secrets
            .map(|(name, value)| {
                let variable = secret_variable(name);
                let secret = std::mem::replace(value, format!("${{{variable}}}"));
                (variable, secret)
            })
            .collect()
    }
}

/// Whether a header has a secret, by its name.
pub fn is_secret_header(name: &str) -> bool {
    let mut words = name.split(['-', '_', '.']).map(str::to_ascii_lowercase);
    words.any(|word| SECRET_WORDS.split(' ').any(|secret| secret == word))
}

/// The environment variable for a secret of this header: `API_KEY` for `api-key`.
pub fn secret_variable(name: &str) -> String {
    let letter = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
    let variable: String = name.chars().map(letter).collect();
    if variable.starts_with(|c: char| c.is_ascii_digit()) { format!("_{variable}") } else { variable }
}

/// The parts of a value.
///
/// # Errors
/// A `${` has no name and end.
pub fn parts(value: &str) -> Result<Vec<HeaderPart<'_>>, HeaderFault> {
    let mut parts = Vec::new();
    let mut rest = value;
    while let Some((before, behind)) = rest.split_once("${") {
        let (name, after) = behind.split_once('}').ok_or(HeaderFault::OpenVariable)?;
        let is_letter = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) || !name.chars().all(is_letter) {
            return Err(HeaderFault::OpenVariable);
        }
        parts.extend((!before.is_empty()).then_some(HeaderPart::Text(before)));
        parts.push(HeaderPart::Variable(name));
        rest = after;
    }
    parts.extend((!rest.is_empty()).then_some(HeaderPart::Text(rest)));
    Ok(parts)
}

fn fault(name: &str, value: &str) -> Option<HeaderFault> {
    let lower = name.to_ascii_lowercase();
    if !is_name(name) {
        return Some(HeaderFault::Name(name.to_owned()));
    }
    // gRPC keeps that beginning for itself.
    if RESERVED.split(' ').any(|name| name == lower) || lower.starts_with("grpc-") {
        return Some(HeaderFault::Reserved);
    }
    if value.contains(|c: char| c.is_control() && c != '\t') {
        return Some(HeaderFault::ControlCharacter);
    }
    parts(value).err()
}

/// A value that is written down and is a secret by its header's name.
fn secret(name: &str, value: &str) -> Option<HeaderFault> {
    let is_read = parts(value).is_ok_and(|parts| parts.iter().any(|part| matches!(part, HeaderPart::Variable(_))));
    let is_secret = is_secret_header(name) && !value.is_empty() && !is_read;
    is_secret.then(|| HeaderFault::Secret(secret_variable(name)))
}

/// A token of RFC 9110, 5.6.2.
fn is_name(name: &str) -> bool {
    let is_letter = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    !name.is_empty() && name.chars().all(is_letter)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn added(text: &str) -> Result<(String, String), HeaderFault> {
        let mut headers = RequestHeaders::default();
        headers.add(text)?;
        Ok(headers.0.into_iter().next().unwrap())
    }

    #[test]
    fn a_header_is_a_name_and_a_value_with_a_colon_or_an_equals_sign() {
        for (text, name, value) in [
            ("x-team: perf", "x-team", "perf"),
            ("api-key=sek=", "api-key", "sek="),
            ("X-Time=12:30", "X-Time", "12:30"),
            ("x-empty:", "x-empty", ""),
            ("Accept: text/event-stream", "Accept", "text/event-stream"),
        ] {
            assert_eq!(added(text), Ok((name.to_owned(), value.to_owned())), "{text}");
        }
        for (text, fault) in [
            ("x-team", HeaderFault::NoName),
            (": perf", HeaderFault::Name(String::new())),
            ("x team: perf", HeaderFault::Name("x team".to_owned())),
            ("Content-Length: 5", HeaderFault::Reserved),
            ("HOST=a", HeaderFault::Reserved),
            ("grpc-timeout: 1S", HeaderFault::Reserved),
            ("a: b\r\nc: d", HeaderFault::ControlCharacter),
            ("a: ${", HeaderFault::OpenVariable),
            ("a: ${1A}", HeaderFault::OpenVariable),
        ] {
            assert_eq!(added(text), Err(fault), "{text}");
        }
        let mut headers = RequestHeaders::default();
        headers.add("a: 1").unwrap();
        assert_eq!(headers.add("A: 2"), Err(HeaderFault::Twice));
    }

    #[test]
    fn a_value_is_texts_and_variables() {
        use HeaderPart::{Text, Variable};
        assert_eq!(parts("Bearer ${A_1}!"), Ok(vec![Text("Bearer "), Variable("A_1"), Text("!")]));
        assert_eq!(parts("$5 {a}"), Ok(vec![Text("$5 {a}")]));
        let headers = RequestHeaders(BTreeMap::from([("a".to_owned(), "${X}${Y}".to_owned())]));
        assert_eq!(headers.variables().collect::<Vec<_>>(), ["X", "Y"]);
    }

    #[test]
    fn a_key_is_known_by_its_header_and_taken_out() {
        for name in ["api-key", "X-Api-Key", "Authorization", "Ocp-Apim-Subscription-Key", "x-auth-token", "cookie"] {
            assert!(is_secret_header(name), "{name}");
        }
        for name in ["x-team", "x-tokenizer", "x-keyboard", "accept"] {
            assert!(!is_secret_header(name), "{name}");
        }
        let mut headers = RequestHeaders::default();
        for text in ["api-key: sek", "x-team: perf", "x-token: ${T}"] {
            headers.add(text).unwrap();
        }
        let faults: Vec<_> = headers.faults().collect();
        assert_eq!(faults, [("headers.api-key".to_owned(), HeaderFault::Secret("API_KEY".to_owned()))]);
        assert_eq!(headers.take_secrets(), [("API_KEY".to_owned(), "sek".to_owned())]);
        assert_eq!(headers.faults().count(), 0);
        assert_eq!(headers.0["api-key"], "${API_KEY}");
    }
}
