//! `engine.lora_config` — LoRA adapters of a simulated engine.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// LoRA adapters of a simulated engine, by the names that TensorRT-LLM and vLLM share. All adapters have the rank, on all linear layers (of a mixture of experts: those of attention).
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LoraConfig {
    /// The rank of the adapters.
    #[schemars(range(min = 1, max = 1024))]
    pub max_lora_rank: u32,
    /// Different adapters in a step, and in GPU memory; requests of others wait for one of them to have no request.
    #[schemars(range(min = 1, max = 1024))]
    pub max_loras: u32,
    /// From host memory, where adapters wait, to each GPU, GB/s. [default: 50, PCIe 5 of 16 lanes]
    #[serde(default = "host_link")]
    #[schemars(range(min = 0.1, max = 1000))]
    pub host_link_gbs: f64,
}

const fn host_link() -> f64 {
    50.0
}
