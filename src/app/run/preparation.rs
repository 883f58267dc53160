//! From a command line to a run that may begin, or to an end before any task: nothing to do, or something that cannot work.

use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use super::ci_files;
use super::kept_servers::KeptServers;
use super::leasable_gpus::leasable_gpus;
use super::no_op_run::report_no_op_run;
use super::prepared_run::PreparedRun;
use super::run_end::RunEnd;
use super::signals::StopSignals;
use crate::cli::{self, CliExit, EventFormat, Force, Global, LockMode, OutputVerbosity, RunTarget};
use crate::console::print_error;
use crate::earlier_runs::{EarlierRun, earlier_runs};
use crate::error::CommandError;
use crate::known_failures::refuse_known_failures;
use crate::planning::refuse_impossible_launches;
use crate::project::{Project, options};
use crate::{lockfile, run_store};
use base::diag::ErrorText;
use plan::{Lifetime, Plan};
use report::{LiveOptions, Styler};
use runner::store::CompilerId;
use runner::{RunOptions, TaskRole};

/// What a run is made for.
#[derive(Clone, Copy)]
pub(super) enum RunPurpose<'a> {
    Ordinary,
    /// Others of the same command may come after it.
    OfList(&'a StopSignals),
    /// It may use servers that another run keeps up.
    BesideServers(&'a StopSignals),
    Serve(&'a cli::ServeRequest),
}

/// How it ended.
pub(super) enum Preparation {
    Ready(Box<PreparedRun>),
    /// There is nothing to do, or it was refused.
    Ended(Box<RunEnd>),
}

impl From<RunEnd> for Preparation {
    fn from(end: RunEnd) -> Self {
        Self::Ended(Box::new(end))
    }
}

/// Everything that is known before anything starts. Reports what is wrong with it.
pub(super) fn prepare(
    global: &Global,
    mut request: cli::RunRequest,
    aside: bool,
    purpose: RunPurpose<'_>,
) -> Result<Preparation, CommandError> {
    let begun = Instant::now();
    let serve = if let RunPurpose::Serve(request) = purpose { Some(request) } else { None };
    let project = Project { env: request.env.clone(), ..Project::open_current(global)? };
    let lock = match &request.locking {
        LockMode::Write { file, .. } => Some(file.as_path()),
        LockMode::Ignore | LockMode::Verify(..) => None,
    };
    let compiler = project.compiler_of_run(&request.manifest, &request.settings, &request.select, lock);
    let look = LiveOptions {
        json_lines: request.events == EventFormat::JsonLines,
        quiet: global.loudness == OutputVerbosity::Quiet,
        verbose: matches!(global.loudness, OutputVerbosity::Verbose(_)),
        color: global.color.choice(),
        aside,
    };
    let earlier = earlier_run(&project, &request, serve.is_some(), lock, &compiler);
    if let Some(earlier) = &earlier
        && is_no_op(earlier, &request)
    {
        let lines = report_no_op_run(&earlier.conditions, look, &project.home, begun);
        return Ok(RunEnd { task_lines: lines, ..RunEnd::without_tasks(CliExit::Done) }.into());
    }
    let (mut plan, compiled) =
        project.plan_with_digest(&request.manifest, &request.settings, &request.select, &compiler, true)?;
    // The manifest may have changed since.
    let earlier = earlier.filter(|earlier| Some(earlier.conditions.plan) == compiled);
    request.junit.as_deref().map(ci_files::check_junit).transpose()?;
    let kept_servers = serve.map(|serve| KeptServers::choose(&plan, serve)).transpose()?;
    request.select.until.extend(kept_servers.iter().map(|servers| servers.name.clone()));
    let jobs = request.jobs.map_or_else(|| thread::available_parallelism().map_or(1, usize::from), NonZeroUsize::get);
    let mut options = RunOptions {
        jobs: jobs as u32,
        gpus: leasable_gpus(request.gpus.as_ref())?,
        keep_going: request.keep_going,
        ..options(&plan, &request.select)?
    };
    if let Some(servers) = &kept_servers {
        servers.check_gpus(&plan, &options)?;
    }
    let launches = refuse_impossible_launches(&project, &plan, &options)?;
    if launches != CliExit::Done {
        return Ok(RunEnd::without_tasks(launches).into());
    }
    if kept_servers.is_none() {
        note_servers_alone(&request.manifest, &plan, &options);
    }
    let store = match run_store::address(request.store.address.as_deref())? {
        Some(address) => Some((address, run_store::signatures(&request.store)?)),
        None => None,
    };
    let lock_report =
        lockfile::command::enforce(&project, &request, &mut plan, &mut options, Styler::chosen(look.color))?;
    let failures = refuse_known_failures(&project, &request, &plan, &options)?;
    if failures != CliExit::Done {
        return Ok(RunEnd::without_tasks(failures).into());
    }
    let prepared = PreparedRun {
        project,
        plan: Arc::new(plan),
        options,
        compiler,
        compiled,
        earlier,
        manifest: request.manifest.clone(),
        settings: request.settings.clone(),
        display_options: look,
        begun,
        in_place: request.on == RunTarget::InPlace,
        store,
        locking: request.locking.clone(),
        lock_report,
        kept_servers,
        gives_way: matches!(purpose, RunPurpose::BesideServers(_)),
        signals: match purpose {
            RunPurpose::OfList(signals) | RunPurpose::BesideServers(signals) => signals.clone(),
            RunPurpose::Ordinary | RunPurpose::Serve(_) => StopSignals::new(),
        },
        junit: request.junit.clone(),
        metrics_listen: request.metrics_listen.clone(),
    };
    Ok(Preparation::Ready(Box::new(prepared)))
}

/// An earlier run of the same plan, where the shortest path may be taken: its manifest and the program are unchanged.
fn earlier_run(
    project: &Project,
    request: &cli::RunRequest,
    serves: bool,
    lock: Option<&Path>,
    compiler: &CompilerId,
) -> Option<EarlierRun> {
    let may_be_no_op =
        !serves && request.select.force == Force::Nothing && !matches!(request.locking, LockMode::Verify(..));
    let fresh = may_be_no_op.then(|| compiler.fresh_plan(|name| project.variable(name))).flatten()?;
    earlier_runs(project, &request.manifest, &request.settings, &request.select, lock, fresh).next()
}

/// Whether nothing has to run, and only the terminal is told so: a JUnit file and metrics are of a whole run.
fn is_no_op(earlier: &EarlierRun, request: &cli::RunRequest) -> bool {
    earlier.has_same_selection
        && (earlier.has_same_lock || request.locking == LockMode::Ignore)
        && request.junit.is_none()
        && request.metrics_listen.is_none()
        && earlier.conditions.is_unchanged()
}

/// Servers run while a stage needs them: where only servers are chosen, none is started.
fn note_servers_alone(manifest: &str, plan: &Plan, options: &RunOptions) {
    let chosen = || plan.tasks.iter().zip(&options.roles).filter(|(_, part)| **part == TaskRole::Run);
    let mut tasks = chosen().map(|(task, _)| task).filter(|task| task.skipped.is_none()).peekable();
    if tasks.peek().is_some() && tasks.all(|task| task.lifetime == Lifetime::Service) {
        let note = ErrorText::new(format!("note: no stage needs the servers of `{manifest}`, so none is started"));
        print_error(&format!("{}\n", note.hint(format!("`regatta serve {manifest}` starts them and keeps them up"))));
    }
}
