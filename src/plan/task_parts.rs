//! A task's action, host, container and external servers, read back from their texts.

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::task::{ActionKind, Task};
use crate::manifest::model::{Action, Container, HostOn, Mlperf, Serve};
use base::event::{Endpoint, Failure, FailureKind, TaskId};

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

/// An action from its text: `task.action`, or the same with its references replaced.
///
/// # Errors
/// The text is no action.
pub fn read_action(task: &TaskId, text: &str) -> Result<Action, ActionError> {
    parse(task, "action", text)
}

/// An action as JSON: of a task's key, where its container stands beside it.
///
/// # Errors
/// The text is no JSON.
pub fn action_json(task: &TaskId, text: &str) -> Result<Value, ActionError> {
    parse(task, "action", text)
}

fn parse<T: DeserializeOwned>(task: &TaskId, part: &'static str, text: &str) -> Result<T, ActionError> {
    serde_json::from_str(text).map_err(|source| ActionError { task: task.clone(), part, source })
}

impl Task {
    /// Its action as JSON, to change a field of it.
    ///
    /// # Errors
    /// Its text is no JSON.
    pub fn action_json(&self) -> Result<Value, ActionError> {
        action_json(&self.id, &self.action)
    }

    /// What it does; references are still symbolic. A skipped task has no action.
    ///
    /// # Errors
    /// Its text is no action.
    pub fn typed_action(&self) -> Result<Action, ActionError> {
        read_action(&self.id, &self.action)
    }

    /// Whether it compiles LoadGen: of MLPerf's stages the one that measures nothing and is not made of measurements.
    pub fn is_loadgen_library(&self) -> bool {
        self.kind == ActionKind::Mlperf && matches!(self.typed_action(), Ok(Action::Mlperf(Mlperf::Loadgen(_))))
    }

    /// Whether it starts a Triton server.
    pub fn is_triton_server(&self) -> bool {
        self.kind == ActionKind::Serve && matches!(self.typed_action(), Ok(Action::Serve(Serve::Triton(_))))
    }

    /// Where it runs, if that is not here.
    ///
    /// # Errors
    /// Its text is no host.
    pub fn typed_host(&self) -> Result<Option<HostOn>, ActionError> {
        self.typed("host", self.host.as_deref())
    }

    /// What its programs run in; references are still symbolic.
    ///
    /// # Errors
    /// Its text is no container.
    pub fn typed_container(&self) -> Result<Option<Container>, ActionError> {
        self.typed("container", self.container.as_deref())
    }

    /// Servers that it uses and that the run does not start; empty for most tasks.
    ///
    /// # Errors
    /// Its text is no list of endpoints.
    pub fn typed_external(&self) -> Result<Vec<Endpoint>, ActionError> {
        Ok(self.typed("external servers", self.external.as_deref())?.unwrap_or_default())
    }

    /// How often it is submitted again when it has lost its machine.
    ///
    /// # Errors
    /// The text of its host is none.
    pub fn resubmit(&self) -> Result<u32, ActionError> {
        Ok(match self.typed_host()? {
            Some(HostOn::Slurm(slurm)) => slurm.resubmit,
            Some(HostOn::Ssh(_)) | None => 0,
        })
    }

    fn typed<T: DeserializeOwned>(&self, part: &'static str, text: Option<&str>) -> Result<Option<T>, ActionError> {
        text.map(|text| parse(&self.id, part, text)).transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_action_that_cannot_be_read_names_its_task() {
        let task = |action: &str| Task {
            action: action.to_owned(),
            ..Task::minimal(TaskId::new("build/a"), "build".to_owned(), ActionKind::Shell)
        };
        assert!(matches!(task(r#"{"shell":"true"}"#).typed_action(), Ok(Action::Shell(_))));
        let error = task(r#"{"shall":"true"}"#).typed_action().unwrap_err().to_string();
        assert!(error.starts_with("build/a: its action cannot be read: unknown variant `shall`"), "{error}");
        let host = Task { host: Some("{}".to_owned()), ..task("") };
        let error = host.resubmit().unwrap_err().to_string();
        assert!(error.starts_with("build/a: its host cannot be read: "), "{error}");
    }
}
