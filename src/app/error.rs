//! Why a command cannot run, and the exit code for it.

use crate::cli::CliExit;
use crate::diag::Diagnostics;

/// What prevents a command from running, by its exit code.
pub enum CommandError {
    /// Errors with places: 2.
    Manifest(Diagnostics),
    /// The request is not valid here: 2.
    Usage(String),
    /// It is not what the lock file records; with the full text to print: 6.
    Differs(String),
    /// Regatta cannot continue: 1.
    Other(anyhow::Error),
}

impl CommandError {
    /// A request that is not valid here, for this reason.
    pub fn usage(why: impl std::fmt::Display) -> Self {
        Self::Usage(why.to_string())
    }

    /// The exit code.
    pub const fn exit(&self) -> CliExit {
        match self {
            Self::Manifest(_) | Self::Usage(_) => CliExit::Usage,
            Self::Differs(_) => CliExit::Differs,
            Self::Other(_) => CliExit::Failed,
        }
    }
}

impl From<Diagnostics> for CommandError {
    fn from(found: Diagnostics) -> Self {
        Self::Manifest(found)
    }
}

/// All other errors come from the machine, and are reported with their whole chain of causes.
macro_rules! others {
    ($($error:ty),+) => {
        $(impl From<$error> for CommandError {
            fn from(error: $error) -> Self {
                Self::Other(error.into())
            }
        })+
    };
}

others!(
    anyhow::Error,
    crate::plan::ActionError,
    std::io::Error,
    crate::runner::store::PathError,
    crate::sim::ServeError,
    minijinja::Error,
    tokio::task::JoinError
);
