//! `bench.retries:` — off by default, and never for a request that had a token.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::counts::MOST_USERS;

use super::time_span::TimeSpan;

/// Sends requests again that failed before they had a token. Every attempt is in requests.jsonl, latency counts from the first intended time, and a run with any is VALID WITH WARNINGS at best.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Retries {
    /// At most this many times for one request.
    #[schemars(range(min = 1, max = MOST_USERS))]
    pub times: u32,
    /// Which failures.
    #[serde(default = "both")]
    pub on: Vec<RetryOn>,
    /// From the failure to the next attempt. A server that cannot be reached is not tried more often than every 50 ms.
    #[serde(default = "half_a_second")]
    pub pause: TimeSpan,
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
fn half_a_second() -> TimeSpan {
    Duration::from_millis(500).into()
}

impl Retries {
    /// What is wrong with them.
    pub fn problem(&self) -> Option<&'static str> {
        if self.times == 0 {
            Some("retries.times must be at least 1; leave `retries` out for none")
        } else if self.on.is_empty() {
            Some("retries.on names no class of failures")
        } else if self.pause.time() > Duration::from_hours(1) {
            Some("retries.pause must be from 0 to an hour")
        } else {
            None
        }
    }
}
