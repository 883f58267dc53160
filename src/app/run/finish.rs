//! The end of a run: what the next one needs is saved, how it ended is recorded, and people are told.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::cli::{CliExit, LockMode};
use crate::console::print_error;
use crate::error::CommandError;
use crate::run::begun_run::{BegunRun, ProgressPrinter};
use crate::run::preparation::{PreparedRun, record_no_op_conditions};
use crate::run::{kept_servers, parallel_join};
use crate::{lockfile, past_runs};
use base::diag::error_chain;
use base::event::{Event, RunId, TaskId};
use exec::process::ExitKind;
use plan::{Lifetime, Plan};
use report::{RunPaths, RunState, TaskPhase, junit_xml, markdown_summary};
use runner::store::{Latest, OutputCache, PathError, StateFolder, append_named, write_named};
use runner::{RunSummary, TaskRole};

/// Ends a run whose tasks have ended. `of_command`: the end of the command that its servers were kept up for.
///
/// # Errors
/// Its journal or its outputs could not be written.
pub(super) fn finish(
    prepared: PreparedRun,
    begun: BegunRun,
    printer: ProgressPrinter,
    mut summary: RunSummary,
    of_command: Option<ExitKind>,
) -> Result<RunEnd, CommandError> {
    let home = prepared.project.home.clone();
    let unsynced = begun.cache.sync().err();
    let exit = if unsynced.is_some() { CliExit::Failed } else { exit_of(&summary, of_command) };
    let is_lock_missing = !save(&prepared, &begun, &summary, exit);
    let mut live = printer.close();
    // How the run ends is settled before it is recorded.
    let seconds = prepared.begun.elapsed().as_secs_f64();
    let finished = |exit: CliExit| Event::RunFinished { tally: summary.tally, exit: exit.code(), seconds };
    let ci_files = write_ci_files(&prepared, live.state(), &finished(exit));
    let fails = begun.sink.is_broken() || ci_files.junit.is_some() || is_lock_missing;
    let exit = if exit == CliExit::Done && fails { CliExit::Failed } else { exit };
    let finished = finished(exit);
    (begun.emit)(finished.clone());
    live.event(&finished);
    let broken = begun.sink.finish();
    let (measured, run_state) = (std::mem::take(&mut summary.measured), live.state());
    let (report, ()) = parallel_join(
        || past_runs::write_report(&home, &begun.id, run_state, &prepared.plan, &measured),
        || {
            if broken.is_none() && unsynced.is_none() && !is_lock_missing {
                record_conditions(&prepared, &begun.id, summary);
            }
        },
    );
    live.set_not_needed(servers_not_needed(&prepared.plan, &prepared.options.roles, live.state()));
    let is_shown = Latest::new(&home, &prepared.plan.name).is_shown();
    let places =
        RunPaths { logs: Some(home.run(&begun.id)), report: report.as_ref().ok().cloned(), ..places(&home, is_shown) };
    let state = live.finish(&places);
    if let Err(error) = &report {
        print_error(&format!("warning: this run has no report: {}\n", error_chain(error.as_ref())));
    }
    ci_files.print_errors();
    if let Some(error) = broken {
        let consequence = "the run was stopped, because its journal could not be written";
        return Err(anyhow::Error::from(error).context(consequence).into());
    }
    if let Some(error) = unsynced {
        return Err(error.into());
    }
    let BegunRun { lock, cache, .. } = begun;
    drop(lock);
    let large_parts = Some((prepared.plan, cache));
    Ok(RunEnd { exit, report: report.ok(), state, gave_way: false, large_parts })
}

