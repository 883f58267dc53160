//! The report of a failed server: how it ended, which last lines count, and what they usually mean; where memory ran
//! out, which of its numbers to lower, and to what.

use std::path::Path;

use super::argv::option_value;
use super::planned_server::PlannedServer;
use super::repository_models;
use crate::task_context::out_of_memory::LINES_SEARCHED;
use crate::task_context::{TaskContext, out_of_memory};
use base::event::{Failure, FailureKind, MemoryKind, OutOfMemory};
use exec::process::{self, ExitKind, Shortage, Splitter};
use triton::EngineConfig;
use triton::launch::LaunchWorld;
use triton::memory::{Fit, KvFractionBase, advise};

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

/// Adds to a failure that memory ran out, if it did, and what to do about it. `far` are the last lines of the log.
pub fn explain(
    mut failure: Failure,
    context: &TaskContext,
    server: &PlannedServer,
    far: &[String],
    how: ExitKind,
) -> Failure {
    let Some(found) = process::shortage(far, out_of_memory::is_killed(how)) else { return failure };
    let rule = context.lease.task.retry.as_ref().and_then(|rule| rule.lower.as_ref());
    let value = rule.and_then(|rule| match &server.repository {
        Some(repository) => repository_models::value(repository, &rule.setting),
        None => out_of_memory::value(&server.argv, &rule.setting).or_else(|| option_value(context, &rule.setting)),
    });
    failure.out_of_memory = Some(OutOfMemory { of: found.of, value });
    if found.of == MemoryKind::Gpu
        && let Some(fit) = server.repository.as_deref().and_then(|repository| fit(repository, &found))
    {
        let advice = advise(&fit, found.missing().map(out_of_memory::bytes));
        failure.hint = Some(advice.text());
    }
    failure
}

/// The engine that takes the most, as it is served.
fn fit(repository: &Path, found: &Shortage) -> Option<Fit> {
    let fits = repository_models::models(repository).into_iter().filter_map(|model| {
        let folder = model.engine?;
        let engine = EngineConfig::load(Path::new(&folder)).ok()?;
        Some(of_engine(Path::new(&folder), &engine))
    });
    let weights = |fit: &Fit| fit.weights.map_or(0.0, |(bytes, _)| bytes);
    let mut fit = fits.max_by(|a, b| weights(a).total_cmp(&weights(b)))?;
    let number = |name: &str| repository_models::value(repository, name);
    fit.max_batch_size = number("max_batch_size").or(fit.max_batch_size);
    fit.max_num_tokens = number("max_num_tokens").or(fit.max_num_tokens);
    fit.fraction = number("kv_cache_free_gpu_mem_fraction");
    fit.memory = fit.memory.or(found.total.map(out_of_memory::bytes));
    if fit.share == KvFractionBase::FreeMemory {
        fit.free = found.available.map(out_of_memory::bytes);
    }
    Some(fit)
}

fn of_engine(folder: &Path, engine: &EngineConfig) -> Fit {
    let fit = Fit::new(engine);
    if let Ok((_, rank)) = sim::load_engine(folder) {
        return Fit {
            memory: Some(rank.memory.gpu_bytes),
            weights: Some((rank.memory.weight_bytes, "as simulated")),
            workspace: rank.memory.workspace_bytes,
            share: KvFractionBase::TotalMemory,
            ..fit
        };
    }
    let size = std::fs::metadata(folder.join("rank0.engine")).map(|file| file.len() as f64);
    Fit { weights: size.ok().map(|bytes| (bytes, "rank0.engine")), ..fit }
}
