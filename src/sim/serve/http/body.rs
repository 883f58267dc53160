//! Bodies of requests and of responses: JSON, errors in Triton's shape, server-sent events.

use std::convert::Infallible;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, Limited, StreamBody};
use hyper::body::{Body as _, Frame, Incoming};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio_stream::{Stream, StreamExt as _};
use tonic::{Code, Status};

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

/// An error in Triton's shape.
pub(super) fn refusal_reply(refusal: &Status) -> Answer {
    json_reply(status_of(refusal.code()), &json!({"error": refusal.message()}))
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

// Reads the body of a request.

/// The longest body of a request, as Triton's `--http-max-input-size`.
const LONGEST_BODY: usize = 64 << 20;

pub(super) async fn bytes(request: Request<Incoming>) -> Result<Bytes, Status> {
    if request.body().size_hint().lower() > LONGEST_BODY as u64 {
        return Err(Status::invalid_argument(format!("the body is longer than {LONGEST_BODY} bytes")));
    }
    let body = Limited::new(request.into_body(), LONGEST_BODY).collect().await.map_err(|error| {
        Status::invalid_argument(format!("cannot read a body of at most {LONGEST_BODY} bytes: {error}"))
    })?;
    Ok(body.to_bytes())
}

/// Fails as the real server does.
pub(super) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Status> {
    serde_json::from_slice(bytes)
        .map_err(|error| Status::invalid_argument(format!("failed to parse the request JSON buffer: {error}")))
}
