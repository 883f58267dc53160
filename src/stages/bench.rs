//! `bench:` — requests on schedule, answers measured, a verdict.

use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::health::{self, HealthProbe, SILENCE};
use super::load;
use super::loadgen;
use super::request::request;
use super::serve::attach;
use super::task_context::TaskContext;
use super::{identity, preflight, repeat, scrape, search, telemetry};
use crate::event::{Done, Endpoint, Failure, FailureKind};
use crate::harness::{self, BenchSpec, HarnessError, Measured, RunResult};
use crate::manifest::model::{self, Bench, Turn};
use crate::manifest::{Targets, duration, targets};
use crate::plan::REPEATED_RUNS;

/// `program` is what LoadGen's tests run in; `None` is this one.
pub async fn perform(context: &TaskContext, bench: &Bench, program: Option<&Path>) -> Result<Done, Failure> {
    if bench.turn == Some(Turn::Sum) {
        let runs = context.lease.assignment.inputs.get(REPEATED_RUNS);
        return repeat::sum_up(context, runs.map_or(&[], Vec::as_slice));
    }
    let mut spec = spec(bench, &context.lease.project).map_err(|what| Failure::new(FailureKind::Refused, what))?;
    know_all_ports(&mut spec.endpoints, &context.lease.assignment.endpoints);
    for lowered in &context.lease.assignment.lowered {
        context.lease.notice(format!("its server runs with {lowered}, because memory ran out with more"));
    }
    match spec.protocol {
        harness::Protocol::Kserve => greet(context, bench, &spec).await?,
        harness::Protocol::Http(_) => have_http(context, &spec)?,
    }
    if let Some(loadgen) = &bench.loadgen {
        return Box::pin(loadgen::perform(context, bench, loadgen, spec, program)).await;
    }
    if let Some(asked) = &bench.search {
        return Box::pin(search::perform(context, spec, asked, bench.telemetry)).await;
    }
    let before = Box::pin(preflight::preflight(context, &spec, bench.preflight, program)).await;
    if bench.repeat > 1 {
        return Box::pin(repeat::perform(context, &spec, bench.repeat, bench.telemetry, before)).await;
    }
    let mut measured = Box::pin(measure(context, &spec, bench.telemetry, "")).await?;
    if let Some(before) = before {
        measured.after(before);
    }
    harness::write(&context.lease.out, &measured).map_err(|error| failure(&error))?;
    if context.lease.stop.is_asked() && context.lease.stop.why().is_none() {
        return Err(Failure::new(FailureKind::Interrupted, "stopped before all requests were answered"));
    }
    if bench.turn == Some(Turn::Run) { repeat::kept(&measured.result) } else { judged(&measured.result) }
}

/// What a result means for its task.
pub fn judged(result: &RunResult) -> Result<Done, Failure> {
    let reasons: Vec<String> = result.reasons.iter().map(harness::Reason::line).collect();
    if result.verdict.is_valid() {
        let (headline, below) = (Some(result.headline()), below(result));
        return Ok(Done { headline, below, warnings: reasons });
    }
    let failure = Failure::new(FailureKind::Invalid(result.verdict), result.headline());
    Err(match reasons.first() {
        Some(first) => failure.cause(first.clone()).tail(reasons),
        None => failure,
    })
}

/// What stands below a headline: what was measured, and what each host did.
pub fn below(result: &RunResult) -> Vec<(String, String)> {
    let measured = result.identity.as_ref().map(|identity| ("measured".to_owned(), identity.short_line()));
    measured.into_iter().chain(result.hosts_in_short()).collect()
}

/// A service of ours without an HTTP port cannot be queried over HTTP.
fn have_http(context: &TaskContext, spec: &BenchSpec) -> Result<(), Failure> {
    let ours = &context.lease.assignment.endpoints;
    match spec.endpoints.iter().find(|endpoint| endpoint.http.is_none() && ours.contains(endpoint)) {
        None => Ok(()),
        Some(endpoint) => {
            let what = format!("the server at {endpoint} (gRPC) has no HTTP port, and the protocol is over HTTP");
            Err(Failure::new(FailureKind::Refused, what).hint("`protocol: kserve` uses gRPC"))
        }
    }
}