/// Saves what the next run needs, and the lock file of a run that did well. Returns false where a lock file that the
/// user named could not be written.
fn save(prepared: &PreparedRun, begun: &BegunRun, summary: &RunSummary, exit: CliExit) -> bool {
    let is_as_written = summary.is_as_before && begun.is_lock_file_as_written;
    let is_to_lock = exit == CliExit::Done && prepared.kept_servers.is_none() && !is_as_written;
    // Each of them takes a while where the plan is large.
    let (saved, locked) = parallel_join(
        || begun.digests.save(&prepared.project.home),
        || is_to_lock.then(|| write_lock_file(prepared, begun, summary)),
    );
    let is_named = matches!(prepared.request.mode.locking.mode(), LockMode::Write { is_named: true, .. });
    let is_lock_missing = is_named && matches!(locked, Some(Err(_)));
    let unsaved = saved.err().map(|error| format!("the next run reads its inputs again: {error}"));
    let notice = locked.and_then(|locked| locked.unwrap_or_else(|error| Some(error.to_string())));
    for text in unsaved.into_iter().chain(notice) {
        (begun.emit)(Event::Notice { task: None, text });
    }
    !is_lock_missing
}

/// Returns what the user should know of it.
///
/// # Errors
/// It could not be written.
fn write_lock_file(prepared: &PreparedRun, begun: &BegunRun, summary: &RunSummary) -> anyhow::Result<Option<String>> {
    let PreparedRun { project, request, plan, options, .. } = prepared;
    let (settings, locking) = (&request.subject.settings, request.mode.locking.mode());
    let (id, roles, is_lock_as_written) = (&begun.id, &options.roles, begun.is_lock_file_as_written);
    let run = lockfile::run_section::FinishedRun { id, plan, settings, roles, summary, is_lock_as_written };
    lockfile::run_section::write(project, &locking, &run)
}

/// Not of a run that enforces a lock file, for it changes its plan.
fn record_conditions(prepared: &PreparedRun, id: &RunId, summary: RunSummary) {
    let PreparedRun { compiler, compiled, plan, request, .. } = prepared;
    let lock_file = match request.mode.locking.mode() {
        LockMode::Write { file, .. } => Some(prepared.project.home.project().join(file)),
        LockMode::Ignore => None,
        LockMode::Verify(..) => return,
    };
    let lock_file = lock_file.as_deref();
    record_no_op_conditions(compiler, *compiled, id, plan, summary, &request.subject.manifest, lock_file);
}

/// Of a run that ends so.
fn write_ci_files(prepared: &PreparedRun, state: &RunState, finished: &Event) -> CiFiles {
    let step_summary = prepared.project.variable(STEP_SUMMARY).map(PathBuf::from);
    let junit = prepared.request.mode.junit.as_deref();
    if junit.is_none() && step_summary.is_none() {
        return CiFiles::default();
    }
    let mut state = state.clone();
    state.fold(finished);
    CiFiles::write(&state, junit, step_summary.as_deref())
}

fn exit_of(summary: &RunSummary, of_command: Option<ExitKind>) -> CliExit {
    if summary.interrupted {
        return CliExit::Interrupted;
    }
    match (CliExit::of_all(summary.failures.iter().map(|(_, failure)| failure.kind)), of_command) {
        (CliExit::Done, Some(end)) => kept_servers::exit_of_command(end),
        (exit, _) => exit,
    }
}

/// How a run ended, and what it left.
pub struct RunEnd {
    pub exit: CliExit,
    pub report: Option<PathBuf>,
    /// How it ended; also of a run in which all was cached.
    pub state: RunState,
    /// It did not begin: the run that it would have waited for keeps its servers up.
    pub gave_way: bool,
    /// What it worked with, as far as that is large: see [`Self::exit_of_process`].
    pub large_parts: Option<(Arc<Plan>, Arc<OutputCache>)>,
}

impl RunEnd {
    /// It ended before any task.
    pub(super) fn without_tasks(exit: CliExit) -> Self {
        Self { exit, report: None, state: RunState::new(), gave_way: false, large_parts: None }
    }

    /// The output folder of a task that has one, also of one that failed and kept what it had.
    pub fn out(&self, task: &str) -> Option<&PathBuf> {
        self.state.tasks.get(&TaskId::new(task))?.folder()
    }

    /// Of a process that does nothing more. Its memory goes with it: to free 10,000 tasks one by one takes as long as a
    /// no-op.
    pub(super) fn exit_of_process(self) -> CliExit {
        let Self { exit, large_parts, state, .. } = self;
        std::mem::forget((large_parts, state));
        exit
    }
}

