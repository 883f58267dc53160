//! What a run would do with each task, by the shortest way that is certain: for `plan` and `mlperf status`.

use std::path::Path;
use std::sync::Arc;

use super::project::Project;
use crate::app::error::CommandError;
use crate::cli::{Force, KeyValueArg, LOCK_FILE, Select};
use crate::event::RunId;
use crate::plan::Plan;
use crate::runner::store::{Digests, NoOpConditions, OutputCache};
use crate::runner::{Decision, RunOptions, UnchangedTasks, predict, predict_no_op};
use crate::stages::StageExecutor;

/// What the last runs of the same plan and selection left to look at: of the one that wrote a lock file, then of the one that did
/// not. Nothing, if the plan has changed since.
fn last_runs(
    project: &Project,
    manifest: &str,
    settings: &[KeyValueArg],
    select: &Select,
) -> impl Iterator<Item = NoOpConditions> {
    let of_run = |lock| project.compiler_of_run(manifest, settings, select, lock);
    let compilers = [of_run(Some(Path::new(LOCK_FILE))), of_run(None)];
    let fresh = compilers[0].fresh_plan(|name| project.variable(name));
    compilers.into_iter().filter_map(move |compiler| compiler.no_op_conditions(fresh?))
}

fn unchanged(last: Option<NoOpConditions>) -> Arc<UnchangedTasks> {
    Arc::new(UnchangedTasks::of(last.map(|last| last.tasks).unwrap_or_default()))
}

/// What a run would do with each task that is part of it. Looks only at what may have changed since the last run.
pub(super) fn decide(
    project: &Project,
    manifest: &str,
    settings: &[KeyValueArg],
    select: &Select,
    plan: &Plan,
    options: &RunOptions,
) -> Result<Vec<Decision>, CommandError> {
    let mut first = None;
    for last in last_runs(project, manifest, settings, select) {
        if select.force == Force::Nothing && last.is_unchanged() {
            return Ok(predict_no_op(plan, options));
        }
        first.get_or_insert(last);
    }
    let options = RunOptions { unchanged: unchanged(first), ..options.clone() };
    let output_cache = OutputCache::open(&project.home)?;
    let stages = StageExecutor::new(project.home.state(), RunId::new("plan")).without_queries();
    Ok(predict(plan, &stages, &output_cache, &Digests::load(&project.home), &options))
}
