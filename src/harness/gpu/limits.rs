//! The limits of a GPU, configured or built in.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What is set of a GPU, or built into it. What it did not report is absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GpuLimits {
    /// The power limit in force, W.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power_limit_w: Option<f64>,
    /// The highest clock of the streaming multiprocessors, MHz.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_sm_clock_mhz: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_memory_clock_mhz: Option<f64>,
}
