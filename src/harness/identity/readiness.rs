//! Whether a server is ready for requests: queried once, as the requests of the measurement are sent.

use std::time::Duration;

use tokio::time::error::Elapsed;
use tokio::time::timeout;

use super::http::{IdentityClient, NoReply};
use crate::transport::sent_headers::SentHeaders;
use crate::{Api, BenchSpec, Transport};
use base::event::Endpoint;
use triton::TritonClient;

/// The limit for one answer: a server that accepts and does not answer is not ready.
const ANSWER: Duration = Duration::from_secs(5);

/// Why a server is not ready yet.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct ServerNotReady(#[from] NotReadyKind);

#[derive(Debug, thiserror::Error)]
enum NotReadyKind {
    #[error("{path}: HTTP status {status}")]
    Status { path: String, status: u16 },
    #[error(transparent)]
    NoReply(#[from] NoReply),
    #[error("no connection within {} s", ANSWER.as_secs())]
    NoConnection(#[from] Elapsed),
    /// As gRPC reports it, without keys.
    #[error("{0}")]
    Call(String),
    #[error("the server answers that it is not ready")]
    Negative,
}

/// Queries a server once. What else is wrong, and what a server does not have, is for the measurement to report.
///
/// # Errors
/// It is not ready.
pub async fn readiness(endpoint: &Endpoint, spec: &BenchSpec) -> Result<(), ServerNotReady> {
    let Ok(sent) = SentHeaders::of_run(spec) else { return Ok(()) };
    let Transport::Http(http) = &spec.protocol else { return Ok(over_grpc(endpoint, &sent, &spec.model).await?) };
    let port = endpoint.http.unwrap_or(endpoint.grpc);
    let client = IdentityClient::new(&endpoint.host, port, &spec.protocol, &spec.request.headers, ANSWER);
    let Some(client) = client else { return Ok(()) };
    let models = http.models_path();
    let paths = match http.api {
        Api::Generate => ["/v2/health/ready".to_owned(), format!("/v2/models/{}/ready", spec.model)],
        Api::OpenaiChat | Api::OpenaiCompletions => {
            ["/health".to_owned(), models.strip_prefix(&client.prefix).unwrap_or(&models).to_owned()]
        }
    };
    for path in paths {
        match client.query(&path).await {
            // What servers and gateways answer while an engine loads, and Triton's negative answer.
            Err(NoReply::Status(status @ (400 | 500 | 502..=504))) if status != 400 || http.api == Api::Generate => {
                return Err(NotReadyKind::Status { path, status }.into());
            }
            Err(error @ (NoReply::Connect(_) | NoReply::Late(_) | NoReply::Unreadable(_))) => {
                return Err(NotReadyKind::from(error).into());
            }
            Ok(_) | Err(NoReply::Status(_) | NoReply::Redirected(_) | NoReply::Redirects) => {}
        }
    }
    Ok(())
}

async fn over_grpc(endpoint: &Endpoint, sent: &SentHeaders, model: &str) -> Result<(), NotReadyKind> {
    let connected = timeout(ANSWER, TritonClient::connect_with(endpoint, sent.map())).await?;
    let client = connected.map_err(|error| NotReadyKind::Call(error.why.to_string()))?.deadline(ANSWER);
    for answer in [client.is_ready().await, client.is_model_ready(model, "").await] {
        match answer {
            Ok(true) => {}
            Ok(false) => return Err(NotReadyKind::Negative),
            Err(error) if error.code() == Some(tonic::Code::Unimplemented) => {}
            Err(error) => return Err(NotReadyKind::Call(sent.hide(error.call_and_why()))),
        }
    }
    Ok(())
}
