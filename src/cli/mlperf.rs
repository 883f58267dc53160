//! `regatta mlperf …`: what was typed, and what it means.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};

use super::help;
use super::setting::{GivenSetting, rehearsal};

const HOW: &str = "Settings";

#[derive(Debug, Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(super) struct MlperfArgs {
    #[command(subcommand)]
    pub command: MlperfCommand,
}

#[derive(Debug, Subcommand)]
pub(super) enum MlperfCommand {
    /// Show the state of a submission: every result with its runs, and the command for the next step.
    #[command(after_long_help = help::MLPERF)]
    Status(MlperfStatusArgs),
    /// Compare two submissions or two runs: values, and settings that differ.
    #[command(after_long_help = help::MLPERF)]
    Diff(DiffArgs),
    /// Check a submission folder: whether MLCommons would accept it, and what a reviewer may object to. Exit code 1 when it
    /// would not be accepted.
    #[command(after_long_help = help::MLPERF)]
    Check(MlperfCheckArgs),
    /// Search the highest target_qps that is VALID by LoadGen's rules: `bench` stages with `search` and `loadgen`. The same as
    /// `run` until these stages, with `search=true` where the manifest has that parameter.
    #[command(after_long_help = help::MLPERF)]
    Search(SearchArgs),
}

#[derive(Debug, Args)]
pub(super) struct SearchArgs {
    /// A manifest's name (`regatta list`) or a path to its file.
    #[arg(value_name = "MANIFEST", value_hint = ValueHint::FilePath)]
    pub manifest: String,
    /// Parameters of the manifest.
    #[arg(value_name = "KEY=VALUE")]
    pub settings: Vec<GivenSetting>,
    /// The same as `rehearse=true`: MLPerf's rules with short durations, where the manifest has that parameter.
    #[arg(help_heading = HOW, long)]
    pub rehearse: bool,
    /// Print the cost, and run nothing.
    #[arg(help_heading = HOW, long)]
    pub cost: bool,
}

#[derive(Debug, Args)]
pub(super) struct MlperfStatusArgs {
    /// A manifest's name or a path to its file; else that of the last run.
    #[arg(value_name = "MANIFEST", value_hint = ValueHint::FilePath)]
    pub manifest: Option<String>,
    /// Parameters of the manifest.
    #[arg(value_name = "KEY=VALUE")]
    pub settings: Vec<GivenSetting>,
    /// Print JSON.
    #[arg(help_heading = HOW, long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub(super) struct DiffArgs {
    /// A submission folder (with closed/ or open/ in it), or the output of a run with LoadGen.
    #[arg(value_name = "A", value_hint = ValueHint::DirPath)]
    pub a: PathBuf,
    /// The submission or run to compare with.
    #[arg(value_name = "B", value_hint = ValueHint::DirPath)]
    pub b: PathBuf,
    /// Print JSON.
    #[arg(help_heading = HOW, long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub(super) struct MlperfCheckArgs {
    /// The folder with closed/ or open/ in it.
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub folder: PathBuf,
    /// The round it is for [default: as its files show].
    #[arg(long, value_name = "ROUND")]
    pub round: Option<String>,
    /// Print everything that a reviewer may object to, instead of counts.
    #[arg(help_heading = HOW, long)]
    pub review: bool,
    /// Print JSON.
    #[arg(help_heading = HOW, long)]
    pub json: bool,
}

/// What to do about a submission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MlperfAction {
    Status { manifest: Option<String>, settings: Vec<GivenSetting>, json: bool },
    Diff { a: PathBuf, b: PathBuf, json: bool },
    Check { folder: PathBuf, round: Option<String>, review: bool, json: bool },
    Search { manifest: String, settings: Vec<GivenSetting>, cost: bool },
}

pub(super) fn into_action(args: MlperfArgs) -> MlperfAction {
    match args.command {
        MlperfCommand::Status(MlperfStatusArgs { manifest, settings, json }) => {
            MlperfAction::Status { manifest, settings, json }
        }
        MlperfCommand::Diff(DiffArgs { a, b, json }) => MlperfAction::Diff { a, b, json },
        MlperfCommand::Check(MlperfCheckArgs { folder, round, review, json }) => {
            MlperfAction::Check { folder, round, review, json }
        }
        MlperfCommand::Search(SearchArgs { manifest, mut settings, rehearse, cost }) => {
            settings.extend(rehearsal(rehearse));
            MlperfAction::Search { manifest, settings, cost }
        }
    }
}
