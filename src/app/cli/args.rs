//! What was typed: clap's table of commands and options. It defines no meaning; `request` does.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::builder::{OsStringValueParser, TypedValueParser as _};
use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum, ValueHint};
use clap_complete::Shell;

use super::bench_args::BenchArgs;
use super::bulk::BulkArgs;
use super::common_args::{CHOICE, HOW, Subject, count_above_zero};
use super::force::ForceArgs;
use super::help;
use super::history::{HistoryArgs, TagArgs};
use super::key_value_arg::KeyValueArg;
use super::lock::LockArgs;
use super::mlperf::MlperfArgs;
use super::on_args::{OnHostArgs, OnNodeArgs};
use super::request::CheckFormat;
use super::result_args::{CompareArgs, ExplainArgs, ExportArgs, ImportArgs, ReportArgs};
use super::run_mode::RunModeArgs;
use super::serve::ServeArgs;
use super::simulation::{CalibrateArgs, WhatIfArgs};
use super::store::StoreCommandArgs;
use super::triton::TritonArgs;
use super::value_error::ArgumentValueError;

// Headings stand at each option: a heading for a whole group would also take in what follows the group.
const EVERYWHERE: &str = "Global options";

/// The state folder where neither `--home` nor `REGATTA_HOME` names one.
pub(super) const DEFAULT_HOME: &str = ".regatta";

/// Reproducible LLM-serving benchmarks from one YAML manifest: build, serve, benchmark, report.
#[derive(Debug, Parser)]
#[command(name = "regatta", version, max_term_width = 100, subcommand_required = true, arg_required_else_help = true)]
#[command(disable_help_subcommand = true, after_long_help = help::TOP)]
pub(super) struct CliArgs {
    #[command(flatten)]
    pub global: GlobalArgs,
    #[command(subcommand)]
    pub command: CliCommand,
}

