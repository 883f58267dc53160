//! Why a gRPC call failed, and what that means for a request.

use std::fmt;

use h2::Reason;
use http::StatusCode;
use http::header::InvalidHeaderValue;

use super::grpc_messages::WireError;
use crate::record::FailureClass;
use crate::transport::connect_error::ConnectError;
use base::diag::error_chain;

/// gRPC status codes used here (grpc.io, "Status codes").
pub(crate) mod code {
    pub const OK: u32 = 0;
    pub const UNKNOWN: u32 = 2;
    pub const DEADLINE_EXCEEDED: u32 = 4;
    pub const RESOURCE_EXHAUSTED: u32 = 8;
    pub const UNIMPLEMENTED: u32 = 12;
    pub const UNAVAILABLE: u32 = 14;
}

/// How a request failed: its class, and the text for its record.
pub(crate) type RpcFault = (FailureClass, String);

/// A status other than OK.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GrpcStatus {
    pub code: u32,
    /// The server's, decoded.
    pub message: Option<String>,
}

impl fmt::Display for GrpcStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "gRPC status {}", self.code)?;
        self.message.as_ref().map_or(Ok(()), |message| write!(f, ": {message}"))
    }
}

impl std::error::Error for GrpcStatus {}

impl GrpcStatus {
    const fn class(&self, has_begun: bool) -> FailureClass {
        match self.code {
            code::DEADLINE_EXCEEDED => FailureClass::Deadline,
            _ if has_begun => FailureClass::Stream,
            code::UNAVAILABLE | code::RESOURCE_EXHAUSTED => FailureClass::Refused,
            _ => FailureClass::Server,
        }
    }

    /// How a request fails with it, whose answer has or has not begun.
    pub fn fault(&self, has_begun: bool) -> RpcFault {
        (self.class(has_begun), self.to_string())
    }
}

/// Why a call has no answer, or no whole one.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CallError {
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error("{0}")]
    Head(#[from] http::Error),
    #[error("{0}")]
    Header(#[from] InvalidHeaderValue),
    /// The connection or the stream broke before an answer began.
    #[error("{}", error_chain(.0))]
    Broken(#[source] h2::Error),
    /// The same while the answer came.
    #[error("{}", error_chain(.0))]
    BrokenAnswer(#[source] h2::Error),
    #[error("HTTP status {0}")]
    Http(StatusCode),
    #[error(transparent)]
    Status(#[from] GrpcStatus),
    #[error(transparent)]
    Wire(WireError),
    #[error("no answer")]
    NoAnswer,
}

impl CallError {
    /// With the server's own message as `shown` returns it.
    pub fn shown(mut self, shown: impl FnOnce(String) -> String) -> Self {
        if let Self::Status(GrpcStatus { message, .. }) = &mut self {
            *message = message.take().map(shown);
        }
        self
    }

    pub fn is_unimplemented(&self) -> bool {
        matches!(self, Self::Status(GrpcStatus { code: code::UNIMPLEMENTED, .. }))
    }

    fn class(&self) -> FailureClass {
        match self {
            Self::Connect(_) | Self::Head(_) | Self::Header(_) => FailureClass::Connect,
            Self::Broken(error) => broken_class(false, error),
            Self::BrokenAnswer(_) | Self::Wire(_) => FailureClass::Stream,
            // Of a proxy in front of the server, as over HTTP.
            Self::Http(StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) => FailureClass::Refused,
            Self::Http(_) => FailureClass::Server,
            Self::Status(status) => status.class(false),
            Self::NoAnswer => FailureClass::Short,
        }
    }
}

impl From<CallError> for RpcFault {
    fn from(error: CallError) -> Self {
        (error.class(), error.to_string())
    }
}

pub(crate) fn broken_class(has_begun: bool, error: &h2::Error) -> FailureClass {
    if has_begun {
        FailureClass::Stream
    } else if error.is_reset() && error.reason() == Some(Reason::REFUSED_STREAM) {
        // The server did not process it.
        FailureClass::Refused
    } else {
        FailureClass::Connect
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_that_rejects_a_call_by_its_http_status_refuses_it() {
        let fault = |status| RpcFault::from(CallError::Http(status));
        let busy = fault(StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(busy, (FailureClass::Refused, "HTTP status 503 Service Unavailable".to_owned()));
        assert_eq!(fault(StatusCode::TOO_MANY_REQUESTS).0, FailureClass::Refused);
        assert_eq!(fault(StatusCode::BAD_GATEWAY).0, FailureClass::Server);
    }
}
