//! What is known before a run: earlier runs of the same plan, tasks whose keys can be predicted, and tasks that are
//! known to fail.

use std::collections::BTreeMap;
use std::env;
use std::path::Path;
use std::sync::Arc;

use crate::cli::{CliExit, Force, LOCK_FILE, RunRequest, Select, Subject};
use crate::console::print_error;
use crate::error::CommandError;
use crate::past_runs::holding_run;
use crate::project::Project;
use base::diag::ErrorText;
use base::event::{Decision, Prediction, RunId};
use base::files::Digest;
use base::spec::{AUTHORIZATION, Protocol};
use harness::api_key_in;
use interop::FLAG_VARIABLES;
use plan::manifest::model::{Action, Bench, Serve};
use plan::manifest::targets;
use plan::{Lifetime, Plan, PlanReference, Task};
use runner::store::{CachedSource, Digests, NoOpConditions, OutputCache, StateFolder};
use runner::{
    GPUS_HINT, KeyContext, RunOptions, TaskRole, UnchangedTasks, gpus_together, no_secret_text, predict, predict_no_op,
    secret_values,
};
use stages::{StageExecutor, source_notice};

/// What the environment lacks for a task.
struct EnvironmentFault<'a> {
    task: &'a Task,
    why: String,
    /// It counts only where the task is known to run. Others count where it may.
    needs_certain_run: bool,
}

/// Variables that NVIDIA's Makefile reads: a sentence for each that is set.
pub(super) fn unread_variables() -> Vec<String> {
    let is_set = |name: &&str| env::var_os(name).is_some_and(|value| !value.is_empty());
    let sentence = |name| {
        format!(
            "{name} is set, and no shipped manifest reads it: `regatta import -- {name}=… make run_harness \
            RUN_ARGS=…` prints the settings that it stands for"
        )
    };
    FLAG_VARIABLES.into_iter().filter(is_set).map(sentence).collect()
}

/// Prints what cannot succeed, whatever its earlier stages make: before the first of them runs. With `--keep-going`,
/// what can run does.
pub(super) fn refuse_known_failures(
    project: &Project,
    request: &RunRequest,
    plan: &Plan,
    options: &RunOptions,
) -> Result<CliExit, CommandError> {
    if request.keep_going {
        return Ok(CliExit::Done);
    }
    let mut errors = missing_input_errors(&project.home, plan, options);
    // This run waits for the one that is going on, which may make them.
    if !errors.is_empty() && holding_run(&project.home)?.is_some() {
        return Ok(CliExit::Done);
    }
    let mut faults = Vec::new();
    for (ix, task) in chosen(plan, options) {
        faults.extend(key_fault(task).map(|why| EnvironmentFault { task, why, needs_certain_run: false }));
        let gpus = gpu_fault(ix, plan, options);
        faults.extend(gpus.map(|why| EnvironmentFault { task, why, needs_certain_run: true }));
    }
    // A task that is cached needs neither a key nor GPUs. One that waits for those above it may be cached, too.
    if !faults.is_empty() && errors.is_empty() {
        let decisions = decide(project, &request.subject, &request.select, plan, options)?;
        let run = decisions.iter().filter(|decision| decision.verdict == Prediction::Run);
        let run: BTreeMap<&str, bool> = run.map(|decision| (decision.id.as_str(), decision.may_be_cached)).collect();
        let counts = |fault: &EnvironmentFault<'_>| {
            let may_be_cached = run.get(fault.task.id.as_str());
            may_be_cached.is_some_and(|may_be_cached| !(fault.needs_certain_run && *may_be_cached))
        };
        let faults = faults.into_iter().filter(counts);
        errors.extend(faults.map(|fault| format!("error: {}: {}\n", fault.task.id, fault.why)));
    }
    if errors.is_empty() {
        return Ok(CliExit::Done);
    }
    print_error(&errors.concat());
    Ok(CliExit::Usage)
}

/// What a plan says of the environment that a task needs.
pub(super) fn environment_faults(task: &Task) -> Vec<String> {
    let key = key_fault(task).map(|why| format!("will fail: {why}"));
    key.into_iter().chain(missing_secrets(task)).collect()
}

