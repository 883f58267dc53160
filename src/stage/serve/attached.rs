//! Servers that somebody else started: waited for and watched over by nobody here, never stopped.

use std::time::{Duration, Instant};

use crate::event::{Done, Endpoint, Failure, FailureKind};
use crate::manifest::duration;
use crate::manifest::model::{AttachServer, Endpoints, Serve};
use crate::stage::errand::Errand;
use crate::triton::{AwaitError, ClientError, TritonClient, await_ready};

/// The servers to attach to, if this is not one that is started. `triton_skip_server_spawn` is the same in NVIDIA's words.
pub fn asked_for(serve: &Serve) -> Option<AttachServer> {
    match serve {
        Serve::Attach(attach) => Some(attach.clone()),
        Serve::Triton(server) if server.triton_skip_server_spawn => Some(AttachServer {
            endpoints: Endpoints::Text(server.triton_grpc_ports.clone().unwrap_or_default()),
            models: Vec::new(),
            ready: server.ready.clone(),
        }),
        Serve::Simulator(_) | Serve::Triton(_) | Serve::Command(_) => None,
    }
}

/// Waits for every server, examines it, and reports them; lives until it is no longer needed.
pub async fn perform(errand: &mut Errand, attach: &AttachServer) -> Result<Done, Failure> {
    let refused = |what: String| Failure::new(FailureKind::Refused, what);
    let endpoints = attach.endpoints.read().map_err(|(_, why)| refused(format!("`endpoints`: {why}")))?;
    let limit = duration(&attach.ready.timeout).map_err(refused)?;
    let begun = Instant::now();
    for (index, endpoint) in endpoints.iter().enumerate() {
        errand.lease.say(format!("attaching to {endpoint}"), index as u64, Some(endpoints.len() as u64));
        await_one(errand, endpoint, limit.saturating_sub(begun.elapsed()), limit).await?;
    }
    for notice in examine(&endpoints, attach).await? {
        errand.lease.notice(notice);
    }
    if let Some(sender) = errand.lease.ready.take() {
        // Nobody listens any more: then the run is stopping, and says so.
        let _ = sender.send(endpoints);
    }
    errand.lease.stop.asked().await;
    Ok(Done::default())
}

async fn await_one(errand: &Errand, endpoint: &Endpoint, left: Duration, limit: Duration) -> Result<(), Failure> {
    let progress = |waited: Duration, said: &str| {
        errand.lease.say(format!("{endpoint}: waiting, {} s ({said})", waited.as_secs()), 0, None);
    };
    match await_ready(endpoint, left, progress, errand.lease.stop.asked()).await {
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

/// What is asked of servers before they are used: that each of `models` is ready. Gives what a person should know of them.
async fn examine(endpoints: &[Endpoint], attach: &AttachServer) -> Result<Vec<String>, Failure> {
    let mut wrong = Vec::new();
    for endpoint in endpoints.iter().filter(|_| !attach.models.is_empty()) {
        match missing(endpoint, &attach.models).await {
            Ok(missing) if missing.is_empty() => {}
            Ok(missing) => wrong.push(format!("{endpoint} is ready, but not its model {}", missing.join(", "))),
            Err(error) => wrong.push(format!("{endpoint}: {error}")),
        }
    }
    if wrong.is_empty() {
        return Ok(Vec::new());
    }
    let failure = Failure::new(FailureKind::Service, wrong.join("; "));
    Err(failure.hint("does the server have that model? Names are those of its model repository"))
}

/// The models that a server does not have ready.
async fn missing<'a>(endpoint: &Endpoint, models: &'a [String]) -> Result<Vec<&'a str>, ClientError> {
    let mut client = TritonClient::connect(endpoint).await?;
    let mut missing = Vec::new();
    for model in models {
        if !client.is_model_ready(model).await? {
            missing.push(model.as_str());
        }
    }
    Ok(missing)
}
