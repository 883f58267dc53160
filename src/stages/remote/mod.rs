//! Stages that run elsewhere: in a Slurm job, or on hosts that are reached over ssh. [`RemoteTask`] is what the
//! process there must know of a task, and makes the lease that it has there.

pub mod hosts;
pub mod slurm;
pub mod ssh;

use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use self::slurm::devices;
use base::event::{Endpoint, Failure, ReducedSetting, Stop};
use plan::Task;
use runner::{EventEmitter, Lease, ResolvedTask, UpstreamProvenance};

/// One attempt at a task, as a job or an agent reads it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RemoteTask {
    /// First, because `store` looks for it.
    pub task: Task,
    pub attempt: u32,
    pub assignment: ResolvedTask,
    /// The number that its retry rule has lowered.
    pub lowered: Option<ReducedSetting>,
    /// Made by the run, so that to find it is to share the project folder.
    pub out: PathBuf,
    /// Of this attempt, and of this host, alone.
    pub log: PathBuf,
    pub project: PathBuf,
    /// What the task was made from; of stages that write it down.
    #[serde(default)]
    pub origins: UpstreamProvenance,
}

impl RemoteTask {
    pub fn new(lease: &Lease, origins: UpstreamProvenance, out: PathBuf, log: PathBuf) -> Self {
        Self {
            task: (*lease.task).clone(),
            attempt: lease.attempt,
            assignment: lease.assignment.clone(),
            lowered: lease.lowered.clone(),
            out,
            log,
            project: lease.project.clone(),
            origins,
        }
    }

    /// The lease of the process that does it, with the GPUs that this process was given.
    pub fn lease(
        &self,
        stop: &Stop,
        ready: Option<oneshot::Sender<Vec<Endpoint>>>,
        emit: EventEmitter,
    ) -> Result<Lease, Failure> {
        let origins = self.origins.clone();
        Ok(Lease {
            task: self.task.clone().into(),
            attempt: self.attempt,
            assignment: self.assignment.clone(),
            out: self.out.clone(),
            log: self.log.clone(),
            project: self.project.clone(),
            gpus: devices(self.task.gpus, std::env::var("CUDA_VISIBLE_DEVICES").ok().as_deref())?,
            lowered: self.lowered.clone(),
            batch_slot: None,
            stop: stop.clone(),
            ready,
            emit,
            origins: Arc::new(move || origins.clone()),
        })
    }
}
