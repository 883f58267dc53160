//! Detects what listens on a port, for the error message about a wrong port.

use std::time::Duration;

use super::{HttpAddress, HttpClient};
use crate::client::{ClientErrorKind, ConnectCause, TritonClient};
use base::event::Endpoint;

const QUERY_TIMEOUT: Duration = Duration::from_secs(3);

/// Which of Triton's ports, or none of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListeningService {
    /// Connections are refused, or the host is unreachable.
    Nothing,
    Grpc,
    Http,
    Metrics,
    /// HTTP, but not Triton's.
    OtherHttp,
    /// Something else, or something that does not answer.
    Other,
}

/// Tries each protocol in turn.
pub async fn probe(host: &str, port: u16) -> ListeningService {
    let address = HttpAddress { host: host.to_owned(), port };
    let mut http = HttpClient::new(address).deadline(QUERY_TIMEOUT);
    // The metrics port answers 200 to every path: only the body shows what it is.
    match http.text("/v2").await {
        Ok(text) if text.contains("\"extensions\"") => return ListeningService::Http,
        Ok(_) => return metrics_or_not(&mut http).await,
        Err(error) => match error.why {
            // A server that is loading or shutting down answers too.
            ClientErrorKind::Http { status: 400 | 503, .. } => return ListeningService::Http,
            ClientErrorKind::Http { .. } => return metrics_or_not(&mut http).await,
            ClientErrorKind::Connect { cause: ConnectCause::Refused | ConnectCause::UnknownHost, .. } => {
                return ListeningService::Nothing;
            }
            _ => {}
        },
    }
    let endpoint = Endpoint { host: host.to_owned(), grpc: port, http: None, metrics: None, name: None };
    let Ok(client) = TritonClient::connect(&endpoint).await else { return ListeningService::Other };
    if client.deadline(QUERY_TIMEOUT).is_live().await.is_ok() {
        ListeningService::Grpc
    } else {
        ListeningService::Other
    }
}

async fn metrics_or_not(http: &mut HttpClient) -> ListeningService {
    match http.text("/metrics").await {
        Ok(text) if text.starts_with('#') => ListeningService::Metrics,
        _ => ListeningService::OtherHttp,
    }
}
