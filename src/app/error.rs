//! Why a command cannot run, and the exit code for it.

use crate::cli::CliExit;
use base::diag::{Diagnostics, ErrorText};

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

    /// A request that is not valid here, and what to try.
    pub fn hinted(message: impl std::fmt::Display, hint: impl std::fmt::Display) -> Self {
        Self::usage(ErrorText::new(message).hint(hint))
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
    harness::HarnessError,
    plan::ActionError,
    plan::UnreadablePlan,
    std::io::Error,
    runner::store::PathError,
    sim::ServeError,
    minijinja::Error,
    tokio::task::JoinError
);

#[cfg(test)]
mod tests {
    use runner::store::PathError;

    #[test]
    fn the_cause_of_an_error_is_said_once() {
        let source = std::io::Error::from_raw_os_error(28);
        let path = PathError { doing: "write", path: "a".into(), source };
        let error = anyhow::Error::from(path).context("the run was stopped");
        let text = "the run was stopped: cannot write a: No space left on device (os error 28)";
        assert_eq!(base::diag::error_chain(error.as_ref()), text);
    }
}
