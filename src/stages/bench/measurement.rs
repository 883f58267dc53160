//! One measurement: the servers probed, its telemetry and server metrics, and what its result means for the task.
//!
//! Runs of an earlier attempt that need not be measured again, and keeping a run for a later one. The files are
//! large, and planning a load reads them: both wait on threads of their own.
//!
//! A measurement of several parts (repeats, probes) that was cut off: which of its finished parts still count.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use std::{fs, io};

use parking_lot::Mutex;
use tokio::task::spawn_blocking;

use super::live_numbers::{LiveNumbers, live_line};
use super::spec::unused_proxy;
use super::{identity, telemetry};
use crate::serve::ready;
use crate::serve::ready::{HealthProbe, SilenceLimits};
use crate::task_context::TaskContext;
use base::event::{Done, Failure, FailureKind, Verdict};
use base::files::is_whole_json;
use exec::process::{BusyProcess, ProcessorTimes};
use harness::preflight::PreflightResult;
use harness::{
    BenchSpec, HarnessError, LoadPattern, Measured, RESULT, RUN_FILES, RunResult, SentHeaders, ServerIdentity,
    changes_of_servers, is_of_busy_machine, refused_field,
};
use plan::manifest::model::{self, Bench, RepeatRole, WhenBusy};
use runner::store::{PathError, WithPath as _, discard, is_there};

/// What a result means for its task. One of several runs counts with any verdict, unless its server is gone.
pub fn task_outcome(bench: &Bench, result: &RunResult) -> Result<Done, Failure> {
    let reasons: Vec<String> = result.reasons().iter().map(harness::Reason::line).collect();
    let (headline, below) = (result.headline(), headline_details(result));
    let is_part = bench.turn == Some(RepeatRole::Run) && result.server_lost().is_none();
    if result.verdict().is_valid() || is_part || is_only_noticed(bench, result.verdict(), result.reasons()) {
        return Ok(Done { headline: Some(headline), below, warnings: reasons, ..Done::default() });
    }
    let failure = Failure { below, ..Failure::new(FailureKind::Invalid(result.verdict()), headline) };
    Err(match reasons.first() {
        Some(first) => failure.cause(first.clone()).tail(reasons),
        None => failure,
    })
}

/// Whether a measurement that a busy machine spoiled is no failure of its stage.
pub fn is_only_noticed(bench: &Bench, verdict: Verdict, reasons: &[harness::Reason]) -> bool {
    bench.when_busy == WhenBusy::Notice && is_of_busy_machine(verdict, reasons)
}

/// What is below a headline: the server and its load, what was measured, the command that measures it again, and what
/// each host did.
pub fn headline_details(result: &RunResult) -> Vec<(String, String)> {
    let workload = [("workload".to_owned(), result.workload().to_string())];
    let measured = result.identity.as_ref().map(|identity| ("measured".to_owned(), identity.short_line()));
    let manifest = result.identity.as_ref().and_then(|identity| identity.manifest.as_ref());
    let again = manifest.and_then(|manifest| Some(("run again".to_owned(), manifest.command.clone()?)));
    let sustained = "`regatta what-if` computes what the simulated servers sustain";
    let smoke = result.is_smoke().then(|| ("smoke".to_owned(), sustained.to_owned()));
    workload.into_iter().chain(measured).chain(smoke).chain(again).chain(result.hosts_in_short()).collect()
}

/// Where one measurement is among those of its task.
#[derive(Clone, Copy, Default)]
pub struct MeasurementPlace<'a> {
    /// What progress calls it; empty where it is the only one.
    pub name: &'a str,
    /// How long those that follow it take, about.
    pub later: Option<Duration>,
}

