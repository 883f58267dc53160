//! Whether a job is in the queue, as far as is known before a submission.

/// Whether there is a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobExistence {
    /// Nothing of this name was ever submitted.
    Absent,
    /// Something may have been.
    Unknown,
}
