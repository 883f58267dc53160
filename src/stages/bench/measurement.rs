//! One measurement: servers probed, telemetry and metrics beside it, and what its result means for the task.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::live_numbers::{LiveNumbers, live_line};
use super::unused_proxy::unused_proxy;
use super::{identity, server_metrics, telemetry};
use crate::serve::health::{self, HealthProbe, SilenceLimits};
use crate::task_context::TaskContext;
use base::event::{Done, Failure, FailureKind};
use harness::preflight::PreflightResult;
use harness::{BenchSpec, HarnessError, Measured, RunResult, SentHeaders, refused_field};
use plan::manifest::model;

/// What a result means for its task.
pub fn task_outcome(result: &RunResult) -> Result<Done, Failure> {
    let reasons: Vec<String> = result.reasons().iter().map(harness::Reason::line).collect();
    if result.verdict().is_valid() {
        let (headline, below) = (Some(result.headline()), headline_details(result));
        return Ok(Done { headline, below, warnings: reasons, ..Done::default() });
    }
    let failure = Failure::new(FailureKind::Invalid(result.verdict()), result.headline());
    Err(match reasons.first() {
        Some(first) => failure.cause(first.clone()).tail(reasons),
        None => failure,
    })
}

/// What stands below a headline: what was measured, and what each host did.
pub fn headline_details(result: &RunResult) -> Vec<(String, String)> {
    let measured = result.identity.as_ref().map(|identity| ("measured".to_owned(), identity.short_line()));
    measured.into_iter().chain(result.hosts_in_short()).collect()
}

/// One measurement, with its progress reported under a name. `preflight`: what a trial before it found.
pub async fn measure(
    context: &TaskContext,
    spec: &BenchSpec,
    watched: model::Telemetry,
    name: &str,
    preflight: Option<PreflightResult>,
) -> Result<Measured, Failure> {
    let stop = context.lease.stop.child();
    let before = identity::of_servers(spec).await;
    let telemetry = Box::pin(telemetry::start(context, spec, &before, watched)).await;
    let polled = server_metrics::polled(context, spec, &before);
    let scraper = server_metrics::start(spec, &polled)?;
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
        let text = live_line(&measured);
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
        server_metrics::finish(scraper, &polled, &mut measured).await;
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
    Ok(measured.judge())
}

/// The servers are probed beside the requests; `answered` grows with what has come of them. Over HTTP there are no probes: a silent
/// server ends at `stall_timeout`.
pub async fn wait_for_unresponsive_server(spec: &BenchSpec, answered: &Arc<AtomicU64>) -> health::UnresponsiveServer {
    // Without a value for a header nothing is measured.
    match (&spec.protocol, SentHeaders::of_run(spec)) {
        (harness::Transport::Kserve, Ok(sent)) => {
            let question = HealthProbe::Kserve(vec![spec.model.clone()], sent.map());
            let limits = SilenceLimits::USUAL.later(AFTER_ITS_STAGE);
            health::any_silent(spec.endpoints.clone(), question, limits, Arc::clone(answered)).await
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
            unused_proxy(endpoint.rsplit_once(':').map_or(endpoint.as_str(), |(host, _)| host))
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
