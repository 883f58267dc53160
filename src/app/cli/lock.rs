//! The arguments about the lock file: of `regatta lock`, and the options of a run.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum, ValueHint};

use super::help;
use super::values::{HOW, KeyValueArg};

/// The default path.
pub const LOCK_FILE: &str = "regatta.lock";

/// What a run does with the lock file, as given.
#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub struct LockingArgs {
    /// Enforce the lock file: report differences before anything starts, and use the locked branches, tags and
    /// revisions. `exact` also enforces the bytes of builds and Regatta's version; `warn` reports all of it and
    /// continues.
    #[arg(help_heading = HOW, long, value_name = "HOW", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "inputs")]
    pub locked: Option<LockStrictness>,
    /// The lock file: written after success, or enforced with --locked [default: regatta.lock].
    #[arg(help_heading = HOW, long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "no_lock")]
    pub lock: Option<PathBuf>,
    /// Do not write a lock file.
    #[arg(help_heading = HOW, long, conflicts_with = "locked")]
    pub no_lock: bool,
}

/// How strictly a lock file is enforced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LockStrictness {
    // The requests, and what they name: commits, images, weights, versions.
    Inputs,
    // Bytes of outputs and this program's version, too.
    Exact,
    // Nothing; everything is reported.
    Warn,
}

/// What to do with lock files.
#[derive(Clone, Debug, PartialEq, Eq, Subcommand)]
pub enum LockRequest {
    /// Print what is in a lock file.
    #[command(after_long_help = help::LOCK)]
    Show {
        /// The file; `FILE#RUN` is one of its runs.
        #[arg(value_name = "FILE", default_value = LOCK_FILE, value_hint = ValueHint::FilePath)]
        file: String,
        /// Print JSON.
        #[arg(help_heading = HOW, long)]
        json: bool,
    },
    /// Compare two lock files, or one with what a run would be now: exit code 1 when they differ.
    #[command(after_long_help = help::LOCK_DIFF)]
    Diff {
        /// A lock file; `FILE#RUN` is one of its runs.
        #[arg(value_name = "A", value_hint = ValueHint::FilePath)]
        a: String,
        /// Another, or a manifest: then what a run of it would be now.
        #[arg(value_name = "B", value_hint = ValueHint::FilePath)]
        b: String,
        /// Parameters of the manifest.
        #[arg(value_name = "KEY=VALUE")]
        settings: Vec<KeyValueArg>,
        /// Print JSON.
        #[arg(help_heading = HOW, long)]
        json: bool,
    },
}

/// What a run does with the lock file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum LockMode {
    /// Nothing.
    #[default]
    Ignore,
    /// Written when all has ended well. One that the user named has to be.
    Write { file: PathBuf, is_named: bool },
    /// Held to.
    Verify(PathBuf, LockStrictness),
}

impl LockingArgs {
    /// What the options mean together.
    pub fn mode(&self) -> LockMode {
        let file = self.lock.clone().unwrap_or_else(|| LOCK_FILE.into());
        match self.locked {
            _ if self.no_lock => LockMode::Ignore,
            None => LockMode::Write { file, is_named: self.lock.is_some() },
            Some(strictness) => LockMode::Verify(file, strictness),
        }
    }
}
