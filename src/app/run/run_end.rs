//! How a run ended, for the commands that start one.

use std::path::PathBuf;
use std::sync::Arc;

use crate::cli::CliExit;
use crate::event::TaskId;
use crate::plan::{Lifetime, Plan, Task};
use crate::report::{RunPaths, RunState, TaskPhase, TaskState};
use crate::runner::TaskRole;
use crate::runner::store::{OutputCache, StateFolder};

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
    let is_part = |ix: usize| roles.get(ix).is_some_and(|role| *role != TaskRole::NotNeeded);
    let mut is_needed = vec![false; plan.tasks.len()];
    let mut needing: Vec<usize> = Vec::new();
    for (ix, task) in plan.tasks.iter().enumerate().filter(|(ix, _)| is_part(*ix)) {
        let state = run_state.tasks.get(&task.id).map(|entry| entry.state);
        let is_settled = matches!(state, Some(TaskPhase::Cached | TaskPhase::Skipped));
        if !is_settled && (task.lifetime != Lifetime::Service || state.is_some()) {
            needing.push(ix);
        }
    }
    while let Some(ix) = needing.pop() {
        for need in &plan.tasks[ix].needs {
            let below = need.task as usize;
            if plan.tasks[below].lifetime == Lifetime::Service && !std::mem::replace(&mut is_needed[below], true) {
                needing.push(below);
            }
        }
    }
    let is_left_out = |ix: usize, task: &Task| {
        task.lifetime == Lifetime::Service && is_part(ix) && !is_needed[ix] && !run_state.tasks.contains_key(&task.id)
    };
    plan.tasks.iter().enumerate().filter(|(ix, task)| is_left_out(*ix, task)).count()
}

pub(super) fn places(home: &StateFolder) -> RunPaths {
    let report = home.latest().join("report.html");
    RunPaths { report: report.exists().then_some(report), latest: Some(home.latest()), logs: None }
}
