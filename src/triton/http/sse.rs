//! Server-sent events, as `generate_stream` sends them: `data: {…}`, an empty line after each.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::{Duration, Instant};

use http_body_util::BodyExt as _;
use hyper::StatusCode;
use hyper::body::Incoming;
use serde_json::Value;
use tokio::time::timeout;

use super::refusal;
use super::sse_parser::SseParser;
use crate::client::{ClientError, ClientErrorKind};

/// Bytes of one event. One has some hundreds.
const LONGEST_EVENT: usize = 16 << 20;

/// The answers of one `generate_stream`. Dropping it closes the connection, which cancels the request.
#[derive(Debug)]
pub struct SseEvents {
    body: Incoming,
    parser: SseParser,
    /// Those that were read and not yet taken.
    ready: VecDeque<String>,
    request: String,
    address: String,
    deadline: Duration,
    is_finished: bool,
    /// When the last bytes were read.
    at: Instant,
}

impl SseEvents {
    pub(super) fn new(body: Incoming, text: String, address: String, deadline: Duration) -> Self {
        Self {
            body,
            parser: SseParser::default(),
            ready: VecDeque::new(),
            request: text,
            address,
            deadline,
            is_finished: false,
            at: Instant::now(),
        }
    }

    /// The next event and when it was read; `None` when the stream has ended. An event with an `error` is one, and
    /// others may follow it.
    pub async fn next(&mut self) -> Option<Result<(Value, Instant), ClientError>> {
        loop {
            if let Some(data) = self.ready.pop_front() {
                let event = match serde_json::from_str::<Value>(&data) {
                    Ok(value) if value.get("error").is_some() => Err(refusal(StatusCode::OK, &data)),
                    Ok(value) => Ok((value, self.at)),
                    Err(error) => Err(ClientErrorKind::Malformed(format!("an event is not JSON: {error}"))),
                };
                return Some(event.map_err(|why| self.error(why)));
            }
            if self.is_finished {
                return None;
            }
            match timeout(self.deadline, self.body.frame()).await {
                Ok(Some(Ok(frame))) => {
                    self.at = Instant::now();
                    if let Ok(data) = frame.into_data() {
                        self.read(&data);
                    }
                    if self.parser.held() > LONGEST_EVENT {
                        self.is_finished = true;
                        return Some(Err(self.error(ClientErrorKind::TooLong { limit: LONGEST_EVENT })));
                    }
                }
                Ok(None) => {
                    self.is_finished = true;
                    self.read(b"\n\n");
                }
                Ok(Some(Err(error))) => {
                    self.is_finished = true;
                    return Some(Err(self.error(ClientErrorKind::connect(&error))));
                }
                Err(_) => {
                    self.is_finished = true;
                    return Some(Err(self.error(ClientErrorKind::Timeout(self.deadline))));
                }
            }
        }
    }

    /// An empty event is none.
    fn read(&mut self, bytes: &[u8]) {
        let Self { parser, ready, .. } = self;
        let Ok(()) = parser.feed(bytes, |event| {
            ready.extend((!event.data.is_empty()).then(|| String::from_utf8_lossy(event.data).into_owned()));
            Ok::<_, Infallible>(())
        });
    }

    fn error(&self, why: ClientErrorKind) -> ClientError {
        ClientError::new(self.request.clone(), self.address.clone(), why)
    }
}
