//! One measurement: the servers probed, its telemetry and server metrics, and what its result means for the task.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::task::spawn_blocking;

use super::live_numbers::{LiveNumbers, live_line};
use super::spec::unused_proxy;
use super::{identity, telemetry};
use crate::serve::ready::{self, HealthProbe, SilenceLimits};
use crate::task_context::TaskContext;
use base::event::{Done, Failure, FailureKind, Verdict};
use exec::process::{BusyProcess, ProcessorTimes};
use harness::preflight::PreflightResult;
use harness::{BenchSpec, HarnessError, Measured, RunResult, SentHeaders, is_of_busy_machine, refused_field};
use plan::manifest::model::{self, Bench, RepeatRole, WhenBusy};

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
            let address = "check the address, and that the server runs; `ready_timeout: 10m` waits for one that is \
                           still loading";
            // Some errors have a cure of their own.
            proxy.or_else(|| (!error.to_string().contains("write http")).then(|| address.to_owned()))
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

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
