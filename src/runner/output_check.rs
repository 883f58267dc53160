//! A check outside of the stage that can refuse an output, made or cached, before anything is built on it.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use base::event::Failure;
use base::files::Digest;
use plan::Task;

type Ask = dyn Fn(&Task, &Path, &Digest) -> Result<Vec<String>, Failure> + Send + Sync;

/// Called once for each output. Without a check all outputs are accepted.
#[derive(Clone, Default)]
pub struct OutputCheck(Option<Arc<Ask>>);

impl OutputCheck {
    /// `check` gets the task, its output folder and the digest of that, and returns messages for the user, or why the
    /// run must not go on with it. The output stays accepted: it is the requested one, only not the expected one.
    pub fn new(check: impl Fn(&Task, &Path, &Digest) -> Result<Vec<String>, Failure> + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(check)))
    }

    /// It checks nothing.
    pub(super) const fn is_open(&self) -> bool {
        self.0.is_none()
    }

    pub(super) fn check(&self, task: &Task, folder: &Path, output: &Digest) -> Result<Vec<String>, Failure> {
        self.0.as_ref().map_or(Ok(Vec::new()), |check| check(task, folder, output))
    }
}

impl fmt::Debug for OutputCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "OutputCheck(checks)" } else { "OutputCheck(open)" })
    }
}
