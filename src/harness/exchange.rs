//! One request and its answer over one HTTP/2 stream.
//!
//! The whole request is queued, and its half closed, before response headers are awaited: a Triton server sends them
//! only with the first response. A final marker may be missing; the end of the stream counts then.

use std::cell::Cell;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Version};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use tokio_util::sync::CancellationToken;

use super::clock::Clock;
use super::link::Link;
use super::record::{Chunk, Class, Ended};
use super::wire::{Frames, Seen, scan_response, scan_stream};

/// How a model is asked: decoupled ones by stream, the others by a single call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Call {
    Stream,
    Unary,
}

/// gRPC status codes used here (grpc.io, "Status codes").
pub(super) mod code {
    pub const OK: u32 = 0;
    pub const RESOURCE_EXHAUSTED: u32 = 8;
    pub const UNIMPLEMENTED: u32 = 12;
    pub const UNAVAILABLE: u32 = 14;
}

pub(super) struct Exchange<'a> {
    pub link: &'a Link,
    pub call: Call,
    pub frame: Bytes,
    pub asked_tokens: u32,
    pub end_id: i32,
    pub clock: Clock,
    pub stall: Duration,
    /// On `clock`.
    pub t_issue: u64,
}

#[derive(Debug)]
pub(super) struct Answer {
    pub ended: Ended,
    pub final_marker: bool,
    /// On the exchange's clock.
    pub t_end: u64,
}

type Fault = (Class, String);

impl Exchange<'_> {
    /// `chunks` is filled in every case; `delay` is told the ns between each socket read and our hands.
    pub async fn perform(
        self,
        stop: &CancellationToken,
        chunks: &mut Vec<Chunk>,
        mut delay: impl FnMut(u64),
    ) -> Answer {
        let last_token = Cell::new(None);
        let mut final_marker = false;
        let ended = tokio::select! {
            biased;
            result = self.talk(chunks, &last_token, &mut final_marker, &mut delay) => match result {
                Ok(()) => Ended::Ok,
                Err((class, why)) => Ended::Failed { class, why },
            },
            () = stop.cancelled() => Ended::Cancelled,
            () = self.stalled(&last_token) => Ended::Failed {
                class: Class::Stall,
                why: format!("no token for {:.1} s", self.stall.as_secs_f64()),
            },
        };
        Answer { ended, final_marker, t_end: self.clock.now() }
    }

    /// Resolves when nothing has moved for too long. One timer, moved only when it fires.
    async fn stalled(&self, last_token: &Cell<Option<u64>>) {
        let stall = u64::try_from(self.stall.as_nanos()).unwrap_or(u64::MAX);
        loop {
            // Before its first token a request may wait in the server's queue, as long as the server serves others.
            let last = last_token.get().unwrap_or_else(|| self.t_issue.max(self.link.last_token.get()));
            let now = self.clock.now();
            let Some(left) = last.saturating_add(stall).checked_sub(now).filter(|left| *left > 0) else {
                return;
            };
            tokio::time::sleep(Duration::from_nanos(left)).await;
        }
    }

    async fn talk(
        &self,
        chunks: &mut Vec<Chunk>,
        last_token: &Cell<Option<u64>>,
        final_marker: &mut bool,
        delay: &mut impl FnMut(u64),
    ) -> Result<(), Fault> {
        let path = match self.call {
            Call::Stream => "ModelStreamInfer",
            Call::Unary => "ModelInfer",
        };
        let mut body = send(self.link, path, self.frame.clone()).await?;
        let mut frames = Frames::default();
        let mut last_id = None;
        while let Some(part) = body.frame().await {
            let part = part.map_err(|e| (broken_class(!chunks.is_empty(), &e), spell(&e)))?;
            let t_read = self.link.last_read();
            let data = match part.into_data() {
                Ok(data) => data,
                Err(part) => {
                    check_status(part.trailers_ref(), !chunks.is_empty())?;
                    continue;
                }
            };
            delay(self.clock.now().saturating_sub(t_read));
            frames.push(data);
            while let Some(message) = frames.next().map_err(|e| (Class::Stream, e.to_string()))? {
                let seen = self.scan(&message).map_err(|e| (Class::Stream, e.to_string()))?;
                if let Some(error) = seen.error {
                    return Err((Class::Server, error.to_owned()));
                }
                *final_marker |= seen.is_final;
                if seen.tokens > 0 {
                    last_id = seen.last_token;
                    last_token.set(Some(t_read));
                    self.link.last_token.set(t_read);
                    chunks.push(Chunk { t_read, tokens: seen.tokens });
                }
            }
        }
        let tokens: u32 = chunks.iter().map(|chunk| chunk.tokens).sum();
        // A single call is whole by itself; a stream needs a reason to be shorter than asked.
        let is_whole = self.call == Call::Unary || *final_marker || last_id == Some(self.end_id);
        if tokens == 0 {
            Err((Class::Short, "the answer has no token".to_owned()))
        } else if tokens < self.asked_tokens && !is_whole {
            Err((Class::Short, format!("the stream ended after {tokens} of {} tokens", self.asked_tokens)))
        } else {
            Ok(())
        }
    }

    fn scan<'m>(&self, message: &'m [u8]) -> Result<Seen<'m>, super::wire::Malformed> {
        match self.call {
            Call::Stream => scan_stream(message),
            Call::Unary => scan_response(message),
        }
    }
}

