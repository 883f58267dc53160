//! A message over gRPC: over a stream of its own, or over the connection's one stream.
//!
//! The whole request is queued, and its half closed, before response headers are awaited: a Triton server sends them
//! only with the first response. A final marker may be missing; the end of the stream counts then.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;

use super::{RequestAttempt, RequestProgress, State};
use crate::record::FailureClass;
use crate::spec::response_bounds::{HeldBytes, LONGEST_NAME, ResponseBounds, shortened};
use crate::tokens::{ChunkTokens, Violation, WireEvent};
use crate::transport::kserve::extra_outputs;
use crate::transport::kserve::grpc_messages::{Frames, ScannedResponse, WireError, scan_response, scan_stream};
use crate::transport::kserve::infer_request::InferRequestTemplate;
use crate::transport::kserve::rpc::{CallError, RpcFault, RpcResponse, send};
use crate::transport::kserve::shared_stream::StreamReply;
use crate::transport::request_encoder::{CallKind, TokenCounting};
use base::spec::{CancelBy, CancelPolicy};
use base::units::counted;

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
                    state.misses_status.set(!answer.has_status);
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

    /// Over the connection's one stream: it outlives each request, which ends with its final marker or an error.
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
        let stop = template.stop(self.id);
        let mut answer =
            send(self.connection, CallKind::Stream.method(), stop, None).await.map_err(|e| fault(e.to_string()))?;
        let mut frames = Frames::of_answer(&self.limits);
        while let Some(part) = answer.part().await {
            frames.push(part.map_err(|e| fault(e.to_string()))?);
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

// Reads the answer of one message over KServe and records what arrives.

pub(super) struct KserveResponseReader<'a> {
    pub attempt: &'a RequestAttempt<'a>,
    pub template: &'a InferRequestTemplate,
    pub state: &'a State,
    pub parts: &'a mut [RequestProgress],
    pub cancel: Option<CancelPolicy>,
    pub frames: Frames,
    /// The names that every response must carry.
    id: String,
    /// Of all messages that came.
    bytes: u64,
    /// Bytes of the answer that are kept for later.
    kept: usize,
    held: HeldBytes,
}

/// Why reading stopped.
pub(super) enum ReadOutcome {
    End,
    /// The token count at which the request is to be cancelled is reached.
    Cancel(CancelBy),
}

impl<'a> KserveResponseReader<'a> {
    pub fn new(
        attempt: &'a RequestAttempt<'a>,
        template: &'a InferRequestTemplate,
        parts: &'a mut [RequestProgress],
        state: &'a State,
    ) -> Self {
        let cancel = template.cancel_of(attempt.id);
        let frames = Frames::of_answer(&attempt.limits);
        let id = attempt.id.to_string();
        let held = HeldBytes::default();
        Self { attempt, template, state, parts, cancel, frames, id, bytes: 0, kept: 0, held }
    }

    pub fn has_begun(&self) -> bool {
        self.state.last_token.get().is_some()
    }

    /// Takes all that is there, until the end or the time to cancel. It came with one read of the socket, so it has
    /// one stamp, and the clock is read once for how long the last of it has waited.
    pub fn poll(&mut self, answer: &mut RpcResponse, context: &mut Context<'_>) -> Poll<Result<ReadOutcome, RpcFault>> {
        let t_read = self.attempt.connection.last_read();
        let mut pieces = 0;
        let polled = loop {
            match answer.poll_part(context) {
                Poll::Pending => break Poll::Pending,
                Poll::Ready(None) => break Poll::Ready(Ok(ReadOutcome::End)),
                Poll::Ready(Some(part)) => {
                    pieces += u64::from(part.is_ok());
                    if let Err(fault) = self.take(part, t_read) {
                        break Poll::Ready(Err(fault));
                    }
                }
            }
            if let Some(by) = self.cancelled_now() {
                break Poll::Ready(Ok(ReadOutcome::Cancel(by)));
            }
        };
        self.waited(t_read, pieces);
        polled
    }

    /// Records how long this many pieces have waited since they were read.
    pub fn waited(&self, t_read: u64, pieces: u64) {
        if let (Some(collector), true) = (self.attempt.collector, pieces > 0) {
            let waited = self.attempt.clock.now().saturating_sub(t_read);
            collector.borrow_mut().backlog.add(waited as f64, pieces);
        }
    }

    fn take(&mut self, part: Result<Bytes, CallError>, t_read: u64) -> Result<(), RpcFault> {
        self.frames.push(part.map_err(|error| error.fault(self.has_begun()))?);
        while let Some(message) = self.frames.next().map_err(|e| self.fault(e))? {
            self.read_response(message, t_read)?;
        }
        Ok(())
    }

    /// Once, at the token count at which the request is to be cancelled: how.
    pub fn cancelled_now(&self) -> Option<CancelBy> {
        let cancel = self.cancel.filter(|_| self.state.t_cancel.get().is_none())?;
        let is_due = self.parts.first().is_some_and(|part| part.account().tokens() >= cancel.after_tokens);
        is_due.then(|| {
            self.state.t_cancel.set(Some(self.attempt.clock.now()));
            cancel.by
        })
    }

    fn fault(&self, error: WireError) -> RpcFault {
        error.fault(&self.attempt.limits)
    }

