//! The programs whose command lines are translated, by the name that a line calls them by: a row each.

use std::sync::LazyLock;

use crate::command_line::{ToolTable, tool_table};
use crate::{
    aiperf, chat_benchmarks, command_server, curl, docker, genai_perf, git_clone_command, guidellm, inference_perf,
    llmb_run, perf_analyzer, sglang, slurm, tensorrt_llm, triton_backend, triton_cli, trtllm_bench, trtllm_serve, vllm,
};

/// A program with a table of options, or one of its commands.
pub(crate) struct Tool {
    /// As a line calls it.
    pub name: &'static str,
    pub table: &'static LazyLock<ToolTable>,
    /// Its table says all of its lines.
    is_whole: bool,
}

/// A program whose table says all of its lines: its file is all that there is of it.
const fn whole(name: &'static str, table: &'static LazyLock<ToolTable>) -> Tool {
    Tool { name, table, is_whole: true }
}

/// A program with a function in `translate::command`.
const fn part(name: &'static str, table: &'static LazyLock<ToolTable>) -> Tool {
    Tool { name, table, is_whole: false }
}

/// Every table.
pub(crate) static TOOLS: &[Tool] = &[
    part("genai-perf", &genai_perf::PROFILE),
    part("aiperf", &aiperf::TABLE),
    part("vllm", &vllm::TABLE),
    part("vllm", &vllm::bench_serve::IN_PROCESS_BENCHMARK),
    part("vllm", &vllm::bench_serve::TABLE),
    part("vllm", &vllm::sweep::TABLE),
    part("sglang.launch_server", &sglang::SERVER),
    part("sglang.bench_serving", &sglang::SERVING),
    part("sglang.bench_one_batch_server", &sglang::ONE_BATCH_SERVER),
    part("guidellm", &guidellm::BENCHMARK),
    part("guidellm", &guidellm::RUN),
    part("llama-server", &command_server::LLAMA_SERVER),
    part("text-generation-launcher", &command_server::TEXT_GENERATION_LAUNCHER),
    part("perf_analyzer", &perf_analyzer::TABLE),
    part("benchmark_core_model.py", &triton_backend::benchmarks::BENCHMARK_CORE_MODEL),
    part("launch_triton_server.py", &triton_backend::tritonserver::LAUNCH_SCRIPT),
    part("end_to_end_test.py", &triton_backend::benchmarks::END_TO_END_TEST),
    part("inflight_batcher_llm_client.py", &triton_backend::benchmarks::INFLIGHT),
    part("end_to_end_grpc_client.py", &triton_backend::benchmarks::END_TO_END),
    part("trtllm-bench", &trtllm_bench::TABLE),
    part("trtllm-serve", &trtllm_serve::TABLE),
    part("prepare_dataset.py", &tensorrt_llm::PREPARE_DATASET),
    part("tritonserver", &triton_backend::tritonserver::TABLE),
    part("llmb-run", &llmb_run::TABLE),
    part("triton", &triton_cli::TABLE),
    part("docker", &docker::TABLE),
    part("srun", &slurm::TABLE),
    part("curl", &curl::TABLE),
    part("git", &git_clone_command::TABLE),
    part("genai-bench", &chat_benchmarks::GENAI_BENCH),
    part("evalscope", &chat_benchmarks::EVALSCOPE),
    part("llama-benchy", &chat_benchmarks::LLAMA_BENCHY),
    part("inference-perf", &inference_perf::TABLE),
    whole("token_benchmark_ray.py", tool_table!(["llmperf"])),
];

/// The table of a program that is no more than it.
pub(crate) fn whole_table(name: &str) -> Option<&'static ToolTable> {
    TOOLS.iter().find(|tool| tool.is_whole && tool.name == name).map(|tool| &**tool.table)
}
