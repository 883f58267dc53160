//! The programs whose options are in `tools/*.toml`, for the tests that hold the files to the manifest and to their
//! functions.

use std::sync::LazyLock;

use crate::command_line::ToolTable;
use crate::{
    aiperf, command_server, curl, docker, genai_perf, git_clone, guidellm, llmb_run, perf_analyzer, sglang, slurm,
    tensorrt_llm, triton_backend, triton_cli, trtllm_bench, trtllm_serve, vllm,
};

/// Every table, in the order of the files.
pub(crate) fn tables() -> Vec<&'static ToolTable> {
    let tables: [&'static LazyLock<ToolTable>; 29] = [
        &aiperf::TABLE,
        &command_server::LLAMA_SERVER,
        &command_server::TEXT_GENERATION_LAUNCHER,
        &curl::TABLE,
        &docker::TABLE,
        &genai_perf::PROFILE,
        &git_clone::TABLE,
        &guidellm::BENCHMARK,
        &guidellm::RUN,
        &llmb_run::TABLE,
        &perf_analyzer::TABLE,
        &tensorrt_llm::PREPARE_DATASET,
        &sglang::TABLE,
        &sglang::bench_one_batch_server::TABLE,
        &sglang::bench_serving::TABLE,
        &slurm::TABLE,
        &triton_backend::core_model::TABLE,
        &triton_backend::end_to_end_test::TABLE,
        &triton_backend::grpc_clients::END_TO_END,
        &triton_backend::grpc_clients::INFLIGHT,
        &triton_backend::launch_triton_server::TABLE,
        &triton_backend::tritonserver::TABLE,
        &triton_cli::TABLE,
        &trtllm_bench::TABLE,
        &trtllm_serve::TABLE,
        &vllm::TABLE,
        &vllm::in_process::TABLE,
        &vllm::bench_serve::TABLE,
        &vllm::sweep::TABLE,
    ];
    tables.into_iter().map(|table| &**table).collect()
}