    /// Takes one response.
    pub fn read_response(&mut self, message: Bytes, t_read: u64) -> Result<(), RpcFault> {
        let RequestAttempt { connection, planned, collector, limits, .. } = self.attempt;
        self.bytes = self.bytes.saturating_add(message.len() as u64);
        limits.check_messages(self.bytes)?;
        let look = self.template.scan_request();
        let seen = match self.template.call {
            CallKind::Stream => scan_stream(&message, &look),
            CallKind::Unary => scan_response(&message, &look),
        }
        .map_err(|e| self.fault(e))?;
        if let Some(error) = seen.error {
            return Err((FailureClass::Server, shortened(error)));
        }
        self.check(&seen, t_read);
        if self.state.final_marker.get() {
            self.after_final(&seen, t_read);
            return Ok(());
        }
        let row = seen.row as usize;
        let (Some(part), Some(request)) = (self.parts.get_mut(row), planned.get(row)) else {
            return Err((FailureClass::Stream, format!("batch_index is {row} in a message of {}", planned.len())));
        };
        let tokens = match self.template.count {
            TokenCounting::Ids { beams, has_prompt, .. } => {
                let prompt = if has_prompt && !part.account().has_begun() { request.input_len } else { 0 };
                ChunkTokens::Exact((seen.tokens / beams.max(1)).saturating_sub(prompt))
            }
            // The last response of a text may have none of it.
            TokenCounting::Responses { .. } | TokenCounting::Usage if seen.is_final && seen.is_empty => {
                ChunkTokens::Closing
            }
            TokenCounting::Responses { .. } | TokenCounting::Usage if seen.tokens > 0 => ChunkTokens::Text,
            TokenCounting::Requested if seen.tokens > 0 => ChunkTokens::Requested(request.output_len),
            TokenCounting::Responses { .. } | TokenCounting::Usage | TokenCounting::Requested => ChunkTokens::Closing,
        };
        let count = match tokens {
            ChunkTokens::Exact(count) | ChunkTokens::Requested(count) => count,
            ChunkTokens::Closing => 0,
            ChunkTokens::Text | ChunkTokens::Empty => 1,
        };
        if count > 0 {
            part.last_id = seen.last_token;
            if part.keeps || part.answer_text.is_some() {
                self.kept += seen.raw.len();
                self.held.set(self.kept, limits)?;
                part.keep(seen.raw, self.template.takes_ids());
            }
            if let (Some(listener), Some(first)) = (part.listener.take(), seen.raw.first_chunk::<4>()) {
                listener.first(i32::from_le_bytes(*first), t_read);
            }
            self.state.last_token.set(Some(t_read));
            connection.last_token.set(t_read);
            part.take(WireEvent::Chunk(tokens), t_read);
            ResponseBounds::check_tokens(part.account().tokens(), self.attempt.requested_tokens(request))?;
        }
        if seen.is_final {
            self.state.final_marker.set(true);
            self.parts.iter_mut().for_each(|part| part.take(WireEvent::End, t_read));
        }
        if let (true, Some(collector)) = (self.template.has_extra_outputs, collector)
            && let Some(response) =
                extra_outputs::parse(message, self.template.call).map_err(|e| e.fault(&self.attempt.limits))?
        {
            let stamps = extra_outputs::note(&mut collector.borrow_mut().extra_outputs, &response, request, count);
            let part = &mut self.parts[row];
            part.server = stamps.or(part.server);
        }
        Ok(())
    }

    /// What every response has to name, and what its tensor has to be.
    fn check(&mut self, seen: &ScannedResponse<'_>, t_read: u64) {
        let Some(part) = self.parts.first_mut().filter(|_| seen.has_response) else { return };
        let plain = |raw: &[u8]| String::from_utf8_lossy(&raw[..raw.len().min(LONGEST_NAME)]).into_owned();
        if seen.id != self.id.as_bytes() {
            let example = format!("a response names the request \"{}\" instead of \"{}\"", plain(seen.id), self.id);
            part.take(WireEvent::Violation(Violation::WrongId, example), t_read);
        }
        let model = self.template.model();
        if seen.model != model.as_bytes() {
            let example = format!("a response names the model \"{}\" in place of \"{model}\"", plain(seen.model));
            part.take(WireEvent::Violation(Violation::WrongModel, example), t_read);
        }
        if let Some(wrong) = seen.misshapen {
            let example = format!(
                "`{}` has a shape of {} elements, and {} arrived ({} bytes)",
                self.template.scan_request().answer,
                wrong.shape,
                wrong.elements,
                wrong.bytes
            );
            part.take(WireEvent::Violation(Violation::WrongShape, example), t_read);
        }
        let answer = self.template.scan_request().answer;
        if let Some(found) = seen.datatype
            && let Some(expected) = self.template.other_type(found)
        {
            let example = format!("`{answer}` has the data type {} in place of {expected}", plain(found));
            part.take(WireEvent::Violation(Violation::WrongContent, example), t_read);
        } else if let Some(id) = seen.not_an_id {
            let example = format!("`{answer}` has the token id {id}");
            part.take(WireEvent::Violation(Violation::WrongContent, example), t_read);
        } else if let Some(length) = seen.not_a_length {
            let ids = counted(seen.tokens, "element");
            let example = format!("`sequence_length` is {length}, and `{answer}` has {ids}");
            part.take(WireEvent::Violation(Violation::WrongContent, example), t_read);
        }
    }

    /// Counts a response after the final one.
    pub fn after_final(&mut self, seen: &ScannedResponse<'_>, t_read: u64) {
        let Some(part) = self.parts.first_mut() else { return };
        if seen.is_final {
            part.take(WireEvent::End, t_read);
        }
        if !seen.is_final || seen.tokens > 0 {
            part.take(WireEvent::Chunk(ChunkTokens::Text), t_read);
        }
    }
}
