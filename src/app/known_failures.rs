//! What is known to fail before anything starts: an input that is not there, and a key that cannot be sent.

use std::collections::BTreeSet;
use std::env;
use std::path::Path;

use super::decisions::decide;
use super::project::Project;
use crate::app::error::CommandError;
use crate::app::output::print_error;
use crate::cli::{CliExit, RunRequest};
use crate::harness::api_key_in;
use crate::manifest::model::Action;
use crate::plan::{ActionError, ActionKind, Plan, PlanReference, Task};
use crate::runner::{Prediction, RunOptions, TaskRole, no_secret_text, secret_values};

/// Prints what cannot succeed, whatever its earlier stages make: before the first of them runs. With `--keep-going`, what can run does.
/// Of secrets without a value it prints a note: a stage may do without.
pub(super) fn refuse_known_failures(
    project: &Project,
    request: &RunRequest,
    plan: &Plan,
    options: &RunOptions,
) -> Result<CliExit, CommandError> {
    let chosen = || plan.tasks.iter().enumerate().filter(|(ix, task)| is_chosen(*ix, task, options));
    let mut errors: Vec<String> = Vec::new();
    for (ix, task) in chosen() {
        for (name, path) in missing_inputs(task, project.home.project()) {
            if !may_be_made(plan, options, ix, path) {
                let path = project.home.project().join(path);
                errors.push(format!(
                    "error: {}: input {name}: {} does not exist\n  hint: paths are relative to the folder that regatta is started in; \
                     one in the output of a stage is `{{{{ stages.NAME.out }}}}/…`; with --keep-going what can run runs\n",
                    task.id,
                    path.display()
                ));
            }
        }
    }
    let mut unset = Vec::new();
    for (_, task) in chosen() {
        let key = key_fault(task)?;
        let secrets = missing_secrets(task);
        if key.is_some() || !secrets.is_empty() {
            unset.push((task, key, secrets));
        }
    }
    // A task that is cached needs neither keys nor secrets.
    if !unset.is_empty() && errors.is_empty() {
        let all = decide(project, &request.manifest, &request.settings, &request.select, plan, options)?;
        let run = all.iter().filter(|decision| decision.verdict == Prediction::Run);
        let run: BTreeSet<&str> = run.map(|decision| decision.id.as_str()).collect();
        for (task, key, secrets) in unset.into_iter().filter(|(task, ..)| run.contains(task.id.as_str())) {
            if let Some(why) = key {
                errors.push(format!("error: {}: {why}\n", task.id));
            }
            for why in secrets {
                print_error(&format!("note: {}: {why}\n", task.id));
            }
        }
    }
    if errors.is_empty() || request.keep_going {
        return Ok(CliExit::Done);
    }
    print_error(&errors.concat());
    Ok(CliExit::Usage)
}

/// What a plan says of the environment that a task needs.
pub(super) fn environment_faults(task: &Task) -> Result<Vec<String>, ActionError> {
    let key = key_fault(task)?.map(|why| format!("will fail: {why}"));
    Ok(key.into_iter().chain(missing_secrets(task)).collect())
}

fn is_chosen(ix: usize, task: &Task, options: &RunOptions) -> bool {
    options.roles.get(ix) == Some(&TaskRole::Run) && task.skipped.is_none()
}

/// Own inputs of a task that are not there: their names, and their paths as written. Patterns are for the run itself.
fn missing_inputs<'a>(task: &'a Task, project: &Path) -> Vec<(&'a str, &'a str)> {
    let is_path = |path: &str| PlanReference::all_in(path).is_empty() && !path.contains(['*', '?', '[', '{']);
    let is_missing = |path: &str| is_path(path) && !project.join(path).try_exists().unwrap_or(true);
    let all = task.inputs.iter().flat_map(|(name, paths)| paths.iter().map(|path| (name.as_str(), path.as_str())));
    all.filter(|(_, path)| is_missing(path)).collect()
}

/// Whether a command that runs before this task may write the file: it names it or its folder, or has files of the project.
fn may_be_made(plan: &Plan, options: &RunOptions, ix: usize, path: &str) -> bool {
    let path = Path::new(path);
    let folder = path.parent().filter(|folder| folder.components().count() > 0);
    let names = [path.file_name().map(Path::new), folder];
    let names: Vec<_> = names.into_iter().flatten().map(Path::to_string_lossy).collect();
    let is_named = |text: &String| names.iter().any(|name| text.contains(&**name));
    let mut before: Vec<usize> = vec![ix];
    let mut at = 0;
    while let Some(&next) = before.get(at) {
        for need in &plan.tasks[next].needs {
            let need = need.task as usize;
            if !before.contains(&need) {
                before.push(need);
            }
        }
        at += 1;
    }
    before.into_iter().skip(1).any(|ix| {
        let task = &plan.tasks[ix];
        is_chosen(ix, task, options)
            && task.kind == ActionKind::Shell
            && (!task.inputs.is_empty() || is_named(&task.action) || task.env.values().any(is_named))
    })
}

/// Why a benchmark has no key to send, if it names one. On another machine the environment may be another.
fn key_fault(task: &Task) -> Result<Option<String>, ActionError> {
    // To read every action of a large plan takes its time.
    if task.host.is_some() || task.kind != ActionKind::Bench || !task.action.contains("\"api_key_env\":\"") {
        return Ok(None);
    }
    let Action::Bench(bench) = task.typed_action()? else { return Ok(None) };
    let Some(name) = &bench.api_key_env else { return Ok(None) };
    let fault = api_key_in(name).err();
    Ok(fault.map(|fault| format!("`api_key_env: {name}`: the environment variable {fault}")))
}

/// Secrets of a task without a value, each as a sentence.
fn missing_secrets(task: &Task) -> Vec<String> {
    let is_missing = |name: &&String| secret_values(name).is_ok_and(|values| values.is_empty());
    let why = |name: &String| no_secret_text(env::var_os(name).as_deref());
    let missing = task.secrets.iter().filter(is_missing);
    missing.map(|name| format!("{name} {}, and the stage's `secrets:` name it: it runs without", why(name))).collect()
}
