//! `regatta bulk`: what is typed, and what it means.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::argument_error::{ArgumentError, reject_duplicates};
use super::common_args::{HOW, count_above_zero};
use super::gpu_selection::gpus;
use super::key_value_arg::KeyValueArg;
use super::lock::{LockingArgs, locking};
use super::request::BulkRequest;
use super::store::StoreArgs;

#[derive(Debug, Args)]
pub(super) struct BulkArgs {
    /// `runs:`, each with the arguments of `regatta run`, or as a map; or a file of llmb-run: YAML, or its older text form.
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
    /// Parameters of all its runs; they override the file's.
    #[arg(value_name = "KEY=VALUE")]
    pub settings: Vec<KeyValueArg>,
    /// Print the commands, and run none.
    #[arg(long, help_heading = HOW)]
    pub dry_run: bool,
    /// For files of llmb-run: `gb200` and a scale of 1 are `system=gb200-x1` [default: `gpu_type` of a cluster_config.yaml here].
    #[arg(long, value_name = "NAME", env = "GPU_TYPE", hide_env_values = true, help_heading = HOW)]
    pub gpu_type: Option<String>,
    /// How many tasks of a run may run at once [default: the number of cores].
    #[arg(help_heading = HOW, short, long, value_name = "N", value_parser = count_above_zero)]
    pub jobs: Option<NonZeroUsize>,
    /// GPUs that the runs may lease: a count (`0`: none), or ids with commas (`0,2`; `0,` is GPU 0 alone) [default: all].
    #[arg(help_heading = HOW, long, value_name = "N|LIST")]
    pub gpus: Option<String>,
    #[command(flatten)]
    pub store: StoreArgs,
    #[command(flatten)]
    pub locking: LockingArgs,
}

pub(super) fn into_request(args: BulkArgs) -> Result<BulkRequest, ArgumentError> {
    reject_duplicates(&args.settings)?;
    Ok(BulkRequest {
        file: args.file,
        settings: args.settings,
        dry_run: args.dry_run,
        gpu_type: args.gpu_type,
        jobs: args.jobs,
        gpus: args.gpus.as_deref().map(gpus).transpose()?,
        store: args.store.into(),
        locking: locking(args.locking),
    })
}
