//! How a task ends.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::TaskId;

/// What a task that succeeded has to say, beside what it left in its output directory.
#[crate::omit_empty]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Done {
    /// One line for the ending table, e.g. `VALID  1,204 tok/s  TTFT p99 212 ms (from schedule)`.
    pub headline: Option<String>,
    /// Lines below it, each with a name: what each host did.
    pub below: Vec<(String, String)>,
    /// What qualifies a valid measurement: `check: reason`, shown wherever its verdict is.
    pub warnings: Vec<String>,
    /// What it was made from, where that can be another later.
    pub source: Option<Box<MovingSource>>,
}

/// Whether a measurement may be believed, and whether the server did what was required; from best to worst. The three
/// classes have cures of their own: INVALID says that the measurement is faulty, OVERLOADED that the server did not
/// keep up, and LIMIT MISSED that the server was measured well and is too slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Valid,
    ValidWithWarnings,
    // Earlier versions had this name for OVERLOADED, too, and for loads that were not reached; reasons tell which.
    #[serde(alias = "invalid_load")]
    LimitMissed,
    Overloaded,
    InvalidClient,
    InvalidServer,
}

impl Verdict {
    /// All of them, from best to worst.
    pub const ALL: [Self; 6] = [
        Self::Valid,
        Self::ValidWithWarnings,
        Self::LimitMissed,
        Self::Overloaded,
        Self::InvalidClient,
        Self::InvalidServer,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Valid => "VALID",
            Self::ValidWithWarnings => "VALID WITH WARNINGS",
            Self::LimitMissed => "LIMIT MISSED",
            Self::Overloaded => "OVERLOADED",
            Self::InvalidClient => "INVALID(client)",
            Self::InvalidServer => "INVALID(server)",
        }
    }

    pub const fn is_valid(self) -> bool {
        matches!(self, Self::Valid | Self::ValidWithWarnings)
    }

    /// The measurement is faulty, so that its numbers are not those of the server under this load.
    pub const fn is_faulty(self) -> bool {
        matches!(self, Self::InvalidClient | Self::InvalidServer)
    }

    /// What it says about the numbers.
    pub const fn about(self) -> &'static str {
        match self {
            Self::Valid => "the server was measured under the planned load, and met the limits",
            Self::ValidWithWarnings => "measured and within its limits, with reasons that say what to mind",
            Self::LimitMissed => "measured well: the server did not meet a limit",
            Self::Overloaded => "the server did not keep up, so its latencies depend on the length of the run",
            Self::InvalidClient => "faulty: the numbers are as much the client's as the server's",
            Self::InvalidServer => "faulty: the server failed requests or contradicted itself",
        }
    }

    /// What to do about it.
    pub const fn cure(self) -> &'static str {
        match self {
            Self::Valid => "nothing",
            Self::ValidWithWarnings => "read the reasons before you publish the numbers",
            Self::LimitMissed => "lower the load, make the server faster, or raise the limit",
            Self::Overloaded => "lower the rate below the requests per second that were completed, or add servers",
            Self::InvalidClient => "correct what the reasons name on this machine or in the load, and measure again",
            Self::InvalidServer => "read the server's log, correct what the reasons name, and measure again",
        }
    }
}

/// Why a task failed, in the shape a person needs it: command, last lines, likely cause, what to try, log.
#[crate::omit_empty]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Failure {
    pub kind: FailureKind,
    /// One line, lower case, that reads after "failed: ".
    pub what: String,
    /// Lines below it, each with a name, as of a success.
    pub below: Vec<(String, String)>,
    /// The command as it could be typed (secrets redacted).
    pub command: Option<String>,
    /// The last lines of its log (secrets redacted).
    pub tail: Vec<String>,
    pub cause: Option<String>,
    pub hint: Option<String>,
    pub log: Option<PathBuf>,
    /// Where the unfinished output was put aside, if there was any.
    pub kept: Option<PathBuf>,
    /// Set when it failed because memory ran out.
    pub out_of_memory: Option<OutOfMemory>,
}

impl Failure {
    /// The operating system refused something.
    pub fn system(what: impl Into<String>) -> Self {
        Self::new(FailureKind::System, what)
    }

    /// The settings, or what they name, cannot be used.
    pub fn refused(what: impl Into<String>) -> Self {
        Self::new(FailureKind::Refused, what)
    }

