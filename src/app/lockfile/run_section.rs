//! The section of a run in the lock file: what is known of it before the run, and how it is written afterwards.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::{env, io};

use anyhow::anyhow;

use crate::cli::{KeyValueArg, LockMode};
use crate::lockfile::command::hidden_differences;
use crate::lockfile::{
    DifferenceWeight, LockDifference, LockExtent, LockFile, LockPart, LockSection, LockedTask, PrivateValues, compare,
    measured, read, splice,
};
use crate::project::Project;
use crate::{cli, doctor, lockfile};
use base::event::{Failure, RunId};
use base::files::{Digest, read_document, text_of};
use base::units::shell_word;
use plan::{ActionError, ActionKind, Lifetime, Plan, Task};
use runner::store::{Digests, OutputCache, TaskKey, replace};
use runner::{KeyContext, KeyedTask, RunOptions, RunSummary, TaskRole, predict_keys};
use stages::{StageExecutor, resolved};

/// Values that must not be committed: the stages' secrets, and paths of this machine.
pub fn private(project: &Project, plan: &Plan) -> PrivateValues {
    let names = plan.tasks.iter().flat_map(|task| &task.secrets);
    let secrets = names.filter_map(|name| project.variable(name));
    let home = &project.home;
    let mut folders = vec![(home.state().display().to_string(), STATE), (home.project().display().to_string(), ".")];
    folders.extend(env::var("HOME").ok().map(|folder| (folder, "~")));
    let mut private = PrivateValues::new(secrets, folders);
    for (name, value) in &plan.params {
        // A relative default is a path of the project; an absolute one is in the manifest, and the same everywhere.
        let is_default = plan.at_default.contains(name);
        private.give(value, if is_default { &[".", STATE] } else { &[] });
    }
    plan.given.keys().for_each(|argument| private.give(argument, &[]));
    private
}

/// What stands for the state folder.
const STATE: &str = "<state>";

/// The name of a run in a lock file: its manifest and the parameters that were given, by an argument or by a variable,
/// in the order of their names. A given default is the same run as one that is not given.
pub fn name(project: &Project, plan: &Plan, settings: &[KeyValueArg]) -> String {
    let private = private(project, plan);
    // As it was written in both: the same run has the same name.
    let by_word = settings.iter().map(|setting| (setting.key.as_str(), setting.value.clone()));
    let by_variable = plan.of_environment.iter();
    let by_variable = by_variable.filter_map(|(name, variable)| Some((name.as_str(), project.variable(variable)?)));
    let given: BTreeMap<&str, String> = by_variable
        .chain(by_word)
        .filter(|(name, _)| !plan.at_default.contains(*name))
        .map(|(name, value)| (name, private.text(&value)))
        .collect();
    let given = given.iter().map(|(key, value)| format!(" {}", argument(format!("{key}={value}"))));
    std::iter::once(plan.name.clone()).chain(given).collect()
}

/// Quotes an argument for a shell if it would otherwise be split.
fn argument(text: String) -> String {
    let is_ambiguous = text.contains(|c: char| c.is_whitespace() || c == '\'' || c == '"');
    if is_ambiguous { shell_word(&text) } else { text }
}

/// Whether some of the plan's tasks are left out.
pub fn is_part(plan: &Plan, parts: &[runner::TaskRole]) -> bool {
    plan.tasks.iter().zip(parts).any(|(task, part)| task.skipped.is_none() && *part == runner::TaskRole::NotNeeded)
}

/// Parameters, machine, tools, and the request of each of these tasks.
pub fn section<'a>(
    project: &Project,
    plan: &Plan,
    parts: &[runner::TaskRole],
    keys: impl Iterator<Item = (usize, &'a TaskKey)>,
) -> Result<LockSection, ActionError> {
    let private = private(project, plan);
    let entry = |(ix, key): (usize, &TaskKey)| {
        let task = &plan.tasks[ix];
        Ok((task.id.to_string(), LockedTask::new(plan, task, key, &private)?))
    };
    let stages = keys.map(entry).collect::<Result<_, ActionError>>()?;
    Ok(LockSection { stages, ..run_head(project, plan, parts, &private)? })
}

