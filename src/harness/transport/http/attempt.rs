//! One request and its answer over one connection.

use std::cell::Cell;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::buf::Chain;
use bytes::{Buf, Bytes};
use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tokio::time::{Instant, timeout_at};

use super::http1_decoder::{DecodeError, DecodeStep, Decoder, ResponseHead, USUAL_HEAD};
use super::pool::{ConnectionPool, HttpSocket, poll_read, read};
use super::request_template::HttpRequestTemplate;
use super::response_reader::{ExpectedAnswer, HttpFault, HttpOutcome, HttpResponseReader};
use crate::record::{BenchClock, FailureClass};
use crate::spec::response_bounds::ResponseBounds;
use base::diag::ErrorText;
use base::files::MOST_DESCRIBED;
use base::spec::UnmeasuredProtocol;

/// How long after its head the reason of a refusal is awaited. It comes with the head; a server that sends it byte by
/// byte would otherwise occupy the request until it counts as stalled.
const REASON_PATIENCE: Duration = Duration::from_secs(1);

/// How long a server may be silent between the end of an answer and the end of its body; no longer than half the time
/// after which the request counts as stalled.
const BODY_END_PATIENCE: Duration = Duration::from_millis(500);

/// A close that crosses a request comes within a round trip of its first byte, and this much for machines that are
/// busy. A later one is by a server that has the request.
const CROSSING_SLACK: Duration = Duration::from_millis(50);

/// The limit of an answer to a query before the run, bytes.
const LONGEST_ANSWER: usize = 16 << 20;

/// The parameters of a request in flight.
pub(crate) struct HttpAttempt<'a> {
    pub pool: &'a ConnectionPool,
    pub template: &'a HttpRequestTemplate,
    /// That the request names.
    pub model: &'a str,
    pub requested_tokens: u32,
    pub limits: ResponseBounds,
    /// Without a token for so long, the request counts as stalled.
    pub stall: Duration,
    pub clock: BenchClock,
    /// Cancel after this many tokens.
    pub cancel_after: Option<u32>,
    /// Set to the time of each read that brought tokens.
    pub last_token: &'a Cell<Option<u64>>,
    /// The same, for the server as a whole.
    pub last_token_of_server: &'a Cell<u64>,
}

