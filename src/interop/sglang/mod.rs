//! SGLang: its server and its `bench_serving`, whose result files have the format of vLLM's.

mod bench_one_batch_server;
mod bench_serving;
mod server;

pub(super) mod command_line;