/// Queries the servers whether they are what the benchmark needs, before anything is sent.
async fn greet(context: &TaskContext, bench: &Bench, spec: &BenchSpec) -> Result<(), Failure> {
    let expected = attach::ExpectedServer::of_bench(bench);
    let notices = tokio::select! {
        checked = attach::check(&spec.endpoints, &expected) => checked?,
        () = context.lease.stop.asked() => {
            return Err(Failure::new(FailureKind::Interrupted, "stopped while its servers were queried"));
        }
    };
    // Ours were started from a known configuration; others are described for the user.
    if context.lease.assignment.endpoints.is_empty() {
        for notice in notices {
            context.lease.notice(notice);
        }
    }
    Ok(())
}

/// One measurement, with its progress reported under a name, and ended at the task's own time limit.
pub async fn measure(
    context: &TaskContext,
    spec: &BenchSpec,
    watched: model::Telemetry,
    name: &str,
) -> Result<Measured, Failure> {
    let stop = context.lease.stop.child();
    let before = identity::of_servers(spec).await;
    let telemetry = Box::pin(telemetry::start(context, spec, &before, watched)).await;
    let scraper = scrape::start(&spec.endpoints)?;
    // Since when answers are measured, and how many there are.
    let far: Mutex<Option<(Instant, u64, u64)>> = Mutex::new(None);
    let mut measuring = Box::pin(harness::run(spec, &stop, |progress| {
        let mut far = far.lock().unwrap_or_else(PoisonError::into_inner);
        let since = far.map_or_else(Instant::now, |(since, ..)| since);
        *far = Some((since, progress.ended, progress.scheduled));
        drop(far);
        let text =
            if progress.failed > 0 { format!("answered, {} failed", progress.failed) } else { "answered".into() };
        let text = if name.is_empty() { text } else { format!("{name}: {text}") };
        context.lease.say(text, progress.ended, Some(progress.scheduled));
    }));
    let late = async {
        match context.lease.task.timeout {
            Some(limit) => {
                tokio::time::sleep(limit).await;
                limit
            }
            None => std::future::pending().await,
        }
    };
    let mut lost = None;
    let measured = tokio::select! {
        measured = &mut measuring => measured,
        limit = late => {
            stop.now();
            let _ = measuring.await;
            return Err(Failure::new(FailureKind::Timeout, format!("still measuring after its timeout of {limit:?}")));
        }
        silent = silence(spec) => {
            lost = Some(format!("{silent}; {}", when(&far)));
            stop.gently();
            measuring.await
        }
        () = context.lease.stop.asked() => {
            lost = context.lease.stop.why().map(|why| format!("{why}; {}", when(&far)));
            measuring.await
        }
    };
    // The measurement may have received the stop before we did.
    let lost = lost.or_else(|| context.lease.stop.why().map(|why| format!("{why}; {}", when(&far))));
    let mut measured = match (measured, &lost) {
        (Err(HarnessError::Stopped), Some(why)) => return Err(Failure::new(FailureKind::Service, why.clone())),
        (measured, _) => measured.map_err(|error| failure(&error))?,
    };
    if let Some(scraper) = scraper {
        scrape::finish(scraper, &spec.endpoints, &mut measured).await;
    }
    if let Some(telemetry) = telemetry {
        telemetry.finish(context, &mut measured).await;
    }
    telemetry::of_servers(watched, &mut measured);
    if let Some(why) = lost {
        measured.server_failed(why);
    }
    measured.lowered(&context.lease.assignment.lowered);
    identity::identify(context, spec, &before, &mut measured).await;
    Ok(measured)
}

/// The servers are probed beside the requests. Over HTTP there are no probes: a silent server ends at `stall_timeout`.
pub async fn silence(spec: &BenchSpec) -> health::UnresponsiveServer {
    match spec.protocol {
        harness::Protocol::Kserve => {
            let question = HealthProbe::Kserve(vec![spec.model.clone()]);
            health::any_silent(spec.endpoints.clone(), question, SILENCE + AFTER_ITS_STAGE).await
        }
        harness::Protocol::Http(_) => std::future::pending().await,
    }
}

/// A server that its own stage watches is reported by that stage first, because its report is more precise.
const AFTER_ITS_STAGE: Duration = Duration::from_secs(2);

