//! Servers that are started outside of regatta: waited for, watched, never stopped.

use std::time::{Duration, Instant};

use super::attach_check::{self, ExpectedServer};
use super::health::{self, HealthProbe, SILENCE};
use crate::event::{Done, Endpoint, Failure, FailureKind};
use crate::manifest::model::AttachServer;
use crate::stages::task_context::TaskContext;
use crate::triton::{AwaitError, await_ready};

/// Waits for every server, examines it, and reports them; lives until it is no longer needed.
pub async fn perform(context: &mut TaskContext, attach_server: &AttachServer) -> Result<Done, Failure> {
    let refused = |what: String| Failure::new(FailureKind::Refused, what);
    let endpoints = attach_server.endpoints.read().map_err(|(_, why)| refused(format!("`endpoints`: {why}")))?;
    let limit = attach_server.ready.timeout.time();
    let begun = Instant::now();
    for (index, endpoint) in endpoints.iter().enumerate() {
        context.lease.report_progress(format!("attaching to {endpoint}"), index as u64, Some(endpoints.len() as u64));
        await_one(context, endpoint, limit.saturating_sub(begun.elapsed()), limit).await?;
    }
    let expected = ExpectedServer { models: attach_server.models.clone(), ..ExpectedServer::default() };
    for notice in attach_check::check(&endpoints, &expected).await? {
        context.lease.notice(notice);
    }
    if let Some(sender) = context.lease.ready.take() {
        // No receiver is left: then the run is stopping, and reports it.
        let _ = sender.send(endpoints.clone());
    }
    tokio::select! {
        biased;
        () = context.lease.stop.requested() => Ok(Done::default()),
        silent = health::any_silent(endpoints, HealthProbe::Kserve(attach_server.models.clone()), SILENCE) => {
            let failure = Failure::new(FailureKind::Service, silent.to_string());
            Err(failure.hint("it was not started here: is its host up, is there still a network path to it, does its process live?"))
        }
    }
}

async fn await_one(context: &TaskContext, endpoint: &Endpoint, left: Duration, limit: Duration) -> Result<(), Failure> {
    let progress = |waited: Duration, text: &str| {
        context.lease.report_progress(format!("{endpoint}: waiting, {} s ({text})", waited.as_secs()), 0, None);
    };
    match await_ready(endpoint, left, progress, context.lease.stop.requested()).await {
        Ok(()) => Ok(()),
        Err(AwaitError::Timeout { last, .. }) => Err(Failure::new(
            FailureKind::Service,
            format!("{endpoint} was not ready within {limit:?}, last answer: {last}"),
        )
        .hint("nothing is started here: is that server up, and is this its gRPC port?")),
        Err(AwaitError::Stopped { .. }) => {
            Err(Failure::new(FailureKind::Interrupted, "stopped before every server was ready"))
        }
        Err(error) => Err(Failure::new(FailureKind::Service, error.to_string())),
    }
}
