//! How to run, and the outcome; how many GPUs must be free at once for a task.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use super::keying::Keyed;
use crate::store::{TaskKey, TaskRecord, WatchedPaths, WatchedTask};
use crate::{KeptServices, OutputCheck, OutputSource, UnchangedTasks};
use base::event::{Done, Event, Failure, GpuId, TaskId, TaskTally};
use plan::{Lifetime, Plan};

/// Where events go: the journal first, then all other receivers.
pub type EventEmitter = Arc<dyn Fn(Event) + Send + Sync>;

/// What a task is to this run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskRole {
    /// Run it if it is not done.
    Run,
    /// Another task needs it, and it must be done already (`--only`).
    Restore,
    /// No task in this run needs it.
    NotNeeded,
}

/// How to run.
#[derive(Clone, Debug, Default)]
pub struct RunOptions {
    pub jobs: u32,
    /// GPU indices that may be leased.
    pub gpus: Vec<GpuId>,
    pub keep_going: bool,
    /// For each task of the plan.
    pub roles: Vec<TaskRole>,
    /// For each task of the plan: run it even if it is done.
    pub forced: Vec<bool>,
    /// Whether a forced measurement that was interrupted goes on; otherwise all of it is measured again.
    pub resumes_forced: bool,
    /// What other machines have made, and may have of this one.
    pub output_source: Option<Arc<dyn OutputSource>>,
    /// Services that stay up for the caller.
    pub kept_services: Option<KeptServices>,
    /// The check that may refuse an output.
    pub output_check: OutputCheck,
    /// Tasks whose inputs, outputs and links are as the last run of this plan left them.
    pub unchanged: Arc<UnchangedTasks>,
}

/// The outcome of a run.
#[derive(Clone, Debug, Default)]
pub struct RunSummary {
    pub tally: TaskTally,
    pub failures: Vec<(TaskId, Failure)>,
    pub interrupted: bool,
    /// Every step that is done: its outcome, and its output folder.
    pub done: Vec<(TaskId, Done, PathBuf)>,
    /// Those of them that may hold the result of a measurement, with their output folders.
    pub measured: Vec<(TaskId, PathBuf)>,
    /// What was skipped, and why.
    pub skipped: Vec<(TaskId, String)>,
    /// Every task has the key and the output that the last run of this plan left.
    pub is_as_before: bool,
    /// Every task that was looked at and has a key, in the plan's order.
    pub keyed_tasks: Vec<KeyedTask>,
    /// Tasks that were not looked at, because they are as the last run of this plan left them.
    pub unseen_tasks: Vec<KeyedTask>,
    /// When everything is done and cacheable: all that has to look the same for the next run to be a no-op.
    pub watched: Option<WatchedRun>,
}

impl RunSummary {
    /// Every task with a known key, in the plan's order.
    pub fn all_keyed_tasks(&self) -> Vec<&KeyedTask> {
        let mut keyed: Vec<&KeyedTask> = self.keyed_tasks.iter().chain(&self.unseen_tasks).collect();
        keyed.sort_by_key(|one| one.task);
        keyed
    }
}

/// What a run looked at, and how it looked.
#[derive(Clone, Debug, Default)]
pub struct WatchedRun {
    /// What no task has alone.
    pub shared: WatchedPaths,
    pub tasks: Vec<WatchedTask>,
}

/// What one task was made from, and what it made.
#[derive(Clone, Debug)]
pub struct KeyedTask {
    /// Index in the plan.
    pub task: usize,
    pub(super) key: KnownKey,
}

#[derive(Clone, Debug)]
pub(super) enum KnownKey {
    /// Of a service.
    Computed(Arc<Keyed>),
    Recorded(Arc<TaskRecord>),
}

impl KeyedTask {
    /// Parsed anew at each call.
    ///
    /// # Errors
    /// A record of another version of this program.
    pub fn key(&self) -> serde_json::Result<Cow<'_, TaskKey>> {
        match &self.key {
            KnownKey::Computed(keyed) => Ok(Cow::Borrowed(&keyed.key)),
            KnownKey::Recorded(record) => record.parsed_key().map(Cow::Owned),
        }
    }

    /// Of its output; a service has none.
    pub fn record(&self) -> Option<&TaskRecord> {
        match &self.key {
            KnownKey::Computed(_) => None,
            KnownKey::Recorded(record) => Some(record),
        }
    }
}

/// What each task is to a run: `chosen` run, their needs too unless `restore_needs` (then they must be done already,
/// except services, which have to be up), everything else is out.
pub fn task_roles(plan: &Plan, chosen: &[bool], restore_needs: bool) -> Vec<TaskRole> {
    let mut roles: Vec<TaskRole> =
        chosen.iter().map(|c| if *c { TaskRole::Run } else { TaskRole::NotNeeded }).collect();
    for ix in (0..plan.tasks.len()).rev() {
        if roles[ix] == TaskRole::NotNeeded {
            continue;
        }
        for need in &plan.tasks[ix].needs {
            let at = need.task as usize;
            if roles[at] == TaskRole::NotNeeded {
                let service = plan.tasks[at].lifetime == Lifetime::Service;
                roles[at] = if restore_needs && !service { TaskRole::Restore } else { TaskRole::Run };
            }
        }
    }
    roles
}

// A failure on a disk that is full: often the stage could not even log why.

/// What the failure itself says of its cause is more exact. `is_removed`: the unfinished output.
pub fn note_full_disk(failure: &mut Failure, is_removed: bool) {
    let end = if is_removed { "; the unfinished output was removed" } else { "" };
    failure.cause.get_or_insert_with(|| format!("the disk is full{end}"));
    let hint = "`regatta gc` lists what can be removed; finished outputs are kept";
    failure.hint.get_or_insert_with(|| hint.to_owned());
}

/// What a user can do where a run has too few GPUs.
pub const GPUS_HINT: &str = "`--gpus` sets the GPUs that a run may lease: `--gpus N` any N of them, `--gpus 0,1` \
    these, `--gpus 0,` GPU 0 alone";

/// How many GPUs of this machine a task has together with the services that have to be up then. `kept`: services that
/// stay up.
pub fn gpus_together(plan: &Plan, task: usize, kept: impl Iterator<Item = usize>) -> u32 {
    let mut together: BTreeSet<usize> = kept.collect();
    together.insert(task);
    let mut open: Vec<usize> = together.iter().copied().collect();
    while let Some(at) = open.pop() {
        for need in plan.tasks[at].needs.iter().map(|need| need.task as usize) {
            if plan.tasks[need].lifetime == Lifetime::Service && together.insert(need) {
                open.push(need);
            }
        }
    }
    let tasks = together.iter().map(|at| &plan.tasks[*at]);
    tasks.filter(|task| task.host.is_none() && task.skipped.is_none()).map(|task| task.gpus).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::event::FailureKind;

    #[test]
    fn a_full_disk_is_the_cause_of_what_has_no_other() {
        let mut failure = Failure::new(FailureKind::Exit(1), "exit code 1");
        note_full_disk(&mut failure, false);
        assert_eq!(failure.cause.as_deref(), Some("the disk is full"));
        let recorded =
            Failure::new(FailureKind::System, "it does not come").cause("the hub broke off").hint("run it again");
        let mut failure = recorded.clone();
        note_full_disk(&mut failure, true);
        assert_eq!(failure, recorded);
    }
}