/// A section without tasks.
pub fn run_head(
    project: &Project,
    plan: &Plan,
    parts: &[runner::TaskRole],
    private: &PrivateValues,
) -> Result<LockSection, ActionError> {
    // This machine does not know what is on a node of a cluster.
    let is_here = |task: &Task, part: &runner::TaskRole| *part != runner::TaskRole::NotNeeded && task.host.is_none();
    let folder = project.home.project();
    let needs = if plan.tasks.iter().any(|task| task.kind.facts().is_service) {
        let mut here = plan.clone();
        for (task, _) in here.tasks.iter_mut().zip(parts).filter(|(task, part)| !is_here(task, part)) {
            task.skipped.get_or_insert_default();
        }
        doctor::needs(&here, folder)?
    } else {
        // What they need of each other is of interest for servers only, and a large plan takes long to copy.
        let tasks = plan.tasks.iter().zip(parts).filter(|(task, part)| is_here(task, part));
        doctor::needs_of_tasks(tasks.map(|(task, _)| task))
    };
    let param = |(name, value): (&String, &String)| {
        let is_default = plan.at_default.contains(name);
        (name.clone(), if is_default { private.manifest_text(value) } else { private.text(value) })
    };
    Ok(LockSection {
        regatta: env!("CARGO_PKG_VERSION").to_owned(),
        params: plan.params.iter().map(param).collect(),
        machine: doctor::machine(&needs),
        tools: doctor::versions(&needs, folder),
        stages: BTreeMap::new(),
    })
}

/// What is known of each task's key before anything runs, by its place in the plan.
pub type Keys = Vec<Option<Result<TaskKey, Failure>>>;

/// Reads inputs; where there is a state folder, stores what it has read, so that a later run does not read it again.
pub fn keys(project: &Project, plan: &Plan, options: &RunOptions, output_cache: &OutputCache) -> Keys {
    let home = &project.home;
    let digests = Digests::load(home);
    let stages = StageExecutor::new(home.state(), RunId::new("lock"));
    let keys = predict_keys(&KeyContext { plan, work: &stages, output_cache, digests: &digests }, options);
    if home.state().is_dir() {
        let _ = digests.save(home);
    }
    keys
}

/// Everything in which a run that has not begun differs from what is locked of it.
pub fn predicted_differences(
    locked: &LockSection,
    project: &Project,
    plan: &Plan,
    options: &RunOptions,
    keys: &Keys,
) -> Result<Vec<LockDifference>, ActionError> {
    let extent = LockExtent { is_part: is_part(plan, &options.roles), has_run: false };
    let private = private(project, plan);
    let mut wrong = Vec::new();
    for (task, key) in plan.tasks.iter().zip(keys) {
        if let Some(Err(failure)) = key {
            let values = [Some("all there".to_owned()), Some(private.text(&failure.what))];
            let (part, weight) = (LockPart::Requested, DifferenceWeight::Stops);
            wrong.push(LockDifference::new(part, Some(task.id.as_str()), "inputs", values, weight));
        }
    }
    let keyed = keys.iter().enumerate().filter_map(|(ix, key)| Some((ix, key.as_ref()?.as_ref().ok()?)));
    let mut differences = compare(locked, &section(project, plan, &options.roles, keyed)?, extent);
    // A stage with missing inputs is not a missing stage.
    differences.retain(|one| one.task.is_none() || !wrong.iter().any(|bad| bad.task == one.task));
    differences.extend(wrong);
    differences.extend(hidden_differences(locked, plan, keys, &differences));
    differences.sort_by(|a, b| a.task.cmp(&b.task));
    Ok(differences)
}

/// The files of the others, relative to the project.
pub(super) fn namesakes(project: &Project, plan: &Plan) -> Vec<String> {
    let plan_file = project.manifests.find(&plan.manifest);
    let names = project.manifests.names().unwrap_or_default().into_iter();
    let others = names.filter(|(_, file, is_shipped)| !is_shipped && Some(file) != plan_file.as_ref());
    others
        .filter(|(file_name, file, _)| {
            let text = file.read().ok().and_then(|read| text_of(read.bytes).ok()).unwrap_or_default();
            let fallback = file_name.rsplit('/').next().unwrap_or(file_name);
            name_in(&text).unwrap_or(fallback) == plan.name
        })
        .map(|(_, file, _)| file.rel)
        .collect()
}

/// A name has letters, digits, `-`, `_` and `.` only. Reading the whole manifest would take long.
fn name_in(text: &str) -> Option<&str> {
    let value = text.lines().find_map(|line| line.strip_prefix("name:"))?;
    let value = value.split('#').next().unwrap_or(value);
    Some(value.trim().trim_matches(['\'', '"']))
}

/// A run that ended well.
pub struct FinishedRun<'a> {
    pub id: &'a RunId,
    pub plan: &'a Plan,
    pub settings: &'a [KeyValueArg],
    pub roles: &'a [TaskRole],
    pub summary: &'a RunSummary,
    /// The lock file is as the last run of this plan wrote it.
    pub is_lock_as_written: bool,
}

