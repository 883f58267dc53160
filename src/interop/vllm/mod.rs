//! vLLM: its server, its benchmarks, and the result files of `vllm bench serve`, whose format SGLang's
//! `bench_serving` shares.

pub(super) mod bench_serve;
mod dataset;
pub(super) mod in_process;
pub(super) mod sweep;

pub(super) mod command_line;
pub(super) mod export;
pub(super) mod import;
pub(super) mod printed;
