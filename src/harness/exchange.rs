//! One message and its answers over one HTTP/2 stream.
//!
//! The whole request is queued, and its half closed, before response headers are awaited: a Triton server sends them
//! only with the first response. A final marker may be missing; the end of the stream counts then.

use std::cell::{Cell, RefCell};
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use tokio_util::sync::CancellationToken;

use super::clock::Clock;
use super::collect::Collector;
use super::data::Prompt;
use super::form::{Count, Form};
use super::http::{Dialect, Heard, Pool, Talk, said};
use super::link::Link;
use super::manner::Manner;
use super::outside::Listener;
use super::record::{Chunk, Class, Ended, Stamps};
use super::rpc::{Fault, broken_class, check_status, send, spell};
use super::shared::Reply;
use super::wire::{Frames, scan_response, scan_stream};
use super::{Cancel, CancelBy, Planned, more};

/// How a model is asked: decoupled ones by stream, the others by a single call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Call {
    Stream,
    Unary,
}

impl Call {
    const fn method(self) -> &'static str {
        match self {
            Self::Stream => "ModelStreamInfer",
            Self::Unary => "ModelInfer",
        }
    }
}

/// One message and the requests in it.
pub(super) struct Exchange<'a> {
    pub link: &'a Link,
    pub manner: &'a Manner,
    pub frame: Bytes,
    /// On the wire; the index of the message's first request.
    pub id: u64,
    pub planned: &'a [Planned],
    /// Told of delays and of outputs beside tokens; none for warm-ups.
    pub collector: Option<&'a RefCell<Collector>>,
    pub clock: Clock,
    pub stall: Duration,
    pub deadline: Option<Duration>,
    /// On `clock`.
    pub t_issue: u64,
    /// The same, of this attempt.
    pub t_attempt: u64,
}

/// One request of a message, as responses make it.
#[derive(Debug, Default)]
pub(super) struct Part {
    pub chunks: Vec<Chunk>,
    pub server: Option<Stamps>,
    pub last_id: Option<i32>,
    /// What was said is kept, in `said`.
    pub keeps: bool,
    pub said: Option<Prompt>,
    /// Who wants to hear of the first token.
    pub listener: Option<Listener>,
    /// Over HTTP; its chunks become the part's own.
    pub heard: Heard,
}

impl Part {
    /// Adds what a response says, as its tensor has it.
    fn keep(&mut self, raw: &[u8], are_ids: bool) {
        if are_ids {
            let ids = raw.as_chunks::<4>().0.iter().map(|id| i32::from_le_bytes(*id));
            match self.said.get_or_insert_with(|| Prompt::Ids(Vec::new())) {
                Prompt::Ids(said) => said.extend(ids),
                Prompt::Text(_) => {}
            }
        } else if let Some((_, text)) = raw.split_first_chunk::<4>() {
            match self.said.get_or_insert_with(|| Prompt::Text(String::new())) {
                Prompt::Text(said) => said.push_str(&String::from_utf8_lossy(text)),
                Prompt::Ids(_) => {}
            }
        }
    }

    pub fn tokens(&self) -> u32 {
        self.chunks.iter().map(|chunk| chunk.tokens).sum()
    }
}

#[derive(Debug)]
pub(super) struct Answer {
    /// For each request of the message.
    pub ended: Vec<Ended>,
    pub final_marker: bool,
    /// On the exchange's clock.
    pub t_end: u64,
    pub t_cancel: Option<u64>,
}

/// What is known while a message is under way.
#[derive(Default)]
struct State {
    last_token: Cell<Option<u64>>,
    final_marker: Cell<bool>,
    t_cancel: Cell<Option<u64>>,
}

type Stopping<'a> = Pin<Box<dyn Future<Output = Result<(), Fault>> + 'a>>;

