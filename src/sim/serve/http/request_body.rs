//! Reads the body of a request.

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt as _, Limited};
use hyper::body::{Body as _, Incoming};
use serde_json::Value;

/// The longest body of a request, as Triton's `--http-max-input-size`.
pub(super) const LONGEST_BODY: usize = 64 << 20;

pub(super) async fn bytes(request: Request<Incoming>) -> Result<Bytes, String> {
    if request.body().size_hint().lower() > LONGEST_BODY as u64 {
        return Err(format!("the body is longer than {LONGEST_BODY} bytes"));
    }
    let body = Limited::new(request.into_body(), LONGEST_BODY).collect().await;
    Ok(body.map_err(|error| format!("cannot read a body of at most {LONGEST_BODY} bytes: {error}"))?.to_bytes())
}

pub(super) fn object(bytes: &[u8]) -> Result<serde_json::Map<String, Value>, String> {
    serde_json::from_slice(bytes).map_err(|error| format!("failed to parse the request JSON buffer: {error}"))
}

pub(super) async fn body(request: Request<Incoming>) -> Result<serde_json::Map<String, Value>, String> {
    object(&bytes(request).await?)
}
