//! Measurements in a row. `bench.repeat:` is the same one several times, each with a seed of its own, kept whole in
//! `repeats/<n>`; where variants take turns, each run is a task of its own, and this only sums them up. `bench.sweep:`
//! is one at several levels, each point a whole measurement with a verdict of its own, kept in `points/<n>-<level>`;
//! with `repeat` a point is the mean of that many runs, and `sweep.json` is written when all points were measured.
//!
//! What was finished is not measured again when the stage was cut off.

use std::path::{Path, PathBuf};
use std::time::Instant;
use std::{fs, io};

use tokio::task::spawn_blocking;

use super::identity;
use super::measurement::{MeasurementPlace, failure, headline_details, is_only_noticed, measure, task_outcome};
use super::preflight::preflight;
use crate::task_context::TaskContext;
use base::event::{Done, Failure, FailureKind, Verdict};
use base::files::is_whole_json;
use base::spec::{Arrivals, BenchSweep, Length};
use base::units::counted;
use harness::preflight::{PreflightResult, expected};
use harness::{
    BenchSpec, KneeState, LoadPattern, Measured, PointRole, RESULT, RUN_FILES, RunResult, SWEEP, SWEEP_POINTS,
    ServerIdentity, SweepLevel, SweepPlan, SweepPoint, SweepReport, SweepStep, changes_of_servers, repeat_folder,
    result_of_repeats,
};
use plan::manifest::model::Bench;
use runner::store::{PathError, WithPath as _, discard, is_there};

pub async fn perform_repeats(
    context: &TaskContext,
    spec: &BenchSpec,
    bench: &Bench,
    mut preflight: Option<PreflightResult>,
) -> Result<Done, Failure> {
    let servers = begin(context, spec, &context.lease.out.join(RESULT), harness::REPEATS).await?;
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
    program: Option<&Path>,
) -> Result<Done, Failure> {
    let plan = SweepPlan::new(sweep).map_err(|error| Failure::refused(format!("`bench.sweep`: {error}")))?;
    let end = context.lease.out.join(SWEEP);
    let servers = begin(context, spec, &end, SWEEP_POINTS).await?;
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
            let mut trial = Box::pin(preflight(context, &spec, bench.preflight, program)).await;
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
    fs::write(&end, report.text()).at("write", &end)?;
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
    let lost = report.points.iter().find(|point| point.verdict == Some(Verdict::InvalidServer));
    let worst = lost.or_else(|| report.points.first().filter(|_| report.valid() == 0));
    if let Some((worst, verdict)) = worst.and_then(|worst| Some((worst, worst.verdict?)))
        && !is_only_noticed(bench, verdict, &worst.reasons)
    {
        let reasons: Vec<String> =
            worst.reasons.iter().map(|reason| format!("at {}: {}", worst.level, reason.line())).collect();
        let failure = Failure::new(FailureKind::Invalid(verdict), format!("{}  {headline}", verdict.as_str()));
        return Err(match reasons.first() {
            Some(why) => failure.cause(why.clone()).tail(reasons),
            None => failure,
        });
    }
    let invalid = report.points.iter().filter(|point| !point.is_accepted());
    let invalid = invalid.map(|point| {
        let reason = point.reasons.first().map(|reason| format!(": {}", reason.line())).unwrap_or_default();
        format!("{} at {}{reason}", point.verdict_text(), point.level)
    });
    let warnings = invalid.chain(report.warnings_line().map(|line| format!("sweep: {line}, in `{SWEEP}`")));
    let below = first.map(headline_details).unwrap_or_default();
    let simulated = if report.is_simulated() { "SIMULATED  " } else { "" };
    Ok(Done {
        headline: Some(format!("{simulated}{headline}")),
        below,
        warnings: warnings.collect(),
        ..Done::default()
    })
}

