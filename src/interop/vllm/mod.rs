//! vLLM: its server and its benchmarks.

mod bench_serve;
mod dataset;
mod in_process;
mod ramp;
mod server;
mod sweep;
mod sweep_params;

pub(super) mod command_line;
