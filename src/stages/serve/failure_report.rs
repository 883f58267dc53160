//! The report of a failed server: how it ended, which last lines count, and what they usually mean.

use super::planned_server::{PlannedServer, StopTarget};
use super::shortage;
use crate::event::{Failure, FailureKind};
use crate::exec::process::{self, How, Splitter};
use crate::stages::task_context::{TaskContext, signal_name};

/// How many of the last lines a failure shows.
const TAIL: usize = 20;
/// How many are searched for a cause: a server prints the cause, and then a page of tables.
const FAR: usize = 400;

/// A failure of one server, with the last lines of its own log and what they usually mean.
pub fn died(context: &TaskContext, server: &PlannedServer, what: String, how: How) -> Failure {
    died_of(context, server, what, how, None)
}

/// The same when the first rank to end is known: mpirun reports it, but not always.
pub fn died_of(context: &TaskContext, server: &PlannedServer, what: String, how: How, gone: Option<u32>) -> Failure {
    let mut failure = context.failure(FailureKind::Service, what, &server.argv);
    let mut log = server.log.clone();
    let mut far = process::tail(&log, FAR);
    if matches!(server.world, StopTarget::Mpi { .. })
        && let Some(rank) = process::first_to_fail(&far).or(gone)
    {
        failure.what = format!("{}; rank {rank} failed first", failure.what);
        let own = Splitter::path(&server.log, rank);
        if own.exists() {
            let said = process::tail(&own, FAR);
            failure.tail = last(context, &said);
            log = own;
            far.extend(said);
        }
    } else {
        if matches!(server.world, StopTarget::Mpi { .. }) {
            failure.what = format!("{}; each rank has its own log next to the complete one", failure.what);
        }
        failure.tail = last(context, &far);
    }
    failure.log = Some(log);
    // A server that leaves with code 0 while it is needed has failed all the same.
    let how = if how == How::Code(0) { How::Code(1) } else { how };
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
pub fn ended(how: How) -> String {
    match how {
        How::Code(code) => format!("with exit code {code}"),
        How::Signal(signal) => format!("by {}", signal_name(signal)),
        How::Stopped => "stopped".to_owned(),
    }
}
