//! `regatta history` and `regatta tag`: measurements over time, and names for runs.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use base::event::RunTag;

#[derive(Debug, Args)]
pub(super) struct HistoryArgs {
    /// Metrics with their statistic: `ttft_p99`, `tpot_mean`, `output_tokens`. Searches show the rate that they found.
    #[arg(value_name = "KEY", default_values = ["output_tokens", "ttft_p99"])]
    pub metrics: Vec<String>,
    /// Only benchmarks of manifests with this text in their name.
    #[arg(short, long, value_name = "TEXT")]
    pub manifest: Option<String>,
    /// Only tasks with this text in their name.
    #[arg(short, long, value_name = "TEXT")]
    pub task: Option<String>,
    /// At most this many measurements of each benchmark, the newest ones.
    #[arg(short = 'n', long, value_name = "N", default_value_t = 100)]
    pub most: usize,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// Write an HTML page with a chart of each metric.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub html: Option<PathBuf>,
    /// Also the measurements that other machines left in this shared store: a folder, s3://bucket/prefix, gs://… or az://….
    #[arg(long, value_name = "URL")]
    pub store: Option<String>,
}

#[derive(Debug, Args)]
pub(super) struct TagArgs {
    /// The name: letters, digits, `.`, `_` and `-`.
    #[arg(value_name = "NAME")]
    pub tag: RunTag,
    /// The run [default: the last one].
    #[arg(value_name = "RUN", conflicts_with = "remove")]
    pub run: Option<String>,
    /// Take the tag away.
    #[arg(long)]
    pub remove: bool,
}

/// Which measurements to show over time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryRequest {
    pub metrics: Vec<String>,
    /// In the name of the manifest.
    pub manifest: Option<String>,
    /// In the name of the task.
    pub task: Option<String>,
    /// Of each benchmark.
    pub most: usize,
    pub json: bool,
    pub html: Option<PathBuf>,
    /// The shared store with the measurements of other machines.
    pub store: Option<String>,
}

/// A tag to give or to take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TagRequest {
    /// `None`: the last run.
    Set {
        tag: RunTag,
        run: Option<String>,
    },
    Remove(RunTag),
}

impl From<HistoryArgs> for HistoryRequest {
    fn from(args: HistoryArgs) -> Self {
        let HistoryArgs { metrics, manifest, task, most, json, html, store } = args;
        Self { metrics, manifest, task, most, json, html, store }
    }
}

impl From<TagArgs> for TagRequest {
    fn from(args: TagArgs) -> Self {
        if args.remove { Self::Remove(args.tag) } else { Self::Set { tag: args.tag, run: args.run } }
    }
}
