//! Decides what may start and what must stop: a pure schedule and one async loop. Owns `trait Work`.
//!
//! The runner does not know what a shell, a clone or a server is; it knows steps, services, slots, GPUs, keys and
//! outcomes.
//!
//! ```text
//!  Plan ─→ Schedule: which task next? ─→ keying: what is its key, is it on the shelf?
//!             ↑                                   │ no
//!             └── Over ←── attempt: folder, perform, check, hash, accept ←┘
//! ```
//!
//! `predict` asks the same questions without doing anything; it is what `regatta plan` prints.

mod age;
mod attempt;
mod foresee;
mod gate;
mod keying;
mod limit;
mod options;
mod origins;
mod predict;
mod run;
mod schedule;
mod shared;
mod standing;
mod together;
mod work;

pub use foresee::foresee;
pub use gate::OutputGate;
pub use limit::{apart, within};
pub use options::{Emit, RunOptions, TaskRole, SettledTask, RunSummary, parts};
pub use origins::{UpstreamTask, Upstream};
pub use predict::{Decision, Prediction, predict};
pub use run::run;
pub use shared::{FetchedOutput, PendingFetch, RemoteOutputs, OutputRequest};
pub use standing::{TaskStatus, standings};
pub use together::BatchSlot;
pub use work::{Assignment, Lease, TaskExecutor};
