//! Memory that ran out, and the number that was lowered because of it.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The owner of the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MemoryKind {
    Gpu,
    Host,
}

/// An attempt that ended because memory ran out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OutOfMemory {
    pub of: MemoryKind,
    /// What the number was that its retry rule lowers; `None` where there is no rule, or the stage has no such number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
}

/// A number that is lower than in the manifest, because memory ran out with more.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReducedSetting {
    /// `kv_cache_free_gpu_mem_fraction`
    #[serde(alias = "knob")]
    pub setting: String,
    /// As the manifest has it.
    pub from: f64,
    pub to: f64,
}

impl ReducedSetting {
    /// As a reason for what is done.
    pub fn because(&self) -> String {
        format!("{self}, because memory ran out")
    }
}

impl fmt::Display for ReducedSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} → {}", self.setting, self.from, self.to)
    }
}
