//! Calls over a connection: a whole request whose answer is read piece by piece, and short queries before the run.

use crate::diag::error_chain;
use std::time::Duration;

use bytes::Bytes;
use http::HeaderValue;

use super::grpc_messages::Frames;
use super::rpc::{RpcFault, RpcPart, RpcResponse, answer_of, broken_class, check_status, leading_code};
use crate::harness::record::FailureClass;
use crate::harness::transport::connection::Connection;

/// The limit of an answer to a query before the run.
const LONGEST_ANSWER: u64 = 16 << 20;

/// Sends a whole request of Triton's inference service and returns the answer.
pub(in crate::harness) async fn send(
    link: &Connection,
    method: &'static str,
    frame: Bytes,
    deadline: Option<Duration>,
) -> Result<RpcResponse, RpcFault> {
    let mut sender = link.sender().await.map_err(|why| (FailureClass::Connect, why))?;
    let mut request = link.head(method)?;
    if let Some(limit) = deadline {
        // At most eight digits.
        let limit = HeaderValue::from_str(&format!("{}m", limit.as_millis().clamp(1, 99_999_999)));
        request.headers_mut().insert("grpc-timeout", limit.map_err(|e| (FailureClass::Connect, e.to_string()))?);
    }
    let broken = |e: h2::Error| (broken_class(false, &e), error_chain(&e));
    let (response, mut body) = sender.send_request(request, false).map_err(broken)?;
    // Whole and at once: it is in memory anyway, and h2 keeps to the server's window.
    body.send_data(frame, true).map_err(broken)?;
    drop(body);
    answer_of(response.await.map_err(broken)?)
}

/// One message in each direction, for the queries before the run. Errors: gRPC code (or none) and text.
pub(in crate::harness) async fn ask(
    link: &Connection,
    method: &'static str,
    frame: Bytes,
) -> Result<Bytes, (Option<u32>, String)> {
    let talk = async {
        let mut answer = send(link, method, frame, None).await?;
        let mut frames = Frames::new(LONGEST_ANSWER);
        let mut told = None;
        while let Some(part) = answer.part().await {
            match part.map_err(|e| (FailureClass::Stream, error_chain(&e)))? {
                RpcPart::Data(data) => {
                    frames.push(data);
                    if let Some(message) = frames.next().map_err(|e| (FailureClass::Stream, e.to_string()))? {
                        told = Some(message);
                    }
                }
                RpcPart::Trailers(trailers) => check_status(Some(&trailers), false)?,
            }
        }
        told.ok_or_else(|| (FailureClass::Short, "no answer".to_owned()))
    };
    talk.await.map_err(|(_, why)| (leading_code(&why), why))
}
