//! Bodies of requests and of responses: JSON, errors in Triton's shape, server-sent events.

use std::convert::Infallible;

use bytes::Bytes;
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, Limited, StreamBody};
use hyper::body::{Body as _, Frame, Incoming};
use serde_json::{Value, json};
use tokio_stream::{Stream, StreamExt as _};
use tonic::Code;

use crate::serve::inputs::RequestRefusal;
use triton::{DataType, TensorError};

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

// Reads the body of a request.

/// The longest body of a request, as Triton's `--http-max-input-size`.
const LONGEST_BODY: usize = 64 << 20;

/// Why a body is not a request. Reads as the real server's message, where it has one.
#[derive(Debug, thiserror::Error)]
pub(super) enum BodyError {
    #[error("the body is longer than {LONGEST_BODY} bytes")]
    TooLong,
    #[error("cannot read a body of at most {LONGEST_BODY} bytes: {0}")]
    Read(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("failed to parse the request JSON buffer: {0}")]
    Json(#[source] serde_json::Error),
    #[error("header `{header}` is {value:?}; it must be a length within the body of {body} bytes")]
    JsonLength { header: &'static str, value: HeaderValue, body: usize },
    #[error("`binary_data_size` of input '{input}' is more than the {left} bytes left")]
    BinarySize { input: String, left: usize },
    #[error("must specify 'data' field in input tensor '{input}'")]
    NoData { input: String },
    #[error("unexpected additional input data: {bytes} bytes belong to no input")]
    AdditionalData { bytes: usize },
    #[error("invalid datatype '{datatype}' for input '{input}'")]
    Datatype { input: String, datatype: String },
    #[error(
        "receiving {datatype} data via JSON is not supported. Please use the binary data format for input '{input}'"
    )]
    NoJsonForm { input: String, datatype: DataType },
    #[error(transparent)]
    Tensor(#[from] TensorError),
    #[error("unable to parse '{input}': {value} does not fit its type")]
    Value { input: String, value: Value },
}

pub(super) async fn bytes(request: Request<Incoming>) -> Result<Bytes, BodyError> {
    if request.body().size_hint().lower() > LONGEST_BODY as u64 {
        return Err(BodyError::TooLong);
    }
    let body = Limited::new(request.into_body(), LONGEST_BODY).collect().await;
    Ok(body.map_err(BodyError::Read)?.to_bytes())
}

pub(super) fn object(bytes: &[u8]) -> Result<serde_json::Map<String, Value>, BodyError> {
    serde_json::from_slice(bytes).map_err(BodyError::Json)
}

pub(super) async fn body(request: Request<Incoming>) -> Result<serde_json::Map<String, Value>, BodyError> {
    object(&bytes(request).await?)
}
