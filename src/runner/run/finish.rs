//! The end of a run: what became of each task, and what has to stay as it is for the next run to be a no-op.

use std::path::PathBuf;
use std::sync::Arc;

use super::{Keyed, RunSummary, Runner, TaskOutput, TaskRole};
use crate::event::{Event, Failure};
use crate::plan::ActionKind;
use crate::runner::options::KeyedTask;
use crate::runner::schedule::TaskIndex;
use crate::runner::store::{FileStamp, TaskRecord};
use crate::runner::task_executor::TaskExecutor;

impl<W: TaskExecutor> Runner<W> {
    pub(super) fn finish(mut self) -> RunSummary {
        // Servers for the caller are no result: the same command starts them again.
        if self.summary.failures.is_empty() && !self.summary.interrupted && self.options.kept_services.is_none() {
            self.summary.no_op_conditions = self.look_at();
        }
        self.summary.keyed_tasks = self.keyed_tasks();
        self.summary
    }

    /// Whether the run may go on with an output; reports what the user should know about it.
    pub(super) fn passes(&self, ix: TaskIndex, record: &TaskRecord) -> Result<(), Failure> {
        let task = self.task(ix);
        for text in self.options.gate.check(task, &self.cache.folder(record), &record.digest)? {
            (self.emit)(Event::Notice { task: Some(task.id.clone()), text });
        }
        Ok(())
    }

    fn keyed_tasks(&self) -> Vec<KeyedTask> {
        let one = |(ix, keyed): (usize, &Option<Arc<Keyed>>)| {
            let key = keyed.as_ref()?.key.clone();
            let output = match &self.outputs[ix] {
                Some(TaskOutput::Output(record)) => Some((record.digest, self.cache.folder(record))),
                _ => None,
            };
            Some(KeyedTask { task: ix, key, output })
        };
        self.keyed.iter().enumerate().filter_map(one).collect()
    }

    /// Every file that, when changed, would make the next run do something; `None` if looking at files cannot decide that.
    fn look_at(&self) -> Option<Vec<(PathBuf, FileStamp)>> {
        // Another manifest's run may show its own outputs in `latest`.
        let mut look_at: Vec<(PathBuf, FileStamp)> = self.latest.stamp().ok().into_iter().collect();
        for (ix, task) in self.plan.tasks.iter().enumerate() {
            if self.options.roles[ix] == TaskRole::NotNeeded || task.skipped.is_some() {
                continue;
            }
            // No file shows whether an image is still there, or a server still the same.
            let by_files = task.container.is_none() && task.kind != ActionKind::Image && task.external.is_none();
            if !task.cache || self.options.forced[ix] || !by_files {
                return None;
            }
            if let Some(keyed) = &self.keyed[ix] {
                let seen = keyed.inputs.values().flat_map(|state| &state.seen);
                if seen.clone().any(|(_, stamp)| stamp.is_racy()) {
                    return None;
                }
                look_at.extend(seen.cloned());
            }
            if let Some(TaskOutput::Output(record)) = &self.outputs[ix] {
                look_at.extend(self.cache.stamps(record).ok()?);
                look_at.push(self.latest.stamp_of(&task.id).ok()?);
            }
        }
        Some(look_at)
    }
}
