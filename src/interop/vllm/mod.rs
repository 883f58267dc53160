//! `vllm bench serve`, and SGLang's `bench_serving`, which has the same format: result files.

pub(super) mod export;
pub(super) mod import;
