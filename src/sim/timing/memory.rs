//! The memory of a GPU, and the KV cache that it has room for.

use serde::{Deserialize, Serialize};

use base::spec::SimScheduler;

/// The memory of one GPU. Bytes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct GpuMemory {
    pub gpu_bytes: f64,
    pub weight_bytes: f64,
    /// Activations and the runtime.
    pub workspace_bytes: f64,
    pub kv_bytes_per_token: f64,
}

impl GpuMemory {
    /// KV blocks for the setting `fraction`: TensorRT-LLM's `kv_cache_free_gpu_mem_fraction` is a share of what is free when the
    /// engine is loaded, vLLM's `gpu_memory_utilization` one of the whole GPU.
    pub fn blocks(&self, rule: SimScheduler, fraction: f64, tokens_per_block: u32) -> u64 {
        let room = match rule {
            SimScheduler::TensorrtLlm => fraction * (self.gpu_bytes - self.weight_bytes - self.workspace_bytes),
            SimScheduler::Vllm => fraction * self.gpu_bytes - self.weight_bytes - self.workspace_bytes,
        };
        (room / (self.kv_bytes_per_token * f64::from(tokens_per_block))).max(0.0) as u64
    }
}
