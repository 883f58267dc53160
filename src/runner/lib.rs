//! Decides what may start and what must stop: a pure schedule and one async loop. Owns `trait TaskExecutor`.
//!
//! The runner knows steps, services, slots, GPUs, keys and outcomes. What a shell, a clone or a server does is behind
//! [`TaskExecutor`]. It knows individual kinds of stages only where they affect outputs: that a forced benchmark begins
//! in an empty folder, which files have results, and that a Triton server's action has its container in it.
//!
//! ```text
//!  Plan ─→ TaskSchedule: which task next? ─→ keying: what is its key, is it in the cache?
//!             ↑                                                               │ no
//!             └── Finished ←── attempt: folder, perform, check, hash, accept ←┘
//! ```
//!
//! `predict` takes the same decisions without doing anything; it is what `regatta plan` prints.
//!
//! # Files
//!
//! | file | what it does |
//! |---|---|
//! | `schedule` | which task may start and which must stop: a pure state machine |
//! | `run` | the loop; `run/cache_lookup`: whether a task must run; `run/attempt_end`: what follows an attempt |
//! | `run/run_end` | the outcome of each task, and what the next run compares to find that nothing is to be done |
//! | `attempt` | one attempt of a step: its folder, the work with its timeout and panics, the checks, the hash |
//! | `task_executor` | what `stages` implements; tasks that start in the same moment, for code that does them as one |
//! | `options` | how to run, and the outcome; GPUs needed at once |
//! | `keying` | a task's key, in which the project's own folder has no place |
//! | `predict` | what a run would do |
//! | `upstream_provenance` | what a task was made from |
//! | `secret_values`, `signing` | secrets in the forms in which they are printed; Ed25519 signatures |
//! | `store` | all durable state of a project; `store/gc` removes what could go |
//! | `shared_store` | outputs that machines share; `push` looks for secrets on their way out; `gc` makes room |
//!
//! # Formats of state
//!
//! Where each file lies is in [`store`], what survives a crash, too. Three forms hold state that a later run relies on.
//!
//! A *sealed line* is 16 hex digits, a space, JSON, a line break. The digits are the first 8 bytes of the BLAKE3 digest
//! of the JSON. A line with another seal is damaged: it was cut off by a crash if it is the last one.
//!
//! - **Cache record**: `records` has a sealed line `{"record":{…}}` for each accepted output: task, manifest, key and
//!   its fields, folder, digest, and each file with its stamp and digest (more than 64 files are in
//!   `out/<folder>.files`). The newest line of a key counts. A line `"synced"` states that all lines above it are on
//!   the disk; those after the last one carry the boot that wrote them, and are hashed again under another boot. An
//!   output is accepted in this order, and in no other: its data is written and listed, then its record is appended,
//!   then the journal has its event, then its dependents start.
//! - **Journal**: `runs/<run>/journal.jsonl` has one sealed line for each [`base::event::Event`] that is a fact,
//!   written before anything else takes the event. A prefix that was cut at any byte folds to the state at that point.
//! - **Job**: the files of `jobs/<output folder>/` are its state. Each is one sealed line, but for `cancel`, which is
//!   empty.
//!
//! | files | the job |
//! |---|---|
//! | `job.json` | is submitted, or is about to be |
//! | and `number` | is in the queue under that number; for display only, its name finds it too |
//! | and `claim` | works, or did; a second job with the same folder ends at once |
//! | and `cancel` | is to end, for whichever process finds the folder |
//! | and `ended.json` | has ended as the file has it, whatever the queue reports |
//! | no folder | its end was seen, and nothing is to be looked for again |

mod attempt;
mod keying;
mod options;
mod predict;
mod run;
mod schedule;
mod secret_values;
pub mod shared_store;
mod signing;
#[cfg(test)]
#[path = "../../tests/bench/simulated_seeds.rs"]
mod simulated_seeds;
pub mod store;
mod task_executor;
mod upstream_provenance;

pub use attempt::{isolate_panics, within};
pub use keying::KeyContext;
pub use options::{
    EventEmitter, GPUS_HINT, KeyedTask, RunOptions, RunSummary, TaskRole, WatchedRun, gpus_together, note_full_disk,
    task_roles,
};
pub use predict::{TaskStatus, UnchangedTasks, predict, predict_keys, predict_no_op, task_statuses};
pub use run::run;
pub use secret_values::{SecretNotText, no_secret_text, secret_values, usable_secret_values};
pub use signing::{PublicKey, Signature, SignatureError, SigningKey, TrustedKeys};
pub use task_executor::{
    BatchSlot, KeptService, KeptServices, Lease, OpenFact, OutputCheck, OutputRequest, OutputSource, PendingFetch,
    ResolvedTask, TaskExecutor,
};
pub use upstream_provenance::{UpstreamProvenance, UpstreamTask, upstream_provenance};
