//! The parts of a gRPC call: its head, its answer piece by piece, the classes of statuses and of broken connections.

use std::cell::Cell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf as _, Bytes, BytesMut};
use h2::client::SendRequest;
use h2::{Reason, RecvStream};
use http::header::{HeaderName, InvalidHeaderValue};
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Version};
use percent_encoding::percent_decode;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use super::grpc_messages::{Frames, WireError};
use crate::record::{BenchClock, FailureClass};
use crate::spec::response_bounds::shortened;
use crate::transport::connection::{ConnectError, Connection};
use crate::transport::sent_headers::SentHeaders;
use base::diag::error_chain;

/// Sends requests over one HTTP/2 connection.
pub(crate) type RpcSender = SendRequest<Bytes>;

static STATUS: HeaderName = HeaderName::from_static("grpc-status");

/// Bytes of one stream that may wait before they are acknowledged to the server. Small against the window of a
/// connection, so that many waiting streams cannot fill it; large against a token, so that updates are rare.
const TAKEN_AT_ONCE: usize = 32 << 10;

/// A response.
pub(crate) struct RpcResponse {
    stream: RecvStream,
    /// Bytes not yet acknowledged to the server. The end of the stream acknowledges the rest.
    taken: usize,
    has_all_data: bool,
    /// Among the headers or in the trailers, or the server cut off what would have had it. At the end it must be there.
    pub has_status: bool,
}

impl RpcResponse {
    /// The content of the next DATA frame; None at the end. Dropping the answer before that cancels the call.
    pub async fn part(&mut self) -> Option<Result<Bytes, CallError>> {
        std::future::poll_fn(|context| self.poll_part(context)).await
    }

    /// Like `part`, for callers that take all available parts in one go.
    pub fn poll_part(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, CallError>>> {
        if !self.has_all_data {
            match ready!(self.stream.poll_data(context)) {
                Some(Ok(data)) => {
                    self.taken += data.len();
                    if self.taken >= TAKEN_AT_ONCE {
                        // Refused only for more than was received.
                        let _ = self.stream.flow_control().release_capacity(std::mem::take(&mut self.taken));
                    }
                    return Poll::Ready(Some(Ok(data)));
                }
                // The server has sent everything and accepts no more (RFC 9113, 8.1): an end, not a failure.
                Some(Err(e)) if e.is_reset() && e.reason() == Some(Reason::NO_ERROR) => {
                    self.has_status = true;
                    return Poll::Ready(None);
                }
                Some(Err(e)) => return Poll::Ready(Some(Err(CallError::BrokenAnswer(e)))),
                None => self.has_all_data = true,
            }
        }
        Poll::Ready(match ready!(self.stream.poll_trailers(context)) {
            Ok(trailers) => match trailers.as_ref().map_or(Ok(false), check_status) {
                Ok(has_status) => {
                    self.has_status |= has_status;
                    None
                }
                Err(status) => Some(Err(status.into())),
            },
            Err(e) => Some(Err(CallError::BrokenAnswer(e))),
        })
    }
}

/// The body after the headers, if they announce one.
pub(crate) fn answer_of(response: http::Response<RecvStream>) -> Result<RpcResponse, CallError> {
    if !response.status().is_success() {
        return Err(CallError::Http(response.status()));
    }
    // A refusal may come without a body: then the status is among the headers.
    let has_status = check_status(response.headers())?;
    Ok(RpcResponse { stream: response.into_body(), taken: 0, has_all_data: false, has_status })
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

/// Whether headers or trailers have a status. An error is the one that they have.
pub(crate) fn check_status(headers: &HeaderMap) -> Result<bool, GrpcStatus> {
    let Some(status) = headers.get(&STATUS) else {
        return Ok(false);
    };
    let code = status.to_str().ok().and_then(|text| text.parse::<u32>().ok()).unwrap_or(code::UNKNOWN);
    if code == code::OK {
        return Ok(true);
    }
    let message = headers.get("grpc-message").map(|text| percent_decode(text.as_bytes()).decode_utf8_lossy());
    let message = message.map(|message| shortened(&message));
    let message = message.filter(|message| !message.is_empty());
    Err(GrpcStatus { code, message })
}

// Calls over a connection: a whole request whose answer is read piece by piece, and short queries before the run.

/// The limit of an answer to a query before the run.
const LONGEST_ANSWER: u64 = 16 << 20;

/// Sends a whole request of Triton's inference service and returns the answer.
pub(crate) async fn send(
    link: &Connection,
    method: &'static str,
    frame: Bytes,
    deadline: Option<Duration>,
) -> Result<RpcResponse, CallError> {
    let mut sender = link.sender().await?;
    let mut request = link.head(method)?;
    if let Some(limit) = deadline {
        // At most eight digits.
        let limit = HeaderValue::from_str(&format!("{}m", limit.as_millis().clamp(1, 99_999_999)));
        request.headers_mut().insert("grpc-timeout", limit?);
    }
    let (response, mut body) = sender.send_request(request, false).map_err(CallError::Broken)?;
    // Whole and at once: it is in memory anyway, and h2 keeps to the server's window.
    body.send_data(frame, true).map_err(CallError::Broken)?;
    drop(body);
    answer_of(response.await.map_err(CallError::Broken)?)
}

/// One message in each direction, for the queries before the run. At a second one in the answer nothing more is read.
pub(crate) async fn unary_call(link: &Connection, method: &'static str, frame: Bytes) -> Result<Bytes, CallError> {
    let mut answer = send(link, method, frame, None).await?;
    let mut frames = Frames::new(LONGEST_ANSWER, u64::MAX);
    let mut message = None;
    while let Some(part) = answer.part().await {
        frames.push(part?);
        while let Some(next) = frames.next().map_err(CallError::Wire)? {
            if message.replace(next).is_some() {
                return Err(CallError::Wire(WireError::Malformed("it has more than one message")));
            }
        }
    }
    message.ok_or(CallError::NoAnswer)
}

// Why a gRPC call failed, and what that means for a request.

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
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("gRPC status {code}{}", message.as_ref().map_or_else(String::new, |message| format!(": {message}")))]
pub(crate) struct GrpcStatus {
    pub code: u32,
    /// The server's, decoded.
    pub message: Option<String>,
}

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