/// The tasks that are to run, with their places in the plan.
fn chosen<'a>(plan: &'a Plan, options: &'a RunOptions) -> impl Iterator<Item = (usize, &'a Task)> {
    plan.tasks.iter().enumerate().filter(move |(ix, task)| is_chosen(*ix, task, options))
}

fn is_chosen(ix: usize, task: &Task, options: &RunOptions) -> bool {
    options.roles.get(ix) == Some(&TaskRole::Run) && task.skipped.is_none()
}

fn missing_input_errors(home: &StateFolder, plan: &Plan, options: &RunOptions) -> Vec<String> {
    let missing = chosen(plan, options).map(|(ix, task)| (ix, task, missing_inputs(task, home)));
    let missing: Vec<_> = missing.filter(|(_, _, inputs)| !inputs.is_empty()).collect();
    if missing.is_empty() {
        return Vec::new();
    }
    let follow_writers = follow_writers(plan, options);
    let mut errors = Vec::new();
    for (_, task, inputs) in missing.into_iter().filter(|(ix, ..)| !follow_writers[*ix]) {
        errors.extend(inputs.into_iter().map(|(name, path)| {
            let path = home.project().join(path);
            let error = ErrorText::new(format!("error: {}: input {name}: {} does not exist", task.id, path.display()));
            let hint = "paths are relative to the folder that regatta is started in; one in the output of a stage is \
                        `{{ stages.NAME.out }}/…`; --keep-going runs the stages that can";
            format!("{}\n", error.hint(hint))
        }));
    }
    errors
}

/// Own inputs of a task that are not there: their names, and their paths as written. Patterns are for the run itself,
/// and so are outputs of stages that are named through `latest`.
fn missing_inputs<'a>(task: &'a Task, home: &StateFolder) -> Vec<(&'a str, &'a str)> {
    let is_path = |path: &str| PlanReference::all_in(path).is_empty() && !path.contains(['*', '?', '[', '{']);
    let is_missing = |path: &str| {
        let place = home.project().join(path);
        is_path(path) && !place.starts_with(home.latest()) && !place.try_exists().unwrap_or(true)
    };
    let inputs = task.inputs.iter().flat_map(|(name, paths)| paths.iter().map(|path| (name.as_str(), path.as_str())));
    inputs.filter(|(_, path)| is_missing(path)).collect()
}

/// Of each task, whether a command that may write files of the project runs before it. Which ones it writes is not
/// known.
fn follow_writers(plan: &Plan, options: &RunOptions) -> Vec<bool> {
    let mut follow_writer: Vec<bool> = Vec::with_capacity(plan.tasks.len());
    let mut is_writer: Vec<bool> = Vec::with_capacity(plan.tasks.len());
    // Each task stands behind those that it needs.
    for (ix, task) in plan.tasks.iter().enumerate() {
        let follows =
            task.needs.iter().map(|need| need.task as usize).any(|above| follow_writer[above] || is_writer[above]);
        follow_writer.push(follows);
        is_writer.push(!follows && is_chosen(ix, task, options) && may_write(task));
    }
    follow_writer
}

/// Whether a task runs a command of the manifest that can write outside of its output folder.
fn may_write(task: &Task) -> bool {
    match task.action() {
        Some(Action::Shell(_)) => !task.confine,
        Some(Action::Serve(Serve::Command(_))) => true,
        _ => false,
    }
}

/// The variables of the keys that a benchmark sends, each with the manifest's key that names it. Over gRPC
/// `api_key_env` is not sent.
pub(super) fn key_variables(bench: &Bench) -> impl Iterator<Item = (&'static str, &str)> {
    let protocol = targets(&bench.target).unwrap_or_default().protocol(bench.protocol);
    let key = bench.api_key_env.as_deref().filter(|_| protocol != Protocol::Kserve);
    let key = key.filter(|_| !bench.request.headers.has(AUTHORIZATION));
    let of_headers = bench.request.headers.variables().map(|name| ("request.headers", name));
    key.map(|name| ("api_key_env", name)).into_iter().chain(of_headers)
}

