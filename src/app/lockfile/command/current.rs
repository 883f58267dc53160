//! The facts of a run that are known before it.

use std::collections::BTreeMap;
use std::env;

use super::hidden_differences::hidden_differences;
use crate::cli::KeyValueArg;
use crate::doctor;
use crate::lockfile::{
    DifferenceWeight, LockDifference, LockExtent, LockPart, LockSection, LockedTask, PrivateValues, compare,
};
use crate::project::Project;
use base::event::{Failure, RunId};
use base::units::shell_word;
use plan::{ActionError, Plan, Task};
use runner::store::{Digests, OutputCache, TaskKey};
use runner::{RunOptions, predict_keys};
use stages::StageExecutor;

/// What a committed file must not hold: values of the stages' secrets, and this machine's paths.
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

/// The name of a run in a lock file: its manifest and the parameters that were given, by an argument or by a variable, in the
/// order of their names. A given default is the same run as one that is not given.
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

/// As a shell reads it, where it would otherwise look like several.
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
    Ok(LockSection { stages, ..head(project, plan, parts, &private)? })
}

/// A section without tasks.
pub fn head(
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
    Ok(LockSection {
        regatta: env!("CARGO_PKG_VERSION").to_owned(),
        params: params(plan, private),
        machine: doctor::machine(&needs),
        tools: doctor::versions(&needs, folder),
        stages: BTreeMap::new(),
    })
}

/// Their values as they are written down.
fn params(plan: &Plan, private: &PrivateValues) -> BTreeMap<String, String> {
    let shown = |(name, value): (&String, &String)| {
        let is_default = plan.at_default.contains(name);
        (name.clone(), if is_default { private.manifest_text(value) } else { private.text(value) })
    };
    plan.params.iter().map(shown).collect()
}

/// What is known of each task's key before anything runs, by its place in the plan.
pub type Keys = Vec<Option<Result<TaskKey, Failure>>>;

/// Reads inputs; where there is a state folder, stores what it has read, so that a later run does not read it again.
pub fn keys(project: &Project, plan: &Plan, options: &RunOptions, output_cache: &OutputCache) -> Keys {
    let home = &project.home;
    let digests = Digests::load(home);
    let stages = StageExecutor::new(home.state(), RunId::new("lock"));
    let keys = predict_keys(plan, &stages, output_cache, &digests, options);
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
            wrong.push(LockDifference {
                part: LockPart::Requested,
                task: Some(task.id.to_string()),
                field: "inputs".to_owned(),
                locked: Some("all there".to_owned()),
                now: Some(private.text(&failure.what)),
                weight: DifferenceWeight::Stops,
            });
        }
    }
    let known = keys.iter().enumerate().filter_map(|(ix, key)| Some((ix, key.as_ref()?.as_ref().ok()?)));
    let mut found = compare(locked, &section(project, plan, &options.roles, known)?, extent);
    // A stage with missing inputs is not a missing stage.
    found.retain(|one| one.task.is_none() || !wrong.iter().any(|bad| bad.task == one.task));
    found.extend(wrong);
    found.extend(hidden_differences(locked, plan, keys, &found));
    found.sort_by(|a, b| a.task.cmp(&b.task));
    Ok(found)
}
