//! Calls over a connection: a whole request whose answer is read piece by piece, and short queries before the run.

use std::time::Duration;

use bytes::Bytes;
use http::HeaderValue;

use super::call_error::CallError;
use super::grpc_messages::{Frames, WireError};
use super::rpc::{RpcPart, RpcResponse, answer_of, check_status};
use crate::transport::connection::Connection;

/// The limit of an answer to a query before the run.
const LONGEST_ANSWER: u64 = 16 << 20;

/// Sends a whole request of Triton's inference service and returns the answer.
pub(crate) async fn send(
    link: &Connection,
    method: &'static str,
    frame: Bytes,
    deadline: Option<Duration>,
) -> Result<RpcResponse, CallError> {
    let mut sender = link.sender().await?;
    let mut request = link.head(method)?;
    if let Some(limit) = deadline {
        // At most eight digits.
        let limit = HeaderValue::from_str(&format!("{}m", limit.as_millis().clamp(1, 99_999_999)));
        request.headers_mut().insert("grpc-timeout", limit?);
    }
    let (response, mut body) = sender.send_request(request, false).map_err(CallError::Broken)?;
    // Whole and at once: it is in memory anyway, and h2 keeps to the server's window.
    body.send_data(frame, true).map_err(CallError::Broken)?;
    drop(body);
    answer_of(response.await.map_err(CallError::Broken)?)
}

/// One message in each direction, for the queries before the run. At a second one in the answer nothing more is read.
pub(crate) async fn unary_call(link: &Connection, method: &'static str, frame: Bytes) -> Result<Bytes, CallError> {
    let mut answer = send(link, method, frame, None).await?;
    let mut frames = Frames::new(LONGEST_ANSWER);
    let mut message = None;
    while let Some(part) = answer.part().await {
        match part.map_err(CallError::BrokenAnswer)? {
            RpcPart::Data(data) => {
                frames.push(data);
                while let Some(next) = frames.next().map_err(CallError::Wire)? {
                    if message.replace(next).is_some() {
                        return Err(CallError::Wire(WireError::Malformed("it has more than one message")));
                    }
                }
            }
            RpcPart::Trailers(trailers) => check_status(&trailers)?,
        }
    }
    message.ok_or(CallError::NoAnswer)
}
