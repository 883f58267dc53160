//! The lock file: what is typed of it, for a run and by itself, and what that means.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum, ValueHint};

use super::argument_error::{ArgumentError, reject_duplicates};
use super::common_args::HOW;
use super::help;
use super::key_value_arg::KeyValueArg;

/// The default path.
pub const LOCK_FILE: &str = "regatta.lock";

/// Of `run`.
#[derive(Debug, Args)]
pub(super) struct LockingArgs {
    /// Enforce the lock file: report differences before anything starts, and use the locked branches, tags and revisions.
    /// `exact` also enforces the bytes of builds and Regatta's version; `warn` reports all of it and continues.
    #[arg(help_heading = HOW, long, value_name = "HOW", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "inputs")]
    pub locked: Option<LockedWord>,
    /// The lock file: written after success, or enforced with --locked [default: regatta.lock].
    #[arg(help_heading = HOW, long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "no_lock")]
    pub lock: Option<PathBuf>,
    /// Write no lock file.
    #[arg(help_heading = HOW, long, conflicts_with = "locked")]
    pub no_lock: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum LockedWord {
    Inputs,
    Exact,
    Warn,
}

#[derive(Debug, Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(super) struct LockArgs {
    #[command(subcommand)]
    pub command: LockCommand,
}

#[derive(Debug, Subcommand)]
pub(super) enum LockCommand {
    /// Print what is in a lock file.
    #[command(after_long_help = help::LOCK)]
    Show(LockShowArgs),
    /// Compare two lock files, or one with what a run would be now: exit code 1 when they differ.
    #[command(after_long_help = help::LOCK_DIFF)]
    Diff(LockDiffArgs),
}

#[derive(Debug, Args)]
pub(super) struct LockShowArgs {
    /// The file; `FILE#RUN` is one of its runs.
    #[arg(value_name = "FILE", default_value = LOCK_FILE, value_hint = ValueHint::FilePath)]
    pub file: String,
    /// Print JSON.
    #[arg(help_heading = HOW, long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub(super) struct LockDiffArgs {
    /// A lock file; `FILE#RUN` is one of its runs.
    #[arg(value_name = "A", value_hint = ValueHint::FilePath)]
    pub a: String,
    /// Another, or a manifest: then what a run of it would be now.
    #[arg(value_name = "B", value_hint = ValueHint::FilePath)]
    pub b: String,
    /// Parameters of the manifest.
    #[arg(value_name = "KEY=VALUE")]
    pub settings: Vec<KeyValueArg>,
    /// Print JSON.
    #[arg(help_heading = HOW, long)]
    pub json: bool,
}

/// What a run does with the lock file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LockMode {
    /// Nothing.
    Ignore,
    /// Written when all has ended well. One that the user named has to be.
    Write { file: PathBuf, is_named: bool },
    /// Held to.
    Verify(PathBuf, LockStrictness),
}

/// How strictly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockStrictness {
    Warn,
    Inputs,
    Exact,
}

/// What to do with lock files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LockRequest {
    /// `file` may name one run behind a `#`.
    Show { file: String, json: bool },
    /// `b`: a lock file, or a manifest with `settings`.
    Diff { a: String, b: String, settings: Vec<KeyValueArg>, json: bool },
}

pub(super) fn locking(args: LockingArgs) -> LockMode {
    let is_named = args.lock.is_some();
    let file = args.lock.unwrap_or_else(|| LOCK_FILE.into());
    match args.locked {
        _ if args.no_lock => LockMode::Ignore,
        None => LockMode::Write { file, is_named },
        Some(LockedWord::Inputs) => LockMode::Verify(file, LockStrictness::Inputs),
        Some(LockedWord::Exact) => LockMode::Verify(file, LockStrictness::Exact),
        Some(LockedWord::Warn) => LockMode::Verify(file, LockStrictness::Warn),
    }
}

pub(super) fn into_request(args: LockArgs) -> Result<LockRequest, ArgumentError> {
    Ok(match args.command {
        LockCommand::Show(LockShowArgs { file, json }) => LockRequest::Show { file, json },
        LockCommand::Diff(LockDiffArgs { a, b, settings, json }) => {
            reject_duplicates(&settings)?;
            LockRequest::Diff { a, b, settings, json }
        }
    })
}
