//! `bench.slo:` — what each request is to keep.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::time_span::TimeSpan;

/// Limits for a single request; each from the intended arrival.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct SloLimits {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttft: Option<TimeSpan>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tpot: Option<TimeSpan>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub e2e: Option<TimeSpan>,
}
