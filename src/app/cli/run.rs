//! The arguments of commands that run stages: `run`, `serve`, `bulk` and `plan`.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{Args, ValueEnum, ValueHint};

use super::store::{LockingArgs, StoreSelection};
use super::values::{
    ArgumentError, CHOICE, GpuSelection, HOW, KeyValueArg, Subject, count_above_zero, host_and_port, invalid_value,
    read_as, rehearsal, reject_duplicates,
};

/// A manifest to run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunRequest {
    pub subject: Subject,
    pub select: Select,
    pub keep_going: bool,
    pub mode: RunMode,
    /// In the current allocation: stages that request their own run in it.
    pub in_place: bool,
    /// Environment variables that parameters see before those of this process.
    pub env: BTreeMap<String, String>,
}

/// How a run is reported while it is under way, other than for a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum EventFormat {
    // One JSON object per line on stdout.
    #[value(name = "jsonl")]
    JsonLines,
}

/// Which stages; names are not checked here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Select {
    pub until: Vec<String>,
    pub only: Vec<String>,
    pub force: Force,
    /// How often each benchmark is measured, in place of its `bench.repeat`.
    pub repeat: Option<u32>,
    /// The number that its benchmarks are measured under; 0 is the first, too.
    pub repeat_number: u32,
}

/// Which stages run although they are cached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Force {
    #[default]
    Nothing,
    Stages(Vec<String>),
    /// These are not taken from the cache; a measurement that was interrupted goes on.
    Uncached(Vec<String>),
    All,
}

#[derive(Debug, Args)]
pub(super) struct RunArgs {
    #[command(flatten)]
    pub subject: Subject,
    #[command(flatten)]
    pub select: SelectArgs,
    /// Continue after a failure with the stages that do not depend on the failed one.
    #[arg(help_heading = HOW, short, long)]
    pub keep_going: bool,
    #[command(flatten)]
    pub mode: RunMode,
}

impl RunRequest {
    fn from_args(args: RunArgs) -> Result<Self, ArgumentError> {
        let RunArgs { mut subject, select, keep_going, mode } = args;
        let select = select.select(&mut subject, mode.rehearse)?;
        Ok(Self { subject, select, keep_going, mode, ..Self::default() })
    }
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
    /// Measure each benchmark N times with consecutive seeds: `bench.repeat` of all. Variants of one stage (`foreach`)
    /// take turns.
    #[arg(help_heading = HOW, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeat: Option<u32>,
    /// Repeat the measurement under this number: a benchmark keeps one result for each number [default: 1].
    #[arg(help_heading = HOW, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub repeat_number: Option<u32>,
}

impl SelectArgs {
    /// `subject` gets the parameter of `--rehearse`, and what was read as a value of `--force`.
    fn select(self, subject: &mut Subject, rehearse: bool) -> Result<Select, ArgumentError> {
        let force = self.force.force(subject, rehearse)?;
        let repeat_number = self.repeat_number.unwrap_or(1);
        Ok(Select { until: self.until, only: self.only, force, repeat: self.repeat, repeat_number })
    }
}

/// What a bare `--force` stands for. No stage can be called so.
const ALL: &str = "*";

#[derive(Debug, Args)]
pub(super) struct ForceArgs {
    /// Run this stage even if it is cached; without a STAGE, all of them. Repeatable.
    #[arg(help_heading = CHOICE, long, value_name = "STAGE", num_args = 0..=1, default_missing_value = ALL)]
    pub force: Vec<String>,
}

impl ForceArgs {
    /// In `run m --force system=h200` the last argument is a setting, not a stage: no stage has a `=` in its name.
    fn force(self, subject: &mut Subject, rehearse: bool) -> Result<Force, ArgumentError> {
        subject.settings.extend(rehearsal(rehearse));
        let mut stages = Vec::new();
        let mut is_all = false;
        for argument in self.force {
            if argument == ALL {
                is_all = true;
            } else if argument.contains('=') {
                is_all = true;
                subject.settings.push(setting(&argument)?);
            } else {
                stages.push(argument);
            }
        }
        reject_duplicates(&subject.settings)?;
        Ok(match (is_all, stages.is_empty()) {
            (true, _) => Force::All,
            (false, true) => Force::Nothing,
            (false, false) => Force::Stages(stages),
        })
    }
}

