//! What happened: the one stream that journal, terminal and JSON are folds of.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{Done, Endpoint, Failure, GpuId, RunId, TaskId};
use crate::files::Digest;

/// What a benchmark has measured so far. Not a result: nothing is excluded yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LiveMeasurement {
    pub issued: u64,
    /// Successful or not.
    pub ended: u64,
    pub failed: u64,
    /// Output tokens that have arrived.
    pub tokens: u64,
    /// Of the last seconds.
    pub tokens_per_s: f64,
    /// Mean over the requests with a first token, ms; from when a request was due, or was issued where it waits for
    /// another.
    pub ttft_ms: Option<f64>,
    /// Mean over the requests that have ended, ms.
    pub tpot_ms: Option<f64>,
    /// The GPUs of the servers, where they are watched and were leased to them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpus: Option<u32>,
    /// An estimate of the time to the last answer; absent where the end is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remaining_s: Option<f64>,
}

impl LiveMeasurement {
    /// Output tokens of the last seconds over the GPUs of the servers.
    pub fn tokens_per_s_per_gpu(&self) -> Option<f64> {
        self.gpus.filter(|gpus| *gpus > 0).map(|gpus| self.tokens_per_s / f64::from(gpus))
    }

    pub const fn in_flight(&self) -> u64 {
        self.issued.saturating_sub(self.ended)
    }
}

/// One event of a run. `is_fact` distinguishes the journaled ones from the rest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    RunStarted {
        run: RunId,
        manifest: String,
        params: BTreeMap<String, String>,
        /// The `KEY=VALUE` arguments that make the same plan.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        settings: Vec<String>,
        tasks: usize,
        jobs: usize,
        /// RFC 3339, UTC.
        at: String,
        pid: u32,
    },
    /// Another run holds this project; we wait for it.
    Waiting {
        run: String,
        pid: u32,
    },
    TaskCached {
        task: TaskId,
        done: Done,
        out: Option<PathBuf>,
        /// The shared store that it has just come from.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        from: Option<String>,
    },
    /// Its output is on its way from the shared store.
    TaskFetching {
        task: TaskId,
        from: String,
        /// Those that are not here already.
        bytes: u64,
    },
    /// Many cached tasks at once, when nothing at all had to run.
    AllCached {
        tasks: usize,
    },
    TaskSkipped {
        task: TaskId,
        why: String,
    },
    /// `reasons`: why it was not cached, field by field.
    TaskStarted {
        task: TaskId,
        attempt: u32,
        service: bool,
        reasons: Vec<String>,
        log: Option<PathBuf>,
    },
    /// A process group that this run is responsible for.
    ProcessStarted {
        task: TaskId,
        pgid: i32,
    },
    ProcessEnded {
        task: TaskId,
        pgid: i32,
    },
    /// Something that outlives its processes, to be removed by name: recorded before it can be there.
    #[serde(alias = "outliving_started")]
    ExternalResourceStarted {
        task: TaskId,
        #[serde(alias = "outliving")]
        resource: ExternalResource,
    },
    #[serde(alias = "outliving_removed")]
    ExternalResourceRemoved {
        task: TaskId,
        #[serde(alias = "outliving")]
        resource: ExternalResource,
    },
    ServiceReady {
        task: TaskId,
        endpoints: Vec<Endpoint>,
        seconds: f64,
    },
    ServiceStopped {
        task: TaskId,
        seconds: f64,
    },
    TaskFinished {
        task: TaskId,
        done: Done,
        out: Option<PathBuf>,
        digest: Option<Digest>,
        /// The output is byte for byte what the last key had: dependents need not run for it.
        unchanged: bool,
        seconds: f64,
    },
    TaskFailed {
        task: TaskId,
        attempt: u32,
        failure: Box<Failure>,
        will_retry: bool,
        seconds: f64,
    },
    /// Never started, because of what happened elsewhere.
    TaskCancelled {
        task: TaskId,
        why: String,
    },
    /// A message for the user; never a failure.
    Notice {
        task: Option<TaskId>,
        text: String,
    },
    /// Where the metrics of this run are served.
    MetricsServed {
        url: String,
    },
    /// Chatter: how far a task is. `total` of `None` is a spinner.
    Progress {
        task: TaskId,
        text: String,
        done: u64,
        total: Option<u64>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        live: Option<LiveMeasurement>,
    },
    Stopping {
        why: String,
    },
    RunFinished {
        tally: TaskTally,
        exit: u8,
        seconds: f64,
    },
}

impl Event {
    /// Facts are journaled and never dropped; the rest may be.
    pub const fn is_fact(&self) -> bool {
        !matches!(self, Self::Progress { .. })
    }

    pub const fn task(&self) -> Option<&TaskId> {
        match self {
            Self::TaskCached { task, .. }
            | Self::TaskFetching { task, .. }
            | Self::TaskSkipped { task, .. }
            | Self::TaskStarted { task, .. }
            | Self::ProcessStarted { task, .. }
            | Self::ProcessEnded { task, .. }
            | Self::ExternalResourceStarted { task, .. }
            | Self::ExternalResourceRemoved { task, .. }
            | Self::ServiceReady { task, .. }
            | Self::ServiceStopped { task, .. }
            | Self::TaskFinished { task, .. }
            | Self::TaskFailed { task, .. }
            | Self::TaskCancelled { task, .. }
            | Self::Progress { task, .. } => Some(task),
            Self::Notice { task, .. } => task.as_ref(),
            _ => None,
        }
    }
}

/// What outlives the processes that made it. Its name is ours alone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExternalResource {
    /// A container of `docker` or `podman`.
    Container { program: String, name: String },
    /// Regions in `/dev/shm` that have this in their names.
    SharedMemory { mark: String },
    /// Locked clocks of these GPUs.
    GpuClocks { gpus: Vec<GpuId>, sudo: bool },
}

/// How many tasks ended in which way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskTally {
    pub ran: usize,
    pub cached: usize,
    pub skipped: usize,
    pub failed: usize,
    pub cancelled: usize,
}