#[derive(Debug, Args)]
pub(super) struct GlobalArgs {
    /// Where Regatta keeps its state: outputs, journal, logs, reports.
    #[arg(help_heading = EVERYWHERE, long, global = true, value_name = "DIR", env = "REGATTA_HOME", hide_env_values = true)]
    #[arg(default_value = DEFAULT_HOME, value_hint = ValueHint::DirPath)]
    // clap's own parser refuses an empty variable without naming it.
    #[arg(value_parser = OsStringValueParser::new().map(PathBuf::from))]
    pub home: PathBuf,
    /// When to use color; `auto` honors NO_COLOR.
    #[arg(help_heading = EVERYWHERE, long, global = true, value_name = "WHEN", default_value = "auto")]
    pub color: ColorWord,
    /// Print failures, notices and warnings only.
    #[arg(help_heading = EVERYWHERE, short, long, global = true, conflicts_with = "verbose")]
    pub quiet: bool,
    /// Print more: every cached task, commands, log lines.
    #[arg(help_heading = EVERYWHERE, short, long, global = true, action = ArgAction::Count)]
    pub verbose: u8,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum ColorWord {
    Auto,
    Always,
    Never,
}

#[derive(Debug, Subcommand)]
pub(super) enum CliCommand {
    /// Run a manifest; finished stages are cached.
    #[command(after_long_help = help::RUN)]
    Run(RunArgs),
    /// Start the servers of a manifest and keep them up: until Ctrl-C, or for one command.
    #[command(after_long_help = help::SERVE, override_usage = super::serve::USAGE)]
    Serve(ServeArgs),
    /// Run a list of runs one after the other, continuing after failures; print a table at the end.
    #[command(after_long_help = help::BULK)]
    Bulk(BulkArgs),
    /// Benchmark one server from the command line, without a manifest.
    #[command(after_long_help = help::BENCH)]
    Bench(Box<BenchArgs>),
    /// Show what would run, and why; start nothing.
    #[command(after_long_help = help::PLAN)]
    Plan(PlanArgs),
    /// Ask the simulator, in virtual time, what systems and settings would do: the highest rate within limits.
    #[command(after_long_help = help::WHAT_IF)]
    WhatIf(WhatIfArgs),
    /// Show and compare lock files: what was run, down to commits, images, weights and versions.
    #[command(after_long_help = help::LOCK)]
    Lock(LockArgs),
    /// Show what this machine has, what a manifest needs, and the command that fixes the difference.
    #[command(after_long_help = help::DOCTOR)]
    Doctor(DoctorArgs),
    /// Check manifests and report the errors of all their parts at once.
    #[command(after_long_help = help::CHECK)]
    Check(CheckArgs),
    /// Print a manifest with includes and parameters resolved, and the origin of each value.
    #[command(after_long_help = help::SHOW)]
    Show(ShowArgs),
    /// List the manifests that can be run by name.
    #[command(after_long_help = help::LIST)]
    List(JsonArgs),
    /// Print a JSON Schema, for editors and validators.
    #[command(after_long_help = help::SCHEMA)]
    Schema(SchemaArgs),
    /// Start a project folder with an example manifest.
    #[command(after_long_help = help::INIT)]
    Init(InitArgs),
    /// Show the state of the last run.
    #[command(after_long_help = help::STATUS)]
    Status(StatusArgs),
    /// Follow the run in progress from another terminal: `status --follow`.
    #[command(after_long_help = help::FOLLOW)]
    Top,
    /// List the runs of this project with their results, newest first.
    #[command(after_long_help = help::RUNS)]
    Runs(RunsArgs),
    /// Show metrics of this project's benchmarks over time, and where their level changes.
    #[command(after_long_help = help::HISTORY)]
    History(HistoryArgs),
    /// Name a run, so that other commands find it and `gc` keeps what it measured.
    #[command(after_long_help = help::TAG)]
    Tag(TagArgs),
    /// Print the log of a task.
    #[command(after_long_help = help::LOGS)]
    Logs(LogsArgs),
    /// Remove all state of this project (prints what would be removed; --yes removes it).
    #[command(after_long_help = help::CLEAN)]
    Clean(CleanArgs),
    /// Remove old outputs and runs (prints what would be removed; --yes removes it).
    #[command(after_long_help = help::GC)]
    Gc(GcArgs),
    /// Outputs that machines share: show, push, pull and remove them.
    #[command(after_long_help = help::STORE, alias = "cache")]
    Store(StoreCommandArgs),
    /// The built-in server: Triton's protocol, simulated time, no GPU.
    #[command(after_long_help = help::SIM)]
    Sim(SimArgs),
    /// Query a Triton server: readiness, models, metrics, single requests.
    #[command(after_long_help = help::TRITON)]
    Triton(TritonArgs),
    /// MLPerf submissions: show the state of one, compare two, check one before submitting.
    #[command(after_long_help = help::MLPERF)]
    Mlperf(MlperfArgs),
    /// Triton model repositories: check them, fill their templates, list the templates' parameters.
    #[command(after_long_help = help::REPOSITORY)]
    Repository(RepositoryArgs),
    /// Test the load generator against servers with known behavior: its error bounds and its maximum load on this machine.
    #[command(after_long_help = help::SELFTEST)]
    Selftest(SelftestArgs),
    /// Print the path of a run's HTML report, or its numbers next to another tool's.
    #[command(after_long_help = help::REPORT)]
    Report(ReportArgs),
    /// Compare results: values, differences with intervals, a judgement.
    #[command(after_long_help = help::COMPARE)]
    Compare(CompareArgs),
    /// Write a result in another tool's file format, with that tool's definitions.
    #[command(after_long_help = help::EXPORT)]
    Export(ExportArgs),
    /// Import another tool's results, command line or config.
    #[command(after_long_help = help::IMPORT)]
    Import(ImportArgs),
    /// Explain a metric or a key of a manifest: definitions here and in other tools; type, default and values.
    #[command(after_long_help = help::EXPLAIN)]
    Explain(ExplainArgs),
    /// Print a chapter of the manual, or the list of chapters. Needs no network.
    #[command(after_long_help = help::MANUAL)]
    Manual(ManualArgs),
    /// Print a completion script for a shell.
    #[command(after_long_help = help::COMPLETIONS)]
    Completions(CompletionsArgs),
    /// What `regatta` alone prints.
    #[command(name = "__welcome", hide = true)]
    Welcome,
    /// Ends a run's processes if the run is killed.
    #[command(name = "__watchdog", hide = true)]
    Watchdog(WatchdogArgs),
    /// Answers requests without doing any work, for a preflight.
    #[command(name = "__null-server", hide = true)]
    NullServer(NullServerArgs),
    /// The work of a job on a node of a cluster.
    #[command(name = "__job", hide = true)]
    OnNode(OnNodeArgs),
    /// The servers of a run on one of its hosts.
    #[command(name = "__host", hide = true)]
    OnHost(OnHostArgs),
    /// One LoadGen test, in a process of its own.
    #[command(name = "__loadgen-test", hide = true)]
    LoadgenTest(LoadgenTestArgs),
}

#[derive(Debug, Args)]
pub(super) struct SelectArgs {
    /// Stop after this stage: run it and its dependencies. Repeatable.
    #[arg(help_heading = CHOICE, long, value_name = "STAGE")]
    pub until: Vec<String>,
    /// Run this stage alone; its dependencies must be in the cache. Repeatable.
    #[arg(help_heading = CHOICE, long, value_name = "STAGE")]
    pub only: Vec<String>,
    #[command(flatten)]
    pub force: ForceArgs,
    /// Measure each benchmark N times, with seeds that count up: `bench.repeat` of all. Variants of one stage (`foreach`)
    /// take turns; each point of a sweep is measured N times.
    #[arg(help_heading = HOW, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeat: Option<u32>,
    /// Repeat the measurement under this number: a benchmark keeps one result for each number [default: 1].
    #[arg(help_heading = HOW, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub repeat_number: Option<u32>,
}

#[derive(Debug, Args)]
pub(super) struct RunArgs {
    #[command(flatten)]
    pub subject: Subject,
    #[command(flatten)]
    pub select: SelectArgs,
    /// Continue after failures, with the stages that do not need a failed one.
    #[arg(help_heading = HOW, short, long)]
    pub keep_going: bool,
    #[command(flatten)]
    pub mode: RunModeArgs,
}

#[derive(Debug, Args)]
pub(super) struct PlanArgs {
    #[command(flatten)]
    pub subject: Subject,
    #[command(flatten)]
    pub select: SelectArgs,
    /// The same as `rehearse=true`: MLPerf's rules with short durations, where the manifest has that parameter.
    #[arg(help_heading = HOW, long)]
    pub rehearse: bool,
    /// Print JSON.
    #[arg(long, conflicts_with = "graph", help_heading = HOW)]
    pub json: bool,
    /// Print the graph of tasks.
    #[arg(long, value_name = "FORMAT", help_heading = HOW)]
    pub graph: Option<GraphWord>,
    /// Print what each `serve` stage will start: every process, rank, port and GPU, and the command.
    #[arg(long, conflicts_with = "graph", help_heading = HOW)]
    pub launch: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum GraphWord {
    Dot,
    Mermaid,
}

#[derive(Debug, Args)]
pub(super) struct DoctorArgs {
    /// A manifest's name or a path to its file [default: none, facts only].
    #[arg(value_name = "MANIFEST", value_hint = ValueHint::FilePath)]
    pub manifest: Option<String>,
    /// Parameters of the manifest.
    #[arg(value_name = "KEY=VALUE")]
    pub settings: Vec<KeyValueArg>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub(super) struct CheckArgs {
    /// Names or paths; KEY=VALUE among them sets a parameter of each.
    #[arg(value_name = "MANIFEST", required = true, value_hint = ValueHint::FilePath)]
    pub manifests: Vec<String>,
    /// How to print what is wrong.
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub format: CheckFormat,
}

#[derive(Debug, Args)]
pub(super) struct ShowArgs {
    #[command(flatten)]
    pub subject: Subject,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub(super) struct JsonArgs {
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub(super) struct StatusArgs {
    /// Print it again every second until the run ends; every 10 s without a terminal.
    #[arg(short, long)]
    pub follow: bool,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub(super) struct RunsArgs {
    /// Only runs of manifests with this text in their name.
    #[arg(value_name = "MANIFEST")]
    pub manifest: Option<String>,
    /// Only runs that failed or were interrupted.
    #[arg(long)]
    pub failed: bool,
    /// At most N runs.
    #[arg(short = 'n', long, value_name = "N", default_value_t = 20)]
    pub most: usize,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// The measurements of all machines in this shared store, in place of the runs of this folder: a folder,
    /// s3://bucket/prefix, gs://… or az://….
    #[arg(long, value_name = "URL", conflicts_with = "failed")]
    pub store: Option<String>,
}

#[derive(Debug, Args)]
pub(super) struct SchemaArgs {
    /// Of what.
    #[arg(value_name = "OF", default_value = "manifest")]
    pub of: SchemaWord,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum SchemaWord {
    /// The manifest file.
    Manifest,
    /// The `result.json` a benchmark leaves.
    Result,
    /// The `sweep.json` of a benchmark at several levels.
    Sweep,
    /// The columns of `requests.parquet`.
    Requests,
}

#[derive(Debug, Args)]
pub(super) struct InitArgs {
    /// The folder; it is made if it is not there.
    #[arg(value_name = "DIR", default_value = ".", value_hint = ValueHint::DirPath)]
    pub folder: PathBuf,
    /// The shipped manifest to begin with: `regatta list` has the names.
    #[arg(long, value_name = "NAME", default_value = "quickstart", conflicts_with = "all")]
    pub example: String,
    /// All shipped manifests, templates and schemas.
    #[arg(long)]
    pub all: bool,
}

#[derive(Debug, Args)]
pub(super) struct LogsArgs {
    /// A stage or a task (`run_harness` or `run_harness/server`).
    #[arg(value_name = "STAGE")]
    pub stage: Option<String>,
    /// Keep printing as it grows.
    #[arg(short, long, requires = "stage")]
    pub follow: bool,
}

#[derive(Debug, Args)]
pub(super) struct CleanArgs {
    /// Remove it.
    #[arg(long)]
    pub yes: bool,
}

#[derive(Debug, Args)]
pub(super) struct GcArgs {
    /// Keep this many of the newest outputs of each task, and as many runs.
    #[arg(long, value_name = "N", default_value = "1", value_parser = count_above_zero)]
    pub keep: NonZeroUsize,
    /// Remove it.
    #[arg(long)]
    pub yes: bool,
}

#[derive(Debug, Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(super) struct SimArgs {
    #[command(subcommand)]
    pub command: SimCommand,
}

#[derive(Debug, Subcommand)]
pub(super) enum SimCommand {
    /// Serve a Triton model repository until interrupted.
    #[command(after_long_help = help::SIM)]
    Serve(SimServeArgs),
    /// Fit the simulator's step time to the step log of a real server, and print it as a preset.
    #[command(after_long_help = help::CALIBRATE)]
    Calibrate(CalibrateArgs),
}

#[derive(Debug, Args)]
pub(super) struct SimServeArgs {
    /// The Triton model repository.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub repository: PathBuf,
    /// The gRPC port; 0 takes a free one and prints it.
    #[arg(long, value_name = "N", default_value_t = 8001)]
    pub grpc_port: u16,
    /// The HTTP port, for Triton's generate extension and OpenAI's interface; 0 takes a free one.
    #[arg(long, value_name = "N")]
    pub http_port: Option<u16>,
    /// The port of Prometheus metrics; 0 takes a free one.
    #[arg(long, value_name = "N")]
    pub metrics_port: Option<u16>,
    /// The address to listen on; 0.0.0.0 is every one of this machine.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    pub grpc_address: std::net::IpAddr,
    /// How many times faster than real time.
    #[arg(long, value_name = "X", default_value_t = 1.0, value_parser = above_zero)]
    pub speed: f64,
    /// How long loading the model takes, before `--speed`.
    #[arg(long, value_name = "SECONDS", default_value_t = 0.0, value_parser = zero_or_more)]
    pub load_seconds: f64,
    /// Misbehave on purpose, for tests: `NAME` or `NAME=VALUE`. Repeatable.
    #[arg(long, value_name = "NAME[=VALUE]", hide = true)]
    pub fault: Vec<String>,
}

#[derive(Debug, Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(super) struct RepositoryArgs {
    #[command(subcommand)]
    pub command: RepositoryCommand,
}

#[derive(Debug, Subcommand)]
pub(super) enum RepositoryCommand {
    /// Report all errors of a repository, with file, line and hint.
    #[command(after_long_help = help::REPOSITORY)]
    Check(RepositoryCheckArgs),
    /// Fill a tree of config.pbtxt templates into a new folder, as fill_template.py would.
    #[command(after_long_help = help::REPOSITORY)]
    Fill(RepositoryFillArgs),
    /// List the parameters of the templates: kind, default, allowed values, meaning.
    #[command(after_long_help = help::REPOSITORY)]
    Parameters(JsonArgs),
}

#[derive(Debug, Args)]
pub(super) struct RepositoryCheckArgs {
    /// A model repository, or a folder of `triton_model_repo_<n>`.
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub folder: PathBuf,
    /// The engine, where it is not at the `gpt_model_path` that the config names.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub engine: Option<PathBuf>,
    /// GPUs of the machine that will serve it [default: unknown, any will do].
    #[arg(long, value_name = "N")]
    pub gpus: Option<u32>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub(super) struct RepositoryFillArgs {
    /// The tree, for example `all_models/inflight_batcher_llm`. It stays as it is.
    #[arg(value_name = "TEMPLATES", value_hint = ValueHint::DirPath)]
    pub templates: PathBuf,
    /// Values for every model that has the placeholder.
    #[arg(value_name = "KEY=VALUE")]
    pub settings: Vec<KeyValueArg>,
    /// The folder to write; it must be new or empty.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub out: PathBuf,
    /// More values, from YAML: `key: value`, or a model's name with keys and values below it.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub values: Option<PathBuf>,
    /// A value for one model. Repeatable.
    #[arg(long, num_args = 2, value_names = ["NAME", "KEY=VALUE"], action = ArgAction::Append)]
    pub model: Vec<String>,
    /// More values, in fill_template.py's format: `key:value,key:value`.
    #[arg(long, value_name = "TEXT")]
    pub substitutions: Option<String>,
    /// Let placeholders inside quotes stay: they reach the backend as they are.
    #[arg(long)]
    pub allow_unfilled: bool,
}

fn finite(text: &str) -> Result<f64, ArgumentValueError> {
    text.parse().ok().filter(|x: &f64| x.is_finite()).ok_or_else(|| ArgumentValueError::NotNumber(text.to_owned()))
}

fn above_zero(text: &str) -> Result<f64, ArgumentValueError> {
    finite(text).and_then(|x| if x > 0.0 { Ok(x) } else { Err(ArgumentValueError::NotAboveZero) })
}

fn zero_or_more(text: &str) -> Result<f64, ArgumentValueError> {
    finite(text).and_then(|x| if x >= 0.0 { Ok(x) } else { Err(ArgumentValueError::Negative) })
}

#[derive(Debug, Args)]
pub(super) struct SelftestArgs {
    /// Requests per second to measure at, separated by commas.
    #[arg(long, value_name = "RATES", value_delimiter = ',', default_value = "10,100,1000", value_parser = rate)]
    pub rates: Vec<f64>,
    /// Seconds of arrivals at each rate.
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub seconds: u64,
    /// JSON instead of tables.
    #[arg(long)]
    pub json: bool,
}

fn rate(text: &str) -> Result<f64, ArgumentValueError> {
    text.parse().ok().filter(|rate| (0.1..=100_000.0).contains(rate)).ok_or(ArgumentValueError::Rate)
}

#[derive(Debug, Args)]
pub(super) struct ManualArgs {
    /// A chapter's number or name, or a word of its title [default: list all].
    #[arg(value_name = "CHAPTER")]
    pub chapter: Option<String>,
}

#[derive(Debug, Args)]
pub(super) struct CompletionsArgs {
    /// Which shell.
    #[arg(value_name = "SHELL")]
    pub shell: Shell,
}

#[derive(Debug, Args)]
pub(super) struct WatchdogArgs {
    /// The run's folder.
    #[arg(value_name = "RUN")]
    pub run: PathBuf,
}

#[derive(Debug, Args)]
pub(super) struct NullServerArgs {
    /// To the first token, ms: `20,60` is evenly between the two.
    #[arg(value_name = "LOW,HIGH", value_parser = between)]
    pub first_ms: (f64, f64),
    /// From token to token.
    #[arg(value_name = "LOW,HIGH", value_parser = between)]
    pub gap_ms: (f64, f64),
}

fn between(text: &str) -> Result<(f64, f64), ArgumentValueError> {
    let (low, high) = text.split_once(',').ok_or(ArgumentValueError::NotPair)?;
    Ok((zero_or_more(low)?, zero_or_more(high)?))
}

#[derive(Debug, Args)]
pub(super) struct LoadgenTestArgs {
    /// What to do.
    #[arg(value_name = "FILE")]
    pub orders: PathBuf,
}