/// Why the API key that a benchmark names is missing. Only checked on this machine: other machines have their own
/// environment.
fn key_fault(task: &Task) -> Option<String> {
    let bench = task.bench().filter(|_| task.host.is_none())?;
    let mut faults = key_variables(bench).filter_map(|(key, name)| Some((key, name, api_key_in(name).err()?)));
    faults.next().map(|(key, name, fault)| format!("`{key}: {name}`: the environment variable {fault}"))
}

/// Why a step and its servers cannot get their GPUs. Servers that no step uses are not started and not counted.
fn gpu_fault(ix: usize, plan: &Plan, options: &RunOptions) -> Option<String> {
    if plan.tasks[ix].lifetime == Lifetime::Service {
        return None;
    }
    let (wanted, has) = (gpus_together(plan, ix, std::iter::empty()), options.gpus.len());
    (wanted as usize > has).then(|| {
        ErrorText::new(format!("it needs {}, but this run can lease only {has}", base::units::counted(wanted, "GPU")))
            .hint(format!("{GPUS_HINT}; --keep-going runs the stages that can"))
            .to_string()
    })
}

/// Secrets of a task without a value, each as a sentence.
fn missing_secrets(task: &Task) -> Vec<String> {
    let is_missing = |name: &&String| secret_values(name).is_ok_and(|values| values.is_empty());
    let reason = |name: &String| no_secret_text(env::var_os(name).as_deref());
    let missing = task.secrets.iter().filter(is_missing);
    missing
        .map(|name| format!("{name} {}; the stage lists it under `secrets:` and runs without it", reason(name)))
        .collect()
}

/// The last one of its selection and lock file.
pub(super) struct EarlierRun {
    pub conditions: NoOpConditions,
    /// It had the same selection; otherwise all stages, so that each stage of the selection was a part of it.
    pub has_same_selection: bool,
    /// It wrote the same lock file, or, where none is asked for, none.
    pub has_same_lock: bool,
}

/// The nearest first: of the same selection with this lock file, with another one or none; then of all stages. They are
/// read one by one, because one of 10,000 tasks takes a while. `plan`: the digest of the compiled plan; another one
/// counts for nothing.
pub(super) fn earlier_runs<'a>(
    project: &'a Project,
    subject: &'a Subject,
    select: &'a Select,
    lock: Option<&'a Path>,
    plan: Digest,
) -> impl Iterator<Item = EarlierRun> + 'a {
    let usual = Some(Path::new(LOCK_FILE));
    let locks = std::iter::once(lock).chain([usual, None].into_iter().filter(move |other| *other != lock));
    let all_stages = Select { until: Vec::new(), only: Vec::new(), ..select.clone() };
    let has_selection = *select != all_stages;
    let selections = [Some((select.clone(), true)), has_selection.then_some((all_stages, false))];
    selections.into_iter().flatten().flat_map(move |(select, has_same_selection)| {
        locks.clone().filter_map(move |of| {
            let compiler = project.compiler_of_run(subject, &select, of);
            let conditions = compiler.no_op_conditions(plan)?;
            Some(EarlierRun { conditions, has_same_selection, has_same_lock: of == lock })
        })
    })
}

/// What a run would do with each task that is part of it. Looks only at what may have changed since the last run.
pub(super) fn decide(
    project: &Project,
    subject: &Subject,
    select: &Select,
    plan: &Plan,
    options: &RunOptions,
) -> Result<Vec<Decision>, CommandError> {
    let fresh = project.compiler(subject).fresh_plan(|name| project.variable(name));
    let usual_lock = Some(Path::new(LOCK_FILE));
    let earlier = fresh.map(|plan| earlier_runs(project, subject, select, usual_lock, plan));
    let mut first = None;
    for run in earlier.into_iter().flatten() {
        // If no stage has changed, no selection of stages has.
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
    let mut stages = StageExecutor::new(project.home.state(), RunId::new("plan"));
    stages.may_query = false;
    let digests = Digests::load(&project.home);
    let context = KeyContext { plan, work: &stages, output_cache: &output_cache, digests: &digests };
    Ok(predict(&context, &options))
}
