//! The scheduler's limits of an engine, from what it was built with and how it is served.

use super::core::{Chunking, EngineLimits, SchedulerPolicy};
use super::engine::{EngineSpec, RankFile, SimEngineError, design};
use super::timing::{Coefficients, Speculation};
use base::spec::SimScheduler;
use triton::EngineConfig;

/// How a model repository serves an engine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EngineServing {
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

impl Default for EngineServing {
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
pub fn served_limits(spec: &EngineSpec, serving: &EngineServing) -> Result<EngineLimits, SimEngineError> {
    let (config, rank) = design(spec)?;
    Ok(limits(&config, &rank, serving))
}

/// The limits of an engine as it is served.
pub(super) fn limits(config: &EngineConfig, rank: &RankFile, serving: &EngineServing) -> EngineLimits {
    let tokens_per_block = config.tokens_per_block();
    let mut blocks = rank.memory.blocks(rank.calibration.scheduler, serving.kv_fraction, tokens_per_block);
    if let Some(tokens) = serving.kv_tokens {
        blocks = blocks.min(tokens.div_ceil(u64::from(tokens_per_block)));
    }
    let build = &config.build_config;
    // Each stage of a pipeline works on a batch of its own.
    let stages = config.pretrained_config.mapping.pp_size.max(1);
    let limits = EngineLimits {
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
    };
    if limits.policy != SchedulerPolicy::Vllm {
        return limits;
    }
    with_graphs(limits, rank.calibration.cuda_graph_tokens, rank.max_cudagraph_capture_size)
}

/// The largest step with a CUDA graph as vLLM 0.24 has it (`_set_cudagraph_sizes` in `vllm/config/vllm.py`): what is
/// set, or twice the tokens of a step in which as many requests as may be generate, at most `usual`; and not more than
/// the tokens of a step.
pub(super) fn with_graphs(limits: EngineLimits, usual: u64, set: Option<u32>) -> EngineLimits {
    let drafts = limits.speculation.as_ref().map_or(0, |speculation| speculation.draft_len);
    let all_generate = limits.max_batch_size as u64 * (1 + drafts);
    let most = set.map_or_else(|| usual.min(2 * all_generate), u64::from).min(limits.max_num_tokens);
    let with = |timing: Coefficients| Coefficients { graph_tokens: most, ..timing };
    EngineLimits {
        timing: with(limits.timing),
        speculation: limits
            .speculation
            .map(|speculation| Speculation { drafter: speculation.drafter.map(with), ..speculation }),
        ..limits
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;
    use crate::engine::tests::spec;
    use crate::timing::{Drafter, Drafting};
    use base::spec::{AcceptanceRate, SimCalibration};

    fn graph_tokens(change: impl Fn(&mut EngineSpec)) -> u64 {
        let calibration =
            SimCalibration { scheduler: SimScheduler::Vllm, cuda_graph_tokens: 512, ..SimCalibration::default() };
        let mut spec = EngineSpec { calibration, ..spec() };
        change(&mut spec);
        served_limits(&spec, &EngineServing::default()).unwrap().timing.graph_tokens
    }

    #[test]
    fn the_largest_graph_is_the_one_that_vllm_captures() {
        let flag = |name: &'static str, value: u32| {
            move |spec: &mut EngineSpec| drop(spec.build_flags.insert(name.to_owned(), json!(value)))
        };
        // 64 requests.
        assert_eq!(graph_tokens(|_| {}), 128);
        assert_eq!(graph_tokens(flag("max_batch_size", 1024)), 512);
        assert_eq!(graph_tokens(|spec| spec.max_cudagraph_capture_size = Some(1024)), 1024);
        assert_eq!(graph_tokens(|spec| spec.max_cudagraph_capture_size = Some(0)), 0);
        // Never more than a step has.
        assert_eq!(graph_tokens(|spec| spec.max_cudagraph_capture_size = Some(100_000)), 8192);
        let drafts = Drafting { drafter: Drafter::NGram, draft_len: 2, acceptance: AcceptanceRate::Same(0.5) };
        assert_eq!(graph_tokens(|spec| spec.drafting = Some(drafts.clone())), 384);
        // TensorRT-LLM has other rules.
        assert_eq!(graph_tokens(|spec| spec.calibration.scheduler = SimScheduler::TensorrtLlm), 512);
    }
}
