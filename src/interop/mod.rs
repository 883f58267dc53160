//! Other tools of this field, one folder for each: its command line, its result files in and out.
//!
//! What tools share is beside them: `command_line` ([`read_line()`], [`read_script()`]: reads arguments and translates them),
//! `results` ([`import()`], [`export()`]: recognizes and writes files) and `metrics` (what each tool's metrics mean;
//! [`compat()`] computes them from the same requests).

mod aiperf;
mod benchmark_report;
mod command_line;
mod command_server;
mod curl;
mod docker;
mod genai_perf;
mod git_clone;
mod guidellm;
mod llmb_run;
mod loadgen;
mod metrics;
mod mlflow;
mod nvidia_harness;
mod nvidia_smi;
mod perf_analyzer;
mod prepare_dataset;
mod published_ports;
mod results;
mod sglang;
mod slurm;
mod tensorrt_llm;
mod tool_configs;
mod triton_backend;
mod triton_cli;
mod trtllm_bench;
mod trtllm_serve;
mod typed_server;
mod vllm;

pub use command_line::{
    GpuScale, ProblemKind, RunLine, RunSetting, ScriptBench, Sweep, SystemNeed, TranslatedBench, TranslatedScript,
    Translation, TranslationError, TranslationKind, TranslationProblem, UnknownNumber, UnknownValue,
    UntranslatedOption, origin, read_line, read_script,
};
pub use loadgen::LOG_FILES as LOADGEN_LOG_FILES;
pub use metrics::{
    COPY_REPEATS, ChunkFilter, ChunkKind, CompatRow, DeviationRule, ImportOrigin, ImportedCounts, ImportedMetric,
    ImportedResult, ImportedTokens, ImportedVerdict, MeasuredResult, MeasuredRun, MetricConcept, MetricMeaning,
    MetricStats, MissingMetric, PercentileRule, RequestTrace, SortedValues, StatedMetric, Tool, TracedChunk,
    TracedChunks, UnknownTool, compat, vector,
};
pub use nvidia_harness::{gpu_name, read_config};
pub use results::{
    COLUMNS as REQUEST_COLUMNS, Column, ExportError, ExportFile, ExportFormat, Exported, ImportError, ImportSource,
    Imported, ImportedSweep, LocatedRun, export, import, import_runs, import_sweep, requests_schema,
};
pub use tool_configs::tool_of_config;