impl HttpAttempt<'_> {
    /// `http_outcome` is filled in every case, also when this future is dropped early.
    pub async fn perform(&self, request: Bytes, http_outcome: &mut HttpOutcome) -> Result<(), HttpFault> {
        let (socket, is_kept) = self.pool.take().await.map_err(|error| (error.class, error.why))?;
        let t_begin = self.clock.now();
        match self.attempt(socket, request.clone(), http_outcome).await {
            // A server may close an idle connection at any time, also while a request is on its way to it. No byte of
            // an answer has come, so nothing of it is counted twice.
            Err((FailureClass::Connect, _)) if is_kept && self.may_have_crossed(t_begin) => {
                self.pool.resent.set(self.pool.resent.get() + 1);
                let socket = self.pool.open().await.map_err(|error| (error.class, error.why))?;
                self.attempt(socket, request, http_outcome).await
            }
            ended => ended,
        }
    }

    /// Whether a close that is seen now may have been on its way when the request was begun.
    fn may_have_crossed(&self, t_begin: u64) -> bool {
        let since = Duration::from_nanos(self.clock.now().saturating_sub(t_begin));
        since <= self.pool.round_trip() + CROSSING_SLACK
    }

    /// A fault of the class `Connect` means that no byte of an answer came.
    async fn attempt(
        &self,
        mut socket: HttpSocket,
        request: Bytes,
        http_outcome: &mut HttpOutcome,
    ) -> Result<(), HttpFault> {
        let expected = ExpectedAnswer {
            api: self.template.api,
            path: &self.template.path,
            model: self.model,
            secrets: &self.template.secrets,
            tokens: self.requested_tokens,
            beams: self.template.beams,
            has_choices: self.template.choices > 1,
            limits: self.limits,
        };
        let mut response_reader = HttpResponseReader::new(expected, http_outcome);
        let mut decoder = Decoder::new(self.limits.header_bytes());
        let mut writer = RequestWriter::new(Bytes::from(self.template.head(&self.pool.authority())), request);
        let answered = self.exchange(&mut socket, &mut writer, &mut decoder, &mut response_reader).await;
        match answered {
            Ok(true) if writer.is_whole() => {
                self.pool.put(socket);
                Ok(())
            }
            Ok(_) => Ok(()),
            Err((FailureClass::Stream, why)) if decoder.is_untouched() => {
                let broken = |error| format!("the connection broke while the request was sent: {error}");
                Err((FailureClass::Connect, writer.error().map_or(why, broken)))
            }
            Err(fault) => Err(fault),
        }
    }

    /// Writes the request and reads the answer, at the same time: a server that refuses a request may answer before it
    /// has read all of it, and read no more. True when the connection may carry another request.
    async fn exchange(
        &self,
        socket: &mut HttpSocket,
        writer: &mut RequestWriter,
        decoder: &mut Decoder,
        response_reader: &mut HttpResponseReader<'_>,
    ) -> Result<bool, HttpFault> {
        let not_decoded = |error: DecodeError| match error {
            DecodeError::NotHttp(_) | DecodeError::Http2 => (FailureClass::Stream, error.to_string()),
            DecodeError::HeaderTooLong => self.limits.header_exceeded(),
        };
        let longest = self.limits.body.saturating_add(self.limits.header);
        let mut received = 0u64;
        let mut keeps_alive = false;
        let mut t_sent = self.clock.now();
        let mut t_read = t_sent;
        // For the reason of an error status, and for the end of a body whose answer has ended.
        let mut patience: Option<Instant> = None;
        loop {
            let reading = poll_fn(|context| {
                if writer.advance(socket, context) {
                    t_sent = self.clock.now();
                }
                poll_read(socket, context, &mut self.pool.buffer.borrow_mut())
            });
            let length = match patience {
                None => reading.await,
                Some(until) => match timeout_at(until, reading).await {
                    Ok(length) => length,
                    Err(_) if response_reader.is_refusal() => return Err(response_reader.cut_refusal()),
                    Err(_) => Ok(0),
                },
            };
            if !matches!(length, Ok(1..)) && response_reader.outcome.account.has_ended() {
                if decoder.may_end() {
                    response_reader.end(t_read)?;
                } else {
                    response_reader.end_within_body(t_read);
                }
                return Ok(false);
            }
            let length = length.map_err(|error| (FailureClass::Stream, self.pool.connection_error_text(&error)))?;
            if length == 0 {
                if decoder.may_end() {
                    response_reader.end(t_read)?;
                    return Ok(false);
                }
                let where_it_was = if decoder.is_untouched() { "before any answer" } else { "in the middle of it" };
                return Err((FailureClass::Stream, format!("the server closed the connection {where_it_was}")));
            }
            t_read = self.clock.now();
            if received == 0 {
                self.pool.note_first_byte(Duration::from_nanos(t_read.saturating_sub(t_sent)));
            }
            received += length as u64;
            if received > longest {
                let is_refusal = response_reader.is_refusal();
                return Err(if is_refusal { response_reader.cut_refusal() } else { self.limits.body_exceeded() });
            }
            // No other connection reads between here and the next wait.
            let buffer = self.pool.buffer.borrow();
            let mut input = &buffer[..length];
            loop {
                match decoder.step(&mut input).map_err(not_decoded)? {
                    DecodeStep::More => break,
                    DecodeStep::Head(head) => {
                        if let Some(compression) = head.compression.filter(|_| matches!(head.status, 200..=299)) {
                            let reason = format!(
                                "the answer is compressed ({compression}), which Regatta does not read: turn \
                                 compression off at the server, or at the proxy in front of it"
                            );
                            return Err((FailureClass::Stream, reason));
                        }
                        keeps_alive = head.keeps_alive;
                        response_reader.head(head.status, head.is_events);
                        response_reader.location = head.location;
                        patience = response_reader.is_refusal().then(|| Instant::now() + REASON_PATIENCE);
                    }
                    DecodeStep::Data(piece) => response_reader.data(piece, t_read)?,
                    DecodeStep::End => {
                        // Bytes after the answer belong to no request of this client.
                        if !input.is_empty() {
                            response_reader.surplus(input.len(), t_read);
                        }
                        response_reader.end(t_read)?;
                        self.update_last_token(response_reader);
                        return Ok(keeps_alive && input.is_empty());
                    }
                }
            }
            self.update_last_token(response_reader);
            if response_reader.outcome.account.has_ended() {
                patience = Some(Instant::now() + BODY_END_PATIENCE.min(self.stall / 2));
            }
            if let Some(requested) = self.template.limit(self.requested_tokens) {
                // Those that chunks had: a count that the server reports does not say that a token arrived.
                let received = response_reader.outcome.account.live_tokens();
                ResponseBounds::check_tokens(u32::try_from(received).unwrap_or(u32::MAX), requested)?;
            }
            if self.cancel_after.is_some_and(|limit| response_reader.tokens() >= limit) {
                response_reader.outcome.t_cancel = Some(self.clock.now());
                return Ok(false);
            }
        }
    }

    fn update_last_token(&self, response_reader: &HttpResponseReader<'_>) {
        if let Some(t_read) =
            response_reader.outcome.account.last_token().filter(|at| self.last_token.get() != Some(*at))
        {
            self.last_token.set(Some(t_read));
            self.last_token_of_server.set(t_read);
        }
    }
}