/// One measurement, with its progress reported under its name. `preflight`: what a trial before it found.
pub async fn measure(
    context: &TaskContext,
    spec: &BenchSpec,
    watched: model::Telemetry,
    MeasurementPlace { name, later }: MeasurementPlace<'_>,
    preflight: Option<PreflightResult>,
) -> Result<Measured, Failure> {
    let stop = context.lease.stop.child();
    let processor_times = spawn_blocking(ProcessorTimes::now).await.ok();
    let before = identity::of_servers(spec).await;
    let telemetry = Box::pin(telemetry::start(context, spec, &before, watched)).await;
    let polled = telemetry::polled(context, spec, &before);
    let scraper = telemetry::start_scraper(spec, &polled)?;
    // Since when answers are measured, and how many there are.
    let far: Mutex<Option<(Instant, u64, u64)>> = Mutex::new(None);
    let gpus = telemetry.as_ref().and_then(telemetry::TelemetrySampler::gpus_of_servers);
    let answered = Arc::new(AtomicU64::new(0));
    let live = Mutex::new(LiveNumbers::new(spec.stop.time(), gpus));
    let mut measuring = Box::pin(harness::measure(spec, &stop, |progress| {
        let mut far = far.lock();
        let since = far.map_or_else(Instant::now, |(since, ..)| since);
        *far = Some((since, progress.ended, progress.scheduled));
        drop(far);
        answered.store(progress.ended + progress.tokens, Ordering::Relaxed);
        let measured = live.lock().take(Instant::now(), &progress);
        let text = live_line(&measured, progress.scheduled, later);
        let text = if name.is_empty() { text } else { format!("{name}: {text}") };
        context.lease.report_measuring(text, progress.ended, Some(progress.scheduled), Some(measured));
    }));
    let mut lost = None;
    // Every wait of a request ends with a stop, so that it needs no limit of its own.
    let measured = tokio::select! {
        measured = &mut measuring => measured,
        silent = wait_for_unresponsive_server(spec, &answered) => {
            lost = Some(format!("{silent}; {}", when(&far)));
            stop.request();
            measuring.await
        }
        () = context.lease.stop.requested() => {
            lost = context.lease.stop.reason().map(|why| format!("{why}; {}", when(&far)));
            measuring.await
        }
    };
    // The measurement may have received the stop before we did.
    let lost = lost.or_else(|| context.lease.stop.reason().map(|why| format!("{why}; {}", when(&far))));
    let mut measured = match (measured, &lost) {
        (Err(HarnessError::Stopped), Some(why)) => return Err(Failure::new(FailureKind::Service, why.clone())),
        (measured, _) => measured.map_err(|error| failure(&error))?,
    };
    if let Some(scraper) = scraper {
        telemetry::finish(scraper, &polled, &mut measured).await;
    }
    if let Some(telemetry) = telemetry {
        telemetry.finish(context, &mut measured).await;
    }
    telemetry::of_servers(watched, &mut measured);
    if let Some(why) = lost {
        measured.server_lost(why);
    }
    measured.lowered(&context.lease.assignment.lowered);
    identity::identify(context, spec, &before, &mut measured).await;
    if let Some(preflight) = preflight {
        measured.preflight(preflight);
    }
    let measured = measured.judge();
    if is_of_busy_machine(measured.result.verdict(), measured.result.reasons())
        && let Some(busiest) = processor_times.and_then(|times| times.busiest())
    {
        context.lease.notice(busy_notice(&busiest));
    }
    Ok(measured)
}

/// What disturbed a measurement, and what to do.
fn busy_notice(BusyProcess { pid, program, cores }: &BusyProcess) -> String {
    format!(
        "this machine was busy: `{program}` (process {pid}) used {cores:.1} cores meanwhile; end it or wait for it, \
         and measure again with `--force`"
    )
}

/// The servers are probed beside the requests; `answered` grows with what has come of them. Over HTTP there are no
/// probes: a silent server ends at `stall_timeout`.
pub async fn wait_for_unresponsive_server(spec: &BenchSpec, answered: &Arc<AtomicU64>) -> ready::UnresponsiveServer {
    // Without a value for a header nothing is measured.
    match (&spec.protocol, SentHeaders::of_run(spec)) {
        (harness::Transport::Kserve, Ok(sent)) => {
            let question = HealthProbe::Kserve(vec![spec.model.clone()], sent.map());
            let limits = SilenceLimits::USUAL.later(AFTER_ITS_STAGE);
            ready::any_silent(spec.endpoints.clone(), question, limits, Arc::clone(answered)).await
        }
        _ => std::future::pending().await,
    }
}

/// A server that its own stage watches is reported by that stage first, because its report is more precise.
const AFTER_ITS_STAGE: Duration = Duration::from_secs(2);

/// Where in the run we are now.
pub(super) fn when(far: &Mutex<Option<(Instant, u64, u64)>>) -> String {
    match *far.lock() {
        Some((since, ended, scheduled)) => format!(
            "noticed {:.1} s after the first request, when {ended} of {scheduled} had ended",
            since.elapsed().as_secs_f64()
        ),
        None => "before the first request".to_owned(),
    }
}

