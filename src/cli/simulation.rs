//! `regatta sim calibrate`: its arguments.

use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};

use super::request::{Calibrate, CalibratedScheduler};

#[derive(Debug, Args)]
pub(super) struct CalibrateArgs {
    /// Step logs of one server: JSON lines with the requests and tokens of each step, and its time (`period_ms`).
    #[arg(value_name = "LOG", required = true, value_hint = ValueHint::FilePath)]
    pub logs: Vec<PathBuf>,
    /// The model that was served: a name in `manifests/models`, or a YAML file with `vars: { model: … }`.
    #[arg(long, value_name = "MODEL")]
    pub model: String,
    /// The GPU: a name in `manifests/gpus`, or a YAML file with `vars: { gpu: … }`.
    #[arg(long, value_name = "GPU")]
    pub system: String,
    /// How the weights are stored.
    #[arg(long, value_name = "PRECISION", default_value = "bf16", value_parser = ["fp16", "bf16", "fp8", "fp4"])]
    pub precision: String,
    /// How the KV cache is stored; default: as the weights, 16 bits for fp8 and fp4.
    #[arg(long, value_name = "PRECISION", value_parser = ["fp16", "bf16", "fp8"])]
    pub kv_cache_dtype: Option<String>,
    /// GPUs that share every layer.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub tp: u32,
    /// Whose scheduler and KV cache rules a simulated engine with this calibration follows.
    #[arg(long, value_name = "SOFTWARE", value_enum, default_value_t = SchedulerWord::Vllm)]
    pub scheduler: SchedulerWord,
    /// What the log is of; part of the preset. Default: the names of the logs.
    #[arg(long, value_name = "TEXT")]
    pub source: Option<String>,
    /// Write the preset, a manifest to include, to this file.
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
    /// Print the fit, the errors and every step as JSON.
    #[arg(long)]
    pub json: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum SchedulerWord {
    Vllm,
    TensorrtLlm,
}

pub(super) fn calibrate(args: CalibrateArgs) -> Calibrate {
    Calibrate {
        logs: args.logs,
        model: args.model,
        system: args.system,
        precision: args.precision,
        kv_cache_dtype: args.kv_cache_dtype,
        tensor_parallelism: args.tp,
        scheduler: match args.scheduler {
            SchedulerWord::Vllm => CalibratedScheduler::Vllm,
            SchedulerWord::TensorrtLlm => CalibratedScheduler::TensorrtLlm,
        },
        source: args.source,
        output: args.output,
        json: args.json,
    }
}