/// A server that requires TLS closes the connection on a plain-text request, or answers in bytes of its own.
const fn tls_hint(is_secure: bool) -> &'static str {
    if is_secure { "" } else { " (if it speaks TLS at this port, write https://)" }
}

/// Of an answer to a query.
pub(super) fn too_long() -> ErrorText {
    let mib = LONGEST_ANSWER >> 20;
    ErrorText::new(format_args!("the answer is longer than {mib} MiB, or has more than {MOST_DESCRIBED} values"))
}

/// One query before the run: head and body.
pub(super) async fn get(pool: &ConnectionPool, request: &str) -> Result<(ResponseHead, Vec<u8>), ErrorText> {
    let (mut socket, _) = pool.take().await.map_err(ErrorText::new)?;
    let is_secure = pool.tls.is_some();
    let hinted = |text: &str, is_secure| ErrorText::new(format_args!("{text}{}", tls_hint(is_secure)));
    let broken = |error: io::Error| hinted(&pool.connection_error_text(&error), is_secure);
    socket.write_all(request.as_bytes()).await.map_err(broken)?;
    socket.flush().await.map_err(broken)?;
    let mut decoder = Decoder::new(USUAL_HEAD);
    let (mut answered, mut body) = (ResponseHead::default(), Vec::new());
    let mut buffer = vec![0; 16 << 10];
    loop {
        let length = read(&mut socket, &mut buffer).await.map_err(broken)?;
        if length == 0 {
            let http2 = UnmeasuredProtocol::HTTP2.instead;
            let hung_up = hinted("the server hung up", is_secure);
            return decoder
                .may_end()
                .then_some((answered, body))
                .ok_or_else(|| ErrorText::new(format_args!("{hung_up}; if it speaks only HTTP/2, {http2}")));
        }
        let mut input = &buffer[..length];
        loop {
            let step = decoder.step(&mut input);
            match step.map_err(|error| hinted(&error.to_string(), is_secure || error == DecodeError::Http2))? {
                DecodeStep::More => break,
                DecodeStep::Head(head) => answered = head,
                DecodeStep::Data(piece) if body.len() + piece.len() > LONGEST_ANSWER => {
                    return Err(too_long());
                }
                DecodeStep::Data(piece) => body.extend_from_slice(piece),
                DecodeStep::End => {
                    if answered.keeps_alive && input.is_empty() {
                        pool.put(socket);
                    }
                    return Ok((answered, body));
                }
            }
        }
    }
}

// A request on its way to the server, which may answer before it has read all of it.

/// What of a request is still to be written.
pub(super) struct RequestWriter {
    left: Chain<Bytes, Bytes>,
    /// How the writing ended.
    written: Option<io::Result<()>>,
}

impl RequestWriter {
    pub fn new(head: Bytes, body: Bytes) -> Self {
        Self { left: head.chain(body), written: None }
    }

    /// All of it was written.
    pub const fn is_whole(&self) -> bool {
        matches!(self.written, Some(Ok(())))
    }

    /// Why it could not be written.
    pub const fn error(&self) -> Option<&io::Error> {
        match &self.written {
            Some(Err(error)) => Some(error),
            _ => None,
        }
    }

    /// Writes what the connection takes now. True once, when everything is written.
    pub fn advance(&mut self, socket: &mut HttpSocket, context: &mut Context<'_>) -> bool {
        if self.written.is_some() {
            return false;
        }
        if let Poll::Ready(written) = self.poll_write(socket, context) {
            self.written = Some(written);
        }
        self.written.is_some()
    }

    fn poll_write(&mut self, socket: &mut HttpSocket, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.left.has_remaining() {
            let mut pieces = [IoSlice::new(&[]); 2];
            let count = self.left.chunks_vectored(&mut pieces);
            let length = ready!(Pin::new(&mut *socket).poll_write_vectored(context, &pieces[..count]))?;
            if length == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.left.advance(length);
        }
        Pin::new(socket).poll_flush(context)
    }
}
