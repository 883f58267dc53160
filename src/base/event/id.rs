//! Names of tasks and runs.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::files::Digest;

/// A task's name: the stage, then one part for each `foreach` value, joined by `/`:
/// `clone_trt_llm`, `run_harness/server`. Safe as a relative path (no `..`, no empty part).
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TaskId(Arc<str>);

impl TaskId {
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self(name.into())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name of its log in runs of programs that wrote no digests into names.
    pub fn undigested_file_name(&self) -> String {
        self.0.replace('/', ".")
    }

    /// One file name for this task, for logs and work folders, that no other task of its plan has: `run_harness.server`. A digest keeps
    /// `m/1/2.3` and `m/1.2/3` apart. Names of stages have no dots: `m/0.5` needs none.
    pub fn file_name(&self) -> String {
        let name = self.undigested_file_name();
        if self.0.contains('.') && self.0.matches('/').count() > 1 {
            return format!("{name}-{}", Digest::of(self.0.as_bytes()).short());
        }
        name
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A run's name: local start time and process, `20261120-224301.017-4711`. Sorts by time (`store::name_run`).
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RunId(Arc<str>);

impl RunId {
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self(name.into())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn tasks_whose_values_have_dots_have_file_names_of_their_own() {
        let file = |id: &str| TaskId::new(id).file_name();
        let values = ["1", "1.2", "2", "2.3", "3"];
        let ids = values.iter().flat_map(|v| values.iter().map(move |w| format!("m/{v}/{w}")));
        assert_eq!(ids.map(|id| file(&id)).collect::<HashSet<_>>().len(), 25);
        let usual = ["clone", "bench/server", "bench/0.5", "m/1/2@3"];
        assert_eq!(usual.map(file), ["clone", "bench.server", "bench.0.5", "m.1.2@3"]);
    }
}
