//! How a run happens: the options that `run` and `serve` share, and what they mean.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};

use super::argument_error::{ArgumentError, reject_duplicates};
use super::common_args::{HOW, count_above_zero, host_and_port};
use super::gpu_selection::gpus;
use super::key_value_arg::KeyValueArg;
use super::lock::{LockingArgs, locking};
use super::on_args::{OnArgs, OnWord};
use super::request::{EventFormat, RunRequest, RunTarget, Select};
use super::store::StoreArgs;

#[derive(Debug, Args)]
pub(super) struct RunModeArgs {
    /// The same as `rehearse=true`: MLPerf's rules with short durations, where the manifest has that parameter.
    #[arg(help_heading = HOW, long)]
    pub rehearse: bool,
    /// Maximum number of tasks that run at the same time [default: the number of cores].
    #[arg(help_heading = HOW, short, long, value_name = "N", value_parser = count_above_zero)]
    pub jobs: Option<NonZeroUsize>,
    /// Print every event as one line of JSON on stdout, and nothing else there.
    #[arg(help_heading = HOW, long, value_name = "FORMAT")]
    pub events: Option<EventsWord>,
    /// Write the tasks as JUnit XML at the end: a case for each, a failure for each that failed.
    #[arg(help_heading = HOW, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub junit: Option<PathBuf>,
    /// Answer `GET /metrics` here while the run is under way, in OpenMetrics' format. With port 0, a free one.
    #[arg(help_heading = HOW, long, value_name = "HOST:PORT", value_parser = host_and_port)]
    pub metrics_listen: Option<String>,
    /// GPUs this run may lease: a count (`0`: none), or ids with commas (`0,2`; `0,` is GPU 0 alone) [default: all].
    #[arg(help_heading = HOW, long, value_name = "N|LIST")]
    pub gpus: Option<String>,
    #[command(flatten)]
    pub locking: LockingArgs,
    #[command(flatten)]
    pub on: OnArgs,
    #[command(flatten)]
    pub store: StoreArgs,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum EventsWord {
    Jsonl,
}

impl RunModeArgs {
    /// The run of these stages that is meant.
    pub(super) fn into_request(
        self,
        manifest: String,
        settings: Vec<KeyValueArg>,
        select: Select,
    ) -> Result<RunRequest, ArgumentError> {
        reject_duplicates(&settings)?;
        Ok(RunRequest {
            manifest,
            settings,
            select,
            jobs: self.jobs,
            keep_going: false,
            events: match self.events {
                None => EventFormat::Terminal,
                Some(EventsWord::Jsonl) => EventFormat::JsonLines,
            },
            gpus: self.gpus.as_deref().map(gpus).transpose()?,
            locking: locking(self.locking),
            on: match self.on.on {
                None => RunTarget::Local,
                Some(OnWord::Slurm) => RunTarget::Slurm(self.on.slurm),
            },
            store: self.store.into(),
            env: BTreeMap::new(),
            junit: self.junit,
            metrics_listen: self.metrics_listen,
        })
    }
}
