//! The scheduler's limits of an engine, from what it was built with and how it is served.

use super::core::{Chunking, EngineLimits, SchedulerPolicy};
use super::engine::{EngineSpec, RankFile, SimEngineError, design};
use crate::spec::SimScheduler;
use crate::triton::EngineConfig;

/// How a model repository serves an engine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TwinServing {
    /// Of a TensorRT-LLM; vLLM has its own.
    pub policy: SchedulerPolicy,
    pub chunking: Chunking,
    /// `kv_cache_free_gpu_mem_fraction`, or vLLM's `gpu_memory_utilization`.
    pub kv_fraction: f64,
    /// The most tokens that the KV cache may hold.
    pub kv_tokens: Option<u64>,
    /// Where the server sets other ones than the engine was built for.
    pub max_batch_size: Option<u32>,
    pub max_num_tokens: Option<u32>,
}

impl Default for TwinServing {
    fn default() -> Self {
        Self {
            policy: SchedulerPolicy::GuaranteedNoEvict,
            chunking: Chunking::Off,
            kv_fraction: 0.9,
            kv_tokens: None,
            max_batch_size: None,
            max_num_tokens: None,
        }
    }
}

/// The limits of one copy of an engine that is not written anywhere.
pub fn twin(spec: &EngineSpec, serving: &TwinServing) -> Result<EngineLimits, SimEngineError> {
    let (config, rank) = design(spec)?;
    Ok(limits(&config, &rank, serving))
}

/// The limits of an engine as it is served.
pub(super) fn limits(config: &EngineConfig, rank: &RankFile, serving: &TwinServing) -> EngineLimits {
    let tokens_per_block = config.tokens_per_block();
    let mut blocks = rank.memory.blocks(rank.calibration.scheduler, serving.kv_fraction, tokens_per_block);
    if let Some(tokens) = serving.kv_tokens {
        blocks = blocks.min(tokens.div_ceil(u64::from(tokens_per_block)));
    }
    let build = &config.build_config;
    // Each stage of a pipeline works on a batch of its own.
    let stages = config.pretrained_config.mapping.pp_size.max(1);
    EngineLimits {
        policy: match rank.calibration.scheduler {
            SimScheduler::Vllm => SchedulerPolicy::Vllm,
            SimScheduler::TensorrtLlm => serving.policy,
        },
        chunking: serving.chunking,
        max_batch_size: (serving.max_batch_size.unwrap_or(build.max_batch_size).max(1) * stages) as usize,
        max_num_tokens: u64::from(serving.max_num_tokens.unwrap_or(build.max_num_tokens) * stages),
        blocks,
        tokens_per_block: u64::from(tokens_per_block),
        kv_bytes_per_token: rank.memory.kv_bytes_per_token,
        timing: rank.timing,
        speculation: rank.speculation.clone(),
        lora: rank.lora,
    }
}
