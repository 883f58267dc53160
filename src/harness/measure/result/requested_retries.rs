//! Retries as a result repeats them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use base::spec::{Retries, RetryOn};

/// When a failed request was sent again, over the same connection. Its latency counts from the first intended time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RequestedRetries {
    /// At most this many times for one request.
    pub times: u32,
    /// There was no connection, or it broke before any answer.
    pub connect: bool,
    /// The server would not take it.
    pub refused: bool,
    /// From the failure to the next attempt.
    pub pause_ms: f64,
}

impl From<&Retries> for RequestedRetries {
    fn from(retries: &Retries) -> Self {
        Self {
            times: retries.times,
            connect: retries.on.contains(&RetryOn::Connect),
            refused: retries.on.contains(&RetryOn::Refused),
            pause_ms: retries.pause.ms(),
        }
    }
}
