//! What was typed of where a run happens.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::args::HOW;
use super::setting::GivenSetting;

#[derive(Debug, Args)]
pub(super) struct OnArgs {
    /// Run all of it in one allocation of this batch system, and follow it; the same command again goes on with it.
    #[arg(help_heading = HOW, long, value_name = "SYSTEM")]
    pub on: Option<OnWord>,
    /// What to ask Slurm for, as `host.slurm` has it: `partition=gpu`, `nodes=2`, `time=2h`. `SBATCH_*` holds too. Repeatable.
    #[arg(help_heading = HOW, long, value_name = "KEY=VALUE", requires = "on")]
    pub slurm: Vec<GivenSetting>,
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
