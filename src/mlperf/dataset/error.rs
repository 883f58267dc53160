//! Why a data set could not be read or written.

use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum DatasetError {
    #[error("round {round} has no benchmark `{benchmark}` whose data set is read here{why}; it has {known}")]
    Unknown { round: String, benchmark: String, why: String, known: String },
    /// With the command that converts it.
    #[error("{} is a pickle, which runs what is in it when it is read", path.display())]
    Pickle { path: PathBuf, command: String },
    #[error("{0}")]
    Read(String),
    #[error("{}", .told.join("\n"))]
    Rows { told: Vec<String> },
    #[error("{path} has {found} samples, and the {benchmark} of round {round} has {expected}", path = path.display())]
    Count { path: PathBuf, found: u64, expected: String, round: String, benchmark: String },
    #[error("{}: {source}", path.display())]
    Write { path: PathBuf, source: std::io::Error },
}
