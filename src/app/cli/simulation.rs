//! The arguments of `regatta sim …` and `regatta what-if`.

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand, ValueHint};

use super::values::{KeyValueArg, above_zero, zero_or_more};
use base::spec::SimScheduler;

/// What to do with the simulator.
#[derive(Clone, Debug, PartialEq, Subcommand)]
pub enum SimRequest {
    /// Serve a simulated model, or a Triton model repository, until interrupted.
    Serve(SimulateRequest),
    /// Fit the simulator's step time to the step log of a real server, and print it as a preset.
    Calibrate(CalibrateRequest),
}

/// A simulated server.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct SimulateRequest {
    /// What to simulate, as `regatta bench` takes it: `sim:h100/llama2-70b` names its parts.
    #[arg(value_name = "TARGET", default_value = "sim:")]
    pub target: String,
    /// A Triton model repository, in place of TARGET.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, conflicts_with = "target")]
    pub repository: Option<PathBuf>,
    /// The gRPC port; 0 takes a free one and prints it.
    #[arg(long, value_name = "N", default_value_t = 8001)]
    pub grpc_port: u16,
    /// HTTP port of Triton's generate extension and OpenAI's interface; 0 takes a free one [default: 8000; with a
    /// repository none].
    #[arg(long, value_name = "N")]
    pub http_port: Option<u16>,
    /// The port of Prometheus metrics; 0 takes a free one.
    #[arg(long, value_name = "N")]
    pub metrics_port: Option<u16>,
    /// The address to listen on; 0.0.0.0 is all addresses.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    pub grpc_address: std::net::IpAddr,
    /// How many times faster than real time.
    #[arg(long, value_name = "X", default_value_t = 1.0, value_parser = above_zero)]
    pub speed: f64,
    /// How long loading the model takes, before `--speed`.
    #[arg(long, value_name = "SECONDS", default_value_t = 0.0, value_parser = zero_or_more)]
    pub load_seconds: f64,
    /// Misbehave on purpose, for tests: `NAME` or `NAME=VALUE`. Repeatable.
    #[arg(long = "fault", value_name = "NAME[=VALUE]", hide = true)]
    pub faults: Vec<String>,
}

/// `regatta sim calibrate`.
#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub struct CalibrateRequest {
    /// Step logs of one server: JSON lines with requests, tokens and time (`period_ms`) of each step.
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
    /// How the KV cache is stored [default: as the weights, 16 bits for fp8 and fp4].
    #[arg(long, value_name = "PRECISION", value_parser = ["fp16", "bf16", "fp8"])]
    pub kv_cache_dtype: Option<String>,
    /// GPUs that share every layer.
    #[arg(long = "tp", value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub tensor_parallelism: u32,
    /// The scheduler and KV cache rules that a simulated engine with this calibration follows.
    #[arg(long, value_name = "SOFTWARE", default_value = "vllm", value_parser = scheduler())]
    pub scheduler: SimScheduler,
    /// Largest step with a CUDA graph in vLLM, tokens; 0 is `--enforce-eager`. vLLM's default is twice
    /// `--max-num-seqs`, at most 512.
    #[arg(long, value_name = "N", default_value_t = 512)]
    pub max_cudagraph_capture_size: u32,
    /// Where the log comes from (recorded in the preset) [default: the names of the logs].
    #[arg(long, value_name = "TEXT")]
    pub source: Option<String>,
    /// Write the preset, a manifest to include, to this file.
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
    /// Print the fit, the errors and every step as JSON.
    #[arg(long)]
    pub json: bool,
}

fn scheduler() -> impl TypedValueParser<Value = SimScheduler> {
    PossibleValuesParser::new(["vllm", "tensorrt-llm"])
        .map(|name| if name == "vllm" { SimScheduler::Vllm } else { SimScheduler::TensorrtLlm })
}

/// `regatta what-if`.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct WhatIfRequest {
    /// A manifest with a simulated system.
    #[arg(value_name = "MANIFEST", value_hint = ValueHint::FilePath)]
    pub manifest: String,
    /// Parameters of the manifest, or values by path; all combinations of values separated by commas are tried.
    #[arg(value_name = "KEY=VALUE[,VALUE…]")]
    pub settings: Vec<KeyValueArg>,
    /// Limits on ttft, tpot and e2e: `ttft_p99<450ms tpot_p99<40ms` [default: those of the benchmark].
    #[arg(long, value_name = "LIMITS")]
    pub goal: Option<String>,
    /// Requests of each simulated load.
    #[arg(long, value_name = "N", default_value_t = 2000)]
    #[arg(value_parser = clap::value_parser!(u32).range(10..=10_000_000))]
    pub requests: u32,
    /// Prompt length in tokens, instead of the benchmark's: mean, or mean, standard deviation and maximum (lognormal).
    #[arg(long, value_name = "MEAN[,STDDEV[,MAX]]")]
    pub input_tokens: Option<String>,
    /// Answer length in tokens, instead of the benchmark's.
    #[arg(long, value_name = "MEAN[,STDDEV[,MAX]]")]
    pub output_tokens: Option<String>,
    /// Simulate these rates, requests per second, instead of searching for the highest one within limits.
    #[arg(long, value_name = "N", value_delimiter = ',', conflicts_with_all = ["goal", "html"])]
    pub rate: Vec<f64>,
    /// LoRA adapters that requests name in turn, in place of the benchmark's `lora_task_id`.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=100_000))]
    pub adapters: Option<u32>,
    /// Also write an HTML page: table, Pareto front, latencies over the rate. Not with --rate.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub html: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}
