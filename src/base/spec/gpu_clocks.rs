//! The clocks that a stage's GPUs are locked to while it runs.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What `nvidia-smi --lock-gpu-clocks` sets.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct GpuClocks {
    /// The least and the greatest clock of the graphics processor, MHz: `[1410, 1410]`. `nvidia-smi -q -d SUPPORTED_CLOCKS` lists those
    /// that a GPU has.
    pub graphics: [u32; 2],
    /// Call `sudo -n nvidia-smi`: only root may lock clocks.
    #[serde(default)]
    pub sudo: bool,
}

/// `1410,1410`, as `nvidia-smi -lgc` takes it.
impl fmt::Display for GpuClocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [least, greatest] = self.graphics;
        write!(f, "{least},{greatest}")
    }
}
