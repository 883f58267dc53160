//! The exit codes: the one place where how a run ended becomes a number.

use std::process::ExitCode;

use base::event::{FailureKind, Verdict};

/// How `regatta` leaves. The numbers are part of the interface: scripts read them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CliExit {
    /// Everything requested is done.
    Done,
    /// A stage failed, or Regatta itself could not continue.
    Failed,
    /// The manifest or the command line is wrong; nothing was started.
    Usage,
    /// A benchmark measured its own client.
    InvalidClient,
    /// A server did not keep up with the load (OVERLOADED), or did not meet a limit (LIMIT MISSED).
    NotMet,
    /// A benchmark got errors from the server, or a server that is not ours fell silent. One of ours that dies is a
    /// stage that failed.
    InvalidServer,
    /// It differs from the lock file, and `--locked` was given.
    Differs,
    /// A comparison shows a difference that `--fail-if` does not allow, or has a side that is not VALID.
    DifferenceExceeded,
    /// Regatta's own code panicked (`EX_SOFTWARE` of sysexits.h).
    OwnFault,
    /// A stop request interrupted the run (128 + SIGINT).
    Interrupted,
    /// The code of the command that `regatta serve … -- COMMAND` ran, where it is not 0.
    OfCommand(u8),
}

impl CliExit {
    pub const fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::InvalidClient => 3,
            Self::NotMet => 4,
            Self::InvalidServer => 5,
            Self::Differs => 6,
            Self::DifferenceExceeded => 7,
            Self::OwnFault => 70,
            Self::Interrupted => 130,
            Self::OfCommand(code) => code,
        }
    }

    /// The meaning of an exit code of another Regatta process; an unknown code is that of a command that it ran.
    pub fn from_code(code: i32) -> Self {
        let exits = [
            Self::Done,
            Self::Failed,
            Self::Usage,
            Self::InvalidClient,
            Self::NotMet,
            Self::InvalidServer,
            Self::Differs,
            Self::DifferenceExceeded,
            Self::OwnFault,
            Self::Interrupted,
        ];
        let ours = exits.into_iter().find(|exit| i32::from(exit.code()) == code);
        ours.unwrap_or_else(|| u8::try_from(code).map_or(Self::Failed, Self::OfCommand))
    }

    /// The code for one failed task.
    pub const fn of(kind: FailureKind) -> Self {
        match kind {
            FailureKind::Interrupted => Self::Interrupted,
            FailureKind::Differs => Self::Differs,
            FailureKind::Invalid(Verdict::InvalidClient) => Self::InvalidClient,
            FailureKind::Invalid(Verdict::Overloaded | Verdict::LimitMissed) => Self::NotMet,
            FailureKind::Invalid(Verdict::InvalidServer) => Self::InvalidServer,
            _ => Self::Failed,
        }
    }

    /// The code for a whole run. An interruption outweighs a failure, because what else failed is then mostly its
    /// consequence; a failure outweighs a verdict; and among verdicts the client's comes first, because with a client
    /// that was too slow no other can be believed, and faulty measurements come before those that were not met.
    pub fn of_all(kinds: impl IntoIterator<Item = FailureKind>) -> Self {
        Self::worst(kinds.into_iter().map(Self::of))
    }

    /// The code for several runs, by the same order.
    pub fn worst(exits: impl IntoIterator<Item = Self>) -> Self {
        let weight = |exit: &Self| match exit {
            Self::Interrupted => 0,
            Self::Failed | Self::OwnFault | Self::OfCommand(_) => 1,
            Self::Differs => 2,
            Self::Usage => 3,
            Self::InvalidClient => 4,
            Self::InvalidServer => 5,
            Self::NotMet => 6,
            Self::DifferenceExceeded => 7,
            Self::Done => 8,
        };
        exits.into_iter().min_by_key(weight).unwrap_or(Self::Done)
    }
}

impl From<CliExit> for ExitCode {
    fn from(exit: CliExit) -> Self {
        Self::from(exit.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_has_its_own_code() {
        let codes = [Verdict::InvalidClient, Verdict::Overloaded, Verdict::LimitMissed, Verdict::InvalidServer]
            .map(|verdict| CliExit::of(FailureKind::Invalid(verdict)).code());
        assert_eq!(codes, [3, 4, 4, 5]);
    }

    #[test]
    fn a_broken_stage_outweighs_a_verdict_and_an_interruption_outweighs_both() {
        let invalid = FailureKind::Invalid(Verdict::InvalidServer);
        let missed = FailureKind::Invalid(Verdict::LimitMissed);
        assert_eq!(CliExit::of_all([missed, invalid]), CliExit::InvalidServer);
        assert_eq!(CliExit::of_all([]), CliExit::Done);
        assert_eq!(CliExit::of_all([invalid]), CliExit::InvalidServer);
        assert_eq!(CliExit::of_all([invalid, FailureKind::Invalid(Verdict::InvalidClient)]), CliExit::InvalidClient);
        assert_eq!(CliExit::of_all([invalid, FailureKind::Exit(7)]), CliExit::Failed);
        assert_eq!(CliExit::of_all([FailureKind::Exit(7), FailureKind::Interrupted, invalid]), CliExit::Interrupted);
    }
}