impl Exchange<'_> {
    /// `parts` is filled in every case; it has one for each request.
    pub async fn perform(self, stop: &CancellationToken, parts: &mut [Part]) -> Answer {
        let state = State::default();
        let outcome = tokio::select! {
            biased;
            result = self.talk(parts, &state) => result.map_err(Some),
            () = stop.cancelled() => Err(None),
            () = self.stalled(&state.last_token) => {
                Err(Some((Class::Stall, format!("no token for {:.1} s", self.stall.as_secs_f64()))))
            }
            limit = self.overdue() => Err(Some((Class::Deadline, format!("not done within {:.3} s", limit.as_secs_f64())))),
        };
        let t_end = self.clock.now();
        for part in parts.iter_mut().filter(|part| part.chunks.is_empty()) {
            part.chunks = std::mem::take(&mut part.heard.chunks);
        }
        let t_cancel = state.t_cancel.get();
        let final_marker = state.final_marker.get();
        let ended = match outcome {
            Err(None) => vec![Ended::Cancelled; parts.len()],
            // What a server says of a request that we cancelled is our doing.
            Ok(()) | Err(Some((Class::Server, _))) if t_cancel.is_some() => vec![Ended::Withdrawn; parts.len()],
            // The server knows the deadline too, and may say it before our own timer is served.
            Err(Some((Class::Server | Class::Refused, why))) if self.is_overdue(t_end) => {
                vec![Ended::Failed { class: Class::Deadline, why }; parts.len()]
            }
            Err(Some((class, mut why))) => {
                if class == Class::Stall && self.link.is_shared && self.has_all(parts) {
                    why.push_str(": all tokens had come, and only a final marker ends a request on a shared stream");
                }
                vec![Ended::Failed { class, why }; parts.len()]
            }
            Ok(()) => {
                let parts = parts.iter().zip(self.planned);
                parts.map(|(part, planned)| self.judge(part, planned.output_len, final_marker)).collect()
            }
        };
        Answer { ended, final_marker, t_end, t_cancel }
    }

    fn has_all(&self, parts: &[Part]) -> bool {
        parts.iter().zip(self.planned).all(|(part, planned)| part.tokens() >= planned.output_len)
    }

    fn is_overdue(&self, now: u64) -> bool {
        self.deadline.is_some_and(|limit| u128::from(now.saturating_sub(self.t_issue)) >= limit.as_nanos())
    }

    /// Of a part whose message came through.
    fn judge(&self, part: &Part, asked: u32, final_marker: bool) -> Ended {
        let tokens = part.tokens();
        let fail = |why: String| Ended::Failed { class: Class::Short, why };
        // An answer in one response is whole by itself; a stream needs a reason to be shorter than asked.
        let is_whole = match self.manner {
            Manner::Kserve(form) => !form.streams || final_marker || part.last_id == Some(form.end_id),
            // Over HTTP an answer that was not whole has failed by now.
            Manner::Http(_) => true,
        };
        if tokens == 0 {
            fail("the answer has no token".to_owned())
        } else if tokens < asked && !is_whole {
            fail(format!("the stream ended after {tokens} of {asked} tokens"))
        } else {
            Ended::Ok
        }
    }

    /// Resolves when nothing has moved for too long. One timer, moved only when it fires.
    async fn stalled(&self, last_token: &Cell<Option<u64>>) {
        let stall = u64::try_from(self.stall.as_nanos()).unwrap_or(u64::MAX);
        loop {
            // Before its first token a request may wait in the server's queue, as long as the server serves others.
            let last = last_token.get().unwrap_or_else(|| self.t_attempt.max(self.link.last_token.get()));
            let now = self.clock.now();
            let Some(left) = last.saturating_add(stall).checked_sub(now).filter(|left| *left > 0) else {
                return;
            };
            tokio::time::sleep(Duration::from_nanos(left)).await;
        }
    }

    /// Resolves when the deadline is over.
    async fn overdue(&self) -> Duration {
        let Some(limit) = self.deadline else { return std::future::pending().await };
        tokio::time::sleep_until((self.clock.instant(self.t_issue) + limit).into()).await;
        limit
    }

    async fn talk(&self, parts: &mut [Part], state: &State) -> Result<(), Fault> {
        match (self.manner, &self.link.pool) {
            (Manner::Kserve(form), _) if self.link.is_shared => self.talk_shared(form, parts, state).await,
            (Manner::Kserve(form), _) => self.talk_kserve(form, parts, state).await,
            (Manner::Http(dialect), Some(pool)) => self.talk_http(dialect, pool, parts, state).await,
            (Manner::Http(_), None) => Err((Class::Connect, "the link has no HTTP connections".to_owned())),
        }
    }

    async fn talk_http(&self, dialect: &Dialect, pool: &Pool, parts: &mut [Part], state: &State) -> Result<(), Fault> {
        let (Some(part), Some(planned)) = (parts.first_mut(), self.planned.first()) else { return Ok(()) };
        let talk = Talk {
            pool,
            dialect,
            asked_tokens: planned.output_len,
            clock: self.clock,
            cancel_after: dialect.cancel_of(self.id).map(|cancel| cancel.after_tokens),
            last_token: &state.last_token,
            last_token_of_server: &self.link.last_token,
        };
        // The room for chunks moves there, and back with what is in it.
        part.heard.chunks = std::mem::take(&mut part.chunks);
        part.heard.kept = part.keeps.then(Vec::new);
        let outcome = talk.perform(self.frame.clone(), &mut part.heard).await;
        part.said = part.heard.kept.take().map(|kept| said(&kept));
        state.final_marker.set(part.heard.final_marker);
        state.t_cancel.set(part.heard.t_cancel);
        outcome
    }

    async fn talk_kserve(&self, form: &Form, parts: &mut [Part], state: &State) -> Result<(), Fault> {
        let cancel = form.cancel_of(self.id);
        let mut stopping: Option<Stopping<'_>> = None;
        let method = form.call.method();
        let mut body = send(self.link, method, self.frame.clone(), self.deadline).await?;
        let mut frames = Frames::default();
        loop {
            let part = if let Some(asking) = &mut stopping {
                tokio::select! {
                    biased;
                    part = body.frame() => part,
                    result = asking => {
                        stopping = None;
                        result?;
                        continue;
                    }
                }
            } else {
                body.frame().await
            };
            let Some(part) = part else { break };
            let has_begun = state.last_token.get().is_some();
            let part = part.map_err(|e| (broken_class(has_begun, &e), spell(&e)))?;
            let t_read = self.link.last_read();
            let data = match part.into_data() {
                Ok(data) => data,
                Err(part) => {
                    check_status(part.trailers_ref(), has_begun)?;
                    continue;
                }
            };
            if let Some(collector) = self.collector {
                collector.borrow_mut().backlog.add(self.clock.now().saturating_sub(t_read) as f64, 1);
            }
            frames.push(data);
            while let Some(message) = frames.next().map_err(|e| (Class::Stream, e.to_string()))? {
                self.hear(form, message, t_read, parts, state)?;
            }
            match self.cancelled_now(cancel, parts, state) {
                // Dropping the body cancels the call.
                Some(CancelBy::Rpc) => return Ok(()),
                Some(CancelBy::Stop) => stopping = Some(Box::pin(self.ask_to_stop(form))),
                None => {}
            }
        }
        match stopping {
            Some(asking) => asking.await,
            None => Ok(()),
        }
    }

    /// Over the connection's one stream: its end is no request's end, so the final marker or an error is.
    async fn talk_shared(&self, form: &Form, parts: &mut [Part], state: &State) -> Result<(), Fault> {
        let cancel = form.cancel_of(self.id);
        let mut stopping: Option<Stopping<'_>> = None;
        let mut seat = self.link.shared().await?.ask(self.id, self.frame.clone()).await?;
        while !state.final_marker.get() {
            let has_begun = state.last_token.get().is_some();
            let reply = if let Some(asking) = &mut stopping {
                tokio::select! {
                    biased;
                    reply = seat.next(has_begun) => reply,
                    result = asking => {
                        stopping = None;
                        result?;
                        continue;
                    }
                }
            } else {
                seat.next(has_begun).await
            };
            let Reply { t_read, message } = reply?;
            if let Some(collector) = self.collector {
                collector.borrow_mut().backlog.add(self.clock.now().saturating_sub(t_read) as f64, 1);
            }
            if let Err(fault) = self.hear(form, message, t_read, parts, state) {
                if fault.0 == Class::Server {
                    seat.over();
                }
                return Err(fault);
            }
            if let Some(CancelBy::Stop) = self.cancelled_now(cancel, parts, state) {
                // Over a stream of its own: what the server says to it has the same id.
                stopping = Some(Box::pin(self.ask_to_stop(form)));
            }
        }
        seat.over();
        match stopping {
            Some(asking) => asking.await,
            None => Ok(()),
        }
    }

    /// Once, when so many tokens have come that the request is to be cancelled: how.
    fn cancelled_now(&self, cancel: Option<Cancel>, parts: &[Part], state: &State) -> Option<CancelBy> {
        let cancel = cancel.filter(|_| state.t_cancel.get().is_none())?;
        let is_due = parts.first().is_some_and(|part| part.tokens() >= cancel.after_tokens);
        is_due.then(|| {
            state.t_cancel.set(Some(self.clock.now()));
            cancel.by
        })
    }

    /// Takes one response.
    fn hear(&self, form: &Form, message: Bytes, t_read: u64, parts: &mut [Part], state: &State) -> Result<(), Fault> {
        let broken = |e: super::wire::Malformed| (Class::Stream, e.to_string());
        let look = form.look();
        let seen = match form.call {
            Call::Stream => scan_stream(&message, &look),
            Call::Unary => scan_response(&message, &look),
        }
        .map_err(broken)?;
        if let Some(error) = seen.error {
            return Err((Class::Server, error.to_owned()));
        }
        if seen.is_final {
            state.final_marker.set(true);
        }
        let row = seen.row as usize;
        let (Some(part), Some(planned)) = (parts.get_mut(row), self.planned.get(row)) else {
            return Err((Class::Stream, format!("batch_index is {row} in a message of {}", self.planned.len())));
        };
        let tokens = match form.count {
            Count::Ids { beams, has_prompt } => {
                let prompt = if has_prompt && part.chunks.is_empty() { planned.input_len } else { 0 };
                (seen.tokens / beams.max(1)).saturating_sub(prompt)
            }
            // The last response of a text may have none of it.
            Count::Responses | Count::Usage => u32::from(seen.tokens > 0 && !(seen.is_final && seen.is_empty)),
            Count::Asked => seen.tokens.min(1) * planned.output_len,
        };
        if tokens > 0 {
            part.last_id = seen.last_token;
            if part.keeps {
                part.keep(seen.raw, form.takes_ids());
            }
            if let (Some(listener), Some(first)) = (part.listener.take(), seen.raw.first_chunk::<4>()) {
                listener.first(i32::from_le_bytes(*first), t_read);
            }
            state.last_token.set(Some(t_read));
            self.link.last_token.set(t_read);
            part.chunks.push(Chunk { t_read, tokens });
        }
        if let (true, Some(collector)) = (form.wants_more, self.collector)
            && let Some(response) = more::parse(message, form.call).map_err(broken)?
        {
            let stamps = more::note(&mut collector.borrow_mut().more, &response, planned, tokens);
            part.server = stamps.or(part.server);
        }
        Ok(())
    }

    /// A call of its own: the message's own call was closed on our side when it was sent.
    async fn ask_to_stop(&self, form: &Form) -> Result<(), Fault> {
        let frame = super::wire::frame(&form.stop(self.id));
        let fault = |why: String| (Class::Stream, format!("the stop request failed: {why}"));
        let mut body = send(self.link, Call::Stream.method(), frame, None).await.map_err(|(_, why)| fault(why))?;
        let mut frames = Frames::default();
        while let Some(part) = body.frame().await {
            match part.map_err(|e| fault(spell(&e)))?.into_data() {
                Ok(data) => frames.push(data),
                Err(part) => check_status(part.trailers_ref(), true).map_err(|(_, why)| fault(why))?,
            }
            while let Some(message) = frames.next().map_err(|e| fault(e.to_string()))? {
                let seen = scan_stream(&message, &form.look()).map_err(|e| fault(e.to_string()))?;
                if let Some(error) = seen.error {
                    return Err(fault(error.to_owned()));
                }
            }
        }
        Ok(())
    }
}
