//! Retries: off by default, each attempt reported, and never for a request that had a token.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::harness::FailureClass;

/// When a failed request is sent again, over the same connection. Its latency counts from the first intended time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Retries {
    /// At most so many times for one request.
    pub times: u32,
    /// There was no connection, or it broke before any answer.
    pub connect: bool,
    /// The server would not take it.
    pub refused: bool,
    /// From the failure to the next attempt.
    pub pause_ms: f64,
}

impl Retries {
    pub(in crate::harness) const fn cover(&self, class: FailureClass) -> bool {
        match class {
            FailureClass::Connect => self.connect,
            FailureClass::Refused => self.refused,
            _ => false,
        }
    }

    pub(in crate::harness) fn pause(&self) -> Duration {
        Duration::from_secs_f64(self.pause_ms.max(0.0) / 1e3)
    }

    /// What is wrong with them.
    pub(in crate::harness) fn fault(&self) -> Option<&'static str> {
        if self.times == 0 {
            Some("retries.times must be at least 1; leave `retries` out for none")
        } else if !(self.connect || self.refused) {
            Some("retries.on names no class of failures")
        } else if !(self.pause_ms.is_finite() && (0.0..=3.6e6).contains(&self.pause_ms)) {
            Some("retries.pause must be from 0 to an hour")
        } else {
            None
        }
    }
}