/// Sends a whole request of Triton's inference service and returns the answer's body.
async fn send(link: &Link, method: &str, frame: Bytes) -> Result<Incoming, Fault> {
    let mut sender = link.sender().await.map_err(|why| (Class::Connect, why))?;
    let request = Request::builder()
        .method(Method::POST)
        .version(Version::HTTP_2)
        .uri(format!("http://{}/inference.GRPCInferenceService/{method}", link.authority()))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .header("user-agent", concat!("regatta/", env!("CARGO_PKG_VERSION")))
        .body(Full::new(frame))
        .map_err(|e| (Class::Connect, e.to_string()))?;
    let response = sender.send_request(request).await.map_err(|e| (broken_class(false, &e), spell(&e)))?;
    if !response.status().is_success() {
        return Err((Class::Server, format!("HTTP status {}", response.status())));
    }
    // A refusal may come without a body: then the status is among the headers.
    check_status(Some(response.headers()), false)?;
    Ok(response.into_body())
}

/// One message there, one back, for the questions before the run. Errors: gRPC code (or none) and text.
pub(super) async fn ask(link: &Link, method: &str, frame: Bytes) -> Result<Bytes, (Option<u32>, String)> {
    let talk = async {
        let mut body = send(link, method, frame).await?;
        let mut frames = Frames::default();
        let mut answer = None;
        while let Some(part) = body.frame().await {
            match part.map_err(|e| (Class::Stream, spell(&e)))?.into_data() {
                Ok(data) => {
                    frames.push(data);
                    if let Some(message) = frames.next().map_err(|e| (Class::Stream, e.to_string()))? {
                        answer = Some(message);
                    }
                }
                Err(part) => check_status(part.trailers_ref(), false)?,
            }
        }
        answer.ok_or_else(|| (Class::Short, "no answer".to_owned()))
    };
    talk.await.map_err(|(_, why)| (leading_code(&why), why))
}

/// Non-OK statuses become text `CODE: message`; `ask` reads the code back from there.
fn check_status(headers: Option<&HeaderMap>, has_begun: bool) -> Result<(), Fault> {
    let Some(status) = headers.and_then(|headers| headers.get("grpc-status")) else {
        return Ok(());
    };
    let number = status.to_str().ok().and_then(|text| text.parse::<u32>().ok()).unwrap_or(2);
    if number == code::OK {
        return Ok(());
    }
    let text = headers
        .and_then(|headers| headers.get("grpc-message"))
        .map_or_else(String::new, |text| format!(": {}", percent_decoded(text.as_bytes())));
    let class = match number {
        _ if has_begun => Class::Stream,
        code::UNAVAILABLE | code::RESOURCE_EXHAUSTED => Class::Refused,
        _ => Class::Server,
    };
    Err((class, format!("gRPC status {number}{text}")))
}

fn leading_code(why: &str) -> Option<u32> {
    let digits = why.strip_prefix("gRPC status ")?;
    digits.split(':').next()?.parse().ok()
}

/// `grpc-message` is percent-encoded UTF-8.
fn percent_decoded(bytes: &[u8]) -> String {
    let mut plain = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some((first, tail)) = rest.split_first() {
        let escaped = (*first == b'%')
            .then(|| tail.first_chunk::<2>())
            .flatten()
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

fn broken_class(has_begun: bool, error: &hyper::Error) -> Class {
    if has_begun {
        Class::Stream
    } else if spell(error).contains("refused") {
        // REFUSED_STREAM: the server did nothing with it.
        Class::Refused
    } else {
        Class::Connect
    }
}

/// The error and its causes in one line.
fn spell(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let more = inner.to_string();
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        cause = inner.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_classed_by_code_and_by_what_came_before() {
        let mut trailers = HeaderMap::new();
        assert_eq!(check_status(Some(&trailers), false), Ok(()));
        trailers.insert("grpc-status", "14".parse().unwrap());
        trailers.insert("grpc-message", "busy %C3%BC".parse().unwrap());
        assert_eq!(check_status(Some(&trailers), false), Err((Class::Refused, "gRPC status 14: busy ü".to_owned())));
        assert_eq!(check_status(Some(&trailers), true).unwrap_err().0, Class::Stream);
        trailers.insert("grpc-status", "3".parse().unwrap());
        assert_eq!(check_status(Some(&trailers), false).unwrap_err().0, Class::Server);
        assert_eq!(leading_code("gRPC status 12: no"), Some(code::UNIMPLEMENTED));
    }
}
