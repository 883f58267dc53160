//! The core beside a second implementation: `tests/golden/simulator/reference.py`, which keeps every block in a list.

use pretty_assertions::assert_eq;
use serde::Deserialize;

use super::tests::{GOLDEN, one_by_one};
use super::*;
use crate::timing::Coefficients;

#[derive(Deserialize)]
struct Case {
    policy: String,
    chunked: bool,
    max_batch_size: usize,
    max_num_tokens: u64,
    tokens_per_block: u64,
    blocks: u64,
    requests: Vec<(u64, u64, u64)>,
    /// End, context tokens, requests that generate, requests that lost their blocks.
    steps: Vec<(u64, u64, usize, usize)>,
}

#[test]
fn every_step_is_that_of_a_second_implementation() {
    let text = include_str!("../../../tests/golden/simulator/steps.jsonl");
    let (mut cases, mut pauses) = (0, 0);
    for line in text.lines() {
        let case: Case = serde_json::from_str(line).unwrap();
        let limits = EngineLimits {
            policy: match case.policy.as_str() {
                "guaranteed_no_evict" => SchedulerPolicy::GuaranteedNoEvict,
                "max_utilization" => SchedulerPolicy::MaxUtilization,
                "static_batch" => SchedulerPolicy::StaticBatch,
                _ => SchedulerPolicy::Vllm,
            },
            chunking: if case.chunked { Chunking::FirstComeFirstServed } else { Chunking::Off },
            max_batch_size: case.max_batch_size,
            max_num_tokens: case.max_num_tokens,
            blocks: case.blocks,
            tokens_per_block: case.tokens_per_block,
            timing: Coefficients { context: 2e-4, prompt: 5e-5, ..GOLDEN },
            speculation: None,
            lora: None,
            kv_bytes_per_token: 131_072.0,
        };
        let load: Vec<_> = case.requests.iter().map(|&(at, isl, osl)| SimulatedRequest::new(at, isl, osl)).collect();
        let (run, steps) = one_by_one(&limits, &load);
        let steps: Vec<_> =
            steps.iter().map(|step| (step.end, step.context_tokens, step.generating, step.paused)).collect();
        assert_eq!(steps, case.steps, "case {cases}, {}", case.policy);
        assert_eq!(simulate(&limits, &load).unwrap(), run);
        cases += 1;
        pauses += steps.iter().map(|step| step.3).sum::<usize>();
    }
    assert!(cases >= 48 && pauses > 50, "{cases} cases, {pauses} pauses");
}
