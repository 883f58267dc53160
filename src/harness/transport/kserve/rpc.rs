//! The parts of a gRPC call: its head, its answer piece by piece, the classes of statuses and of broken connections.

use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::client::SendRequest;
use h2::{Reason, RecvStream};
use http::{HeaderMap, Method, Request, Version};

use super::call_error::{CallError, GrpcStatus, code};
use crate::transport::error_text::shortened;
use crate::transport::sent_headers::SentHeaders;

/// Sends requests over one HTTP/2 connection.
pub(crate) type RpcSender = SendRequest<Bytes>;

const STATUS: &str = "grpc-status";

/// Bytes of one stream that may wait before they are acknowledged to the server. Small against the window of a
/// connection, so that many waiting streams cannot fill it; large against a token, so that updates are rare.
const TAKEN_AT_ONCE: usize = 32 << 10;

/// A response.
pub(crate) struct RpcResponse {
    stream: RecvStream,
    /// Bytes not yet acknowledged to the server. The end of the stream acknowledges the rest.
    taken: usize,
    has_all_data: bool,
    /// Among the headers or in the trailers, or the server cut off what would have had it.
    has_status: bool,
}

pub(crate) enum RpcPart {
    /// The content of one DATA frame.
    Data(Bytes),
    /// Once, where the other is moved about for every token.
    Trailers(Box<HeaderMap>),
}

impl RpcResponse {
    pub const fn new(stream: RecvStream, has_status: bool) -> Self {
        Self { stream, taken: 0, has_all_data: false, has_status }
    }

    /// At the end: the server sent no status, as it must.
    pub const fn misses_status(&self) -> bool {
        !self.has_status
    }

    /// The next part; None at the end. Dropping the answer before that cancels the call.
    pub async fn part(&mut self) -> Option<Result<RpcPart, h2::Error>> {
        std::future::poll_fn(|context| self.poll_part(context)).await
    }

    /// Like `part`, for callers that take all available parts in one go.
    pub fn poll_part(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<RpcPart, h2::Error>>> {
        if !self.has_all_data {
            match ready!(self.stream.poll_data(context)) {
                Some(Ok(data)) => {
                    self.taken += data.len();
                    if self.taken >= TAKEN_AT_ONCE {
                        // Refused only for more than was received.
                        let _ = self.stream.flow_control().release_capacity(std::mem::take(&mut self.taken));
                    }
                    return Poll::Ready(Some(Ok(RpcPart::Data(data))));
                }
                // The server has sent everything and accepts no more (RFC 9113, 8.1): an end, not a failure.
                Some(Err(e)) if e.is_reset() && e.reason() == Some(Reason::NO_ERROR) => {
                    self.has_status = true;
                    return Poll::Ready(None);
                }
                Some(Err(e)) => return Poll::Ready(Some(Err(e))),
                None => self.has_all_data = true,
            }
        }
        let trailers = ready!(self.stream.poll_trailers(context));
        if let Ok(Some(trailers)) = &trailers {
            self.has_status |= trailers.contains_key(STATUS);
        }
        Poll::Ready(trailers.transpose().map(|trailers| trailers.map(|trailers| RpcPart::Trailers(Box::new(trailers)))))
    }
}

/// The body after the headers, if they announce one.
pub(crate) fn answer_of(response: http::Response<RecvStream>) -> Result<RpcResponse, CallError> {
    if !response.status().is_success() {
        return Err(CallError::Http(response.status()));
    }
    // A refusal may come without a body: then the status is among the headers.
    check_status(response.headers())?;
    let has_status = response.headers().contains_key(STATUS);
    Ok(RpcResponse::new(response.into_body(), has_status))
}

/// The head of a call of Triton's inference service.
pub(crate) fn head(authority: &str, method: &str, sent: &SentHeaders) -> http::Result<Request<()>> {
    let mut head = Request::builder()
        .method(Method::POST)
        .version(Version::HTTP_2)
        .uri(format!("http://{authority}/inference.GRPCInferenceService/{method}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .header("user-agent", concat!("regatta/", env!("CARGO_PKG_VERSION")))
        .body(())?;
    head.headers_mut().extend(sent.map());
    Ok(head)
}

/// The status in headers or trailers, where they have one.
pub(crate) fn check_status(headers: &HeaderMap) -> Result<(), GrpcStatus> {
    let Some(status) = headers.get(STATUS) else {
        return Ok(());
    };
    let code = status.to_str().ok().and_then(|text| text.parse::<u32>().ok()).unwrap_or(code::UNKNOWN);
    if code == code::OK {
        return Ok(());
    }
    let message = headers.get("grpc-message").map(|text| shortened(&percent_decoded(text.as_bytes())));
    let message = message.filter(|message| !message.is_empty());
    Err(GrpcStatus { code, message })
}

/// `grpc-message` is percent-encoded UTF-8.
fn percent_decoded(bytes: &[u8]) -> String {
    let mut plain = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some((first, tail)) = rest.split_first() {
        let escaped = (*first == b'%')
            .then(|| tail.first_chunk::<2>())
            .flatten()
            // A sign would be taken for a part of the number.
            .filter(|hex| hex.iter().all(u8::is_ascii_hexdigit))
            .and_then(|hex| std::str::from_utf8(hex).ok())
            .and_then(|hex| u8::from_str_radix(hex, 16).ok());
        if let Some(byte) = escaped {
            plain.push(byte);
            rest = &tail[2..];
        } else {
            plain.push(*first);
            rest = tail;
        }
    }
    String::from_utf8_lossy(&plain).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::FailureClass;

    #[test]
    fn statuses_are_classed_by_code_and_by_what_came_before() {
        let mut trailers = HeaderMap::new();
        assert_eq!(check_status(&trailers), Ok(()));
        trailers.insert("grpc-status", "14".parse().unwrap());
        trailers.insert("grpc-message", "busy %C3%BC".parse().unwrap());
        let busy = check_status(&trailers).unwrap_err();
        assert_eq!(busy.fault(false), (FailureClass::Refused, "gRPC status 14: busy ü".to_owned()));
        assert_eq!(busy.fault(true).0, FailureClass::Stream);
        trailers.insert("grpc-message", "at 9%+1".parse().unwrap());
        assert_eq!(check_status(&trailers).unwrap_err().to_string(), "gRPC status 14: at 9%+1");
        trailers.insert("grpc-message", "".parse().unwrap());
        assert_eq!(check_status(&trailers).unwrap_err().to_string(), "gRPC status 14");
        trailers.insert("grpc-status", "3".parse().unwrap());
        assert_eq!(check_status(&trailers).unwrap_err().fault(false).0, FailureClass::Server);
        trailers.insert("grpc-status", "12".parse().unwrap());
        assert!(CallError::Status(check_status(&trailers).unwrap_err()).is_unimplemented());
    }
}
