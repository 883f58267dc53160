//! A typed part of a task: its action, its container, its host, its external servers.

use std::ops::Deref;
use std::sync::Arc;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::actions::Action;
use crate::manifest::model::{Container, HostOn};
use base::event::{Endpoint, Failure, FailureKind, TaskId};

/// A value with its canonical JSON. Code reads the value. The JSON is part of the key, references in it are replaced
/// when the task starts, and it is what a plan's bytes hold.
#[derive(Clone, Debug)]
pub struct TaskPart<T> {
    value: Arc<T>,
    json: Arc<str>,
}

/// The type of a part. Its JSON is read here: a crate that reads plans would compile the code of all actions once more.
pub trait TaskPartValue: Sized {
    /// # Errors
    /// The text is not JSON of this type.
    fn read(json: &str) -> serde_json::Result<Self>;
}

macro_rules! task_part_values {
    ($($part:ty),*) => {
        $(impl TaskPartValue for $part {
            fn read(json: &str) -> serde_json::Result<Self> {
                serde_json::from_str(json)
            }
        })*
    };
}

task_part_values!(Action, Container, HostOn, Vec<Endpoint>);

/// A value that has no JSON.
#[derive(Debug, thiserror::Error)]
#[error("cannot be written as JSON: {0}")]
pub struct UnwritableAction(#[from] serde_json::Error);

impl<T: Serialize + TaskPartValue> TaskPart<T> {
    /// With JSON in which the order of free keys does not depend on how the YAML was written. The value has them in
    /// that order, too: what a plan shows of a command is what a run starts, which reads the JSON.
    ///
    /// # Errors
    /// The value has no JSON.
    pub fn new(value: T) -> Result<Self, UnwritableAction> {
        let mut json = serde_json::to_value(&value)?;
        let written = serde_json::to_string(&json)?;
        json.sort_all_objects();
        let sorted = serde_json::to_string(&json)?;
        if written == sorted {
            return Ok(Self { value: Arc::new(value), json: sorted.into() });
        }
        Ok(Self::from_json(&sorted)?)
    }
}

impl<T: TaskPartValue> TaskPart<T> {
    /// # Errors
    /// The text is not JSON of this type.
    pub fn from_json(json: &str) -> Result<Self, serde_json::Error> {
        Ok(Self { value: Arc::new(T::read(json)?), json: json.into() })
    }
}

impl<T> TaskPart<T> {
    pub fn json(&self) -> &str {
        &self.json
    }
}

impl<T> Deref for TaskPart<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> PartialEq for TaskPart<T> {
    fn eq(&self, other: &Self) -> bool {
        self.json == other.json
    }
}

impl<T> Serialize for TaskPart<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.json)
    }
}

impl<'de, T: TaskPartValue> Deserialize<'de> for TaskPart<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::from_json(&String::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

/// A text of a task cannot be read: a fault of this program, or a plan of another version.
#[derive(Debug, thiserror::Error)]
#[error("{task}: its {part} cannot be read: {source}")]
pub struct ActionError {
    task: TaskId,
    /// `action`, `host`, …
    part: &'static str,
    source: serde_json::Error,
}

impl ActionError {
    /// `part`: `action`, `host`, …
    pub const fn new(task: TaskId, part: &'static str, source: serde_json::Error) -> Self {
        Self { task, part, source }
    }
}

impl From<ActionError> for Failure {
    fn from(error: ActionError) -> Self {
        Self::new(FailureKind::Refused, error.to_string()).hint("this is a bug in Regatta, not in the manifest")
    }
}

/// A task's action with its references replaced, from its JSON.
///
/// # Errors
/// The text is not an action.
pub fn read_action(task: &TaskId, json: &str) -> Result<Action, ActionError> {
    serde_json::from_str(json).map_err(|source| ActionError::new(task.clone(), "action", source))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Task;

    #[test]
    fn an_action_that_cannot_be_read_names_its_task() {
        let id = TaskId::new("build/a");
        assert!(matches!(read_action(&id, r#"{"shell":"true"}"#), Ok(Action::Shell(_))));
        let error = read_action(&id, r#"{"shall":"true"}"#).unwrap_err().to_string();
        assert!(error.starts_with("build/a: its action cannot be read: unknown variant `shall`"), "{error}");
    }

    #[test]
    fn a_task_with_an_unreadable_part_is_no_task() {
        let action = TaskPart::from_json(r#"{"shell":"true"}"#).unwrap();
        let task = Task::new(TaskId::new("a"), "a".to_owned(), action);
        let mut written = serde_json::to_value(&task).unwrap();
        assert_eq!(written["action"], r#"{"shell":"true"}"#);
        assert_eq!(serde_json::from_value::<Task>(written.clone()).unwrap(), task);
        written["host"] = "{}".into();
        assert!(serde_json::from_value::<Task>(written).is_err());
    }
}
