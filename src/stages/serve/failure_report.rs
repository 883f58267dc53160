//! The report of a failed server: how it ended, which last lines count, and what they usually mean; where memory ran
//! out, the number that a retry would lower.

use super::argv::option_value;
use super::planned_server::PlannedServer;
use super::repository_models;
use crate::task_context::out_of_memory::LINES_SEARCHED;
use crate::task_context::{TaskContext, out_of_memory};
use base::event::{Failure, FailureKind, OutOfMemory};
use exec::process::{self, ExitKind, Splitter};
use triton::launch::LaunchWorld;

/// How many of the last lines a failure shows.
const TAIL: usize = 20;

/// A failure of one server, with the last lines of its own log and what they usually mean. `gone`: the first rank to
/// end, if it is known; mpirun reports it, but not always.
pub fn exit_failure(
    context: &TaskContext,
    server: &PlannedServer,
    what: String,
    how: ExitKind,
    gone: Option<u32>,
) -> Failure {
    let mut failure = context.failure(FailureKind::Service, what, &server.argv);
    let mut log = server.log.path().to_owned();
    let mut far = server.log.tail(LINES_SEARCHED);
    if matches!(server.stop_target, LaunchWorld::Mpi { .. })
        && let Some(rank) = process::first_to_fail(&far).or(gone)
    {
        failure.what = format!("{}; rank {rank} failed first", failure.what);
        let rank_log = Splitter::path(server.log.path(), rank);
        if rank_log.exists() {
            let lines = process::tail(&rank_log, LINES_SEARCHED);
            failure.tail = last(context, &lines);
            log = rank_log;
            far.extend(lines);
        }
    } else {
        if matches!(server.stop_target, LaunchWorld::Mpi { .. }) {
            failure.what = format!("{}; each rank has its own log next to the complete one", failure.what);
        }
        failure.tail = last(context, &far);
    }
    failure.log = Some(log);
    // A server that leaves with code 0 while it is needed has failed all the same.
    let how = if how == ExitKind::Code(0) { ExitKind::Code(1) } else { how };
    let far: Vec<String> = far.iter().map(|line| process::untagged(&context.redacted(line)).1.to_owned()).collect();
    let diagnosis = process::diagnose_server(&far).or_else(|| process::diagnose(&failure.tail, how));
    if let Some(diagnosis) = diagnosis {
        failure = failure.cause(diagnosis.cause).hint(diagnosis.hint);
    }
    explain(failure, context, server, &far, how)
}

/// The last lines for the user: without the tables of options that Triton prints at its start, except the rows about
/// a model.
fn last(context: &TaskContext, lines: &[String]) -> Vec<String> {
    let is_option = |line: &str| line.starts_with("+-") || line.starts_with('|') && !line.contains("UNAVAILABLE");
    let telling = lines.iter().rev().filter(|line| !is_option(line)).take(TAIL);
    let mut last: Vec<String> = telling.map(|line| context.redacted(line)).collect();
    last.reverse();
    last
}

/// Adds to a failure that memory ran out, if it did, and the number that its rule lowers. `far` are the last lines of
/// the log.
pub fn explain(
    mut failure: Failure,
    context: &TaskContext,
    server: &PlannedServer,
    far: &[String],
    how: ExitKind,
) -> Failure {
    let Some(kind) = process::exhausted_memory(far, out_of_memory::is_killed(how)) else { return failure };
    let rule = context.lease.task.retry.as_ref().and_then(|rule| rule.lower.as_ref());
    let value = rule.and_then(|rule| match &server.repository {
        Some(repository) => repository_models::value(repository, &rule.setting),
        None => out_of_memory::value(&server.argv, &rule.setting).or_else(|| option_value(context, &rule.setting)),
    });
    failure.out_of_memory = Some(OutOfMemory { of: kind, value });
    failure
}