/// Where in the run we are now.
fn when(far: &Mutex<Option<(Instant, u64, u64)>>) -> String {
    match *far.lock().unwrap_or_else(PoisonError::into_inner) {
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
        | HarnessError::Data { .. }
        | HarnessError::Model { .. }
        | HarnessError::Request { .. } => FailureKind::Refused,
        HarnessError::Connect { .. } | HarnessError::Warmup { .. } => FailureKind::Service,
        HarnessError::Stopped => FailureKind::Interrupted,
        HarnessError::Worker(_) | HarnessError::System { .. } | HarnessError::Format { .. } => FailureKind::System,
    };
    Failure::new(kind, error.to_string())
}

fn spec(bench: &Bench, project: &Path) -> Result<BenchSpec, String> {
    let optional = |text: &Option<String>| text.as_deref().map(duration).transpose();
    let ms = |text: &Option<String>| Ok::<_, String>(optional(text)?.map(|time| time.as_secs_f64() * 1e3));
    let promise = bench.slo.clone().unwrap_or_default();
    let targets = targets(&bench.target)?;
    let protocol = protocol(bench, &targets, project)?;
    let mut request = request(&bench.request)?;
    request.streaming = request.streaming.or(targets.streams);
    Ok(BenchSpec {
        endpoints: targets.endpoints,
        protocol,
        model: targets.model.unwrap_or_else(|| bench.model.clone()),
        scenario: load::scenario(bench)?,
        arrivals: load::arrivals(bench.arrivals),
        stop: harness::StopAfter { requests: bench.stop.requests, duration: optional(&bench.stop.duration)? },
        input_len: load::length(&bench.input_tokens),
        output_len: load::length(&bench.output_tokens),
        seed: bench.seed,
        warmup: bench.warmup,
        pace: load::pace(bench)?,
        content: load::content(bench, project),
        frontends: bench.triton_num_frontends_per_model,
        clients: bench.triton_num_clients_per_frontend,
        stall_timeout: duration(&bench.stall_timeout)?.max(Duration::from_millis(1)),
        limits: load::limits(bench.limits.as_deref())?,
        slo: harness::Slo { ttft_ms: ms(&promise.ttft)?, tpot_ms: ms(&promise.tpot)?, e2e_ms: ms(&promise.e2e)? },
        timelines: bench.timelines,
        vocab_size: bench.vocab_size,
        end_id: bench.end_id,
        request,
    })
}

/// The manifest's value, else the one from the target's URL.
pub fn protocol(bench: &Bench, targets: &Targets, project: &Path) -> Result<harness::Protocol, String> {
    let api = match bench.protocol.or(targets.protocol) {
        None | Some(model::Protocol::Kserve) => {
            if let Some(path) = bench.endpoint.as_ref().or(targets.path.as_ref()) {
                return Err(format!(
                    "the path {path} needs a `protocol` over HTTP: generate, openai-chat, openai-completions"
                ));
            }
            if bench.tls.is_some() || targets.is_secure {
                return Err(
                    "`tls` is for protocols over HTTP: set `protocol` to one of generate, openai-chat, openai-completions"
                        .to_owned(),
                );
            }
            return Ok(harness::Protocol::Kserve);
        }
        Some(model::Protocol::Generate) => harness::Api::Generate,
        Some(model::Protocol::OpenaiChat) => harness::Api::OpenaiChat,
        Some(model::Protocol::OpenaiCompletions) => harness::Api::OpenaiCompletions,
    };
    Ok(harness::Protocol::Http(harness::Http {
        path: bench.endpoint.clone().or_else(|| targets.path.clone()),
        extra: bench.extra.clone(),
        api_key_env: bench.api_key_env.clone(),
        prompt_ids: bench.request.interface == Some(model::Interface::TokenIds),
        tls: (targets.is_secure || bench.tls.is_some())
            .then(|| Box::new(tls(bench.tls.clone().unwrap_or_default()).relative_to(project))),
        ..harness::Http::new(api)
    }))
}

fn tls(model::Tls { ca, insecure, client_cert, client_key }: model::Tls) -> harness::Tls {
    let path = |file: Option<String>| file.map(std::path::PathBuf::from);
    harness::Tls { ca: path(ca), insecure, client_cert: path(client_cert), client_key: path(client_key) }
}

/// A target names gRPC ports only; of services that were started for it the others are known too.
fn know_all_ports(endpoints: &mut [Endpoint], known: &[Endpoint]) {
    for endpoint in endpoints {
        if let Some(known) = known.iter().find(|known| known.host == endpoint.host && known.grpc == endpoint.grpc) {
            endpoint.clone_from(known);
        }
    }
}
