//! A server that memory ran out for: which of its numbers to lower, and to what.

use std::path::Path;

use super::planned_server::PlannedServer;
use super::trtllm_argv::option_value;
use super::{facts, repository_copies};
use crate::task_context::TaskContext;
use crate::task_context::{memory, options};
use base::event::{Failure, MemoryKind, OutOfMemory};
use exec::process::{self, ExitKind, Shortage};
use triton::EngineConfig;
use triton::memory::{Fit, KvFractionBase, advise};

/// Adds to a failure that memory ran out, if it did, and what to do about it. `far` are the last lines of the log.
pub fn explain(
    mut failure: Failure,
    context: &TaskContext,
    server: &PlannedServer,
    far: &[String],
    how: ExitKind,
) -> Failure {
    let Some(found) = process::shortage(far, memory::is_killed(how)) else { return failure };
    let rule = context.lease.task.retry.as_ref().and_then(|rule| rule.lower.as_ref());
    let value = rule.and_then(|rule| match &server.repository {
        Some(repository) => repository_copies::value(repository, &rule.setting),
        None => options::value(&server.argv, &rule.setting).or_else(|| option_value(context, &rule.setting)),
    });
    failure.out_of_memory = Some(OutOfMemory { of: found.of, value });
    if found.of == MemoryKind::Gpu
        && let Some(fit) = server.repository.as_deref().and_then(|repository| fit(repository, &found))
    {
        let advice = advise(&fit, found.missing().map(memory::bytes));
        failure.hint = Some(advice.text());
    }
    failure
}

/// The engine that takes the most, as it is served.
fn fit(repository: &Path, found: &Shortage) -> Option<Fit> {
    let fits = facts::models(repository).into_iter().filter_map(|model| {
        let folder = model.engine?;
        let engine = EngineConfig::load(Path::new(&folder)).ok()?;
        Some(of_engine(Path::new(&folder), &engine))
    });
    let weights = |fit: &Fit| fit.weights.map_or(0.0, |(bytes, _)| bytes);
    let mut fit = fits.max_by(|a, b| weights(a).total_cmp(&weights(b)))?;
    let number = |name: &str| repository_copies::value(repository, name);
    fit.max_batch_size = number("max_batch_size").or(fit.max_batch_size);
    fit.max_num_tokens = number("max_num_tokens").or(fit.max_num_tokens);
    fit.fraction = number("kv_cache_free_gpu_mem_fraction");
    fit.memory = fit.memory.or(found.total.map(memory::bytes));
    if fit.share == KvFractionBase::FreeMemory {
        fit.free = found.available.map(memory::bytes);
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
