//! A connection to the server that a query goes to, and errors that say what else listens there.

use std::future::Future;

use anyhow::anyhow;

use crate::cli::{TritonProtocol, TritonUrl};
use crate::error::CommandError;
use base::diag::{ErrorText, did_you_mean};
use base::event::Endpoint;
use triton::{ClientError, ClientErrorKind, HttpAddress, HttpClient, ListeningService, TritonClient, probe};

/// The server that queries go to.
pub(super) struct ServerConnection {
    pub url: TritonUrl,
    pub deadline: std::time::Duration,
}

impl ServerConnection {
    pub async fn grpc(&self) -> Result<TritonClient, CommandError> {
        let host = self.url.host.clone();
        let endpoint = Endpoint { host, grpc: self.url.port, http: None, metrics: None, name: None };
        let client = match TritonClient::connect(&endpoint).await {
            Ok(client) => client.deadline(self.deadline),
            Err(error) => return Err(self.failed(error).await),
        };
        // The first call shows whether the other side speaks the same protocol.
        match client.is_live().await {
            Ok(_) => Ok(client),
            Err(error) => Err(self.failed(error).await),
        }
    }

    pub fn http(&self) -> HttpClient {
        let address = HttpAddress { host: self.url.host.clone(), port: self.url.port };
        HttpClient::new(address).deadline(self.deadline)
    }

    /// With a hint; reports when the port serves another protocol.
    pub async fn failed(&self, error: ClientError) -> CommandError {
        let TritonUrl { host, port, protocol: face } = &self.url;
        if matches!(
            error.why,
            ClientErrorKind::Connect { .. } | ClientErrorKind::Protocol(_) | ClientErrorKind::Timeout(_)
        ) {
            let there = match (probe(host, *port).await, face) {
                (ListeningService::Http, TritonProtocol::Grpc) => Some(
                    ErrorText::new(format!("port {port} is Triton's HTTP port"))
                        .hint(format!("write http://{host}:{port}, or give the gRPC port (8001 by default)")),
                ),
                (ListeningService::Grpc, TritonProtocol::Http) => Some(
                    ErrorText::new(format!("port {port} is Triton's gRPC port"))
                        .hint(format!("write {host}:{port} without http://, or give the HTTP port (8000 by default)")),
                ),
                (ListeningService::Metrics, TritonProtocol::Grpc) => Some(
                    ErrorText::new(format!("port {port} is Triton's metrics port"))
                        .hint(format!("`regatta triton metrics {host}:{port}` reads it; gRPC is on 8001 by default")),
                ),
                (ListeningService::OtherHttp, TritonProtocol::Grpc) => {
                    Some(ErrorText::new(format!("something answers on port {port} that is no Triton: it speaks HTTP")))
                }
                _ => None,
            };
            if let Some(there) = there {
                return CommandError::Other(anyhow!("{} at {}: {there}", error.request, error.address));
            }
        }
        with_hint(&error, error.hint())
    }

    /// A query about one model: when there is no such model, lists the existing names.
    pub async fn of_model<T>(
        &self,
        client: &TritonClient,
        model: &str,
        answer: impl Future<Output = Result<T, ClientError>>,
    ) -> Result<T, CommandError> {
        let error = match answer.await {
            Ok(answer) => return Ok(answer),
            Err(error) => error,
        };
        let unknown = error.server_message().is_some_and(|message| {
            message.contains("unknown model")
                || message.contains("not found")
                || message.contains("failed to poll from model repository")
        });
        let names = if unknown { client.repository_index(false).await.unwrap_or_default() } else { Vec::new() };
        if unknown && !names.iter().any(|known| known.name == model) {
            let hint = did_you_mean(model, names.iter().map(|known| known.name.as_str()));
            return Err(with_hint(&error, hint));
        }
        Err(self.failed(error).await)
    }
}

pub(super) fn with_hint(error: &ClientError, hint: Option<String>) -> CommandError {
    CommandError::Other(ErrorText::new(error).maybe_hint(hint).into())
}
