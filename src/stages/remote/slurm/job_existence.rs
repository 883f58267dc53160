//! Whether a job is in the queue, as far as is known before and after its submission.

/// Whether there is a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobExistence {
    /// Nothing of this name was ever submitted.
    Absent,
    /// Something may have been.
    Unknown,
}

/// What became of it until it was in the queue, or a stop was requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enqueued {
    InQueue,
    /// A stop was requested, and all submissions were answered.
    Stopped,
    /// The same, without the answer to one: its job may be there, or appear yet.
    Unanswered,
    /// The same, while `sbatch` was at it: its job may appear at any time.
    UnderWay,
}

impl Enqueued {
    /// At a stop request between two submissions.
    pub const fn of_stop(known: JobExistence) -> Self {
        match known {
            JobExistence::Absent => Self::Stopped,
            JobExistence::Unknown => Self::Unanswered,
        }
    }
}
