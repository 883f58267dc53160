//! Listens to the answer of one message over KServe and writes down what comes.

use std::task::{Context, Poll};

use bytes::Bytes;

use super::{Call, Exchange, Part, State};
use crate::harness::form::{Count, Form};
use crate::harness::record::{Chunk, Class};
use crate::harness::rpc::{self, Answer, Fault, broken_class, check_status, spell};
use crate::harness::wire::{Frames, Malformed, scan_response, scan_stream};
use crate::harness::{Cancel, CancelBy, more};

pub(super) struct Ear<'a> {
    pub exchange: &'a Exchange<'a>,
    pub form: &'a Form,
    pub state: &'a State,
    pub parts: &'a mut [Part],
    pub cancel: Option<Cancel>,
    pub frames: Frames,
}

/// Why listening came to a halt.
pub(super) enum Heard {
    End,
    /// So many tokens have come that the request is to be cancelled.
    Cancel(CancelBy),
}

impl<'a> Ear<'a> {
    pub fn new(exchange: &'a Exchange<'a>, form: &'a Form, parts: &'a mut [Part], state: &'a State) -> Self {
        let cancel = form.cancel_of(exchange.id);
        Self { exchange, form, state, parts, cancel, frames: Frames::default() }
    }

    pub fn has_begun(&self) -> bool {
        self.state.last_token.get().is_some()
    }

    /// Takes all that is there, until the end or the time to cancel. What is there came with one read of the socket, so
    /// it has one stamp, and the clock is asked once how long the last of it has waited.
    pub fn poll(&mut self, answer: &mut Answer, context: &mut Context<'_>) -> Poll<Result<Heard, Fault>> {
        let t_read = self.exchange.link.last_read();
        let mut pieces = 0;
        let heard = loop {
            match answer.poll_part(context) {
                Poll::Pending => break Poll::Pending,
                Poll::Ready(None) => break Poll::Ready(Ok(Heard::End)),
                Poll::Ready(Some(part)) => {
                    pieces += u64::from(matches!(part, Ok(rpc::Part::Data(_))));
                    if let Err(fault) = self.take(part, t_read) {
                        break Poll::Ready(Err(fault));
                    }
                }
            }
            if let Some(by) = self.cancelled_now() {
                break Poll::Ready(Ok(Heard::Cancel(by)));
            }
        };
        self.waited(t_read, pieces);
        heard
    }

    /// Notes how long so many pieces have waited for us since they were read.
    pub fn waited(&self, t_read: u64, pieces: u64) {
        if let (Some(collector), true) = (self.exchange.collector, pieces > 0) {
            let waited = self.exchange.clock.now().saturating_sub(t_read);
            collector.borrow_mut().backlog.add(waited as f64, pieces);
        }
    }

    fn take(&mut self, part: Result<rpc::Part, h2::Error>, t_read: u64) -> Result<(), Fault> {
        match part {
            Ok(rpc::Part::Data(data)) => {
                self.frames.push(data);
                while let Some(message) = self.frames.next().map_err(not_grpc)? {
                    self.hear(message, t_read)?;
                }
                Ok(())
            }
            Ok(rpc::Part::Trailers(trailers)) => check_status(Some(&trailers), self.has_begun()),
            Err(e) => Err((broken_class(self.has_begun(), &e), spell(&e))),
        }
    }

    /// Once, when so many tokens have come that the request is to be cancelled: how.
    pub fn cancelled_now(&self) -> Option<CancelBy> {
        let cancel = self.cancel.filter(|_| self.state.t_cancel.get().is_none())?;
        let is_due = self.parts.first().is_some_and(|part| part.tokens() >= cancel.after_tokens);
        is_due.then(|| {
            self.state.t_cancel.set(Some(self.exchange.clock.now()));
            cancel.by
        })
    }

    /// Takes one response.
    pub fn hear(&mut self, message: Bytes, t_read: u64) -> Result<(), Fault> {
        let Exchange { link, planned, collector, .. } = self.exchange;
        let look = self.form.look();
        let seen = match self.form.call {
            Call::Stream => scan_stream(&message, &look),
            Call::Unary => scan_response(&message, &look),
        }
        .map_err(not_grpc)?;
        if let Some(error) = seen.error {
            return Err((Class::Server, error.to_owned()));
        }
        if seen.is_final {
            self.state.final_marker.set(true);
        }
        let row = seen.row as usize;
        let (Some(part), Some(asked)) = (self.parts.get_mut(row), planned.get(row)) else {
            return Err((Class::Stream, format!("batch_index is {row} in a message of {}", planned.len())));
        };
        let tokens = match self.form.count {
            Count::Ids { beams, has_prompt, .. } => {
                let prompt = if has_prompt && part.chunks.is_empty() { asked.input_len } else { 0 };
                (seen.tokens / beams.max(1)).saturating_sub(prompt)
            }
            // The last response of a text may have none of it.
            Count::Responses { .. } | Count::Usage => u32::from(seen.tokens > 0 && !(seen.is_final && seen.is_empty)),
            Count::Asked => seen.tokens.min(1) * asked.output_len,
        };
        if tokens > 0 {
            part.last_id = seen.last_token;
            if part.keeps || part.spoken.is_some() {
                part.keep(seen.raw, self.form.takes_ids());
            }
            if let (Some(listener), Some(first)) = (part.listener.take(), seen.raw.first_chunk::<4>()) {
                listener.first(i32::from_le_bytes(*first), t_read);
            }
            self.state.last_token.set(Some(t_read));
            link.last_token.set(t_read);
            part.chunks.push(Chunk { t_read, tokens });
        }
        if let (true, Some(collector)) = (self.form.wants_more, collector)
            && let Some(response) = more::parse(message, self.form.call).map_err(not_grpc)?
        {
            let stamps = more::note(&mut collector.borrow_mut().more, &response, asked, tokens);
            part.server = stamps.or(part.server);
        }
        Ok(())
    }
}

fn not_grpc(why: Malformed) -> Fault {
    (Class::Stream, why.to_string())
}
