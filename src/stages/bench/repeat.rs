//! `bench.repeat:` — the same measurement several times, each with a seed of its own. Every run is kept whole in `repeats/<n>`;
//! one that was finished is not made again when the stage was cut off. Where variants take turns, each run is a task of its
//! own, and this only sums them up.

use std::fs;
use std::path::{Path, PathBuf};

use super::measurement::{failure, headline_details, measure, task_outcome};
use super::resume::{self, Servers};
use super::saved_run::{before, copy, keep};
use crate::task_context::TaskContext;
use base::event::{Done, Failure, FailureKind};
use harness::preflight::PreflightResult;
use harness::{BenchSpec, RESULT, RunResult, repeat_folder, result_of_repeats};
use plan::manifest::model::Telemetry;
use runner::store::WithPath as _;

pub async fn perform(
    context: &TaskContext,
    spec: &BenchSpec,
    times: u32,
    watched: Telemetry,
    mut preflight: Option<PreflightResult>,
) -> Result<Done, Failure> {
    let servers = resume::begin(context, spec, &context.lease.out.join(RESULT), harness::REPEATS).await?;
    let all = Runs { times, folder: &context.lease.out, name: "" };
    let results = Box::pin(runs(context, spec, all, &servers, watched, &mut preflight)).await?;
    Box::pin(summarize_results(context, &results)).await
}

/// Several runs of one measurement: how many, the folder of their result, and what progress calls it; empty in a stage that is
/// nothing else.
#[derive(Clone, Copy)]
pub(super) struct Runs<'a> {
    pub times: u32,
    pub folder: &'a Path,
    pub name: &'a str,
}

/// The results of all runs, those of an earlier attempt included. Without a server there are fewer.
pub(super) async fn runs(
    context: &TaskContext,
    spec: &BenchSpec,
    all: Runs<'_>,
    servers: &Servers,
    watched: Telemetry,
    preflight: &mut Option<PreflightResult>,
) -> Result<Vec<RunResult>, Failure> {
    let Runs { times, folder, name } = all;
    let mut results: Vec<RunResult> = Vec::new();
    for number in 1..=times {
        let spec = BenchSpec { seed: spec.seed.wrapping_add(u64::from(number - 1)), ..spec.clone() };
        let folder = folder.join(repeat_folder(number));
        let result = if let Some(result) = Box::pin(before(&folder, &spec, servers)).await {
            result
        } else {
            let comma = if name.is_empty() { "" } else { ", " };
            let name = format!("{name}{comma}run {number} of {times}");
            let measured = Box::pin(measure(context, &spec, watched, &name, preflight.take())).await?;
            if context.lease.stop.is_requested() && context.lease.stop.reason().is_none() {
                return Err(Failure::new(FailureKind::Interrupted, format!("stopped in {name}")));
            }
            Box::pin(keep(&folder, Box::new(measured))).await?
        };
        let is_lost = result.server_lost().is_some();
        results.push(result);
        if is_lost {
            // Without a server there is nothing to repeat.
            break;
        }
    }
    Ok(results)
}

/// The result of runs that are in these folders, in order.
pub async fn summarize(context: &TaskContext, runs: &[PathBuf]) -> Result<Done, Failure> {
    let mut results = Vec::new();
    for (number, run) in (1..).zip(runs) {
        let folder = context.lease.out.join(repeat_folder(number));
        fs::create_dir_all(&folder).at("create", &folder)?;
        copy(run, &folder, true).await?;
        results.push(harness::read_result(&run.join(RESULT)).map_err(|error| failure(&error))?);
    }
    Box::pin(summarize_results(context, &results)).await.map_err(|failure| {
        let stage = &context.lease.task.stage;
        let hint = format!("the runs are kept as they are, so that no good ones are picked; `--force {stage}` measures all of them again");
        failure.hint(hint)
    })
}

async fn summarize_results(context: &TaskContext, results: &[RunResult]) -> Result<Done, Failure> {
    task_outcome(&Box::pin(keep_result(&context.lease.out, results)).await?)
}

/// Writes the result of all runs into the folder above theirs, with the files of the first run.
pub(super) async fn keep_result(folder: &Path, results: &[RunResult]) -> Result<RunResult, Failure> {
    let Some(result) = result_of_repeats(results) else {
        return Err(Failure::new(FailureKind::Refused, "`bench.repeat` must be at least 1"));
    };
    copy(&folder.join(repeat_folder(1)), folder, false).await?;
    harness::write_result(folder, &result).map_err(|error| failure(&error))?;
    Ok(result)
}

/// What one of several runs means for its task: it counts with any verdict, unless its server is gone.
pub fn repeat_outcome(result: &RunResult) -> Result<Done, Failure> {
    let judged = task_outcome(result);
    let is_lost = result.server_lost().is_some();
    match judged {
        Err(failure) if is_lost => Err(failure),
        Err(failure) => {
            let warnings = result.reasons().iter().map(harness::Reason::line).collect();
            Ok(Done { headline: Some(failure.what), below: headline_details(result), warnings, ..Done::default() })
        }
        done => done,
    }
}
