//! What was typed of where a run happens.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::common_args::HOW;
use super::key_value_arg::KeyValueArg;

#[derive(Debug, Args)]
pub(super) struct OnArgs {
    /// Run all of it in one allocation of this batch system, and follow it; repeat the command to continue it.
    #[arg(help_heading = HOW, long, value_name = "SYSTEM")]
    pub on: Option<OnWord>,
    /// Slurm settings, with the keys of `host.slurm`: `partition=gpu`, `nodes=2`, `time=2h`. `SBATCH_*` variables apply too. Repeatable.
    #[arg(help_heading = HOW, long, value_name = "KEY=VALUE", requires = "on")]
    pub slurm: Vec<KeyValueArg>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum OnWord {
    Slurm,
}

/// Of the hidden command that does a job's work on its node.
#[derive(Debug, Args)]
pub(super) struct OnNodeArgs {
    /// Its folder.
    #[arg(value_name = "FOLDER")]
    pub folder: PathBuf,
}

/// Of the hidden command that guards a run's servers on one of its hosts.
#[derive(Debug, Args)]
pub(super) struct OnHostArgs {
    /// It has its environment.
    #[arg(long)]
    pub awake: bool,
}
