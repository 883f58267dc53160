//! Folds events and results into a run state and shows it: terminal, JSON, HTML.
//!
//! [`RunState`] is the one fold; [`LiveDisplay`] shows it during the run, [`summary()`] at the end, [`html`] as a report.
//! [`decisions`], [`graph`] and [`launch`] show what a plan would do, [`tables`] what exists, [`bulk`] a list of runs;
//! [`compare`] compares results with each other, [`explain`] explains what a number means. This module reads and writes no file and decides nothing about a run:
//! its callers pass in the data to show. Everything except [`LiveDisplay`] returns text or bytes.

pub mod bulk;
pub mod compare;
pub mod decisions;
pub mod doctor;
pub mod explain;
pub mod graph;
pub mod html;
pub mod launch;
pub mod mlperf;
mod percent;
mod run_state;
#[cfg(test)]
mod sample;
pub mod server;
pub mod styler;
mod summary;
pub mod tables;
mod terminal;
mod tool_metrics;

pub use decisions::{DecisionKind, DecisionRow};
pub use launch::{LaunchRow, Starts};
pub use percent::signed_percent;
pub use run_state::{Finished, Notice, RunState, TaskPhase, TaskProgress, TaskState};
pub use server::{ModelDetails, ModelRow, ServerMetricRow, ServerStatus, TensorFacts};
pub use styler::{Styler, duration};
pub use summary::{RunPaths, summary};
pub use tables::{ManifestRow, ValueRow};
pub use terminal::{LiveDisplay, LiveOptions};
pub use tool_metrics::tool_metrics;
