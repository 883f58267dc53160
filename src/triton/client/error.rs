//! Why a server did not answer as requested: which call, where, what came back, what to try.

use base::diag::{error_chain, with_causes};
use std::time::Duration;

use tonic::{Code, Status};

/// A failed call. Reads as one line: `ModelConfig of `m` at host:8001: …`.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{request} at {address}: {why}")]
pub struct ClientError {
    /// `ModelConfig of `m``.
    pub request: String,
    /// `host:port`.
    pub address: String,
    pub why: ClientErrorKind,
}

/// The response or failure instead of an answer.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ClientErrorKind {
    #[error("`{0}` is not an address")]
    Address(String),
    /// No connection, or one that broke.
    #[error("no connection: {text}")]
    Connect { cause: ConnectCause, text: String },
    /// The server uses another protocol than the client.
    #[error("{0}")]
    Protocol(String),
    /// The server's own message, and its gRPC status.
    #[error("{} ({code:?})", or_no_message(message))]
    Refused { code: Code, message: String },
    /// The same over HTTP.
    #[error("{} (HTTP {status})", or_no_message(message))]
    Http { status: u16, message: String },
    #[error("no answer within {:.1} s", .0.as_secs_f64())]
    Timeout(Duration),
    #[error("the answer is not understood: {0}")]
    Malformed(String),
    /// It was not read further.
    #[error("the answer is longer than {} MiB, the limit", limit >> 20)]
    TooLong {
        /// Bytes.
        limit: usize,
    },
}

/// What kept a connection from being made, as far as it decides what to try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectCause {
    /// Nothing listens at the port.
    Refused,
    /// The host's name has no address.
    UnknownHost,
    /// Anything else, or a connection that broke.
    Broken,
}

impl ConnectCause {
    fn from_error(error: &(dyn std::error::Error + 'static)) -> Self {
        let io = std::iter::successors(Some(error), |error| error.source())
            .find_map(|error| error.downcast_ref::<std::io::Error>());
        match io {
            Some(io) if io.kind() == std::io::ErrorKind::ConnectionRefused => Self::Refused,
            // The resolver's errors have no kind of their own, only the standard library's text.
            Some(io) if ["lookup", "resolve"].iter().any(|word| io.to_string().contains(word)) => Self::UnknownHost,
            _ => Self::Broken,
        }
    }
}

impl ClientErrorKind {
    /// No connection, for this reason.
    pub(crate) fn connect(error: &(dyn std::error::Error + 'static)) -> Self {
        Self::Connect { cause: ConnectCause::from_error(error), text: chain(error) }
    }
}

impl ClientError {
    pub(crate) fn new(request: impl Into<String>, address: impl Into<String>, why: ClientErrorKind) -> Self {
        Self { request: request.into(), address: address.into(), why }
    }

    /// The call and why it failed, for a text that names the server itself. Without a connection the call is left
    /// out, for none was made.
    pub fn call_and_why(&self) -> String {
        match &self.why {
            ClientErrorKind::Address(_) | ClientErrorKind::Connect { .. } => self.why.to_string(),
            why => format!("{}: {why}", self.request),
        }
    }

    /// The gRPC status, where the server gave one.
    pub fn code(&self) -> Option<Code> {
        match &self.why {
            ClientErrorKind::Refused { code, .. } => Some(*code),
            _ => None,
        }
    }

    /// The server's text, where it gave one.
    pub fn server_message(&self) -> Option<&str> {
        match &self.why {
            ClientErrorKind::Refused { message, .. } | ClientErrorKind::Http { message, .. } => Some(message),
            _ => None,
        }
    }

