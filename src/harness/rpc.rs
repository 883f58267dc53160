//! One gRPC call over a link: whole request out, body back, statuses and breaks put into classes.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Version};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;

use super::link::Link;
use super::record::Class;
use super::shared::Outgoing;
use super::wire::Frames;

/// gRPC status codes used here (grpc.io, "Status codes").
pub(super) mod code {
    pub const OK: u32 = 0;
    pub const DEADLINE_EXCEEDED: u32 = 4;
    pub const RESOURCE_EXHAUSTED: u32 = 8;
    pub const UNIMPLEMENTED: u32 = 12;
    pub const UNAVAILABLE: u32 = 14;
}

pub(super) type Fault = (Class, String);

/// Sends a whole request of Triton's inference service and returns the answer's body.
pub(super) async fn send(
    link: &Link,
    method: &str,
    frame: Bytes,
    deadline: Option<Duration>,
) -> Result<Incoming, Fault> {
    let mut sender = link.sender().await.map_err(|why| (Class::Connect, why))?;
    let mut request = head(&link.authority(), method);
    if let Some(limit) = deadline {
        // At most eight digits.
        request = request.header("grpc-timeout", format!("{}m", limit.as_millis().clamp(1, 99_999_999)));
    }
    let request = request.body(Outgoing::Whole(Full::new(frame))).map_err(|e| (Class::Connect, e.to_string()))?;
    let response = sender.send_request(request).await.map_err(|e| (broken_class(false, &e), spell(&e)))?;
    if !response.status().is_success() {
        return Err((Class::Server, format!("HTTP status {}", response.status())));
    }
    // A refusal may come without a body: then the status is among the headers.
    check_status(Some(response.headers()), false)?;
    Ok(response.into_body())
}

/// The headers of a call of Triton's inference service.
pub(super) fn head(authority: &str, method: &str) -> http::request::Builder {
    Request::builder()
        .method(Method::POST)
        .version(Version::HTTP_2)
        .uri(format!("http://{authority}/inference.GRPCInferenceService/{method}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .header("user-agent", concat!("regatta/", env!("CARGO_PKG_VERSION")))
}

/// One message there, one back, for the questions before the run. Errors: gRPC code (or none) and text.
pub(super) async fn ask(link: &Link, method: &str, frame: Bytes) -> Result<Bytes, (Option<u32>, String)> {
    let talk = async {
        let mut body = send(link, method, frame, None).await?;
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
pub(super) fn check_status(headers: Option<&HeaderMap>, has_begun: bool) -> Result<(), Fault> {
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
        code::DEADLINE_EXCEEDED => Class::Deadline,
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

pub(super) fn broken_class(has_begun: bool, error: &hyper::Error) -> Class {
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
pub(super) fn spell(error: &dyn std::error::Error) -> String {
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
