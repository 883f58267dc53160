//! Decides what may start and what must stop: a pure schedule and one async loop. Owns `trait TaskExecutor`.
//!
//! The runner knows steps, services, slots, GPUs, keys and outcomes. What a shell, a clone or a server does is behind
//! [`TaskExecutor`]. Of single kinds of stages it knows only what decides about outputs: that a forced benchmark begins in an empty
//! folder, which files have results, and that a Triton server's action has its container in it.
//!
//! ```text
//!  Plan ─→ TaskSchedule: which task next? ─→ keying: what is its key, is it in the cache?
//!             ↑                                                               │ no
//!             └── Finished ←── attempt: folder, perform, check, hash, accept ←┘
//! ```
//!
//! `predict` takes the same decisions without doing anything; it is what `regatta plan` prints.

mod attempt;
mod batches;
mod full_disk;
mod gpus_together;
mod kept_services;
mod keying;
mod options;
mod output_check;
mod output_source;
mod outside_links;
mod predict;
mod predict_keys;
mod project_folder;
mod provenance;
mod result_age;
mod run;
mod schedule;
mod secret_values;
pub mod shared_store;
mod signing;
pub mod store;
mod task_executor;
mod task_status;
mod time_limit;
mod unchanged_tasks;

pub use batches::BatchSlot;
pub use full_disk::note_full_disk;
pub use gpus_together::gpus_together;
pub use kept_services::{KeptService, KeptServices};
pub use options::{EventEmitter, GPUS_HINT, KeyedTask, RunOptions, RunSummary, TaskRole, WatchedRun, task_roles};
pub use output_check::OutputCheck;
pub use output_source::{OutputRequest, OutputSource, PendingFetch};
pub use predict::{Decision, Prediction, predict, predict_no_op};
pub use predict_keys::predict_keys;
pub use provenance::{UpstreamProvenance, UpstreamTask, upstream_provenance};
pub use run::run;
pub use secret_values::{SecretNotText, no_secret_text, secret_values, usable_secret_values};
pub use signing::{KeyError, PublicKey, Signature, SignatureError, SigningKey, TrustedKeys};
pub use task_executor::{Lease, OpenFact, ResolvedTask, TaskExecutor};
pub use task_status::{TaskStatus, task_statuses};
pub use time_limit::{isolate_panics, within};
pub use unchanged_tasks::UnchangedTasks;