/// A parameter among other arguments.
fn setting(argument: &str) -> Result<KeyValueArg, ArgumentError> {
    argument.parse().map_err(|error| (ErrorKind::InvalidValue, format!("{error}")))
}

/// How and where to run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Args)]
pub struct RunMode {
    /// The same as `rehearse=true`: MLPerf's rules with short durations, where the manifest has that parameter.
    #[arg(help_heading = HOW, long)]
    pub rehearse: bool,
    /// Maximum number of tasks that run at the same time [default: the number of cores].
    #[arg(help_heading = HOW, short, long, value_name = "N", value_parser = count_above_zero)]
    pub jobs: Option<NonZeroUsize>,
    /// Print every event as one line of JSON on stdout, and nothing else there.
    #[arg(help_heading = HOW, long, value_name = "FORMAT")]
    pub events: Option<EventFormat>,
    /// Write the tasks as JUnit XML at the end: one case each.
    #[arg(help_heading = HOW, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub junit: Option<PathBuf>,
    /// Serve OpenMetrics at `/metrics` here during the run; port 0 takes a free one.
    #[arg(help_heading = HOW, long, value_name = "HOST:PORT", value_parser = host_and_port)]
    pub metrics_listen: Option<String>,
    /// GPUs to lease: a count (`0`: none), or ids with commas (`0,2`; `0,` is GPU 0 alone) [default: all].
    #[arg(help_heading = HOW, long, value_name = "N|LIST")]
    pub gpus: Option<GpuSelection>,
    #[command(flatten)]
    pub locking: LockingArgs,
    /// Run everything in one allocation of this batch system, and follow it; repeat the command to continue.
    #[arg(help_heading = HOW, long, value_name = "SYSTEM")]
    pub on: Option<BatchSystem>,
    /// Slurm settings, with the keys of `host.slurm`: `partition=gpu`, `nodes=2`, `time=2h`. `SBATCH_*` variables apply
    /// too. Repeatable.
    #[arg(help_heading = HOW, long, value_name = "KEY=VALUE", requires = "on")]
    pub slurm: Vec<KeyValueArg>,
    #[command(flatten)]
    pub store: StoreSelection,
}

/// What allocates nodes for a whole run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum BatchSystem {
    Slurm,
}

/// A plan to show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanRequest {
    pub subject: Subject,
    pub select: Select,
    pub json: bool,
    /// What `serve` stages will start, in place of the tasks.
    pub launch: bool,
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
    #[arg(long, help_heading = HOW)]
    pub json: bool,
    /// Print what each `serve` stage will start: every process, rank, port and GPU, and the command.
    #[arg(long, help_heading = HOW)]
    pub launch: bool,
}

impl PlanRequest {
    fn from_args(args: PlanArgs) -> Result<Self, ArgumentError> {
        let PlanArgs { mut subject, select, rehearse, json, launch } = args;
        let select = select.select(&mut subject, rehearse)?;
        Ok(Self { subject, select, json, launch })
    }
}

/// Servers to keep up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServeRequest {
    /// What starts them. Which stages are needed is known with the plan.
    pub run: RunRequest,
    /// A `serve` stage or one of its tasks; `None`: the only one.
    pub stage: Option<String>,
    /// Runs while they are up; empty: they stay up until a stop request.
    pub command: Vec<OsString>,
    /// Print the endpoints as JSON.
    pub json: bool,
}

pub(super) const SERVE_USAGE: &str = "regatta serve [OPTIONS] <MANIFEST> [STAGE] [KEY=VALUE]... [-- COMMAND...]";

