//! Waiting until a server reports that it is ready.

use std::future::Future;
use std::time::Duration;

use http::HeaderMap;
use tokio::time::{Instant, sleep, timeout};
use tonic::Code;
use tonic::transport::Endpoint as Address;

use super::{ClientError, ClientErrorKind, ConnectCause, TritonClient, address};
use base::event::Endpoint;

/// The pause before a server that is not ready is polled again.
const PAUSE: Duration = Duration::from_millis(50);
/// The limit of a single call while waiting for readiness: a server that accepts and does not answer is not ready.
const QUERY_TIMEOUT: Duration = Duration::from_secs(5);

/// Why a server was not ready when it was queried.
#[derive(Debug, thiserror::Error)]
pub enum NotReady {
    #[error("not queried yet")]
    NotQueried,
    #[error("no connection within {0:?}")]
    Late(Duration),
    #[error("{}", connect_words(.0))]
    Connect(#[source] tonic::transport::Error),
    /// It reports so itself.
    #[error("the server is up and not ready")]
    Starting,
    #[error("the port answers, but not as a Triton server")]
    NotTriton,
    #[error("{}", .0.call_and_why())]
    Call(ClientError),
}

/// What kept a connection from being made; the frequent causes in words, others as the system names them.
fn connect_words(error: &tonic::transport::Error) -> String {
    match ClientErrorKind::connect(error) {
        ClientErrorKind::Connect { cause: ConnectCause::Refused, .. } => {
            "nothing listens there (connection refused)".to_owned()
        }
        ClientErrorKind::Connect { cause: ConnectCause::UnknownHost, text } => {
            format!("the name of the host cannot be resolved ({text})")
        }
        other => other.to_string(),
    }
}

/// Why waiting for a server ended without a ready one.
#[derive(Debug, thiserror::Error)]
pub enum AwaitError {
    #[error("{endpoint} was not ready after {:.1} s: {last}", after.as_secs_f64())]
    Timeout { endpoint: Endpoint, after: Duration, last: NotReady },
    #[error("stopped while waiting for {endpoint}")]
    Stopped { endpoint: Endpoint },
    #[error(transparent)]
    Address(#[from] ClientError),
}

/// Waits until a server reports that it is ready. `progress` receives, at each attempt, how long it has been and the
/// server's last answer; `stop` ends the waiting when it resolves.
///
/// Readiness is not health: a server may report ready with a dead backend behind it.
pub async fn await_ready(
    endpoint: &Endpoint,
    limit: Duration,
    mut progress: impl FnMut(Duration, &str),
    stop: impl Future<Output = ()>,
) -> Result<(), AwaitError> {
    let begun = Instant::now();
    let address = address(endpoint)?.connect_timeout(QUERY_TIMEOUT);
    let mut last = NotReady::NotQueried;
    let waiting = async {
        loop {
            match probe_ready(&address, endpoint).await {
                Ok(()) => return,
                Err(reason) => last = reason,
            }
            progress(begun.elapsed(), &last.to_string());
            sleep(PAUSE).await;
        }
    };
    tokio::select! {
        biased;
        () = stop => Err(AwaitError::Stopped { endpoint: endpoint.clone() }),
        done = timeout(limit, waiting) => match done {
            Ok(()) => Ok(()),
            Err(_) => Err(AwaitError::Timeout { endpoint: endpoint.clone(), after: begun.elapsed(), last }),
        },
    }
}

/// A new connection each time: a server that is still loading often closes the first ones.
async fn probe_ready(address: &Address, endpoint: &Endpoint) -> Result<(), NotReady> {
    let channel = timeout(QUERY_TIMEOUT, address.connect()).await;
    let channel = channel.map_err(|_| NotReady::Late(QUERY_TIMEOUT))?.map_err(NotReady::Connect)?;
    let client = TritonClient::over(channel, endpoint.to_string(), HeaderMap::new()).deadline(QUERY_TIMEOUT);
    match client.is_ready().await {
        Ok(true) => Ok(()),
        Ok(false) => Err(NotReady::Starting),
        Err(ClientError { why: ClientErrorKind::Refused { code: Code::Unimplemented, .. }, .. }) => {
            Err(NotReady::NotTriton)
        }
        Err(error) => Err(NotReady::Call(error)),
    }
}
