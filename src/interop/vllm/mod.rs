//! vLLM: its server and its benchmarks.

pub(super) mod bench_serve;
mod dataset;
pub(super) mod in_process;
pub(super) mod sweep;

pub(super) mod command_line;
