//! A whole run as one job: what a stage is otherwise.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::context::SlurmContext;
use super::run_attempt;
use base::event::{Done, Event, Failure, Stop, TaskId};
use plan::manifest::model::Slurm;
use plan::{ActionKind, Task};
use runner::store::JobFolder;
use runner::{Lease, ResolvedTask, UpstreamProvenance};

/// A run to be done in one allocation.
#[derive(Clone)]
pub struct AllocationRun {
    /// The same for the same command.
    pub name: String,
    /// The arguments of `regatta` on the job's first node.
    pub words: Vec<String>,
    pub slurm: Slurm,
    /// A folder that has this allocation's name.
    pub out: PathBuf,
    pub log: PathBuf,
    pub project: PathBuf,
    pub stop: Stop,
    pub emit: Arc<dyn Fn(Event) + Send + Sync>,
}

/// Submits the run, or finds the job of an earlier command, and follows it. A run that ended with another code than 0 is a
/// failure with that exit code. The second value: whether its end was seen, so that the job's folder may go.
pub async fn in_allocation(allocation: AllocationRun, home: &Path) -> (Result<Done, Failure>, bool) {
    let AllocationRun { name, words, slurm, out, log, project, stop, emit } = allocation;
    let folder = JobFolder::of(home, &out);
    let task = Task { cache: false, ..Task::minimal(TaskId::new(name), "run".to_owned(), ActionKind::Shell) };
    let lease = Lease {
        task: task.into(),
        attempt: 1,
        assignment: ResolvedTask::default(),
        out,
        log,
        project,
        gpus: Vec::new(),
        lowered: None,
        batch_slot: None,
        stop,
        ready: None,
        emit,
        origins: Arc::new(UpstreamProvenance::default),
    };
    run_attempt::run_attempt(&lease, slurm, Some(words), &folder, &SlurmContext::default(), None, None).await
}
