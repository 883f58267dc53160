//! Tasks that need not be looked at again: what they depend on looks as the last run of the same plan left it.

use std::collections::HashMap;

use std::sync::Arc;

use crate::store::{OutputCache, TaskRecord, WatchedOutput, WatchedTask};
use crate::task_executor::TaskExecutor;
use plan::{Need, Plan};

/// What the last run of the same plan looked at, by the task's index in the plan.
#[derive(Clone, Debug, Default)]
pub struct UnchangedTasks(HashMap<u32, (WatchedTask, bool)>);

impl UnchangedTasks {
    /// `watched`: of the last run. Looks at all of it now; the caller holds the project's lock.
    pub fn of(watched: Vec<WatchedTask>) -> Self {
        let same = WatchedTask::unchanged(&watched);
        Self(watched.into_iter().zip(same).map(|(task, same)| (task.task, (task, same))).collect())
    }

    /// What the last run left, if all of it still looks the same.
    pub(super) fn unchanged(&self, task: u32) -> Option<&WatchedTask> {
        self.0.get(&task).filter(|(_, same)| *same).map(|(task, _)| task)
    }

    /// The record of a task that need not be looked at: all that it depends on looks as the last run of this plan left it, and its
    /// upstream made what it had made then. `is_as_before`: for each task of the plan.
    pub(super) fn record(
        &self,
        work: &impl TaskExecutor,
        plan: &Plan,
        task: u32,
        is_as_before: &[bool],
        cache: &OutputCache,
    ) -> Option<Arc<TaskRecord>> {
        let output = self.unchanged(task)?.output.as_ref()?;
        let task = &plan.tasks[task as usize];
        let is_skipped = |need: &Need| plan.tasks[need.task as usize].skipped.is_some();
        if !task.cache || !task.needs.iter().all(|need| is_as_before[need.task as usize] || is_skipped(need)) {
            return None;
        }
        // What an output names is not among what is looked at.
        cache.whole_record(output).filter(|record| work.unusable_reason(task, &cache.folder(record)).is_none())
    }

    /// Whether what is built on this output can be what it was.
    pub(super) fn is_output_as_before(&self, task: u32, record: &TaskRecord) -> bool {
        self.output_before(task).is_some_and(|before| before.digest == record.digest)
    }

    /// The output that the last run left, whatever it is now.
    pub(super) fn output_before(&self, task: u32) -> Option<&WatchedOutput> {
        self.0.get(&task)?.0.output.as_ref()
    }
}