#[derive(Debug, Args)]
pub(super) struct ServeArgs {
    /// A manifest's name (`regatta list`) or a path to its file.
    #[arg(value_name = "MANIFEST", value_hint = ValueHint::FilePath)]
    pub manifest: String,
    /// The `serve` stage, or one task of it [default: the only one]; then parameters of the manifest.
    #[arg(value_name = "STAGE|KEY=VALUE")]
    pub arguments: Vec<String>,
    /// Run this command with the endpoints in its environment (`REGATTA_ENDPOINTS`, `REGATTA_GRPC`, `REGATTA_HTTP`,
    /// `REGATTA_METRICS`, `REGATTA_MODEL`), then stop the servers and exit with its code.
    #[arg(value_name = "COMMAND", last = true, value_hint = ValueHint::CommandWithArguments)]
    pub command: Vec<OsString>,
    #[command(flatten)]
    pub force: ForceArgs,
    /// Print the endpoints as one line of JSON in place of the table.
    #[arg(help_heading = HOW, long, conflicts_with = "events")]
    pub json: bool,
    #[command(flatten)]
    pub mode: RunMode,
}

impl ServeRequest {
    fn from_args(args: ServeArgs) -> Result<Self, ArgumentError> {
        let (assignments, stages): (Vec<_>, Vec<_>) =
            args.arguments.into_iter().partition(|argument| argument.contains('='));
        let stage = match stages.as_slice() {
            [] => None,
            [stage] => Some(stage.clone()),
            [first, second, ..] => {
                return invalid_value(format!(
                    "`{first}` and `{second}`: one STAGE is served; parameters are KEY=VALUE"
                ));
            }
        };
        let settings = assignments.iter().map(|argument| setting(argument)).collect::<Result<_, _>>()?;
        let mut subject = Subject { manifest: args.manifest, settings };
        if args.mode.events.is_some() && !args.command.is_empty() {
            return Err((
                ErrorKind::ArgumentConflict,
                "--events jsonl cannot be used with a COMMAND: both write to stdout".to_owned(),
            ));
        }
        let force = args.force.force(&mut subject, args.mode.rehearse)?;
        let select = Select { force, repeat_number: 1, ..Select::default() };
        let run = RunRequest { subject, select, mode: args.mode, ..RunRequest::default() };
        Ok(Self { run, stage, command: args.command, json: args.json })
    }
}

/// A list of runs.
#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub struct BulkRequest {
    /// `runs:`, each with the name of its manifest as `run`, and its `params`; or a file of llmb-run.
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
    /// Parameters of all its runs; they override the file's.
    #[arg(value_name = "KEY=VALUE")]
    pub settings: Vec<KeyValueArg>,
    /// Print the commands without running them.
    #[arg(long, help_heading = HOW)]
    pub dry_run: bool,
    /// For files of llmb-run: `gb200` and a scale of 1 are `system=gb200-x1` [default: `gpu_type` of a
    /// cluster_config.yaml here].
    #[arg(long, value_name = "NAME", env = "GPU_TYPE", hide_env_values = true, help_heading = HOW)]
    pub gpu_type: Option<String>,
    /// Maximum number of tasks that run at the same time [default: the number of cores].
    #[arg(help_heading = HOW, short, long, value_name = "N", value_parser = count_above_zero)]
    pub jobs: Option<NonZeroUsize>,
    /// GPUs to lease: a count (`0`: none), or ids with commas (`0,2`; `0,` is GPU 0 alone) [default: all].
    #[arg(help_heading = HOW, long, value_name = "N|LIST")]
    pub gpus: Option<GpuSelection>,
    #[command(flatten)]
    pub store: StoreSelection,
    #[command(flatten)]
    pub locking: LockingArgs,
}

read_as!(RunRequest: RunArgs, ServeRequest: ServeArgs, PlanRequest: PlanArgs);
