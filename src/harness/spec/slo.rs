//! The promise to each single request.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The promise for a single request, ms; at least one limit is given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Slo {
    /// First token − intended arrival.
    pub ttft_ms: Option<f64>,
    /// Time per output token after the first chunk. A request without such tokens is judged by the others only.
    pub tpot_ms: Option<f64>,
    /// Last token − intended arrival.
    pub e2e_ms: Option<f64>,
}

impl Slo {
    pub const fn is_empty(&self) -> bool {
        self.ttft_ms.is_none() && self.tpot_ms.is_none() && self.e2e_ms.is_none()
    }
}
