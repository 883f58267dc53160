//! A message over gRPC: over a stream of its own, or over the connection's one stream.
//!
//! The whole request is queued, and its half closed, before response headers are awaited: a Triton server sends them
//! only with the first response. A final marker may be missing; the end of the stream counts then.

use base::diag::error_chain;
use std::future::poll_fn;
use std::pin::Pin;

use super::kserve_response_reader::{KserveResponseReader, ReadOutcome};
use super::{RequestAttempt, RequestProgress, State};
use crate::record::FailureClass;
use crate::transport::call::CallKind;
use crate::transport::error_text::shortened;
use crate::transport::kserve::call_error::RpcFault;
use crate::transport::kserve::calls::send;
use crate::transport::kserve::grpc_messages::{Frames, ScannedResponse, frame, scan_stream};
use crate::transport::kserve::infer_request::InferRequestTemplate;
use crate::transport::kserve::rpc::{self, check_status};
use crate::transport::kserve::shared_stream::StreamReply;
use base::spec::CancelBy;

type Stopping<'a> = Pin<Box<dyn Future<Output = Result<(), RpcFault>> + 'a>>;

impl RequestAttempt<'_> {
    pub(super) async fn run_on_own_stream(
        &self,
        template: &InferRequestTemplate,
        parts: &mut [RequestProgress],
        state: &State,
    ) -> Result<(), RpcFault> {
        let mut answer = send(self.connection, template.call.method(), self.frame.clone(), self.deadline).await?;
        let mut response_reader = KserveResponseReader::new(self, template, parts, state);
        let mut stopping: Option<Stopping<'_>> = None;
        loop {
            let listens = poll_fn(|context| response_reader.poll(&mut answer, context));
            let read_outcome = if let Some(asking) = &mut stopping {
                tokio::select! {
                    biased;
                    reading = listens => reading?,
                    result = asking => {
                        stopping = None;
                        result?;
                        continue;
                    }
                }
            } else {
                listens.await?
            };
            match read_outcome {
                ReadOutcome::End => {
                    state.misses_status.set(answer.misses_status());
                    break;
                }
                // Dropping the answer cancels the call.
                ReadOutcome::Cancel(CancelBy::Rpc) => return Ok(()),
                ReadOutcome::Cancel(CancelBy::Stop) => stopping = Some(Box::pin(self.ask_to_stop(template))),
            }
        }
        match stopping {
            Some(asking) => asking.await,
            None => Ok(()),
        }
    }

    /// Over the connection's one stream: its end is no request's end, so the final marker or an error is.
    pub(super) async fn run_on_shared_stream(
        &self,
        template: &InferRequestTemplate,
        parts: &mut [RequestProgress],
        state: &State,
    ) -> Result<(), RpcFault> {
        let mut stopping: Option<Stopping<'_>> = None;
        let mut stream_slot = self.connection.shared().await?.send_request(self.id, self.frame.clone()).await?;
        let mut response_reader = KserveResponseReader::new(self, template, parts, state);
        while !state.final_marker.get() {
            let has_begun = response_reader.has_begun();
            let reply = if let Some(asking) = &mut stopping {
                tokio::select! {
                    biased;
                    reply = stream_slot.next(has_begun) => reply,
                    result = asking => {
                        stopping = None;
                        result?;
                        continue;
                    }
                }
            } else {
                stream_slot.next(has_begun).await
            };
            let StreamReply { t_read, message } = reply?;
            response_reader.waited(t_read, 1);
            if let Err(fault) = response_reader.read_response(message, t_read) {
                if fault.0 == FailureClass::Server {
                    stream_slot.mark_finished();
                }
                return Err(fault);
            }
            if let Some(CancelBy::Stop) = response_reader.cancelled_now() {
                // Over a stream of its own: the server's responses to it have the same id.
                stopping = Some(Box::pin(self.ask_to_stop(template)));
            }
        }
        for _ in 0..stream_slot.rest() {
            response_reader.after_final(&ScannedResponse::default(), self.clock.now());
        }
        stream_slot.mark_finished();
        match stopping {
            Some(asking) => asking.await,
            None => Ok(()),
        }
    }

    /// A call of its own: the message's own call was closed on our side when it was sent.
    async fn ask_to_stop(&self, template: &InferRequestTemplate) -> Result<(), RpcFault> {
        let fault = |why: String| (FailureClass::Stream, format!("the stop request failed: {why}"));
        let stop = frame(&template.stop(self.id));
        let mut answer =
            send(self.connection, CallKind::Stream.method(), stop, None).await.map_err(|e| fault(e.to_string()))?;
        let mut frames = Frames::of_answer(&self.limits);
        while let Some(part) = answer.part().await {
            match part.map_err(|e| fault(error_chain(&e)))? {
                rpc::RpcPart::Data(data) => frames.push(data),
                rpc::RpcPart::Trailers(trailers) => {
                    check_status(&trailers).map_err(|status| fault(status.to_string()))?;
                }
            }
            while let Some(message) = frames.next().map_err(|e| fault(e.to_string()))? {
                let seen = scan_stream(&message, &template.scan_request()).map_err(|e| fault(e.to_string()))?;
                if let Some(error) = seen.error {
                    return Err(fault(shortened(error)));
                }
            }
        }
        Ok(())
    }
}