/// How many servers were not started because no task needed them, or every task that did was cached or skipped.
pub(super) fn servers_not_needed(plan: &Plan, roles: &[TaskRole], run_state: &RunState) -> usize {
    let mut is_needed = vec![false; plan.tasks.len()];
    let mut count = 0;
    // Each task stands behind those that it needs.
    for (ix, (task, role)) in plan.tasks.iter().zip(roles).enumerate().rev() {
        if *role == TaskRole::NotNeeded {
            continue;
        }
        let state = run_state.tasks.get(&task.id).map(|entry| entry.state);
        if task.lifetime == Lifetime::Service && state.is_none() && !is_needed[ix] {
            count += 1;
        } else if !matches!(state, Some(TaskPhase::Cached | TaskPhase::Skipped)) {
            for need in &task.needs {
                is_needed[need.task as usize] = true;
            }
        }
    }
    count
}

/// Where the outputs are shown. `is_shown`: whether `latest` leads to them, which it does not after a run that finished
/// no task.
pub(super) fn places(home: &StateFolder, is_shown: bool) -> RunPaths {
    let latest = is_shown.then(|| home.latest());
    let report = latest.as_ref().map(|latest| latest.join("report.html")).filter(|report| report.exists());
    RunPaths { report, latest, logs: None }
}

/// The variable in which GitHub Actions names the file of the job's summary.
pub(super) const STEP_SUMMARY: &str = "GITHUB_STEP_SUMMARY";

/// What of them could not be written.
#[derive(Default)]
pub(super) struct CiFiles {
    junit: Option<PathError>,
    step_summary: Option<PathError>,
}

/// Before anything runs: a stage makes no folder for it.
///
/// # Errors
/// The folder of the file does not exist, or the path is a folder.
pub(super) fn check_junit(file: &Path) -> Result<(), CommandError> {
    if file.is_dir() {
        return Err(CommandError::Usage(format!("`--junit {}` is a folder: name a file", file.display())));
    }
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if folder.is_dir() {
        return Ok(());
    }
    Err(CommandError::Usage(format!("`--junit {}`: there is no folder {}", file.display(), folder.display())))
}

impl CiFiles {
    pub(super) fn write(state: &RunState, junit: Option<&Path>, step_summary: Option<&Path>) -> Self {
        Self {
            junit: junit.and_then(|path| write_named(path, junit_xml(state)).err()),
            // Other steps of the job have written their summaries into the same file.
            step_summary: step_summary.and_then(|path| append_named(path, markdown_summary(state)).err()),
        }
    }

    pub(super) fn print_errors(&self) {
        for (severity, error) in [("error", &self.junit), ("warning", &self.step_summary)] {
            if let Some(error) = error {
                print_error(&format!("{severity}: {error}\n"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use base::event::{Done, Event};
    use plan::{ActionKind, Need, Task};

    #[test]
    fn a_server_of_a_cached_task_is_not_needed_and_one_of_a_task_that_did_not_start_is() {
        let task = |name: &str, lifetime: Lifetime, needs: &[u32]| {
            let minimal = Task::minimal(TaskId::new(name), name.to_owned(), ActionKind::Shell);
            let needs = needs.iter().map(|&task| Need { task, data: true }).collect();
            Task { lifetime, needs, ..minimal }
        };
        let tasks = vec![
            task("below", Lifetime::Service, &[]),
            task("cached-server", Lifetime::Service, &[]),
            task("server", Lifetime::Service, &[0]),
            task("alone", Lifetime::Service, &[]),
            task("cached", Lifetime::Step, &[1]),
            task("open", Lifetime::Step, &[2]),
        ];
        let plan = Plan { tasks, ..Plan::default() };
        let mut run_state = RunState::new();
        run_state.fold(&Event::TaskCached {
            task: TaskId::new("cached"),
            done: Done::default(),
            out: None,
            from: None,
        });
        assert_eq!(servers_not_needed(&plan, &[TaskRole::Run; 6], &run_state), 2);
    }
}