    /// A file or a folder is not there, or is not what it should be.
    pub fn files(what: impl Into<String>) -> Self {
        Self::new(FailureKind::Files, what)
    }

    /// A server failed, or is not what it should be.
    pub fn service(what: impl Into<String>) -> Self {
        Self::new(FailureKind::Service, what)
    }

    /// The task was stopped.
    pub fn interrupted(what: impl Into<String>) -> Self {
        Self::new(FailureKind::Interrupted, what)
    }

    pub fn new(kind: FailureKind, what: impl Into<String>) -> Self {
        Self {
            kind,
            what: what.into(),
            below: Vec::new(),
            command: None,
            tail: Vec::new(),
            cause: None,
            hint: None,
            log: None,
            kept: None,
            out_of_memory: None,
        }
    }

    #[must_use]
    pub fn cause(mut self, cause: impl Into<String>) -> Self {
        self.cause = Some(cause.into());
        self
    }

    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    #[must_use]
    pub fn command(mut self, command: impl Into<String>) -> Self {
        self.command = Some(command.into());
        self
    }

    #[must_use]
    pub fn tail(mut self, tail: Vec<String>) -> Self {
        self.tail = tail;
        self
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// The command could not be started.
    Spawn,
    /// The command ended with an exit code other than 0.
    Exit(i32),
    /// The command was ended by a signal.
    Signal(i32),
    /// It ran past its `timeout`.
    Timeout,
    /// A service died, hung, or never became ready.
    Service,
    /// A declared output is missing, or an input is not there.
    Files,
    /// An input kept changing while the stage read it.
    InputChanged,
    /// The measurement is faulty, or the server did not keep up or missed a limit.
    Invalid(Verdict),
    /// The machine was taken away under it: nothing that the stage did is to blame.
    Lost,
    /// Disk full, permission denied and the like.
    System,
    /// The stage's own check failed.
    Refused,
    /// It is not what the lock file has.
    Differs,
    /// The run was stopped.
    Interrupted,
}

// Memory that ran out, and the number that was lowered because of it.

/// The owner of the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MemoryKind {
    Gpu,
    Host,
}

/// An attempt that ended because memory ran out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OutOfMemory {
    pub of: MemoryKind,
    /// What the number was that its retry rule lowers; `None` without a rule, or if the stage has no such number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
}

/// A number that is lower than in the manifest, because memory ran out with more.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReducedSetting {
    /// `kv_cache_free_gpu_mem_fraction`
    #[serde(alias = "knob")]
    pub setting: String,
    /// As the manifest has it.
    pub from: f64,
    pub to: f64,
}

impl ReducedSetting {
    /// As a reason for what is done.
    pub fn because(&self) -> String {
        format!("{self}, because memory ran out")
    }
}

impl fmt::Display for ReducedSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} → {}", self.setting, self.from, self.to)
    }
}

// A name that an output was made from and that can mean something else later: a branch, a tag, a revision of weights.

/// The name, and what it meant then.
#[crate::omit_empty]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MovingSource {
    /// For users: "branch `main`".
    pub name: String,
    /// For users: `commit 0c8e1f2a9b3d`.
    pub version: String,
    /// Of a clone: whether it moved can be queried.
    pub remote: Option<RemoteRef>,
    /// In place of a name: what a command read that is in no key, files by their paths and variables as `$NAME`, and
    /// what stands for their content.
    pub undeclared: Vec<(String, String)>,
}

/// A reference in a remote of git.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoteRef {
    pub url: String,
    /// In full: `refs/heads/main`.
    pub name: String,
    /// What it led to, in full.
    pub commit: String,
}

impl RemoteRef {
    pub fn is_tag(&self) -> bool {
        self.name.starts_with("refs/tags/")
    }
}
// What a run would do, decided before it.

crate::named! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
    pub enum Prediction {
        Run = "run",
        Cached = "cached",
        Skipped = "skipped",
    }
}

/// What would happen to one task, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Decision {
    pub id: TaskId,
    pub stage: String,
    #[serde(rename = "decision")]
    pub verdict: Prediction,
    /// Why it would run, or is skipped; empty for a cached one.
    pub reasons: Vec<String>,
    /// It cannot succeed; `reasons` has why.
    #[serde(skip)]
    pub fails: bool,
    /// It runs only because a task above runs: it is cached after all where that one makes the same output again.
    #[serde(skip)]
    pub may_be_cached: bool,
}
