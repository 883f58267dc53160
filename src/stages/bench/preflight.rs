//! Before a longer measurement: whether this machine can produce the load at all, tried against a local server that does
//! no work. The server under test gets no request, and the trial is finished before the measurement begins.

use std::path::Path;
use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::sidecar::Sidecar;
use crate::task_context::TaskContext;
use base::event::Endpoint;
use base::files::read_text;
use exec::process::{ExitKind, SpawnError};
use harness::preflight::{NoPreflightResult, PreflightResult, PreflightTrial, WORTH_IT, expected};
use harness::{BenchSpec, HarnessError};
use plan::manifest::model::Preflight as Wanted;

/// For the server to open its port, and for the trial to end.
const TRIAL_TIMEOUT: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(5);
const GRACE: Duration = Duration::from_secs(1);

/// Runs the trial if it is requested or worthwhile. Anything that prevents it is a notice.
pub async fn preflight(
    context: &TaskContext,
    spec: &BenchSpec,
    wanted: Wanted,
    program: Option<&Path>,
) -> Option<PreflightResult> {
    if wanted == Wanted::Off {
        return None;
    }
    match attempt(context, spec, wanted == Wanted::On, program).await {
        Ok(result) => {
            for reason in result.iter().flat_map(PreflightResult::reasons) {
                context.lease.notice(format!("preflight: {}; it is measured all the same", reason.text));
            }
            result
        }
        Err(why) => {
            if !context.lease.stop.is_requested() {
                context.lease.notice(format!("no preflight: {why}"));
            }
            None
        }
    }
}

/// Why there was no trial.
#[derive(Debug, thiserror::Error)]
enum NoPreflight {
    #[error("offline sends everything at once, so there is no schedule that a client could be late for")]
    Offline,
    #[error("the regatta program cannot be found: {0}")]
    Program(#[source] std::io::Error),
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    #[error("the null server did not open its port within {0:?}")]
    NoPort(Duration),
    /// With what it printed.
    #[error("the null server ended at once ({how:?}): {written}")]
    Ended { how: ExitKind, written: String },
    #[error("it did not finish within {0:?}")]
    Unfinished(Duration),
    #[error(transparent)]
    Harness(#[from] HarnessError),
    #[error(transparent)]
    Result(#[from] NoPreflightResult),
    #[error("what the null server printed cannot be read: {0}")]
    Output(#[source] std::io::Error),
    #[error("stopped")]
    Stopped,
}

async fn attempt(
    context: &TaskContext,
    spec: &BenchSpec,
    is_asked: bool,
    program: Option<&Path>,
) -> Result<Option<PreflightResult>, NoPreflight> {
    let Some(trial) = trial(spec, is_asked).await else {
        return if is_asked { Err(NoPreflight::Offline) } else { Ok(None) };
    };
    context.lease.report_progress("trying the load against a server that does no work", 0, None);
    let mut server = start(context, &trial, program)?;
    let endpoint = endpoint(context, &mut server).await?;
    let preflight_result = run(context, &trial, &endpoint).await?;
    let result = if preflight_result.reasons().is_empty() {
        preflight_result
    } else {
        preflight_result.better(run(context, &trial, &endpoint).await?)
    };
    // Gone before the measurement begins.
    server.stop(context, GRACE).await;
    Ok(Some(result))
}

/// What is tried; nothing where the measurement is short, or has no schedule. If no plan can be made, the
/// measurement reports it.
async fn trial(spec: &BenchSpec, is_asked: bool) -> Option<PreflightTrial> {
    let is_trace = matches!(spec.scenario, harness::LoadPattern::Trace { .. });
    let is_long = expected(spec).is_some_and(|time| time >= WORTH_IT);
    // How long a trace is, and any load from data, is in the files.
    let has_unknown_end = is_trace || spec.content.data.is_some() && spec.scenario.is_open_loop();
    if !is_asked && !is_long && !has_unknown_end {
        return None;
    }
    let spec = spec.clone();
    let planned = tokio::task::spawn_blocking(move || {
        let schedule = harness::plan(&spec).ok()?;
        let last = schedule.requests.iter().map(|request| request.at_ns).max().unwrap_or(0);
        let is_long = is_long || u128::from(last) >= WORTH_IT.as_nanos();
        PreflightTrial::new(&spec, &schedule).filter(|_| is_asked || is_long)
    });
    planned.await.ok().flatten()
}

async fn run(
    context: &TaskContext,
    trial: &PreflightTrial,
    endpoint: &Endpoint,
) -> Result<PreflightResult, NoPreflight> {
    let spec = trial.at(endpoint.clone());
    let stop = context.lease.stop.child();
    let measured = timeout(TRIAL_TIMEOUT, Box::pin(harness::run(&spec, &stop, |_| {})));
    let measured = measured.await.map_err(|_| NoPreflight::Unfinished(TRIAL_TIMEOUT))?;
    Ok(trial.evaluate(&measured?)?)
}

/// The server, as a process of its own.
fn start(context: &TaskContext, trial: &PreflightTrial, program: Option<&Path>) -> Result<Sidecar, NoPreflight> {
    let program = program.map_or_else(std::env::current_exe, |program| Ok(program.to_owned()));
    let program = program.map_err(NoPreflight::Program)?;
    let pair = |(low, high): (f64, f64)| format!("{low},{high}");
    let argv =
        vec![program.display().to_string(), "__null-server".to_owned(), pair(trial.first_ms), pair(trial.gap_ms)];
    Ok(Sidecar::start(context, argv, &[], "null")?)
}

/// The server's endpoint, once it reports it.
async fn endpoint(context: &TaskContext, server: &mut Sidecar) -> Result<Endpoint, NoPreflight> {
    let file = server.file().to_owned();
    let read_endpoint = async {
        loop {
            let text = read_text(&file).unwrap_or_default();
            let port = text.split_once('\n').and_then(|(line, _)| line.strip_prefix("ready grpc=")?.parse().ok());
            if let Some(grpc) = port {
                return Endpoint { host: "127.0.0.1".to_owned(), grpc, http: None, metrics: None, name: None };
            }
            sleep(LOOK).await;
        }
    };
    let how = tokio::select! {
        endpoint = read_endpoint => return Ok(endpoint),
        how = server.ended() => how,
        () = sleep(TRIAL_TIMEOUT) => return Err(NoPreflight::NoPort(TRIAL_TIMEOUT)),
        () = context.lease.stop.requested() => return Err(NoPreflight::Stopped),
    };
    let written = server.written().map_err(NoPreflight::Output)?;
    Err(NoPreflight::Ended { how, written: written.trim().to_owned() })
}