/// Writes this run's part anew, and leaves the parts of others. Of a run of some of its stages (`--until`, `--only`) it
/// writes these, and keeps what is locked of the others. Returns what the user should know.
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
    let before = match read_document(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(error.into()),
    };
    let name = name(project, plan, settings);
    let private = private(project, plan);
    let maker = StageMaker { project, plan, private: &private, measured: measured(plan) };
    if run.is_lock_as_written
        && let Some(text) = spliced(&maker, &name, &before, &summary.keyed_tasks)
    {
        if text != before {
            replace(&path, text.as_bytes())?;
        }
        return Ok(None);
    }
    let mut file = if before.is_empty() { LockFile::default() } else { read(&before)? };
    let mut section = run_head(project, plan, roles, &private)?;
    let old = file.runs.remove(&name);
    let notice = old.as_ref().and_then(|old| notice_of_namesakes(project, plan, &name, old));
    let tasks = summary.all_keyed_tasks();
    if let Some(old) = &old {
        keep_makers(project, run, &tasks, old, &mut section)?;
    }
    for keyed in tasks {
        section.stages.insert(plan.tasks[keyed.task].id.to_string(), maker.stage(keyed)?);
    }
    if let Some(old) = old.filter(|_| is_part(plan, roles)) {
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
        "the lock file's entry `{entry}` had other stages (`{first}`): {others} has the same `name: {name}`, and each \
         run replaces the entry; give one of them another name"
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
    if (&old.tools, &old.machine) == (&head.tools, &head.machine) {
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
    let now = run_head(project, plan, &parts, &private(project, plan))?;
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
    let mut made = vec![false; plan.tasks.len()];
    for one in tasks {
        let Some(record) = one.record() else { continue };
        let locked = old.stages.get(plan.tasks[one.task].id.as_str());
        let is_locked = |field: &str, digest: &Digest| {
            locked.and_then(|entry| entry.resolved.get(field)).is_none_or(|text| *text == digest.to_string())
        };
        let is_as_locked = locked.is_some() && is_locked("key", &record.key) && is_locked("output", &record.digest);
        let is_of_run = record.run == run.id.to_string() && record.from.is_none();
        made[one.task] = is_of_run || !is_as_locked;
    }
    // A server leaves no output: it ran where what needs it ran.
    for ix in (0..made.len()).rev().filter(|ix| plan.tasks[*ix].lifetime == Lifetime::Service) {
        let needs_it = |task: &Task| task.needs.iter().any(|need| need.task as usize == ix);
        made[ix] = plan.tasks.iter().zip(&made).any(|(task, is_made)| *is_made && needs_it(task));
    }
    made
}

/// The text with the stages that this run looked at as they are now, where the plan is so large that reading the others
/// would take long.
fn spliced(maker: &StageMaker<'_>, name: &str, before: &str, looked_at: &[KeyedTask]) -> Option<String> {
    /// Tasks.
    const LARGE: usize = 500;
    let plan = maker.plan;
    let is_shell = |keyed: &KeyedTask| plan.tasks[keyed.task].kind == ActionKind::Shell;
    if plan.tasks.len() < LARGE || looked_at.len() > plan.tasks.len() / 4 || !looked_at.iter().all(is_shell) {
        return None;
    }
    let mut roles = vec![TaskRole::NotNeeded; plan.tasks.len()];
    for keyed in looked_at {
        roles[keyed.task] = TaskRole::Run;
    }
    let mut now = run_head(maker.project, plan, &roles, maker.private).ok()?;
    for keyed in looked_at {
        now.stages.insert(plan.tasks[keyed.task].id.to_string(), maker.stage(keyed).ok()?);
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
        let values = folder.map(|folder| resolved(task, &folder)).unwrap_or_default();
        // The file beside an image's id holds the requested name.
        let is_new = self.measured[one.task] || (task.kind == ActionKind::Image && values.contains_key("id"));
        let output = record.map(|record| &record.digest).filter(|_| !is_new);
        Ok(entry.with(values, &key, output))
    }
}

/// What is new, and of the rest what was locked, as long as the plan has such a task.
fn merged(old: LockSection, new: LockSection, plan: &Plan) -> LockSection {
    let planned: HashSet<&str> =
        plan.tasks.iter().filter(|task| task.skipped.is_none()).map(|task| task.id.as_str()).collect();
    let kept = old.stages.into_iter().filter(|(name, _)| planned.contains(name.as_str()));
    // Of two entries of one name the later one stays.
    LockSection {
        machine: old.machine.into_iter().chain(new.machine).collect(),
        tools: old.tools.into_iter().chain(new.tools).collect(),
        stages: kept.chain(new.stages).collect(),
        ..new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_without_reading_the_manifest() {
        assert_eq!(name_in("regatta: 1\nname: 'a-b'  # c\nstages: {}\n"), Some("a-b"));
        assert_eq!(name_in("regatta: 1\nstages:\n  name: { shell: x }\n"), None);
    }
}
