//! HTTP responses: JSON, errors in Triton's shape, server-sent events.

use std::convert::Infallible;

use bytes::Bytes;
use http::{Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::Frame;
use serde_json::{Value, json};
use tokio_stream::{Stream, StreamExt as _};
use tonic::Code;

use crate::serve::tensor::RequestRefusal;

pub(super) type Body = UnsyncBoxBody<Bytes, Infallible>;

pub(super) type Answer = Response<Body>;

pub(super) fn full_reply(status: StatusCode, kind: &str, body: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Full::new(body.into()).boxed_unsync());
    *answer.status_mut() = status;
    if let Ok(kind) = kind.parse() {
        answer.headers_mut().insert("content-type", kind);
    }
    answer
}

pub(super) fn ok_reply(text: String, kind: &str) -> Answer {
    full_reply(StatusCode::OK, kind, text)
}

pub(super) fn empty(status: StatusCode) -> Answer {
    full_reply(status, "text/plain", Bytes::new())
}

pub(super) fn json_reply(status: StatusCode, value: &Value) -> Answer {
    full_reply(status, "application/json", value.to_string())
}

/// What a model answered in place of an output: the message, as clients receive it.
pub(super) struct ServedFailure(pub String);

/// An error in Triton's shape.
pub(super) fn failed(status: StatusCode, message: &str) -> Answer {
    json_reply(status, &json!({"error": message}))
}

pub(super) fn refusal_reply(refusal: &RequestRefusal) -> Answer {
    failed(status_of(refusal.code), &refusal.message)
}

/// As Triton maps its errors to HTTP status codes.
pub(super) const fn status_of(code: Code) -> StatusCode {
    match code {
        Code::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        Code::NotFound => StatusCode::NOT_FOUND,
        Code::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        Code::Unimplemented => StatusCode::NOT_IMPLEMENTED,
        _ => StatusCode::BAD_REQUEST,
    }
}

/// Server-sent events, each in a piece of its own.
pub(super) fn events(events: impl Stream<Item = Bytes> + Send + 'static) -> Answer {
    let frames = events.map(|event| Ok::<_, Infallible>(Frame::data(event)));
    let mut answer = Response::new(StreamBody::new(frames).boxed_unsync());
    if let Ok(kind) = "text/event-stream; charset=utf-8".parse() {
        answer.headers_mut().insert("content-type", kind);
    }
    answer
}

pub(super) fn event(data: &Value) -> Bytes {
    format!("data: {data}\n\n").into()
}
