//! The end of a run: what the next one needs is saved, how it ended is recorded, and people are told.

use std::path::PathBuf;

use super::begun_run::BegunRun;
use super::ci_files::{self, CiFiles};
use super::kept_servers;
use super::no_op_run::record_no_op_conditions;
use super::parallel_join::parallel_join;
use super::prepared_run::PreparedRun;
use super::progress_printer::ProgressPrinter;
use super::run_end::{RunEnd, places, servers_not_needed, task_lines};
use crate::cli::{CliExit, LockMode};
use crate::console::print_error;
use crate::error::{CommandError, with_causes};
use crate::{lockfile, past_runs};
use base::event::{Event, RunId};
use exec::process::ExitKind;
use report::{RunPaths, RunState};
use runner::RunSummary;
use runner::store::Latest;

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
    let fails = begun.sink.is_broken() || !ci_files.is_junit_written() || is_lock_missing;
    let exit = if exit == CliExit::Done && fails { CliExit::Failed } else { exit };
    let finished = finished(exit);
    (begun.emit)(finished.clone());
    live.event(&finished);
    let broken = begun.sink.finish();
    let outs = past_runs::outputs(live.state(), &summary.done);
    let (measured, run_state) = (std::mem::take(&mut summary.measured), live.state());
    let (report, ()) = parallel_join(
        || past_runs::write_report(&home, &begun.id, run_state, &prepared.plan, &measured),
        || {
            if broken.is_none() && unsynced.is_none() && !is_lock_missing {
                record_conditions(&prepared, &begun.id, summary);
            }
        },
    );
    let (report, report_error) = match report {
        Ok(report) => (Some(report), None),
        Err(error) => (None, Some(error)),
    };
    live.set_not_needed(servers_not_needed(&prepared.plan, &prepared.options.roles, live.state()));
    let lines = task_lines(live.state());
    let is_shown = Latest::new(&home, &prepared.plan.name).is_shown();
    let places = RunPaths { logs: Some(home.run(&begun.id)), report: report.clone(), ..places(&home, is_shown) };
    let run_state = live.finish(&places);
    if let Some(error) = report_error {
        print_error(&format!("warning: this run has no report: {}\n", with_causes(&error)));
    }
    ci_files.print_errors();
    if let Some(error) = broken {
        let what = "the run was stopped, because its journal could not be written";
        return Err(anyhow::Error::from(error).context(what).into());
    }
    if let Some(error) = unsynced {
        return Err(error.into());
    }
    let BegunRun { lock, cache, .. } = begun;
    drop(lock);
    let large_parts = Some((prepared.plan, cache, run_state));
    Ok(RunEnd { exit, outs, report, task_lines: lines, gave_way: false, large_parts })
}

/// Saves what the next run needs, and the lock file of a run that did well. Returns false where a lock file that the user named could
/// not be written.
fn save(prepared: &PreparedRun, begun: &BegunRun, summary: &RunSummary, exit: CliExit) -> bool {
    let is_as_written = summary.is_as_before && begun.is_lock_file_as_written;
    let is_to_lock = exit == CliExit::Done && prepared.kept_servers.is_none() && !is_as_written;
    // Each of them takes a while where the plan is large.
    let (saved, locked) = parallel_join(
        || begun.digests.save(&prepared.project.home),
        || is_to_lock.then(|| write_lock_file(prepared, begun, summary)),
    );
    let is_named = matches!(prepared.locking, LockMode::Write { is_named: true, .. });
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
    let PreparedRun { project, locking, settings, plan, options, .. } = prepared;
    let run = lockfile::command::FinishedRun { id: &begun.id, plan, settings, roles: &options.roles, summary };
    lockfile::command::write(project, locking, &run)
}

/// Not of a run that enforces a lock file, for it changes its plan.
fn record_conditions(prepared: &PreparedRun, id: &RunId, summary: RunSummary) {
    let PreparedRun { compiler, compiled, plan, manifest, .. } = prepared;
    let lock_file = match &prepared.locking {
        LockMode::Write { file, .. } => Some(prepared.project.home.project().join(file)),
        LockMode::Ignore => None,
        LockMode::Verify(..) => return,
    };
    let lock_file = lock_file.as_deref();
    record_no_op_conditions(compiler, *compiled, id, plan, summary, manifest, lock_file);
}

/// Of a run that ends so.
fn write_ci_files(prepared: &PreparedRun, state: &RunState, finished: &Event) -> CiFiles {
    let step_summary = prepared.project.variable(ci_files::STEP_SUMMARY).map(PathBuf::from);
    if prepared.junit.is_none() && step_summary.is_none() {
        return CiFiles::default();
    }
    let mut state = state.clone();
    state.fold(finished);
    CiFiles::write(&state, prepared.junit.as_deref(), step_summary.as_deref())
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
