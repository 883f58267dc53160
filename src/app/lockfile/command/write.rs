//! The lock file after a successful run.

use std::collections::HashSet;
use std::io;
use std::path::Path;

use anyhow::anyhow;

use super::current;
use super::namesakes::namesakes;
use crate::cli::{self, KeyValueArg, LockMode};
use crate::lockfile::{self, LockFile, LockSection, LockedTask, PrivateValues, measured, read};
use crate::project::Project;
use base::event::RunId;
use base::files::{Digest, read_text};
use plan::{ActionError, ActionKind, Lifetime, Plan, Task};
use runner::store::replace;
use runner::{KeyedTask, RunSummary, TaskRole};
use stages::resolved;

/// A run that ended well.
pub struct FinishedRun<'a> {
    pub id: &'a RunId,
    pub plan: &'a Plan,
    pub settings: &'a [KeyValueArg],
    pub roles: &'a [TaskRole],
    pub summary: &'a RunSummary,
}

/// Writes this run's part anew, and leaves the parts of others. Of a run of some of its stages (`--until`, `--only`) it writes
/// these, and keeps what is locked of the others. Returns what the user should know.
///
/// # Errors
/// It could not be written.
pub fn write(project: &Project, locking: &cli::LockMode, run: &FinishedRun<'_>) -> anyhow::Result<Option<String>> {
    let LockMode::Write { file, .. } = locking else { return Ok(None) };
    write_file(project, file, run).map_err(|why| anyhow!("the lock file {} was not written: {why}", file.display()))
}

fn write_file(project: &Project, file: &Path, run: &FinishedRun<'_>) -> anyhow::Result<Option<String>> {
    let FinishedRun { plan, settings, roles, summary, .. } = *run;
    let path = project.home.project().join(file);
    let before = match read_text(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(error.into()),
    };
    let mut file = if before.is_empty() { LockFile::default() } else { read(&before)? };
    let name = current::name(project, plan, settings);
    let private = current::private(project, plan);
    let mut section = current::head(project, plan, roles, &private)?;
    let old = file.runs.remove(&name);
    let notice = old.as_ref().and_then(|old| notice_of_namesakes(project, plan, &name, old));
    let tasks = summary.all_keyed_tasks();
    if let Some(old) = &old {
        keep_makers(project, run, &tasks, old, &mut section)?;
    }
    let maker = StageMaker { project, plan, private: &private, measured: measured(plan) };
    for keyed in tasks {
        section.stages.insert(plan.tasks[keyed.task].id.to_string(), maker.stage(keyed)?);
    }
    if let Some(old) = old.filter(|_| current::is_part(plan, roles)) {
        section = merged(old, section, plan);
    }
    file.runs.insert(name, section);
    let text = lockfile::write(&file)?;
    if text != before {
        replace(&path, text.as_bytes())?;
    }
    Ok(notice)
}

/// Where the entry had the stages of another manifest with the same name.
fn notice_of_namesakes(project: &Project, plan: &Plan, entry: &str, old: &LockSection) -> Option<String> {
    let planned: HashSet<&str> = plan.tasks.iter().map(|task| task.id.as_str()).collect();
    let first = old.stages.keys().find(|stage| !planned.contains(stage.as_str()))?;
    let others = namesakes(project, plan);
    if others.is_empty() {
        return None;
    }
    let (others, name) = (others.join(", "), &plan.name);
    Some(format!(
        "the lock file's entry `{entry}` had other stages (`{first}`): {others} has the same `name: {name}`, and each run replaces the entry; give one of them another name"
    ))
}

/// An output of the cache was made by the tools and on the machine that are locked with it, not by those of today.
fn keep_makers(
    project: &Project,
    run: &FinishedRun<'_>,
    tasks: &[&KeyedTask],
    old: &LockSection,
    head: &mut LockSection,
) -> Result<(), ActionError> {
    if old.has_same_makers(head) {
        return Ok(());
    }
    let plan = run.plan;
    let is_made = made_now(run, tasks, old);
    let planned: HashSet<&str> = plan.tasks.iter().map(|task| task.id.as_str()).collect();
    // Also what is not installed any more.
    if !is_made.contains(&true) && old.stages.keys().all(|name| planned.contains(name.as_str())) {
        (head.tools, head.machine) = (old.tools.clone(), old.machine.clone());
        return Ok(());
    }
    let parts: Vec<TaskRole> = run
        .roles
        .iter()
        .zip(&is_made)
        .map(|(role, is_made)| if *is_made { *role } else { TaskRole::NotNeeded })
        .collect();
    let now = current::head(project, plan, &parts, &current::private(project, plan))?;
    for (all, old, now) in [(&mut head.tools, &old.tools, now.tools), (&mut head.machine, &old.machine, now.machine)] {
        for (name, value) in all.iter_mut().filter(|(name, _)| !now.contains_key(*name)) {
            if let Some(before) = old.get(name) {
                before.clone_into(value);
            }
        }
    }
    Ok(())
}

/// For each task of the plan: whether the run made its output, or found another one than the locked one.
fn made_now(run: &FinishedRun<'_>, tasks: &[&KeyedTask], old: &LockSection) -> Vec<bool> {
    let plan = run.plan;
    let mut all = vec![false; plan.tasks.len()];
    for one in tasks {
        let Some(record) = one.record() else { continue };
        let locked = old.stages.get(plan.tasks[one.task].id.as_str());
        let is_locked = |field: &str, digest: &Digest| {
            locked.and_then(|entry| entry.resolved.get(field)).is_none_or(|text| *text == digest.to_string())
        };
        let is_as_locked = locked.is_some() && is_locked("key", &record.key) && is_locked("output", &record.digest);
        let is_of_run = record.run == run.id.to_string() && record.from.is_none();
        all[one.task] = is_of_run || !is_as_locked;
    }
    // A server leaves no output: it ran where what needs it ran.
    for ix in (0..all.len()).rev().filter(|ix| plan.tasks[*ix].lifetime == Lifetime::Service) {
        let needs_it = |task: &Task| task.needs.iter().any(|need| need.task as usize == ix);
        all[ix] = plan.tasks.iter().zip(&all).any(|(task, is_made)| *is_made && needs_it(task));
    }
    all
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
        let values = folder.map(|folder| resolved(task, &folder)).unwrap_or_default();
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
