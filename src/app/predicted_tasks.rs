//! What a run would do with each task, by the shortest way that is certain: for `plan` and `mlperf status`.

use std::path::Path;
use std::sync::Arc;

use super::earlier_runs::earlier_runs;
use super::project::Project;
use crate::cli::{Force, KeyValueArg, LOCK_FILE, Select};
use crate::error::CommandError;
use base::event::RunId;
use plan::Plan;
use runner::store::{CachedSource, Digests, OutputCache};
use runner::{Decision, RunOptions, UnchangedTasks, predict, predict_no_op};
use stages::{StageExecutor, source_notice};

/// What a run would do with each task that is part of it. Looks only at what may have changed since the last run.
pub(super) fn decide(
    project: &Project,
    manifest: &str,
    settings: &[KeyValueArg],
    select: &Select,
    plan: &Plan,
    options: &RunOptions,
) -> Result<Vec<Decision>, CommandError> {
    let fresh = project.compiler(manifest, settings).fresh_plan(|name| project.variable(name));
    let usual_lock = Some(Path::new(LOCK_FILE));
    let earlier = fresh.map(|plan| earlier_runs(project, manifest, settings, select, usual_lock, plan));
    let mut first = None;
    for run in earlier.into_iter().flatten() {
        // Where nothing has changed for all stages, nothing has for some of them.
        if select.force == Force::Nothing && run.conditions.is_unchanged() {
            let mut decisions = predict_no_op(plan, options);
            for CachedSource { task, stage, source } in &run.conditions.sources {
                if let Some(decision) = decisions.iter_mut().find(|decision| decision.id == *task) {
                    decision.reasons.extend(source_notice(source, stage, false));
                }
            }
            return Ok(decisions);
        }
        first.get_or_insert(run.conditions.tasks);
    }
    let unchanged = Arc::new(UnchangedTasks::new(first.unwrap_or_default()));
    let options = RunOptions { unchanged, ..options.clone() };
    let output_cache = OutputCache::open(&project.home)?;
    let stages = StageExecutor::new(project.home.state(), RunId::new("plan")).without_queries();
    Ok(predict(plan, &stages, &output_cache, &Digests::load(&project.home), &options))
}
