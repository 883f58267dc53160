//! Servers that are started outside of regatta: waited for, watched, never stopped.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::HeaderMap;
use parking_lot::Mutex;
use tokio::task::JoinSet;

use super::attach_check::{self, ExpectedServer};
use super::health::{self, HealthProbe, SilenceLimits};
use crate::task_context::TaskContext;
use base::event::{Done, Endpoint, Failure, FailureKind};
use plan::manifest::model::AttachServer;
use triton::{AwaitError, await_ready};

/// Interval between progress messages.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(250);

/// Waits for every server, examines it, and reports them; lives until it is no longer needed.
pub async fn perform(context: &mut TaskContext, attach_server: &AttachServer) -> Result<Done, Failure> {
    let refused = |what: String| Failure::new(FailureKind::Refused, what);
    let endpoints = attach_server.endpoints.read().map_err(|(_, why)| refused(format!("`endpoints`: {why}")))?;
    let limit = attach_server.ready.limit_attached();
    await_all(context, &endpoints, limit).await?;
    let expected = ExpectedServer { models: attach_server.models.clone(), ..ExpectedServer::default() };
    for notice in attach_check::check(&endpoints, &expected).await? {
        context.lease.notice(notice);
    }
    if let Some(sender) = context.lease.ready.take() {
        // No receiver is left: then the run is stopping, and reports it.
        let _ = sender.send(endpoints.clone());
    }
    // Its processor time is not ours to see.
    let question = HealthProbe::Kserve(attach_server.models.clone(), HeaderMap::new());
    tokio::select! {
        biased;
        () = context.lease.stop.requested() => Ok(Done::default()),
        silent = health::any_silent(endpoints, question, SilenceLimits::USUAL, Arc::default()) => {
            let failure = Failure::new(FailureKind::Service, silent.to_string());
            Err(failure.hint("it was not started here: is its host up, is there still a network path to it, does its process live?"))
        }
    }
}

/// Waits for all of them at once, within one limit.
async fn await_all(context: &TaskContext, endpoints: &[Endpoint], limit: Duration) -> Result<(), Failure> {
    let begun = Instant::now();
    let absent: Arc<Mutex<BTreeMap<usize, String>>> = Arc::default();
    let mut waiting = JoinSet::new();
    for (index, endpoint) in endpoints.iter().cloned().enumerate() {
        let (absent, stop) = (Arc::clone(&absent), context.lease.stop.clone());
        absent.lock().insert(index, "not queried yet".to_owned());
        waiting.spawn(async move {
            let progress = |_, text: &str| drop(absent.lock().insert(index, text.to_owned()));
            let result = await_ready(&endpoint, limit, progress, stop.requested()).await;
            if result.is_ok() {
                absent.lock().remove(&index);
            }
            result
        });
    }
    let mut tick = tokio::time::interval(PROGRESS_INTERVAL);
    loop {
        tokio::select! {
            biased;
            came = waiting.join_next() => match came {
                None => break,
                Some(Ok(Ok(()) | Err(AwaitError::Timeout { .. }))) => {}
                Some(Ok(Err(AwaitError::Stopped { .. }))) => {
                    return Err(Failure::new(FailureKind::Interrupted, "stopped before every server was ready"));
                }
                Some(Ok(Err(error))) => return Err(Failure::new(FailureKind::Service, error.to_string())),
                Some(Err(error)) => return Err(Failure::new(FailureKind::System, format!("waiting failed: {error}"))),
            },
            _ = tick.tick() => {
                let (done, total) = (endpoints.len() - absent.lock().len(), endpoints.len());
                if let Some(text) = progress_text(endpoints, &absent.lock(), begun.elapsed()) {
                    context.lease.report_progress(text, done as u64, Some(total as u64));
                }
            }
        }
    }
    let absent = absent.lock();
    let lines: Vec<String> = absent.iter().map(|(index, last)| format!("{}: {last}", endpoints[*index])).collect();
    let what = match absent.iter().next() {
        None => return Ok(()),
        Some((index, last)) if absent.len() == 1 => {
            format!("{} was not ready within {limit:?}: {last}", endpoints[*index])
        }
        Some(_) => format!("{} of {} servers were not ready within {limit:?}", absent.len(), endpoints.len()),
    };
    let failure = Failure::new(FailureKind::Service, what).hint(
        "nothing is started here: is that server up, and is this its gRPC port? `ready.timeout` sets how long it is waited for",
    );
    Err(if lines.len() > 1 { failure.cause(lines.join("; ")) } else { failure })
}

/// How many are absent, and why the first of them is.
fn progress_text(endpoints: &[Endpoint], absent: &BTreeMap<usize, String>, waited: Duration) -> Option<String> {
    let (index, last) = absent.iter().next()?;
    let seconds = waited.as_secs();
    Some(match absent.len() {
        1 => format!("waiting for {}, {seconds} s: {last}", endpoints[*index]),
        several => {
            format!("waiting for {several} of {} servers, {seconds} s; {}: {last}", endpoints.len(), endpoints[*index])
        }
    })
}
