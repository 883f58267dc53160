//! How a run ended, for the commands that start one.

use std::path::PathBuf;
use std::sync::Arc;

use crate::cli::CliExit;
use base::event::TaskId;
use plan::{Lifetime, Plan};
use report::{RunPaths, RunState, TaskPhase, TaskState};
use runner::TaskRole;
use runner::store::{OutputCache, StateFolder};

/// How a run ended, and what it left.
pub struct RunEnd {
    pub exit: CliExit,
    /// The output folder of each task that has one, also of one that failed and kept what it had.
    pub outs: Vec<(TaskId, PathBuf)>,
    pub report: Option<PathBuf>,
    /// The messages of each of its tasks, in the order in which they first appear; also of cached ones.
    pub task_lines: Vec<TaskLine>,
    /// It did not begin: the run that it would have waited for keeps its servers up.
    pub gave_way: bool,
    /// What it worked with, and how it ended, as far as that is large: see [`Self::exit_of_process`].
    pub large_parts: Option<(Arc<Plan>, Arc<OutputCache>, RunState)>,
}

impl RunEnd {
    /// It ended before any task.
    pub(super) fn without_tasks(exit: CliExit) -> Self {
        Self { exit, outs: Vec::new(), report: None, task_lines: Vec::new(), gave_way: false, large_parts: None }
    }

    /// Of a process that does nothing more. Its memory goes with it: to free 10,000 tasks one by one takes as long as a no-op.
    pub(super) fn exit_of_process(self) -> CliExit {
        let Self { exit, large_parts, .. } = self;
        std::mem::forget(large_parts);
        exit
    }
}

/// One task at the end.
pub struct TaskLine {
    pub task: TaskId,
    pub headline: Option<String>,
    pub warnings: Vec<String>,
    pub failed: Option<String>,
    pub out: Option<PathBuf>,
    pub is_cached: bool,
}

pub(super) fn task_lines(run_state: &RunState) -> Vec<TaskLine> {
    let of = |(task, entry): (&TaskId, &TaskState)| TaskLine {
        task: task.clone(),
        headline: entry.headline.clone(),
        warnings: entry.warnings.clone(),
        failed: entry.failure.as_ref().map(|failure| failure.what.clone()),
        out: entry.out.clone().or_else(|| entry.failure.as_ref()?.kept.clone()),
        is_cached: entry.state == TaskPhase::Cached,
    };
    run_state.tasks.iter().map(of).collect()
}

/// How many servers were not started because every task above them was cached or skipped, or there is none.
pub(super) fn servers_not_needed(plan: &Plan, roles: &[TaskRole], run_state: &RunState) -> usize {
    let mut is_needed = vec![false; plan.tasks.len()];
    let mut count = 0;
    // Each task stands behind those that it needs.
    for (ix, (task, role)) in plan.tasks.iter().zip(roles).enumerate().rev() {
        if *role == TaskRole::NotNeeded {
            continue;
        }
        let state = run_state.tasks.get(&task.id).map(|entry| entry.state);
        if task.lifetime == Lifetime::Service && state.is_none() && !is_needed[ix] {
            count += 1;
        } else if !matches!(state, Some(TaskPhase::Cached | TaskPhase::Skipped)) {
            for need in &task.needs {
                is_needed[need.task as usize] = true;
            }
        }
    }
    count
}

/// Where the outputs are shown. `is_shown`: whether `latest` leads to them, which it does not after a run that finished no task.
pub(super) fn places(home: &StateFolder, is_shown: bool) -> RunPaths {
    let latest = is_shown.then(|| home.latest());
    let report = latest.as_ref().map(|latest| latest.join("report.html")).filter(|report| report.exists());
    RunPaths { report, latest, logs: None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::event::{Done, Event};
    use plan::{ActionKind, Need, Task};

    #[test]
    fn a_server_of_a_cached_task_is_not_needed_and_one_of_a_task_that_did_not_start_is() {
        let task = |name: &str, lifetime: Lifetime, needs: &[u32]| {
            let minimal = Task::minimal(TaskId::new(name), name.to_owned(), ActionKind::Shell);
            let needs = needs.iter().map(|&task| Need { task, data: true }).collect();
            Task { lifetime, needs, ..minimal }
        };
        let tasks = vec![
            task("below", Lifetime::Service, &[]),
            task("cached-server", Lifetime::Service, &[]),
            task("server", Lifetime::Service, &[0]),
            task("alone", Lifetime::Service, &[]),
            task("cached", Lifetime::Step, &[1]),
            task("open", Lifetime::Step, &[2]),
        ];
        let plan = Plan { tasks, ..Plan::default() };
        let mut run_state = RunState::new();
        run_state.fold(&Event::TaskCached {
            task: TaskId::new("cached"),
            done: Done::default(),
            out: None,
            from: None,
        });
        assert_eq!(servers_not_needed(&plan, &[TaskRole::Run; 6], &run_state), 2);
    }
}
