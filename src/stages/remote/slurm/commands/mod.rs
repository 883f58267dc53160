//! Uses Slurm through its own programs: `sbatch`, `squeue`, `scancel`, `scontrol`.
//!
//! A job is known by a name that nothing else has, never by its number alone: a number can be lost on the way, when the
//! controller takes a job and does not answer any more. A query that fails is no evidence about a job. `sacct` is never
//! used, because many clusters have no accounting.

mod cancel;
mod environment;
mod job;
mod limits;
mod node;
mod query;
mod queue;
mod sbatch;
mod state;

pub use cancel::{CancelCommand, CancelError, cancel};
pub use environment::{at_clusters, clusters_of, environment, has_many_clusters};
pub use job::{PREFIX, SlurmJob, ranges};
pub use limits::max_array_size;
pub use node::addresses;
pub use query::Environment;
pub use queue::{JobQueue, QueueEntry, QueueView};
pub use sbatch::{Submission, SubmitOutcome, folder_problem, submit};
pub use state::{JobState, PendingReason};
