//! The lock file after a successful run.

use std::collections::HashSet;
use std::io;
use std::path::Path;

use super::current;
use super::namesakes::namesakes;
use crate::app::lockfile::{
    LockFile, LockSection, LockedTask, PrivateValues, RunText, measured, outline, read, splice, without_run,
    write_with_run,
};
use crate::app::project::Project;
use crate::cli::{self, KeyValueArg, LockMode};
use crate::files::read_text;
use crate::plan::{ActionError, ActionKind, Plan};
use crate::runner::store::{PathError, replace};
use crate::runner::{KeyedTask, RunSummary, TaskRole};
use crate::stages::resolved;

/// A run that ended well.
pub struct FinishedRun<'a> {
    pub plan: &'a Plan,
    pub settings: &'a [KeyValueArg],
    pub roles: &'a [TaskRole],
    pub summary: &'a RunSummary,
    /// The lock file is as the last run of this plan wrote it.
    pub is_lock_as_written: bool,
}

/// Writes this run's part anew, and leaves the parts of others. Of a run of some of its stages (`--until`, `--only`) it writes
/// these, and keeps what is locked of the others. Returns what the user should know.
///
/// # Errors
/// It could not be written; the text says why.
pub fn write(project: &Project, locking: &cli::LockMode, run: &FinishedRun<'_>) -> Result<Option<String>, String> {
    let LockMode::Write { file, .. } = locking else { return Ok(None) };
    write_file(project, file, run).map_err(|why| format!("the lock file {} was not written: {why}", file.display()))
}

fn write_file(project: &Project, file: &Path, run: &FinishedRun<'_>) -> Result<Option<String>, String> {
    let FinishedRun { plan, settings, roles, summary, .. } = *run;
    let path = project.home.project().join(file);
    let before = match read_text(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(error.to_string()),
    };
    let name = current::name(project, plan, settings);
    if run.is_lock_as_written
        && let Some(text) = spliced(project, plan, &name, &before, &summary.keyed_tasks)
    {
        return replaced(&path, &before, &text).map(|()| None).map_err(|error| error.to_string());
    }
    let is_part = current::is_part(plan, roles);
    let others = if is_part { None } else { without_run(&before, &name) };
    let mut all = match others.as_deref().unwrap_or(&before) {
        "" => LockFile::default(),
        text => read(text).map_err(|why| why.to_string())?,
    };
    let private = current::private(project, plan);
    let mut head = current::head(project, plan, roles, &private).map_err(|why| why.to_string())?;
    let old = all.runs.remove(&name).filter(|_| is_part);
    let notice = outline(&before, &name).and_then(|(_, stages)| notice_of_namesakes(project, plan, &name, &stages));
    let tasks = summary.all_keyed_tasks();
    if let Some(old) = old {
        head = merged(old, head, plan);
    }
    let maker = StageMaker { project, plan, private: &private, measured: measured(plan) };
    let make = |place: usize| maker.stage(tasks[place]);
    let places = tasks.iter().enumerate().map(|(place, one)| (plan.tasks[one.task].id.as_str(), place));
    let text = RunText::of(&head).with_made(places, &make);
    let text = write_with_run(&all, &name, text).map_err(|why| why.to_string())?;
    replaced(&path, &before, &text).map_err(|error| error.to_string())?;
    Ok(notice)
}

/// Where the entry had the stages of another manifest with the same name. `stages`: those that it had.
fn notice_of_namesakes(project: &Project, plan: &Plan, entry: &str, stages: &[&str]) -> Option<String> {
    let planned: HashSet<&str> = plan.tasks.iter().map(|task| task.id.as_str()).collect();
    let foreign: Vec<&str> = stages.iter().copied().filter(|stage| !planned.contains(stage)).collect();
    let (first, others) = (foreign.first()?, namesakes(project, plan));
    if others.is_empty() {
        return None;
    }
    let (others, name) = (others.join(", "), &plan.name);
    Some(format!(
        "the lock file's entry `{entry}` had other stages (`{first}`): {others} has the same `name: {name}`, and each run replaces the entry; give one of them another name"
    ))
}

fn replaced(path: &Path, before: &str, text: &str) -> Result<(), PathError> {
    if text == before { Ok(()) } else { replace(path, text.as_bytes()) }
}

/// The text with the stages that were looked at as they are now, where the plan is so large that reading the others would take long.
fn spliced(project: &Project, plan: &Plan, name: &str, before: &str, looked_at: &[KeyedTask]) -> Option<String> {
    /// Tasks.
    const LARGE: usize = 500;
    let is_shell = |one: &KeyedTask| plan.tasks[one.task].kind == ActionKind::Shell;
    if plan.tasks.len() < LARGE || looked_at.len() > plan.tasks.len() / 4 || !looked_at.iter().all(is_shell) {
        return None;
    }
    let mut parts = vec![TaskRole::NotNeeded; plan.tasks.len()];
    for one in looked_at {
        parts[one.task] = TaskRole::Run;
    }
    let private = current::private(project, plan);
    let mut now = current::head(project, plan, &parts, &private).ok()?;
    let maker = StageMaker { project, plan, private: &private, measured: measured(plan) };
    for one in looked_at {
        now.stages.insert(plan.tasks[one.task].id.to_string(), maker.stage(one).ok()?);
    }
    splice(before, name, &now)
}

/// Makes the stages of a run's part.
struct StageMaker<'a> {
    project: &'a Project,
    plan: &'a Plan,
    private: &'a PrivateValues,
    /// By task.
    measured: Vec<bool>,
}

impl StageMaker<'_> {
    fn stage(&self, one: &KeyedTask) -> Result<LockedTask, ActionError> {
        let task = &self.plan.tasks[one.task];
        let key = one.key().map_err(|source| ActionError::new(task.id.clone(), "recorded key", source))?;
        let entry = LockedTask::new(self.plan, task, &key, self.private)?;
        let record = one.record();
        let folder = record.map(|record| self.project.home.output(&record.folder));
        let values = folder.map(|folder| resolved(task, &folder)).transpose()?.unwrap_or_default();
        // The file beside an image's id holds the requested name.
        let is_new = self.measured[one.task] || (task.kind == ActionKind::Image && values.contains_key("id"));
        let output = record.map(|record| &record.digest).filter(|_| !is_new);
        Ok(entry.with(values, &key, output))
    }
}

/// What is new, and of the rest what was locked, as long as the plan has such a task.
fn merged(old: LockSection, new: LockSection, plan: &Plan) -> LockSection {
    let mut all = new;
    for (name, value) in old.machine {
        all.machine.entry(name).or_insert(value);
    }
    for (name, value) in old.tools {
        all.tools.entry(name).or_insert(value);
    }
    let planned: HashSet<&str> =
        plan.tasks.iter().filter(|task| task.skipped.is_none()).map(|task| task.id.as_str()).collect();
    for (name, entry) in old.stages.into_iter().filter(|(name, _)| planned.contains(name.as_str())) {
        all.stages.entry(name).or_insert(entry);
    }
    all
}
