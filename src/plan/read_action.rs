//! A task's action, read back from its text.

use serde_json::Value;

use super::task::Task;
use crate::event::{Failure, FailureKind, TaskId};
use crate::manifest::model::Action;

/// The text of a task's action is no action: a fault of this program, or a plan of another version.
#[derive(Debug, thiserror::Error)]
#[error("{task}: its action cannot be read: {source}")]
pub struct ActionError {
    task: TaskId,
    source: serde_json::Error,
}

impl From<ActionError> for Failure {
    fn from(error: ActionError) -> Self {
        Self::new(FailureKind::Refused, error.to_string()).hint("this is a bug in Regatta, not in the manifest")
    }
}

/// An action from its text: `task.action`, or the same with its references replaced.
///
/// # Errors
/// The text is no action.
pub fn read_action(task: &TaskId, text: &str) -> Result<Action, ActionError> {
    serde_json::from_str(text).map_err(|source| ActionError { task: task.clone(), source })
}

impl Task {
    /// The same as JSON, to change a field of it.
    ///
    /// # Errors
    /// Its text is no JSON.
    pub fn action_json(&self) -> Result<Value, ActionError> {
        serde_json::from_str(&self.action).map_err(|source| ActionError { task: self.id.clone(), source })
    }

    /// What it does; references are still symbolic. A skipped task has no action.
    ///
    /// # Errors
    /// Its text is no action.
    pub fn typed_action(&self) -> Result<Action, ActionError> {
        read_action(&self.id, &self.action)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::ActionKind;

    #[test]
    fn an_action_that_cannot_be_read_names_its_task() {
        let task = |action: &str| Task {
            action: action.to_owned(),
            ..Task::minimal(TaskId::new("build/a"), "build".to_owned(), ActionKind::Shell)
        };
        assert!(matches!(task(r#"{"shell":"true"}"#).typed_action(), Ok(Action::Shell(_))));
        let error = task(r#"{"shall":"true"}"#).typed_action().unwrap_err().to_string();
        assert!(error.starts_with("build/a: its action cannot be read: unknown variant `shall`"), "{error}");
    }
}
