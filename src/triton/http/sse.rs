//! Server-sent events, as `generate_stream` sends them: `data: {…}`, an empty line after each.

use std::time::{Duration, Instant};

use bytes::{Buf as _, BytesMut};
use http_body_util::BodyExt as _;
use hyper::StatusCode;
use hyper::body::Incoming;
use serde_json::Value;
use tokio::time::timeout;

use super::refusal;
use crate::triton::client::{ClientError, ClientErrorKind};

/// The answers of one `generate_stream`. Dropping it closes the connection, which cancels the request.
#[derive(Debug)]
pub struct SseEvents {
    body: Incoming,
    lines: Lines,
    asked: String,
    address: String,
    deadline: Duration,
    over: bool,
    /// When the last bytes were read.
    at: Instant,
}

impl SseEvents {
    pub(super) fn new(body: Incoming, asked: String, address: String, deadline: Duration) -> Self {
        Self { body, lines: Lines::default(), asked, address, deadline, over: false, at: Instant::now() }
    }

    /// The next event and when it was read; `None` when the stream has ended. An event with an `error` is one, and
    /// others may follow it.
    pub async fn next(&mut self) -> Option<Result<(Value, Instant), ClientError>> {
        loop {
            if let Some(data) = self.lines.next() {
                let event = match serde_json::from_str::<Value>(&data) {
                    Ok(value) if value.get("error").is_some() => Err(refusal(StatusCode::OK, &data)),
                    Ok(value) => Ok((value, self.at)),
                    Err(error) => Err(ClientErrorKind::Garbled(format!("an event is not JSON: {error}"))),
                };
                return Some(event.map_err(|why| self.error(why)));
            }
            if self.over {
                return None;
            }
            match timeout(self.deadline, self.body.frame()).await {
                Ok(Some(Ok(frame))) => {
                    self.at = Instant::now();
                    if let Ok(data) = frame.into_data() {
                        self.lines.push(&data);
                    }
                }
                Ok(None) => {
                    self.over = true;
                    self.lines.finish();
                }
                Ok(Some(Err(error))) => {
                    self.over = true;
                    return Some(Err(self.error(ClientErrorKind::connect(&error))));
                }
                Err(_) => {
                    self.over = true;
                    return Some(Err(self.error(ClientErrorKind::Late(self.deadline))));
                }
            }
        }
    }

    fn error(&self, why: ClientErrorKind) -> ClientError {
        ClientError::new(self.asked.clone(), self.address.clone(), why)
    }
}

/// Splits bytes into events, wherever they were split in transit.
#[derive(Debug, Default)]
struct Lines {
    rest: BytesMut,
    data: String,
    events: std::collections::VecDeque<String>,
}

impl Lines {
    fn push(&mut self, bytes: &[u8]) {
        self.rest.extend_from_slice(bytes);
        while let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
            let line = self.rest.split_to(end);
            self.rest.advance(1);
            let line = String::from_utf8_lossy(line.strip_suffix(b"\r").unwrap_or(&line)).into_owned();
            self.line(&line);
        }
    }

    fn line(&mut self, line: &str) {
        if line.is_empty() {
            self.end_event();
        } else if let Some(data) = line.strip_prefix("data:") {
            if !self.data.is_empty() {
                self.data.push('\n');
            }
            self.data.push_str(data.strip_prefix(' ').unwrap_or(data));
        }
        // Comments, ids and names of events are ignored.
    }

    fn end_event(&mut self) {
        if !self.data.is_empty() {
            self.events.push_back(std::mem::take(&mut self.data));
        }
    }

    /// The stream ended: what has no empty line after it is an event all the same.
    fn finish(&mut self) {
        if !self.rest.is_empty() {
            let line = String::from_utf8_lossy(&self.rest.split()).into_owned();
            self.line(line.trim_end_matches('\r'));
        }
        self.end_event();
    }

    fn next(&mut self) -> Option<String> {
        self.events.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn events(pieces: &[&[u8]]) -> Vec<String> {
        let mut lines = Lines::default();
        for piece in pieces {
            lines.push(piece);
        }
        lines.finish();
        std::iter::from_fn(|| lines.next()).collect()
    }

    proptest! {
        #[test]
        fn events_survive_any_cut(step in 1usize..30) {
            let text = b": hello\ndata: {\"a\":1}\r\n\r\nevent: x\ndata:{\"b\":\ndata: 2}\n\ndata: last";
            let pieces: Vec<&[u8]> = text.chunks(step).collect();
            prop_assert_eq!(events(&pieces), ["{\"a\":1}", "{\"b\":\n2}", "last"]);
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let _ = events(&[&bytes]);
        }
    }
}
