//! A task that is held with its plan: the tasks of a large plan take too much memory to be copied.

use std::ops::Deref;
use std::sync::Arc;

use super::task::{Plan, Task};

/// One task of a plan. Cheap to clone.
#[derive(Clone, Debug)]
pub struct SharedTask {
    plan: Arc<Plan>,
    /// In [`Plan::tasks`].
    index: usize,
}

impl SharedTask {
    /// # Panics
    /// The plan has no such task.
    pub fn new(plan: &Arc<Plan>, index: usize) -> Self {
        assert!(index < plan.tasks.len(), "the plan has {} tasks, and none of index {index}", plan.tasks.len());
        Self { plan: Arc::clone(plan), index }
    }
}

impl Deref for SharedTask {
    type Target = Task;

    fn deref(&self) -> &Task {
        &self.plan.tasks[self.index]
    }
}

/// A task that came from elsewhere, without its plan.
impl From<Task> for SharedTask {
    fn from(task: Task) -> Self {
        Self { plan: Arc::new(Plan { tasks: vec![task], ..Plan::default() }), index: 0 }
    }
}
