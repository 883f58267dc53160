//! The report of a failed server: how it ended, which last lines count, and what they usually mean.

use super::planned_server::{PlannedServer, StopTarget};
use super::shortage;
use crate::task_context::memory::LINES_SEARCHED;
use crate::task_context::{TaskContext, signal_name};
use base::event::{Failure, FailureKind};
use exec::process::{self, ExitKind, Splitter};

/// How many of the last lines a failure shows.
const TAIL: usize = 20;

/// A failure of one server, with the last lines of its own log and what they usually mean.
pub fn exit_failure(context: &TaskContext, server: &PlannedServer, what: String, how: ExitKind) -> Failure {
    rank_failure(context, server, what, how, None)
}

/// Like `exit_failure`, when the first rank to end is known: mpirun reports it, but not always.
pub fn rank_failure(
    context: &TaskContext,
    server: &PlannedServer,
    what: String,
    how: ExitKind,
    gone: Option<u32>,
) -> Failure {
    let mut failure = context.failure(FailureKind::Service, what, &server.argv);
    let mut log = server.log.path().to_owned();
    let mut far = server.log.tail(LINES_SEARCHED);
    if matches!(server.stop_target, StopTarget::Mpi { .. })
        && let Some(rank) = process::first_to_fail(&far).or(gone)
    {
        failure.what = format!("{}; rank {rank} failed first", failure.what);
        let own = Splitter::path(server.log.path(), rank);
        if own.exists() {
            let lines = process::tail(&own, LINES_SEARCHED);
            failure.tail = last(context, &lines);
            log = own;
            far.extend(lines);
        }
    } else {
        if matches!(server.stop_target, StopTarget::Mpi { .. }) {
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
    shortage::explain(failure, context, server, &far, how)
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

/// `with exit code 3`
pub fn ended(how: ExitKind) -> String {
    match how {
        ExitKind::Code(code) => format!("with exit code {code}"),
        ExitKind::Signal(signal) => format!("by {}", signal_name(signal)),
        ExitKind::Stopped => "stopped".to_owned(),
    }
}