    /// What to try, where that is known.
    pub fn hint(&self) -> Option<String> {
        let hint = match &self.why {
            ClientErrorKind::Connect { cause: ConnectCause::Refused, .. } => {
                "check that the server runs and that this is its port; Triton opens its ports only when all models \
                 are loaded; \
                 gRPC is 8001, HTTP 8000, metrics 8002 unless --grpc-port, --http-port, --metrics-port set others"
            }
            ClientErrorKind::Connect { cause: ConnectCause::UnknownHost, .. } => {
                "the host's name cannot be resolved; use its address"
            }
            ClientErrorKind::Connect { cause: ConnectCause::Broken, .. } => {
                "the connection broke: the server may have died; its log has the reason"
            }
            ClientErrorKind::Timeout(_) => {
                "a server can be ready while its model process is dead; read its log, or give a longer deadline"
            }
            ClientErrorKind::Refused { code, message } => return refusal_hint(*code, message).map(str::to_owned),
            ClientErrorKind::Http { status, message } => {
                return refusal_hint(code_of(*status), message).map(str::to_owned);
            }
            ClientErrorKind::Address(_)
            | ClientErrorKind::Protocol(_)
            | ClientErrorKind::Malformed(_)
            | ClientErrorKind::TooLong { .. } => return None,
        };
        Some(hint.to_owned())
    }
}

fn or_no_message(message: &str) -> &str {
    if message.is_empty() { "no message" } else { message }
}

/// Triton's own mapping, reversed.
fn code_of(status: u16) -> Code {
    match status {
        404 => Code::NotFound,
        501 => Code::Unimplemented,
        503 => Code::Unavailable,
        500 => Code::Internal,
        _ => Code::InvalidArgument,
    }
}

/// The usual meaning of Triton's refusals. The texts are Triton's.
fn refusal_hint(code: Code, message: &str) -> Option<&'static str> {
    Some(if message.contains("decoupled transaction policy") {
        "the model is decoupled: it answers only in a stream (`--stream`, ModelStreamInfer, generate_stream)"
    } else if message.contains("explicit model load / unload is not allowed") {
        "the server was not started with --model-control-mode=explicit"
    } else if message.contains("has no available versions") {
        "the model is unloaded or failed to load; `regatta triton status` shows why, `regatta triton load` loads it"
    } else if message.contains("is not healthy") {
        "the Python stub of the model is dead while the server still reports ready; restart the server"
    } else if message.contains("exactly 1 response") {
        "use generate_stream, or leave `stream` out"
    } else if code == Code::Unavailable {
        "the server is shutting down, or its connection broke"
    } else if code == Code::ResourceExhausted {
        "the server's queue is full: fewer requests at once, or a larger max_queue_size"
    } else {
        return None;
    })
}

pub(crate) fn of_status(status: &Status) -> ClientErrorKind {
    // Made by the transport, not by a server: tonic's message is then only "transport error".
    let transport =
        std::error::Error::source(status).is_some_and(<dyn std::error::Error>::is::<tonic::transport::Error>);
    let text = chain(status);
    if (transport || status.code() == Code::Unknown) && text.to_lowercase().contains("frame with invalid size") {
        return ClientErrorKind::Protocol("something answers there that does not speak gRPC".to_owned());
    }
    if transport && status.code() != Code::DeadlineExceeded {
        return ClientErrorKind::connect(status);
    }
    ClientErrorKind::Refused { code: status.code(), message: status.message().to_owned() }
}

/// An error with its causes: tonic's own message is only "transport error".
fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    match error.downcast_ref::<Status>() {
        Some(status) => with_causes(status.message().to_owned(), error),
        None => error_chain(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_its_call_also_where_the_server_says_nothing() {
        let rendered = |why| ClientError::new("ServerLive", "host:8001", why).call_and_why();
        let silent = ClientErrorKind::Refused { code: Code::Unimplemented, message: String::new() };
        assert_eq!(rendered(silent), "ServerLive: no message (Unimplemented)");
        assert_eq!(
            rendered(ClientErrorKind::Http { status: 500, message: String::new() }),
            "ServerLive: no message (HTTP 500)"
        );
        assert_eq!(rendered(ClientErrorKind::Timeout(Duration::from_secs(10))), "ServerLive: no answer within 10.0 s");
        let connect = ClientErrorKind::Connect { cause: ConnectCause::Refused, text: "refused".to_owned() };
        assert_eq!(rendered(connect), "no connection: refused");
    }
}
