//! Tasks that need not be looked at again: what they depend on looks as the last run of the same plan left it.

use std::collections::HashMap;

use crate::runner::store::{WatchedOutput, WatchedTask};

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

    /// The output that the last run left, whatever it is now.
    pub(super) fn output_before(&self, task: u32) -> Option<&WatchedOutput> {
        self.0.get(&task)?.0.output.as_ref()
    }
}
