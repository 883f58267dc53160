//! Other tools of this field: their command lines, one folder for each, their result files, and what their metrics
//! mean.
//!
//! The options of each program are a file, `tools/NAME.toml`; `command_line::tool_table` reads it and does what its
//! rows say; `tools` has a row for each of them. What tools share is in `command_line` (arguments, and what each of
//! them means here). `translate` knows all tools ([`read_line()`], [`read_scripts()`]: from a program's name to its
//! tool). `formats` has the table of result files, recognizes them and writes them ([`import_runs()`], [`export()`]).
//! `metrics` has what each tool's metrics mean; [`compat()`] computes them from the same requests.
//!
//! A part uses only those to the left of it (above, on the lines before):
//!
//! ```text
//!  command_line  metrics ← command_server ← trtllm_serve  perf_analyzer ← aiperf  chat_benchmarks
//!  curl  docker  downloads  genai_perf  guidellm  inference_perf  llmb_run  nvidia_harness
//!  nvidia_smi  sglang  slurm  tensorrt_llm  triton_backend  trtllm_bench  vllm ← triton_cli ← formats
//!  translate
//! ```

mod aiperf;
mod chat_benchmarks;
mod command_line;
mod command_server;
mod curl;
mod docker;
mod downloads;
mod formats;
mod genai_perf;
mod guidellm;
mod inference_perf;
mod llmb_run;
mod metrics;
mod nvidia_harness;
mod nvidia_smi;
mod perf_analyzer;
mod sglang;
mod slurm;
mod tensorrt_llm;
mod tools;
mod translate;
mod triton_backend;
mod triton_cli;
mod trtllm_bench;
mod trtllm_serve;
mod vllm;

pub use command_line::{
    GpuScale, ProblemKind, RunLine, RunSetting, ScriptBench, Sweep, SystemNeed, TranslatedBench, TranslatedScript,
    Translation, TranslationError, TranslationKind, TranslationProblem, TranslationResult, UnknownValue,
    UntranslatedOption, origin,
};
pub use docker::compose_script;
pub use formats::{
    ExportFile, ExportFormat, Exported, ImportError, ImportIdentity, ImportSource, Imported, ImportedSweep, LocatedRun,
    LocatedRuns, OtherFile, export, import_runs, import_sweep, loadgen_run, locate_runs,
};
pub use llmb_run::recipe_manifests;
pub use metrics::{
    COPY_REPEATS, ChunkFilter, ChunkKind, CompatRow, DeviationRule, ImportOrigin, ImportedCounts, ImportedResult,
    ImportedTokens, ImportedVerdict, MeasuredResult, MeasuredRun, MetricConcept, MetricMeaning, MissingMetric,
    PercentileRule, RequestTrace, SortedValues, Tool, TracedChunk, TracedChunks, compat, vector,
};
pub use nvidia_harness::{FLAG_VARIABLES, gpu_name, read_config};
pub use translate::{read_line, read_scripts};
