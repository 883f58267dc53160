//! Uses Slurm through its own programs: `sbatch`, `squeue`, `scancel`, `scontrol`.
//!
//! A job is known by a name that nothing else has, never by its number alone: a number can be lost on the way, when the
//! controller takes a job and does not answer any more. A query that fails says nothing about a job. `sacct` is never
//! used, because many clusters have no accounting.

mod job;
mod queue;
mod sbatch;

pub use job::{JobsToEnd, PREFIX, SlurmJob, addresses, cancel, max_array_size, ranges};
pub use queue::{Environment, JobQueue, JobState, PendingReason, QueueEntry, QueueView};
pub use sbatch::{
    Submission, SubmitOutcome, at_clusters, clusters_of, environment, folder_problem, has_many_clusters, submit,
};
