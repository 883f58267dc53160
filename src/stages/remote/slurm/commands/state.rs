//! A job's state in the queue, and what it means.

/// A job's state, as far as we must distinguish states.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobState {
    /// It has not started.
    Pending,
    /// It runs, or is about to.
    Running,
    /// Its processes, or its epilog, are about to have ended. How it ended is shown only after that.
    Completing,
    /// Held in the middle: it may go on.
    Suspended,
    /// Its script ended with 0.
    Completed,
    /// Its script ended with something else.
    Failed,
    TimeLimit,
    OutOfMemory,
    Cancelled,
    Preempted,
    NodeFailed,
    /// It did not start before its deadline.
    Deadline,
    /// An unknown state.
    Other(String),
}

impl JobState {
    /// From the long form; whatever follows the state (`CANCELLED by 0`) is left out.
    pub fn read(text: &str) -> Self {
        let word = text.split([' ', '+']).next().unwrap_or_default();
        match word {
            "PENDING" | "CONFIGURING" | "REQUEUED" | "REQUEUE_HOLD" | "REQUEUE_FED" | "SPECIAL_EXIT"
            | "RESV_DEL_HOLD" => Self::Pending,
            "RUNNING" | "SIGNALING" | "RESIZING" => Self::Running,
            "COMPLETING" | "STAGE_OUT" => Self::Completing,
            "SUSPENDED" | "STOPPED" => Self::Suspended,
            "COMPLETED" => Self::Completed,
            "FAILED" => Self::Failed,
            "TIMEOUT" => Self::TimeLimit,
            "OUT_OF_MEMORY" => Self::OutOfMemory,
            "CANCELLED" | "REVOKED" => Self::Cancelled,
            "PREEMPTED" => Self::Preempted,
            "NODE_FAIL" | "BOOT_FAIL" => Self::NodeFailed,
            "DEADLINE" => Self::Deadline,
            other => Self::Other(other.to_owned()),
        }
    }

    /// It will not change any more.
    pub const fn is_final(&self) -> bool {
        !matches!(self, Self::Pending | Self::Running | Self::Completing | Self::Suspended | Self::Other(_))
    }
}

/// Why a job waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PendingReason {
    /// For its turn.
    Queued,
    /// A reason that may go away, and that the user should know of.
    NeedsUser(&'static str),
    /// For ever: why, and what to do.
    Never(&'static str, &'static str),
}

impl PendingReason {
    /// Slurm's short names (`job_reason_str`).
    pub fn read(reason: &str) -> Self {
        let word = reason.split([',', ' ']).next().unwrap_or_default();
        match word {
            "PartitionTimeLimit" => Self::Never(
                "it requests more time than its partition allows",
                "a smaller `time`, or another `partition`",
            ),
            "PartitionNodeLimit" => {
                Self::Never("it requests more nodes than its partition allows", "fewer `nodes`, or another `partition`")
            }
            "DependencyNeverSatisfied" => Self::Never(
                "a job that it depends on did not end as it must",
                "check `args`: a `--dependency` is in them",
            ),
            "BadConstraints" => Self::Never("no node is like this", "check `constraint`, `gres` and `gpus_per_node`"),
            "InvalidAccount" | "AccountNotAllowed" => {
                Self::Never("its account may not be used there", "check `account` and `partition`")
            }
            "InvalidQOS" | "QOSNotAllowed" => {
                Self::Never("its quality of service may not be used there", "check `qos` and `partition`")
            }
            "AssocMaxWallDurationPerJobLimit" | "QOSMaxWallDurationPerJobLimit" => {
                Self::Never("it requests more time than its account or quality of service allows", "a smaller `time`")
            }
            "AssocGrpGRES"
            | "QOSMaxGRESPerJob"
            | "QOSMaxNodePerJobLimit"
            | "AssocMaxNodePerJobLimit"
            | "QOSMaxCpuPerJobLimit"
            | "AssocMaxCpuPerJobLimit" => Self::Never(
                "it requests more than its account or quality of service allows for one job",
                "request less, or another `account` or `qos`",
            ),
            "PartitionDown" | "PartitionInactive" => Self::NeedsUser("its partition takes no jobs at the moment"),
            "ReqNodeNotAvail" => Self::NeedsUser("a node that it needs is down, drained or reserved"),
            "Nodes" => Self::NeedsUser("nodes that it needs are down, drained or reserved for others"),
            "JobHeldAdmin" => Self::NeedsUser("an administrator holds it"),
            "JobHeldUser" => Self::NeedsUser("it is held; `scontrol release` releases it"),
            "launch" => Self::NeedsUser("it could not be started on its node and was put back on hold"),
            "Reservation" => Self::NeedsUser("it waits for its reservation to begin"),
            "Licenses" => Self::NeedsUser("it waits for licenses"),
            _ => Self::Queued,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_read_with_what_follows_them() {
        assert_eq!(JobState::read("CANCELLED by 0"), JobState::Cancelled);
        assert_eq!(JobState::read("PENDING"), JobState::Pending);
        assert_eq!(JobState::read("NODE_FAIL"), JobState::NodeFailed);
        assert!(JobState::read("TIMEOUT").is_final());
        assert!(!JobState::read("COMPLETING").is_final(), "its processes may still write");
        assert!(!JobState::read("NEW_WORD").is_final(), "what we do not know decides nothing");
    }

    #[test]
    fn jobs_that_can_never_start_are_distinguished_from_pending() {
        assert_eq!(PendingReason::read("Priority"), PendingReason::Queued);
        assert_eq!(PendingReason::read("Resources"), PendingReason::Queued);
        assert!(matches!(PendingReason::read("PartitionTimeLimit"), PendingReason::Never(..)));
        assert!(matches!(PendingReason::read("ReqNodeNotAvail, UnavailableNodes:n[1-2]"), PendingReason::NeedsUser(_)));
        assert!(matches!(
            PendingReason::read(
                "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions"
            ),
            PendingReason::NeedsUser(_)
        ));
    }
}