    /// How a request fails with it, whose answer has or has not begun.
    pub fn fault(self, has_begun: bool) -> RpcFault {
        match self {
            Self::Status(status) => status.fault(has_begun),
            Self::BrokenAnswer(error) => (broken_class(has_begun, &error), error_chain(&error)),
            other => other.into(),
        }
    }

    pub fn is_unimplemented(&self) -> bool {
        matches!(self, Self::Status(GrpcStatus { code: code::UNIMPLEMENTED, .. }))
    }

    fn class(&self) -> FailureClass {
        match self {
            Self::Connect(error) => error.class,
            Self::Head(_) | Self::Header(_) => FailureClass::Connect,
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

// A socket that stamps the arrival of bytes, lets waiting tasks process them before it reads on, and writes in one go
// what is to be sent at one time.

/// Stamps err in one direction only: data is never stamped earlier than the read that brought it. To keep it from being
/// stamped later, a read that filled its buffer ends the connection's turn: the tasks that wait for this data are
/// woken, and run, before the next read moves the stamp.
pub(crate) struct StampedSocket {
    socket: TcpStream,
    clock: BenchClock,
    /// ns of the last read that brought something.
    last_read: Rc<Cell<u64>>,
    /// The last read filled its buffer, and no waiting task has run since.
    is_turn_over: bool,
    /// Written, and not yet handed to the kernel: until the next flush, which ends a turn of the connection.
    unsent: BytesMut,
}

/// More than that is not copied together.
const MOST_UNSENT: usize = 64 << 10;

impl StampedSocket {
    pub fn new(socket: TcpStream, clock: BenchClock, last_read: Rc<Cell<u64>>) -> Self {
        Self { socket, clock, last_read, is_turn_over: false, unsent: BytesMut::new() }
    }

    fn poll_send_unsent(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.unsent.is_empty() {
            match ready!(Pin::new(&mut self.socket).poll_write(context, &self.unsent))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                sent => self.unsent.advance(sent),
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncRead for StampedSocket {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if std::mem::take(&mut self.is_turn_over) {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let before = into.filled().len();
        let poll = Pin::new(&mut self.socket).poll_read(context, into);
        if into.filled().len() > before {
            self.last_read.set(self.clock.now());
            // A shorter read has emptied the socket: the next one waits by itself.
            self.is_turn_over = into.remaining() == 0;
        }
        poll
    }
}

/// It is not vectored: then h2 copies small messages together in place of writing each by itself, and a write costs
/// more than all else of a small request.
impl AsyncWrite for StampedSocket {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if self.unsent.len() + bytes.len() <= MOST_UNSENT {
            self.unsent.extend_from_slice(bytes);
            return Poll::Ready(Ok(bytes.len()));
        }
        loop {
            let Self { socket, unsent, .. } = &mut *self;
            let parts = [io::IoSlice::new(unsent), io::IoSlice::new(bytes)];
            let sent = ready!(Pin::new(socket).poll_write_vectored(context, &parts))?;
            let of_unsent = sent.min(unsent.len());
            unsent.advance(of_unsent);
            if sent == 0 || sent > of_unsent {
                return Poll::Ready(Ok(sent - of_unsent));
            }
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_send_unsent(context))?;
        Pin::new(&mut self.socket).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_send_unsent(context))?;
        Pin::new(&mut self.socket).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::FailureClass;

    #[test]
    fn statuses_are_classed_by_code_and_by_what_came_before() {
        let mut trailers = HeaderMap::new();
        assert_eq!(check_status(&trailers), Ok(false));
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

#[cfg(test)]
mod call_error_tests {
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

#[cfg(test)]
mod stamped_socket_tests {
    use std::future::poll_fn;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn a_pending_reader_is_woken_before_the_next_read() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut theirs = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (ours, _) = listener.accept().await.unwrap();
        theirs.write_all(&[7; 30]).await.unwrap();
        theirs.shutdown().await.unwrap();
        let last_read = Rc::new(Cell::new(0));
        let mut socket = StampedSocket::new(ours, BenchClock::start(), Rc::clone(&last_read));
        let mut turns = Vec::new();
        let mut stamps = Vec::new();
        let mut read = 0;
        poll_fn(|context| {
            // One turn: as much as comes without a pause.
            let mut turn = 0;
            loop {
                let mut bytes = [0; 10];
                let mut into = ReadBuf::new(&mut bytes);
                match Pin::new(&mut socket).poll_read(context, &mut into) {
                    Poll::Pending => {
                        turns.push(turn);
                        return Poll::Pending;
                    }
                    Poll::Ready(outcome) => outcome.unwrap(),
                }
                if into.filled().is_empty() {
                    return Poll::Ready(());
                }
                read += into.filled().len();
                turn += 1;
                stamps.push(last_read.get());
            }
        })
        .await;
        assert_eq!(read, 30);
        assert!(turns.iter().all(|reads| *reads <= 1), "{turns:?}");
        assert!(stamps.is_sorted() && stamps.iter().all(|stamp| *stamp > 0), "{stamps:?}");
    }

    #[tokio::test]
    async fn small_writes_leave_together_with_the_flush_and_all_bytes_in_their_order() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let ours = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (mut theirs, _) = listener.accept().await.unwrap();
        let mut socket = StampedSocket::new(ours, BenchClock::start(), Rc::default());
        let sent: Vec<u8> = (0..3_000_000_u32).map(|at| at as u8).collect();
        let (small, rest) = sent.split_at(300);
        for piece in small.chunks(100) {
            socket.write_all(piece).await.unwrap();
        }
        assert_eq!(socket.unsent.len(), 300);
        let mut bytes = vec![0; 1_000];
        assert_eq!(theirs.try_read(&mut bytes).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        socket.flush().await.unwrap();
        assert_eq!(theirs.read(&mut bytes).await.unwrap(), 300);
        assert_eq!(bytes[..300], *small);
        // More than is copied together, and more than the kernel takes at once.
        let write = async {
            for piece in rest.chunks(1_000_000) {
                socket.write_all(piece).await.unwrap();
                socket.write_all(b"-").await.unwrap();
            }
            socket.shutdown().await.unwrap();
        };
        let mut came = Vec::new();
        let ((), length) = tokio::join!(write, theirs.read_to_end(&mut came));
        assert_eq!(length.unwrap(), rest.len() + 3);
        let wanted: Vec<u8> = rest.chunks(1_000_000).flat_map(|piece| piece.iter().copied().chain(*b"-")).collect();
        assert!(came == wanted);
    }
}