pub fn failure(error: &HarnessError) -> Failure {
    let kind = match error {
        HarnessError::Spec(_)
        | HarnessError::Schedule(_)
        | HarnessError::Tls(_)
        | HarnessError::ApiKey { .. }
        | HarnessError::OtherModel { .. }
        | HarnessError::Data { .. }
        | HarnessError::DataEnd { .. }
        | HarnessError::Access { .. }
        | HarnessError::Model { .. }
        | HarnessError::Request { .. } => FailureKind::Refused,
        HarnessError::Connect { .. } | HarnessError::Warmup { .. } => FailureKind::Service,
        HarnessError::Stopped => FailureKind::Interrupted,
        HarnessError::Worker { .. } | HarnessError::System { .. } | HarnessError::Format { .. } => FailureKind::System,
    };
    let hint = match error {
        HarnessError::Connect { endpoint, .. } => {
            let proxy = unused_proxy(endpoint.rsplit_once(':').map_or(endpoint.as_str(), |(host, _)| host));
            let port = "check that the server runs and that this is its port; for one that is still loading, \
                        `ready_timeout: 10m` (`regatta bench`: --ready-timeout 10m) waits";
            Some(proxy.unwrap_or_else(|| port.to_owned()))
        }
        HarnessError::Warmup { why, .. } => refused_field(why),
        _ => None,
    };
    let failure = Failure::new(kind, error.to_string());
    match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
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
    fs::create_dir_all(path)
        .map_err(|error| Failure::system(format!("`{}` cannot be made: {error}", path.display())))?;
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
        Err(error) => failure.hint(format!("it would go on with what is in {parts}: that cannot be marked: {error}")),
    }
}

/// Removes the parts if the stage had finished, which `end` shows, or had ended without a result: it resumes only if it
/// was interrupted. What was finished once is measured again, because a selection of successful parts would be biased.
fn discard_parts_if_finished(out: &Path, end: &Path, parts: &str) -> Result<(), Failure> {
    let (mark, parts) = (mark(out, parts), out.join(parts));
    if parts.is_dir() && (is_whole_json(end) || mark.is_file()) {
        fs::remove_dir_all(&parts).map_err(|error| cannot("remove", &parts, &error))?;
    }
    // After the parts: what a crash leaves of them is not resumed.
    for path in [end, &mark] {
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(cannot("remove", path, &error)),
            _ => {}
        }
    }
    Ok(())
}

fn cannot(what: &str, path: &Path, error: &io::Error) -> Failure {
    Failure::system(format!("cannot {what} {}: {error}", path.display()))
}

#[cfg(test)]
mod saved_run_tests {
    use super::*;

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

#[cfg(test)]
mod outcome_tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn a_busy_machine_is_only_noticed_where_when_busy_says_so() {
        let text = include_str!("../../../tests/golden/results/benchmark/result.json");
        let result = |verdict: &str, check: &str| -> RunResult {
            let mut result: Value = serde_json::from_str(text).unwrap();
            result["verdict"] = verdict.into();
            result["reasons"] = json!([{"check": check, "severity": verdict, "text": "as it was"}]);
            serde_json::from_value(result).unwrap()
        };
        let bench = |more: &str| -> Bench {
            let text =
                format!("{{\"target\": \"a:1\", \"scenario\": \"offline\", \"stop\": {{\"requests\": 9}}{more}}}");
            serde_json::from_str(&text).unwrap()
        };
        let notice = bench(", \"when_busy\": \"notice\"");
        let busy = result("invalid_client", "lag");
        let done = task_outcome(&notice, &busy).unwrap();
        assert_eq!(done.warnings, ["lag: as it was"]);
        assert!(done.headline.is_some_and(|line| line.contains("INVALID(client)")));
        assert!(task_outcome(&bench(""), &busy).is_err());
        // Neither another fault of the client nor one of the server is a busy machine.
        assert!(task_outcome(&notice, &result("invalid_client", "self_check")).is_err());
        assert!(task_outcome(&notice, &result("invalid_server", "failures")).is_err());
        let run = bench(", \"turn\": \"run\"");
        assert!(task_outcome(&run, &busy).is_ok());
        assert!(task_outcome(&run, &result("invalid_server", "server")).is_err());
    }
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
}
