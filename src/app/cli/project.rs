//! The arguments of commands about the project, its runs and this machine, and of the program's hidden commands.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum, ValueHint};
use clap_complete::Shell;

use super::values::{
    ArgumentError, KeyValueArg, Subject, between, count_above_zero, invalid_value, rate, read_as, reject_duplicates,
};
use base::diag::ErrorText;

/// What this machine has and, with a manifest, what that needs.
#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub struct DoctorRequest {
    /// A manifest [default: none, facts only].
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
    /// The format of errors.
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub format: CheckFormat,
}

/// Manifests to check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckRequest {
    /// At least one.
    pub manifests: Vec<String>,
    /// For each of them.
    pub settings: Vec<KeyValueArg>,
    pub format: CheckFormat,
}

/// How the errors of manifests are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum CheckFormat {
    /// For people, with the lines of the file.
    #[default]
    Text,
    /// Every manifest and every problem with its place.
    Json,
    /// Annotations of a workflow on GitHub.
    Github,
}

impl CheckRequest {
    fn from_args(args: CheckArgs) -> Result<Self, ArgumentError> {
        let (mut manifests, mut settings) = (Vec::new(), Vec::new());
        for argument in args.manifests {
            match argument.parse() {
                Ok(setting) if Path::new(&argument).extension().is_none_or(|extension| extension != "yaml") => {
                    settings.push(setting);
                }
                _ => manifests.push(argument),
            }
        }
        reject_duplicates(&settings)?;
        if manifests.is_empty() {
            return invalid_value(ErrorText::new("no manifest is named").hint("regatta check MANIFEST KEY=VALUE"));
        }
        Ok(Self { manifests, settings, format: args.format })
    }
}

read_as!(CheckRequest: CheckArgs);

/// A manifest whose values are printed.
#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub struct ShowRequest {
    #[command(flatten)]
    pub subject: Subject,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// A command whose only option is the form of its output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Args)]
pub struct ListRequest {
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// Which schema to print.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Args)]
pub struct SchemaArgs {
    /// What to describe.
    #[arg(value_name = "OF", default_value = "manifest")]
    pub schema: SchemaRequest,
}

/// What a schema describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SchemaRequest {
    /// The manifest file.
    Manifest,
    /// The `result.json` a benchmark leaves.
    Result,
    /// The `sweep.json` of a benchmark at several levels.
    Sweep,
}

/// A project to begin.
#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub struct InitRequest {
    /// The folder; created if missing.
    #[arg(value_name = "DIR", default_value = ".", value_hint = ValueHint::DirPath)]
    pub folder: PathBuf,
    /// The shipped manifest to begin with: `regatta list` has the names.
    #[arg(long, value_name = "NAME", default_value = "quickstart", conflicts_with = "all")]
    pub example: String,
    /// All shipped manifests, templates and schemas.
    #[arg(long)]
    pub all: bool,
}

/// How to show the last run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Args)]
pub struct StatusRequest {
    /// Refresh every second until the run ends (every 10 s without a terminal).
    #[arg(short, long)]
    pub follow: bool,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// Which runs to list.
#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub struct RunsRequest {
    /// Only runs of manifests with this text in their name.
    #[arg(value_name = "MANIFEST")]
    pub manifest: Option<String>,
    /// Only runs that failed or were interrupted.
    #[arg(long)]
    pub failed: bool,
    /// At most N runs.
    #[arg(short = 'n', long, value_name = "N", default_value_t = 20)]
    pub most: usize,
    /// Print JSON, with the numbers of each result and each point of a sweep as fields.
    #[arg(long)]
    pub json: bool,
    /// Print CSV: a line for each result and each point of a sweep, with its numbers.
    #[arg(long, conflicts_with = "json")]
    pub csv: bool,
}

/// The log to print; without a stage, the list of logs.
#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub struct LogsRequest {
    /// A stage or a task (`run_harness` or `run_harness/server`).
    #[arg(value_name = "STAGE")]
    pub stage: Option<String>,
    /// Keep printing new lines.
    #[arg(short, long, requires = "stage")]
    pub follow: bool,
}

/// Whether to remove the state of the project, or to print what would be removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Args)]
pub struct CleanArgs {
    /// Remove it.
    #[arg(long)]
    pub yes: bool,
}

/// What to keep of outputs and runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Args)]
pub struct GcRequest {
    /// Keep this many of the newest outputs of each task, and as many runs.
    #[arg(long, value_name = "N", default_value = "1", value_parser = count_above_zero)]
    pub keep: NonZeroUsize,
    /// Remove it.
    #[arg(long)]
    pub yes: bool,
}

/// The load generator against known servers.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct SelftestRequest {
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

/// A page by name, or a search; with neither, the list.
#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub struct ManualArgs {
    /// A page's name, or a word of its title [default: list all].
    pub page: Option<String>,
    /// List the sections that have all these words.
    #[arg(long, value_name = "WORDS", num_args = 1.., conflicts_with = "page")]
    pub search: Vec<String>,
}

/// The shell of a completion script.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Args)]
pub struct CompletionsArgs {
    /// Which shell.
    #[arg(value_name = "SHELL")]
    pub shell: Shell,
}

/// The hidden watcher over one run.
#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub struct WatchdogArgs {
    /// The run's folder.
    #[arg(value_name = "RUN")]
    pub run: PathBuf,
}

/// The hidden server of a preflight; ms to the first token and from token to token, each evenly between two times.
#[derive(Clone, Copy, Debug, PartialEq, Args)]
pub struct NullServerArgs {
    /// To the first token, ms: `20,60` is evenly between the two.
    #[arg(value_name = "LOW,HIGH", value_parser = between)]
    pub first_ms: (f64, f64),
    /// From token to token.
    #[arg(value_name = "LOW,HIGH", value_parser = between)]
    pub gap_ms: (f64, f64),
}

/// Of the hidden command that does a job's work on its node.
#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub struct OnNodeArgs {
    /// Its folder.
    #[arg(value_name = "FOLDER")]
    pub folder: PathBuf,
}

/// Of the hidden command that guards a run's servers on one of its hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Args)]
pub struct OnHostArgs {
    /// It has its environment.
    #[arg(long)]
    pub awake: bool,
}

/// The hidden child process of one LoadGen test; the file with its orders.
#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub struct LoadgenTestArgs {
    /// What to do.
    #[arg(value_name = "FILE")]
    pub orders: PathBuf,
}
