//! Folds events and results into a story and tells it: terminal, JSON, HTML.
//!
//! [`RunState`] is the one fold; [`LiveDisplay`] tells it while it happens, [`summary()`] at the end, [`html`] for keeps. What a
//! plan would do is told by [`decisions`], [`graph`] and [`launch`], what there is by [`tables`], a list of runs by [`bulk`]. Results are told to the rest of the
//! field: [`compat`](mod@compat) has other tools' definitions, [`export`] and [`import`] their files, [`compare`] puts results beside
//! each other, [`explain`] says what a number means. The room reads and writes no file and decides nothing about a run:
//! whoever calls it hands over what is to be told. Everything except [`LiveDisplay`] gives text or bytes.

pub mod bulk;
pub mod compare;
pub mod compat;
pub mod decisions;
pub mod doctor;
pub mod explain;
pub mod export;
pub mod graph;
pub mod html;
pub mod import;
pub mod launch;
pub mod lock;
pub mod mlperf;
mod percent;
mod run_state;
#[cfg(test)]
mod sample;
pub mod server;
mod styler;
mod summary;
pub mod tables;
mod terminal;

pub use compat::{MeasuredRun, Tool, compat};
pub use decisions::{DecisionKind, DecisionRow};
pub use launch::{LaunchRow, Starts};
pub use percent::signed_percent;
pub use run_state::{Finished, Notice, RunState, TaskPhase, TaskProgress, TaskState};
pub use server::{ModelDetails, ModelRow, ServerMetricRow, ServerStatus, TensorFacts};
pub use styler::{Styler, duration};
pub use summary::{RunPaths, summary};
pub use tables::{ManifestRow, ValueRow};
pub use terminal::{LiveDisplay, LiveOptions};
