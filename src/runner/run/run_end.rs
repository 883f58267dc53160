//! The end of a run: the outcome of each task, and what has to stay as it is for the next run to be a no-op.

use std::sync::Arc;

use super::{KeyState, RunSummary, Runner, TaskOutput, TaskRole};
use crate::options::{KeyedTask, KnownKey, WatchedRun};
use crate::schedule::TaskIndex;
use crate::store::{TaskRecord, WatchedOutput, WatchedPaths, WatchedTask};
use crate::task_executor::TaskExecutor;
use base::event::{Event, Failure};

impl<W: TaskExecutor> Runner<W> {
    pub(super) fn finish(mut self) -> RunSummary {
        // Servers for the caller are no result: the same command starts them again.
        if self.summary.failures.is_empty() && !self.summary.interrupted && self.options.kept_services.is_none() {
            self.summary.watched = self.watched();
        }
        self.summary.is_as_before = self.is_as_before();
        // Also where every task is as before: the lock file may still be another one, or none.
        (self.summary.keyed_tasks, self.summary.unseen_tasks) = self.keyed_tasks();
        self.summary
    }

    /// Whether the run may go on with an output; reports what the user should know about it.
    pub(super) fn passes(&self, ix: TaskIndex, record: &TaskRecord) -> Result<(), Failure> {
        if self.options.output_check.is_open() {
            return Ok(());
        }
        let task = self.task(ix);
        for text in self.options.output_check.check(&task, &self.cache.folder(record), &record.digest)? {
            (self.emit)(Event::Notice { task: Some(task.id.clone()), text });
        }
        Ok(())
    }

    /// Tasks that were looked at, and those that were not.
    fn keyed_tasks(&self) -> (Vec<KeyedTask>, Vec<KeyedTask>) {
        let recorded = |task: usize| Some(KeyedTask { task, key: KnownKey::Recorded(Arc::clone(self.record(task)?)) });
        let (mut seen, mut unseen) = (Vec::new(), Vec::new());
        for (ix, key) in self.keys.iter().enumerate() {
            match key {
                KeyState::Unseen => unseen.extend(recorded(ix)),
                KeyState::Keyed(keyed) => seen.push(KeyedTask { task: ix, key: KnownKey::Computed(Arc::clone(keyed)) }),
                KeyState::Recorded(_) => seen.extend(recorded(ix)),
            }
        }
        (seen, unseen)
    }

    fn record(&self, ix: usize) -> Option<&Arc<TaskRecord>> {
        match &self.outputs[ix] {
            Some(TaskOutput::Output(record)) => Some(record),
            _ => None,
        }
    }

    /// Whether every task has the key and the output that the last run of this plan left.
    fn is_as_before(&self) -> bool {
        let is_same = |ix: usize| {
            let before = self.options.unchanged.output_before(ix as TaskIndex);
            match (&self.outputs[ix], before) {
                (Some(TaskOutput::Output(now)), Some(before)) => {
                    (now.key, now.digest, now.folder.as_str()) == (before.key, before.digest, before.folder.as_str())
                }
                _ => false,
            }
        };
        let tasks = self.plan.tasks.iter().zip(&self.options.roles).enumerate();
        let parts = tasks.filter(|(_, (task, role))| **role != TaskRole::NotNeeded && task.skipped.is_none());
        parts.into_iter().all(|(ix, _)| is_same(ix))
    }

    /// Every file that, when changed, would make the next run do something; `None` if looking at files cannot decide
    /// that.
    fn watched(&self) -> Option<WatchedRun> {
        if self.has_uncached {
            return None;
        }
        // Another manifest's run may show its own outputs in `latest`.
        let mut watched = WatchedRun { shared: self.latest.stamp().ok().into_iter().collect(), tasks: Vec::new() };
        for (ix, task) in self.plan.tasks.iter().enumerate() {
            if self.options.roles[ix] == TaskRole::NotNeeded || task.skipped.is_some() {
                continue;
            }
            if !task.cache || self.options.forced[ix] || !task.is_decided_by_files() {
                return None;
            }
            let at = ix as TaskIndex;
            // Where nothing was looked at, it is as it was.
            let before = self.options.unchanged.unchanged(at).filter(|_| matches!(self.keys[ix], KeyState::Unseen));
            watched.tasks.push(match before {
                Some(before) => before.clone(),
                None => WatchedTask { task: at, output: self.watched_output(ix), look_at: self.look_at(ix)? },
            });
        }
        Some(watched)
    }

    fn look_at(&self, ix: usize) -> Option<WatchedPaths> {
        let mut look_at = WatchedPaths::new();
        let seen = self.keys[ix].seen_inputs();
        if seen.iter().any(|(_, stamp)| stamp.is_racy()) {
            return None;
        }
        look_at.extend(seen);
        if let Some(TaskOutput::Output(record)) = &self.outputs[ix] {
            look_at.extend(self.cache.stamps(record).ok()?);
            look_at.push(self.latest.stamp_of(&self.plan.tasks[ix].id).ok()?);
        }
        Some(look_at)
    }

    /// `None` also where a retry may have lowered something: that is looked up by another key.
    fn watched_output(&self, ix: usize) -> Option<WatchedOutput> {
        let may_be_lowered = self.plan.tasks[ix].retry.as_ref().is_some_and(|rule| rule.lower.is_some());
        match &self.outputs[ix] {
            Some(TaskOutput::Output(record)) if !may_be_lowered => {
                Some(WatchedOutput { key: record.key, digest: record.digest, folder: record.folder.clone() })
            }
            _ => None,
        }
    }
}
