//! Measurements in a row. `bench.repeat:` is the same one several times, each with a seed of its own, kept whole in
//! `repeats/<n>`; where variants take turns, each run is a task of its own, and this only sums them up. `bench.sweep:`
//! is one at several levels, each point a whole measurement with a verdict of its own, kept in `points/<n>-<level>`;
//! with `repeat` a point is the mean of that many runs, and `sweep.json` is written when all points were measured.
//!
//! What was finished is not measured again when the stage was cut off.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::measurement::{MeasurementPlace, failure, headline_details, is_only_noticed, measure, task_outcome};
use super::preflight::preflight;
use super::resume::{self, Servers, before, copy, keep};
use crate::task_context::TaskContext;
use base::event::{Done, Failure, FailureKind, Verdict};
use base::spec::{Arrivals, BenchSweep, Length};
use base::units::counted;
use harness::preflight::{PreflightResult, expected};
use harness::{
    BenchSpec, KneeState, LoadPattern, PointRole, RESULT, RunResult, SWEEP, SWEEP_POINTS, SweepLevel, SweepPlan,
    SweepPoint, SweepReport, SweepStep, repeat_folder, result_of_repeats,
};
use plan::manifest::model::Bench;
use runner::store::WithPath as _;

pub async fn perform_repeats(
    context: &TaskContext,
    spec: &BenchSpec,
    bench: &Bench,
    mut preflight: Option<PreflightResult>,
) -> Result<Done, Failure> {
    let servers = resume::begin(context, spec, &context.lease.out.join(RESULT), harness::REPEATS).await?;
    let place = MeasurementPlace::default();
    let results = Box::pin(runs(context, spec, bench, &context.lease.out, place, &servers, &mut preflight)).await?;
    Box::pin(summarize_results(context, bench, &results)).await
}

