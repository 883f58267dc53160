//! How requests of a `bench:` travel: whether once more, and with which keys.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Sends requests again that failed before they had a token. Every attempt is in requests.jsonl, latency counts from the first intended time, and a run with any is VALID WITH WARNINGS at best.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Retries {
    /// At most so many times for one request.
    #[schemars(range(min = 1))]
    pub times: u32,
    /// Which failures.
    #[serde(default = "both")]
    pub on: Vec<RetryOn>,
    /// From the failure to the next attempt. A server that cannot be reached is not tried more often than every 500 ms.
    #[serde(default = "half_a_second")]
    pub pause: String,
}

/// A failure after which a request may be sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RetryOn {
    /// There was no connection, or it broke before any answer.
    Connect,
    /// The server rejected it: UNAVAILABLE, RESOURCE_EXHAUSTED, HTTP 429 and 503.
    Refused,
}

fn both() -> Vec<RetryOn> {
    vec![RetryOn::Connect, RetryOn::Refused]
}
fn half_a_second() -> String {
    "500ms".to_owned()
}

/// For protocols over HTTP with TLS. Keys and certificates are PEM files; their content is never shown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    /// Authorities to trust, or the server's own certificate, in place of those that this machine knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<String>,
    /// Accept any certificate: requests, including keys, may be read in transit.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub insecure: bool,
    /// The client certificate with its chain, for servers that require one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_cert: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_key: Option<String>,
}
