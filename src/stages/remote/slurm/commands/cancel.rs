//! Ending a job, by its name: its number may never have reached us.

use std::ffi::OsString;
use std::time::Duration;

use super::query::{Environment, QueryResult, run_query};

const COMMAND_TIMEOUT: Duration = Duration::from_mins(1);

/// What is to be ended, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CancelCommand<'a> {
    /// All jobs of this name of ours: TERM, and KILL after the cluster's `KillWait`.
    Name(&'a str),
    /// The same, with KILL at once.
    Now(&'a str),
    /// These jobs, or elements of arrays: where a name means more than what is to end.
    Numbers(&'a [String]),
    /// The same, with KILL at once.
    KillNumbers(&'a [String]),
}

/// Why it is not certain that jobs end.
#[derive(Clone, Debug, thiserror::Error)]
pub enum CancelError {
    #[error("{}", .0.error_text("scancel"))]
    Scancel(QueryResult),
    #[error("the queue could not be queried")]
    NoQueue,
    /// The queue is not queried any more.
    #[error(transparent)]
    QueueClosed(#[from] tokio::sync::watch::error::RecvError),
    #[error("the queue still shows it")]
    StillQueued,
    #[error("`sbatch` has not answered yet")]
    UnderWay,
}

/// Requests it. `Ok` when the controller has received it, also if there was nothing to end. The error is the reason why it has
/// not.
pub async fn cancel(what: CancelCommand<'_>, env: &Environment) -> Result<(), CancelError> {
    let user = format!("--user={}", rustix::process::getuid().as_raw());
    let words: Vec<String> = match what {
        CancelCommand::Name(name) => vec![user, format!("--name={name}")],
        CancelCommand::Now(name) => {
            vec![user, format!("--name={name}"), "--signal=KILL".to_owned(), "--full".to_owned()]
        }
        CancelCommand::Numbers(numbers) => numbers.to_vec(),
        CancelCommand::KillNumbers(numbers) => {
            ["--signal=KILL", "--full"].into_iter().map(str::to_owned).chain(numbers.iter().cloned()).collect()
        }
    };
    let words = words.into_iter().map(OsString::from).collect();
    match run_query("scancel", words, env.clone(), COMMAND_TIMEOUT).await {
        QueryResult::Answered { code: 0, .. } => Ok(()),
        failed => Err(CancelError::Scancel(failed)),
    }
}
