//! The lock file after a successful run.

use std::fs;
use std::io;
use std::path::Path;

use super::current;
use crate::app::lockfile::{LockFile, LockSection, measured, read, splice, write as text_of};
use crate::app::project::Project;
use crate::cli::{self, KeyValueArg, LockMode};
use crate::plan::{ActionError, ActionKind, Plan};
use crate::runner::store::{PathError, replace};
use crate::runner::{KeyedTask, RunSummary, TaskRole};
use crate::stages::resolved;

/// Writes this run's part anew, and leaves the parts of others. Of a run of some of its stages (`--until`, `--only`) it writes
/// these, and keeps what is locked of the others. `is_as_written`: the file is as the last run of this plan wrote it. Returns a notice
/// if it could not be written: never a failure of the run.
pub fn write(
    project: &Project,
    locking: &cli::LockMode,
    settings: &[KeyValueArg],
    plan: &Plan,
    parts: &[TaskRole],
    summary: &RunSummary,
    is_as_written: bool,
) -> Option<String> {
    let LockMode::Write(file) = locking else { return None };
    let cannot = |why: &dyn std::fmt::Display| Some(format!("{} was not written: {why}", file.display()));
    let path = project.home.project().join(file);
    let before = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => return cannot(&error),
    };
    let name = current::name(project, plan, settings);
    if is_as_written && let Some(text) = spliced(project, plan, &name, &before, &summary.keyed_tasks) {
        return replaced(&path, &before, &text).err().and_then(|error| cannot(&error));
    }
    let mut all = match before.as_str() {
        "" => LockFile::default(),
        text => match read(text) {
            Ok(all) => all,
            Err(why) => return cannot(&why),
        },
    };
    let mut section = match section(project, plan, parts, &summary.all_keyed_tasks()) {
        Ok(section) => section,
        Err(why) => return cannot(&why),
    };
    if current::is_part(plan, parts)
        && let Some(old) = all.runs.remove(&name)
    {
        section = merged(old, section, plan);
    }
    all.runs.insert(name, section);
    let text = match text_of(&all) {
        Ok(text) => text,
        Err(why) => return cannot(&why),
    };
    replaced(&path, &before, &text).err().and_then(|error| cannot(&error))
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
    splice(before, name, &section(project, plan, &parts, looked_at).ok()?)
}

fn section(
    project: &Project,
    plan: &Plan,
    parts: &[TaskRole],
    keyed_tasks: &[KeyedTask],
) -> Result<LockSection, ActionError> {
    let mut section = current::section(project, plan, parts, keyed_tasks.iter().map(|one| (one.task, &one.key)))?;
    let measured = measured(plan);
    for one in keyed_tasks {
        let task = &plan.tasks[one.task];
        let Some(entry) = section.stages.remove(task.id.as_str()) else { continue };
        let values = one.output.as_ref().map(|(_, folder)| resolved(task, folder)).transpose()?.unwrap_or_default();
        // The file beside an image's id holds the requested name.
        let is_new = measured[one.task] || (task.kind == ActionKind::Image && values.contains_key("id"));
        let output = one.output.as_ref().map(|(digest, _)| digest).filter(|_| !is_new);
        section.stages.insert(task.id.to_string(), entry.with(values, &one.key, output));
    }
    Ok(section)
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
    let planned = |name: &str| plan.tasks.iter().any(|task| task.skipped.is_none() && task.id.as_str() == name);
    for (name, entry) in old.stages.into_iter().filter(|(name, _)| planned(name)) {
        all.stages.entry(name).or_insert(entry);
    }
    all
}
