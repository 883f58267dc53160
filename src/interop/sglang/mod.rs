//! SGLang: its server and its `bench_serving`, whose result files have the format of vLLM's.

pub(super) mod bench_one_batch_server;
pub(super) mod bench_serving;
pub(super) mod command_line;
