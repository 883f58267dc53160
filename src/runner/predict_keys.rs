//! What is known of each task's key before anything runs: all but what its upstream will make.

use super::TaskExecutor;
use super::keying::key_of;
use super::options::{RunOptions, TaskRole};
use crate::store::{Digests, OutputCache, TaskKey};
use base::event::Failure;
use plan::Plan;

/// For each task of the plan; `None` for what is no part of the run, or skipped. A key without upstream is not yet the key of a
/// task that has any.
pub fn predict_keys(
    plan: &Plan,
    work: &impl TaskExecutor,
    output_cache: &OutputCache,
    digests: &Digests,
    options: &RunOptions,
) -> Vec<Option<Result<TaskKey, Failure>>> {
    let one = |(task, part): (&plan::Task, &TaskRole)| {
        if *part == TaskRole::NotNeeded || task.skipped.is_some() {
            return None;
        }
        Some(key_of(plan, task, work.facts(task), |_| None, output_cache, digests).map(|keyed| keyed.key))
    };
    plan.tasks.iter().zip(&options.roles).map(one).collect()
}
