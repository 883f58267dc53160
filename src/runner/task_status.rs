//! How far each task is, without running any: its key, and whether the cache has its output.

use std::sync::Arc;

use super::keying::{is_made_by_another, key_of, look_up};
use super::options::{RunOptions, TaskRole};
use super::task_executor::TaskExecutor;
use crate::store::{Digests, Lookup, OutputCache, PathError, TaskKey, TaskRecord};
use base::event::TaskId;
use base::files::Digest;
use plan::{Lifetime, Plan};

/// One step of a plan.
#[derive(Clone, Debug)]
pub struct TaskStatus {
    pub task: TaskId,
    /// `None`: something upstream is nowhere, so what this one is made from is not known yet.
    pub key: Option<(TaskKey, Digest)>,
    /// In the cache, and whole.
    pub record: Option<Arc<TaskRecord>>,
}

/// Every step that is part of `options`, in the plan's order. `elsewhere` is queried for what is not here; the keys downstream
/// use the digest of an output that it knows, and a record that it gives is here from then on.
///
/// # Errors
/// An output here cannot be looked at.
pub fn task_statuses(
    plan: &Plan,
    work: &impl TaskExecutor,
    output_cache: &OutputCache,
    digests: &Digests,
    options: &RunOptions,
    mut elsewhere: impl FnMut(&TaskStatus) -> (Option<Digest>, Option<Arc<TaskRecord>>),
) -> Result<Vec<TaskStatus>, PathError> {
    let mut known: Vec<Option<Digest>> = Vec::with_capacity(plan.tasks.len());
    let mut standings = Vec::new();
    for (ix, task) in plan.tasks.iter().enumerate() {
        if options.roles[ix] == TaskRole::NotNeeded || task.skipped.is_some() {
            known.push(None);
            continue;
        }
        let is_open = |need: &plan::Need| {
            let at = need.task as usize;
            need.data
                && known[at].is_none()
                && plan.tasks[at].skipped.is_none()
                && options.roles[at] != TaskRole::NotNeeded
        };
        let keyed = (!task.needs.iter().any(is_open))
            .then(|| key_of(plan, task, work.facts(task), |need| known[need as usize], output_cache, digests).ok())
            .flatten();
        if task.lifetime == Lifetime::Service {
            known.push(keyed.map(|keyed| keyed.digest));
            continue;
        }
        let mut standing = TaskStatus { task: task.id.clone(), key: keyed.map(|k| (k.key, k.digest)), record: None };
        if let Some((_, digest)) = &standing.key
            && let Lookup::Hit(record) = look_up(work, plan, task, digest, output_cache)?
        {
            standing.record = Some(record);
        }
        let digest = match &standing.record {
            Some(record) => Some(record.digest),
            None => match &standing.key {
                Some((_, digest)) if !is_made_by_another(plan, task, digest, output_cache) => {
                    let (digest, record) = elsewhere(&standing);
                    standing.record = record;
                    digest
                }
                _ => None,
            },
        };
        known.push(digest);
        standings.push(standing);
    }
    Ok(standings)
}
