//! vLLM: its server, its benchmarks, and the result files of `vllm bench serve`, whose format SGLang's `bench_serving` shares.

mod bench_serve;
mod dataset;
mod in_process;
mod ramp;
mod server;
mod sweep;
mod sweep_params;

pub(super) mod command_line;
pub(super) mod export;
pub(super) mod import;
pub(super) mod printed;
