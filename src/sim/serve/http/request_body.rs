//! Reads the body of a request.

use bytes::Bytes;
use http::{HeaderValue, Request};
use http_body_util::{BodyExt as _, Limited};
use hyper::body::{Body as _, Incoming};
use serde_json::Value;

use triton::{DataType, TensorError};

/// The longest body of a request, as Triton's `--http-max-input-size`.
const LONGEST_BODY: usize = 64 << 20;

/// Why a body is no request. Reads as the real server's message, where it has one.
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