/// The results of all runs, those of an earlier attempt included. Without a server there are fewer. `place` is
/// that of all of them.
pub(super) async fn runs(
    context: &TaskContext,
    spec: &BenchSpec,
    bench: &Bench,
    folder: &Path,
    place: MeasurementPlace<'_>,
    servers: &Servers,
    preflight: &mut Option<PreflightResult>,
) -> Result<Vec<RunResult>, Failure> {
    let (times, mut results) = (bench.repeat, Vec::<RunResult>::new());
    for number in 1..=times {
        let spec = BenchSpec { seed: spec.seed.wrapping_add(u64::from(number - 1)), ..spec.clone() };
        let folder = folder.join(repeat_folder(number));
        let result = if let Some(result) = Box::pin(before(&folder, &spec, servers)).await {
            result
        } else {
            let comma = if place.name.is_empty() { "" } else { ", " };
            let name = format!("{}{comma}run {number}/{times}", place.name);
            let place = MeasurementPlace { name: &name, ..place };
            let measured = Box::pin(measure(context, &spec, bench.telemetry, place, preflight.take())).await?;
            context.check_not_stopped(&format!("stopped in {name}"))?;
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
pub async fn summarize(context: &TaskContext, bench: &Bench, runs: &[PathBuf]) -> Result<Done, Failure> {
    let mut results = Vec::new();
    for (number, run) in (1..).zip(runs) {
        let folder = context.lease.out.join(repeat_folder(number));
        fs::create_dir_all(&folder).at("create", &folder)?;
        copy(run, &folder, true).await?;
        results.push(harness::read_result(&run.join(RESULT)).map_err(|error| failure(&error))?);
    }
    Box::pin(summarize_results(context, bench, &results)).await.map_err(|failure| {
        let stage = &context.lease.task.stage;
        let hint = format!(
            "the runs are kept as they are, so that no good ones are picked; `--force {stage}` \
         measures all of them again"
        );
        failure.hint(hint)
    })
}

async fn summarize_results(context: &TaskContext, bench: &Bench, results: &[RunResult]) -> Result<Done, Failure> {
    task_outcome(bench, &Box::pin(keep_result(&context.lease.out, results)).await?)
}

/// Writes the result of all runs into the folder that holds the runs' folders, with the files of the first run.
pub(super) async fn keep_result(folder: &Path, results: &[RunResult]) -> Result<RunResult, Failure> {
    let Some(result) = result_of_repeats(results) else {
        return Err(Failure::refused("`bench.repeat` must be at least 1"));
    };
    copy(&folder.join(repeat_folder(1)), folder, false).await?;
    harness::write_result(folder, &result).map_err(|error| failure(&error))?;
    Ok(result)
}

pub async fn perform_sweep(
    context: &TaskContext,
    spec: &BenchSpec,
    bench: &Bench,
    sweep: &BenchSweep,
) -> Result<Done, Failure> {
    let plan = SweepPlan::new(sweep).map_err(|error| Failure::refused(format!("`bench.sweep`: {error}")))?;
    let end = context.lease.out.join(SWEEP);
    let servers = resume::begin(context, spec, &end, SWEEP_POINTS).await?;
    let mut points: Vec<SweepPoint> = Vec::new();
    let mut first: Option<RunResult> = None;
    let (mut reused, begun) = (0, Instant::now());
    while let Some(step) = plan.next(&points) {
        let number = points.len();
        let spec = spec_at(spec, &step, number, bench.repeat.max(1));
        let folder = Path::new(SWEEP_POINTS).join(format!("{:02}-{}", number + 1, step.level.short()));
        let path = context.lease.out.join(&folder);
        let result = if let Some(result) = Box::pin(before(&path, &spec, &servers)).await {
            reused += 1;
            result
        } else {
            let of_count = plan.point_count().map_or_else(String::new, |count| format!("/{count}"));
            let name = format!("point {}{of_count} ({})", number + 1, step.level);
            let each = match (number - reused) as u32 {
                0 => expected(&spec).map(|time| time * bench.repeat.max(1)),
                measured => Some(begun.elapsed() / measured),
            };
            let after = plan.point_count().map(|count| count.saturating_sub(number + 1) as u32);
            let place = MeasurementPlace { name: &name, later: each.zip(after).map(|(each, after)| each * after) };
            let mut trial = Box::pin(preflight(context, &spec, bench.preflight)).await;
            if bench.repeat > 1 {
                let results = Box::pin(runs(context, &spec, bench, &path, place, &servers, &mut trial)).await?;
                Box::pin(keep_result(&path, &results)).await?
            } else {
                let measured = Box::pin(measure(context, &spec, bench.telemetry, place, trial)).await?;
                context.check_not_stopped(&format!("stopped in {name}"))?;
                Box::pin(keep(&path, Box::new(measured))).await?
            }
        };
        let is_lost = result.server_lost().is_some();
        points.push(SweepPoint::from_result(step.level, step.role, folder, &result));
        first.get_or_insert(result);
        if is_lost {
            // Without a server there is nothing more to measure.
            break;
        }
    }
    if reused > 0 {
        context.lease.notice(format!("sweep: {} measured before it was cut off, and kept", counted(reused, "point")));
    }
    let report = SweepReport::new(sweep.key(), points, first.as_ref());
    context.write(SWEEP, report.text())?;
    outcome(bench, &report, first.as_ref())
}

/// The benchmark of one point. Each, and each of its `runs`, has requests of its own: the same prompts would be in the
/// server's prefix cache.
fn spec_at(spec: &BenchSpec, step: &SweepStep, number: usize, runs: u32) -> BenchSpec {
    let first_run = (number as u64).wrapping_mul(u64::from(runs));
    let mut spec = BenchSpec { seed: spec.seed.wrapping_add(first_run), ..spec.clone() };
    // The draw of a few gaps may be a rate far from the level: points are compared by their rate.
    let is_counted = spec.stop.requests.is_some() && spec.stop.duration.is_none() && spec.content.sessions.is_none();
    if matches!(step.level, SweepLevel::Rate(_)) && spec.arrivals == Arrivals::Poisson && is_counted {
        spec.arrivals = Arrivals::PoissonScaled;
    }
    match &step.level {
        SweepLevel::Users(users) => spec.scenario = LoadPattern::Concurrency { users: f64::from(*users).into() },
        SweepLevel::Rate(rate) => spec.scenario = LoadPattern::Server { rate: (*rate).into() },
        SweepLevel::InputTokens(tokens) => spec.input_len = Length::Fixed(*tokens),
        SweepLevel::OutputTokens(tokens) => spec.output_len = Length::Fixed(*tokens),
        // The first are tasks of their own, and no sweep of this stage has the second.
        SweepLevel::Value { .. } | SweepLevel::AllAtOnce => {}
    }
    if let (Some(PointRole::Saturation), SweepLevel::Users(users), Some(requests)) =
        (step.role, &step.level, &mut spec.stop.requests)
    {
        // Fewer requests than users would saturate nothing.
        *requests = (*requests).max(2 * u64::from(*users));
    }
    spec
}

/// A sweep is done when any of its points is valid, and when the server was there to its end.
fn outcome(bench: &Bench, report: &SweepReport, first: Option<&RunResult>) -> Result<Done, Failure> {
    let headline = headline(report);
    let below = first.map(|first| headline_details(first, &report.workload(first.workload()))).unwrap_or_default();
    let lost = report.points.iter().find(|point| point.verdict == Some(Verdict::InvalidServer));
    let worst = lost.or_else(|| report.points.first().filter(|_| report.valid() == 0));
    if let Some((worst, verdict)) = worst.and_then(|worst| Some((worst, worst.verdict?)))
        && !is_only_noticed(bench, verdict, &worst.reasons)
    {
        let reasons: Vec<String> =
            worst.reasons.iter().map(|reason| format!("at {}: {}", worst.level, reason.line())).collect();
        let text = format!("{}  {headline}", verdict.as_str());
        let cause = reasons.first().cloned();
        return Err(Failure { below, cause, tail: reasons, ..Failure::new(FailureKind::Invalid(verdict), text) });
    }
    let invalid = report.points.iter().filter(|point| !point.is_accepted());
    let invalid = invalid.map(|point| {
        let reason = point.reasons.first().map(|reason| format!(": {}", reason.line())).unwrap_or_default();
        format!("{} at {}{reason}", point.verdict_text(), point.level)
    });
    let warnings = invalid.chain(report.warnings_line().map(|line| format!("sweep: {line}, in `{SWEEP}`")));
    let simulated = if report.is_simulated() { "SIMULATED  " } else { "" };
    let (headline, warnings) = (Some(format!("{simulated}{headline}")), warnings.collect());
    Ok(Done { headline, below, warnings, ..Done::default() })
}

fn headline(report: &SweepReport) -> String {
    let count = report.points.len();
    let ends = match (report.points.first(), report.points.last()) {
        (Some(low), Some(high)) if count > 1 => format!(", {} to {}", low.level, high.level),
        _ => String::new(),
    };
    let best = report.best().and_then(|best| {
        let rate = base::units::grouped(best.output_tokens_per_s?, 0);
        Some(format!("  up to {rate} tok/s at {}", best.level))
    });
    let knee = report.knee.as_ref().filter(|knee| knee.state == KneeState::Bracketed);
    let knee = knee.map(|knee| format!("  knee at {}", knee.level)).unwrap_or_default();
    format!(
        "{}{ends}{}{knee}  ({} of {count} valid{})",
        counted(count, "point"),
        best.unwrap_or_default(),
        report.valid(),
        report.with_warnings()
    )
}
