//! Decides what may start and what must stop: a pure schedule and one async loop. Owns `trait TaskExecutor`.
//!
//! The runner does not know what a shell, a clone or a server is; it knows steps, services, slots, GPUs, keys and
//! outcomes.
//!
//! ```text
//!  Plan ─→ Schedule: which task next? ─→ keying: what is its key, is it in the cache?
//!             ↑                                   │ no
//!             └── Finished ←── attempt: folder, perform, check, hash, accept ←┘
//! ```
//!
//! `predict` takes the same decisions without doing anything; it is what `regatta plan` prints.

mod attempt;
mod batches;
mod gate;
mod keying;
mod limit;
mod options;
mod origins;
mod predict;
mod predict_keys;
pub mod remote_cache;
mod remote_outputs;
mod result_age;
mod run;
mod schedule;
pub mod store;
mod task_status;
mod work;

pub use batches::BatchSlot;
pub use gate::OutputGate;
pub use limit::{apart, within};
pub use options::{Emit, RunOptions, RunSummary, SettledTask, TaskRole, parts};
pub use origins::{Upstream, UpstreamTask};
pub use predict::{Decision, Prediction, predict};
pub use predict_keys::foresee;
pub use remote_outputs::{FetchedOutput, OutputRequest, PendingFetch, RemoteOutputs};
pub use run::run;
pub use task_status::{TaskStatus, standings};
pub use work::{Assignment, Lease, TaskExecutor};
