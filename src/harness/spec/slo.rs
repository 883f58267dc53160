//! The SLO of each request.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use base::spec::{SloLimits, TimeSpan};

/// The SLO of one request: limits in ms, at least one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Slo {
    /// First token − intended arrival.
    pub ttft_ms: Option<f64>,
    /// Time per output token after the first chunk. A request without such tokens is judged by the others only; where no
    /// request has any, there is no goodput.
    pub tpot_ms: Option<f64>,
    /// Last token − intended arrival.
    pub e2e_ms: Option<f64>,
}

impl From<&SloLimits> for Slo {
    fn from(given: &SloLimits) -> Self {
        let ms = |limit: &Option<TimeSpan>| limit.as_ref().map(TimeSpan::ms);
        Self { ttft_ms: ms(&given.ttft), tpot_ms: ms(&given.tpot), e2e_ms: ms(&given.e2e) }
    }
}

impl Slo {
    pub const fn is_empty(&self) -> bool {
        self.ttft_ms.is_none() && self.tpot_ms.is_none() && self.e2e_ms.is_none()
    }
}
