//! The programs whose command lines are translated, by the name that a line calls them by: a row each.

use std::sync::LazyLock;

use crate::command_line::{ToolTable, tool_table};
use crate::{
    aiperf, chat_benchmarks, command_server, curl, docker, downloads, genai_perf, guidellm, inference_perf, llmb_run,
    perf_analyzer, sglang, slurm, tensorrt_llm, triton_backend, triton_cli, trtllm_bench, trtllm_serve, vllm,
};

/// The name that a line calls a program by, and the table of its options, or one for each of its commands.
type Tool = (&'static str, &'static [&'static LazyLock<ToolTable>]);

/// Programs whose lines mean more than their tables say: each has a function in `translate::command`.
static TOOLS: &[Tool] = &[
    ("genai-perf", &[&genai_perf::PROFILE]),
    ("aiperf", &[&aiperf::TABLE]),
    ("vllm", &[&vllm::TABLE, &vllm::bench_serve::IN_PROCESS_BENCHMARK, &vllm::bench_serve::TABLE, &vllm::sweep::TABLE]),
    ("sglang.launch_server", &[&sglang::SERVER]),
    ("sglang.bench_serving", &[&sglang::SERVING]),
    ("sglang.bench_one_batch_server", &[&sglang::ONE_BATCH_SERVER]),
    ("guidellm", &[&guidellm::BENCHMARK, &guidellm::RUN]),
    ("llama-server", &[&command_server::LLAMA_SERVER]),
    ("text-generation-launcher", &[&command_server::TEXT_GENERATION_LAUNCHER]),
    ("perf_analyzer", &[&perf_analyzer::TABLE]),
    ("benchmark_core_model.py", &[&triton_backend::benchmarks::BENCHMARK_CORE_MODEL]),
    ("launch_triton_server.py", &[&triton_backend::tritonserver::LAUNCH_SCRIPT]),
    ("end_to_end_test.py", &[&triton_backend::benchmarks::END_TO_END_TEST]),
    ("inflight_batcher_llm_client.py", &[&triton_backend::benchmarks::INFLIGHT]),
    ("end_to_end_grpc_client.py", &[&triton_backend::benchmarks::END_TO_END]),
    ("trtllm-bench", &[&trtllm_bench::TABLE]),
    ("trtllm-serve", &[&trtllm_serve::TABLE]),
    ("prepare_dataset.py", &[&tensorrt_llm::PREPARE_DATASET]),
    ("tritonserver", &[&triton_backend::tritonserver::TABLE]),
    ("llmb-run", &[&llmb_run::TABLE]),
    ("triton", &[&triton_cli::TABLE]),
    ("docker", &[&docker::TABLE]),
    ("srun", &[&slurm::TABLE]),
    ("curl", &[&curl::TABLE]),
    ("git", &[&downloads::TABLE]),
    ("genai-bench", &[&chat_benchmarks::GENAI_BENCH]),
    ("evalscope", &[&chat_benchmarks::EVALSCOPE]),
    ("llama-benchy", &[&chat_benchmarks::LLAMA_BENCHY]),
    ("inference-perf", &[&inference_perf::TABLE]),
];

/// Programs whose tables say all of their lines: there is nothing else of them.
static WHOLE: &[Tool] = &[("token_benchmark_ray.py", &[tool_table!(["llmperf"])])];

/// All of them.
pub(crate) fn tools() -> impl Iterator<Item = &'static Tool> + Clone {
    TOOLS.iter().chain(WHOLE)
}

/// The table of a program that consists of it alone.
pub(crate) fn whole_table(called: &str) -> Option<&'static ToolTable> {
    WHOLE.iter().find(|(name, _)| *name == called).map(|(_, tables)| &**tables[0])
}