fn headline(report: &SweepReport) -> String {
    let count = report.points.len();
    let ends = match (report.points.first(), report.points.last()) {
        (Some(low), Some(high)) if count > 1 => format!(", {} to {}", low.level, high.level),
        _ => String::new(),
    };
    let best = report.best().and_then(|best| {
        let rate = base::units::grouped(best.output_tokens_per_s?, 0);
        Some(format!("  at most {rate} tok/s at {}", best.level))
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

// A measurement of several parts (repeats, probes) that was cut off: which of its finished parts still count and need
// not be measured again. The files are large, and planning a load reads them: both wait on threads of their own.

/// The servers as they are when the stage goes on.
pub(super) struct Servers {
    now: Vec<ServerIdentity>,
    /// Whether the run started them: then they are other processes each time.
    is_ours: bool,
}

impl Servers {
    async fn now(context: &TaskContext, spec: &BenchSpec) -> Self {
        Self { now: identity::of_servers(spec).await, is_ours: context.lease.task.external.is_none() }
    }

    /// Whether a finished part measured these servers, as they report what they are.
    pub fn are_those_of(&self, result: &RunResult) -> bool {
        self.difference(result).is_none()
    }

    /// Why a finished part is not known to have measured these servers. Of servers that others start a restart is a
    /// change, and one that does not report when it started may have been restarted.
    fn difference(&self, result: &RunResult) -> Option<&'static str> {
        const CHANGED: &str = "the server is another one now";
        const RESTARTED: &str = "the server has been started again since";
        const UNKNOWN: &str = "the server does not report when it started, so it may be another one now";
        let before = result.identity.as_ref().map_or(&[][..], |identity| &identity.servers);
        if result.identity.is_some() && !changes_of_servers(before, &self.now).is_empty() {
            return Some(CHANGED);
        }
        let started = |servers: &[ServerIdentity]| -> Option<Vec<f64>> {
            servers.iter().map(|server| server.start_time_seconds).collect()
        };
        match (started(before), started(&self.now)) {
            _ if self.is_ours => None,
            (Some(before), Some(now)) if !now.is_empty() => (before != now).then_some(RESTARTED),
            _ => Some(UNKNOWN),
        }
    }
}

/// Begins or resumes a measurement of several parts: see [`discard_parts_if_finished`]. A notice shows how many
/// finished parts are measured again because their servers are not known to be those that are there now.
pub(super) async fn begin(
    context: &TaskContext,
    spec: &BenchSpec,
    end: &Path,
    parts: &str,
) -> Result<Servers, Failure> {
    let out = &context.lease.out;
    discard_parts_if_finished(out, end, parts)?;
    let servers = Servers::now(context, spec).await;
    let items: Vec<_> = walkdir::WalkDir::new(out.join(parts)).into_iter().flatten().collect();
    let mut matches = Vec::new();
    for path in items.iter().map(walkdir::DirEntry::path).filter(|path| path.ends_with(harness::RESULT)) {
        let Ok(result) = harness::read_result(path) else { continue };
        if let (Some(why), Some(part)) = (servers.difference(&result), path.parent()) {
            // It would be taken for one of those that are measured now. A mean of repeats does not count as a run.
            matches.extend(result.repeats.is_none().then_some(why));
            discard(part).map_err(|error| Failure::system(error.to_string()))?;
        }
    }
    if let Some(why) = matches.first() {
        let count = match matches.len() {
            1 => "1 run that was finished is measured".to_owned(),
            count => format!("{count} runs that were finished are measured"),
        };
        context.lease.notice(format!("{count} again: {why}"));
    }
    Ok(servers)
}

/// Where it is noted that a measurement has ended without a result.
fn mark(out: &Path, parts: &str) -> PathBuf {
    out.join(format!("{parts}.ended"))
}

/// The failure of a measurement that has ended without a result. Its parts stay for its reader, and the next one
/// measures again.
pub(super) fn ended_without_result(out: &Path, parts: &str, failure: Failure) -> Failure {
    match fs::write(mark(out, parts), "") {
        Ok(()) => failure,
        Err(error) => failure.hint(format!("it would continue from {parts}, which cannot be marked: {error}")),
    }
}

/// Removes the parts if the stage had finished, which `end` shows, or had ended without a result: it resumes only if it
/// was interrupted. What was finished once is measured again, because a selection of successful parts would be biased.
fn discard_parts_if_finished(out: &Path, end: &Path, parts: &str) -> Result<(), Failure> {
    let (mark, parts) = (mark(out, parts), out.join(parts));
    if parts.is_dir() && (is_whole_json(end) || mark.is_file()) {
        fs::remove_dir_all(&parts).at("remove", &parts)?;
    }
    // After the parts: what a crash leaves of them is not resumed.
    for path in [end, &mark] {
        match fs::remove_file(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            removed => removed.at("remove", path)?,
        }
    }
    Ok(())
}

/// A finished probe of the same schedule; the servers may have other ports now. `result.json` is written last, so one
/// that can be read is complete, and so are the other files. One that was limited by its own client says nothing about
/// the server, and is measured again.
pub(super) async fn before(path: &Path, spec: &BenchSpec, servers: &Servers) -> Option<RunResult> {
    let result = harness::read_result(&path.join(RESULT)).ok()?;
    let is_usable = result.requested.scenario == spec.scenario
        && servers.are_those_of(&result)
        && result.verdict() != Verdict::InvalidClient;
    if !is_usable {
        return None;
    }
    // Users that send for a time draw as many requests as the server answers: their plan has no end to compare.
    let is_open = matches!(spec.scenario, LoadPattern::Concurrency { .. }) && spec.stop.duration.is_some();
    let same = if is_open {
        result.requested.is_load_of(spec)
    } else {
        let spec = spec.clone();
        let digest = spawn_blocking(move || harness::plan(&spec).map(|planned| planned.digest)).await.ok()?.ok()?;
        result.schedule_digest == digest.to_string()
    };
    same.then_some(result)
}

/// Writes a run into a folder that may be new.
pub(super) async fn keep(path: &Path, measured: Box<Measured>) -> Result<RunResult, Failure> {
    fs::create_dir_all(path).at("create", path)?;
    write(path, measured).await
}

/// Writes a run into a folder that is there. It is large, and moved from thread to thread: in a box.
pub(super) async fn write(path: &Path, measured: Box<Measured>) -> Result<RunResult, Failure> {
    let path = path.to_owned();
    let write = move || harness::write(&path, &measured).map(|()| measured);
    let written = spawn_blocking(write).await.map_err(|error| Failure::system(error.to_string()))?;
    written.map(|measured| measured.result).map_err(|error| failure(&error))
}

/// Copies the files of a run, its result last where it is wanted; which of the others there are depends on what was
/// measured.
pub(super) async fn copy(from: &Path, to: &Path, with_result: bool) -> Result<(), Failure> {
    let (from, to) = (from.to_owned(), to.to_owned());
    let copied = spawn_blocking(move || copy_files(&from, &to, with_result)).await;
    Ok(copied.map_err(|error| Failure::system(error.to_string()))??)
}

fn copy_files(from: &Path, to: &Path, with_result: bool) -> Result<(), PathError> {
    for name in RUN_FILES.into_iter().chain(with_result.then_some(RESULT)) {
        let from = from.join(name);
        if is_there(&from)? {
            fs::copy(&from, to.join(name)).at("copy", &from)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod resume_tests {
    use super::*;

    #[test]
    fn parts_of_an_unfinished_measurement_stay_and_those_of_a_finished_one_go() {
        let out = tempfile::tempdir().unwrap();
        let (part, end) = (out.path().join("probes/01-10"), out.path().join("search.json"));
        fs::create_dir_all(&part).unwrap();
        discard_parts_if_finished(out.path(), &end, "probes").unwrap();
        assert!(part.is_dir());
        fs::write(&end, "{}").unwrap();
        discard_parts_if_finished(out.path(), &end, "probes").unwrap();
        assert!(!part.exists() && !end.exists());
        fs::create_dir_all(&part).unwrap();
        let failure = Failure::system("missed");
        assert_eq!(ended_without_result(out.path(), "probes", failure.clone()), failure);
        assert!(part.is_dir());
        discard_parts_if_finished(out.path(), &end, "probes").unwrap();
        assert_eq!(fs::read_dir(out.path()).unwrap().count(), 0);
        fs::create_dir_all(&part).unwrap();
        fs::write(&end, "{").unwrap();
        discard_parts_if_finished(out.path(), &end, "probes").unwrap();
        assert!(part.is_dir(), "it was killed while it wrote its end");
    }

    #[test]
    fn a_part_that_another_server_answered_does_not_count() {
        let text = include_str!("../../../tests/golden/results/benchmark/result.json");
        let mut result: RunResult = serde_json::from_str(text).unwrap();
        result.identity.as_mut().unwrap().servers.iter_mut().for_each(|server| server.start_time_seconds = Some(0.5));
        let now = result.identity.as_ref().unwrap().servers.clone();
        let servers = |change: fn(&mut ServerIdentity), is_ours| {
            let mut now = now.clone();
            now.iter_mut().for_each(change);
            Servers { now, is_ours }
        };
        assert!(servers(|_| {}, false).are_those_of(&result));
        assert!(!servers(|server| server.version = Some("99".to_owned()), true).are_those_of(&result));
        // Its own servers are started anew each time; another's are not.
        assert!(servers(|server| server.start_time_seconds = Some(1.0), true).are_those_of(&result));
        assert!(!servers(|server| server.start_time_seconds = Some(1.0), false).are_those_of(&result));
        // One that does not report its start may be another one.
        let mut unknown = result.clone();
        unknown.identity.as_mut().unwrap().servers.iter_mut().for_each(|server| server.start_time_seconds = None);
        assert!(!servers(|server| server.start_time_seconds = None, false).are_those_of(&unknown));
        assert!(servers(|server| server.start_time_seconds = None, true).are_those_of(&unknown));
        unknown.identity = None;
        assert!(!servers(|_| {}, false).are_those_of(&unknown));
    }

    #[test]
    fn a_file_of_a_run_may_be_absent_and_must_not_be_lost() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("from"), folder.path().join("to"));
        fs::create_dir(&from).unwrap();
        fs::create_dir(&to).unwrap();
        fs::write(from.join(RESULT), "{}").unwrap();
        copy_files(&from, &to, false).unwrap();
        assert!(!to.join(RESULT).exists());
        copy_files(&from, &to, true).unwrap();
        assert_eq!(fs::read_to_string(to.join(RESULT)).unwrap(), "{}");
        // Like a file that cannot be read.
        fs::create_dir(from.join("requests.jsonl")).unwrap();
        let reason = copy_files(&from, &to, true).unwrap_err().to_string();
        assert!(reason.starts_with("cannot copy ") && reason.contains("requests.jsonl"), "{reason}");
    }
}
