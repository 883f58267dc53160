//! One message and its answers: the time limits for them, and their outcome.

mod kserve;

use std::cell::{Cell, RefCell};
use std::time::Duration;

use bytes::Bytes;
use tokio_util::sync::CancellationToken;

use super::external_driver::CallListener;
use crate::PlannedRequest;
use crate::measure::collector::Collector;
use crate::record::{BenchClock, FailureClass, RequestEnd, ServerStamps};
use crate::schedule::data::Prompt;
use crate::spec::response_bounds::ResponseBounds;
use crate::tokens::{Accounting, AnswerText, CountedTokens, TokenSource, Violation, WireEvent};
use crate::transport::connection::Connection;
use crate::transport::http::{
    AnswerIds, ConnectionPool, HttpAttempt, HttpOutcome, HttpRequestTemplate, answer_text_from_events,
    prompt_from_events,
};
use crate::transport::kserve::infer_request::InferRequestTemplate;
use crate::transport::kserve::rpc::RpcFault;
use crate::transport::request_encoder::{CallKind, RequestEncoder, TokenCounting};

/// One message and the requests in it.
pub(crate) struct RequestAttempt<'a> {
    pub connection: &'a Connection,
    pub encoder: &'a RequestEncoder,
    pub frame: Bytes,
    /// On the wire; the index of the message's first request.
    pub id: u64,
    pub planned: &'a [PlannedRequest],
    /// Receives delays and outputs besides tokens; none for warm-ups.
    pub collector: Option<&'a RefCell<Collector>>,
    pub clock: BenchClock,
    pub stall: Duration,
    pub limits: ResponseBounds,
    pub deadline: Option<Duration>,
    /// On `clock`.
    pub t_issue: u64,
    /// When this attempt was issued.
    pub t_attempt: u64,
    /// The server reports that it accepts no concurrent requests, so the request is not sent.
    pub is_refused: bool,
}

/// One request of a message, as responses make it.
#[derive(Debug, Default)]
pub(crate) struct RequestProgress {
    /// The totals, once it has ended.
    pub counted: CountedTokens,
    /// Tokens that observers of the run were given while it arrived.
    pub live_tokens: u64,
    pub server: Option<ServerStamps>,
    pub last_id: Option<i32>,
    /// The answer is kept, in `answer`.
    pub keeps: bool,
    pub answer: Option<Prompt>,
    /// Receives the first token.
    pub listener: Option<CallListener>,
    /// Its text is kept, to be counted after the run.
    pub answer_text: Option<AnswerText>,
    /// Its account, and what is only known over HTTP.
    pub http_outcome: HttpOutcome,
}

impl RequestProgress {
    /// Appends the raw tensor of a response.
    fn keep(&mut self, raw: &[u8], are_ids: bool) {
        if let (Some(answer_text), false, Some((_, text))) =
            (&mut self.answer_text, are_ids, raw.split_first_chunk::<4>())
        {
            answer_text.push(0, &String::from_utf8_lossy(text));
        }
        if !self.keeps {
            return;
        }
        if are_ids {
            let ids = raw.as_chunks::<4>().0.iter().map(|id| i32::from_le_bytes(*id));
            match self.answer.get_or_insert_with(|| Prompt::Ids(Vec::new())) {
                Prompt::Ids(answer) => answer.extend(ids),
                Prompt::Text(_) | Prompt::Chat(_) => {}
            }
        } else if let Some((_, text)) = raw.split_first_chunk::<4>() {
            match self.answer.get_or_insert_with(|| Prompt::Text(String::new())) {
                Prompt::Text(answer) => answer.push_str(&String::from_utf8_lossy(text)),
                Prompt::Ids(_) | Prompt::Chat(_) => {}
            }
        }
    }

    pub const fn account(&self) -> &Accounting {
        &self.http_outcome.account
    }

    fn take(&mut self, event: WireEvent, t_read: u64) {
        self.http_outcome.account.take(event, t_read);
    }
}

#[derive(Debug)]
pub(crate) struct AttemptAnswer {
    /// For each request of the message.
    pub ended: Vec<RequestEnd>,
    pub final_marker: bool,
    /// On the attempt's clock.
    pub t_end: u64,
    pub t_cancel: Option<u64>,
}

/// The state of a message in flight.
#[derive(Default)]
struct State {
    last_token: Cell<Option<u64>>,
    final_marker: Cell<bool>,
    /// A call of its own ended without a gRPC status.
    misses_status: Cell<bool>,
    t_cancel: Cell<Option<u64>>,
}

/// Resolves when the deadline of a request that was issued at `t_issue` has passed.
pub(crate) async fn deadline_fault(clock: BenchClock, t_issue: u64, deadline: Option<Duration>) -> RpcFault {
    let Some(limit) = deadline else { return std::future::pending().await };
    tokio::time::sleep_until((clock.instant(t_issue) + limit).into()).await;
    (FailureClass::Deadline, format!("not done within {:.3} s", limit.as_secs_f64()))
}

impl RequestAttempt<'_> {
    /// `parts` is filled in every case; it has one for each request.
    pub async fn perform(self, stop: &CancellationToken, parts: &mut [RequestProgress]) -> AttemptAnswer {
        let state = State::default();
        let outcome = tokio::select! {
            biased;
            () = std::future::ready(()), if self.is_refused => {
                let text = format!("the server has allowed no requests for {} s", self.stall.as_secs_f64());
                Err(Some((FailureClass::Refused, text + " (SETTINGS_MAX_CONCURRENT_STREAMS is 0)")))
            }
            result = self.exchange_messages(parts, &state) => result.map_err(Some),
            () = stop.cancelled() => Err(None),
            fault = self.wait_for_stall(&state.last_token) => Err(Some(fault)),
            fault = deadline_fault(self.clock, self.t_issue, self.deadline) => Err(Some(fault)),
        };
        let outcome = outcome.map_err(|fault| fault.map(|(class, why)| (class, self.connection.headers.hide(why))));
        let t_end = self.clock.now();
        let t_cancel = state.t_cancel.get();
        let is_http = matches!(self.encoder, RequestEncoder::Http(_));
        let final_marker = state.final_marker.get() || is_http && parts.iter().all(|part| part.account().has_ended());
        let is_stream =
            matches!(self.encoder, RequestEncoder::Kserve(InferRequestTemplate { call: CallKind::Stream, .. }));
        let missing = match outcome {
            Ok(()) if t_cancel.is_some() => None,
            Ok(()) if is_stream && !final_marker => Some("a final response"),
            Ok(()) if state.misses_status.get() => Some("a gRPC status"),
            _ => None,
        };
        for (part, planned) in parts.iter_mut().zip(self.planned) {
            if let Some(missing) = missing {
                let example = format!("the stream ended without {missing}");
                part.take(WireEvent::Violation(Violation::MissingEnd, example), t_end);
            }
            let (by, limit) = self.counting(planned);
            part.live_tokens = part.account().live_tokens();
            part.counted = std::mem::take(&mut part.http_outcome.account).settle(by, limit);
        }
        let passed = u128::from(t_end.saturating_sub(self.t_issue));
        let is_overdue = self.deadline.is_some_and(|limit| passed >= limit.as_nanos());
        let ended = match outcome {
            Err(None) => vec![RequestEnd::Cancelled; parts.len()],
            // An error that a server reports for a request that we cancelled is caused by the cancellation.
            Ok(()) | Err(Some((FailureClass::Server, _))) if t_cancel.is_some() => {
                vec![RequestEnd::CancelledEarly; parts.len()]
            }
            // The server knows the deadline too, and may report it before our own timer fires.
            Err(Some((FailureClass::Server | FailureClass::Refused, why))) if is_overdue => {
                vec![RequestEnd::Failed { class: FailureClass::Deadline, why }; parts.len()]
            }
            Err(Some((class, mut why))) => {
                if class == FailureClass::Stall && self.connection.is_shared && self.has_all(parts) {
                    why.push_str(": all tokens had come, and only a final marker ends a request on a shared stream");
                }
                vec![RequestEnd::Failed { class, why }; parts.len()]
            }
            Ok(()) => {
                let parts = parts.iter().zip(self.planned);
                parts
                    .map(|(part, planned)| self.outcome_of(part, self.requested_tokens(planned), final_marker))
                    .collect()
            }
        };
        AttemptAnswer { ended, final_marker, t_end, t_cancel }
    }

    /// How the answer's tokens are counted, and the most that the request allows.
    fn counting(&self, planned: &PlannedRequest) -> (TokenSource, Option<u32>) {
        let by = match self.encoder.count() {
            TokenCounting::Ids { .. } => TokenSource::OutputIds,
            TokenCounting::Responses { .. } => TokenSource::Responses,
            TokenCounting::Requested => TokenSource::Requested,
            TokenCounting::Usage => TokenSource::Usage,
        };
        let limit = match self.encoder {
            RequestEncoder::Kserve(_) => Some(self.requested_tokens(planned)),
            RequestEncoder::Http(template) => template.limit(planned.output_len),
        };
        (by, limit)
    }

    /// Of all requests of the message; none where one has no limit.
    fn limit_of_tokens(&self) -> Option<u32> {
        self.planned.iter().try_fold(0_u32, |sum, planned| Some(sum.saturating_add(self.counting(planned).1?)))
    }

    fn has_all(&self, parts: &[RequestProgress]) -> bool {
        parts.iter().zip(self.planned).all(|(part, planned)| part.counted.tokens >= self.requested_tokens(planned))
    }

    /// Tokens, of all sequences.
    fn requested_tokens(&self, planned: &PlannedRequest) -> u32 {
        match self.encoder {
            RequestEncoder::Kserve(template) => planned.output_len.saturating_mul(template.sequences),
            RequestEncoder::Http(_) => planned.output_len,
        }
    }

    /// How a request ended, once its message arrived.
    fn outcome_of(&self, part: &RequestProgress, requested: u32, final_marker: bool) -> RequestEnd {
        let tokens = part.counted.tokens;
        let fail = |why: String| RequestEnd::Failed { class: FailureClass::Short, why };
        if let Some(reason) = part.counted.finish.filter(|reason| reason.is_failure()) {
            let message = format!("the server ended the answer with finish_reason \"{}\"", reason.as_str());
            return RequestEnd::Failed { class: FailureClass::Server, why: message };
        }
        // An answer in one response is complete by itself; a stream needs a reason to be shorter than requested.
        let is_whole = match self.encoder {
            RequestEncoder::Kserve(template) => {
                !template.streams || final_marker || template.sequences == 1 && part.last_id == Some(template.end_id)
            }
            // Over HTTP an answer that was not whole has failed by now.
            RequestEncoder::Http(_) => true,
        };
        if part.counted.chunks.is_empty() {
            let claim = if tokens == 0 { String::new() } else { format!(", and `usage` counts {tokens}") };
            fail(format!("the answer has no token{claim}"))
        } else if tokens < requested && !is_whole {
            fail(format!("the stream ended after {tokens} of {requested} tokens"))
        } else if let RequestEncoder::Kserve(template) = self.encoder
            && tokens < requested
            && template.streams
            && template.ends_only_with_end_id()
            && part.last_id != Some(template.end_id)
        {
            fail(format!(
                "the final response came after {tokens} of {requested} tokens, without the end token {}",
                template.end_id
            ))
        } else {
            RequestEnd::Ok
        }
    }

    /// Resolves when no data has arrived for too long, or data without an end. One timer, moved only when it fires.
    async fn wait_for_stall(&self, last_token: &Cell<Option<u64>>) -> RpcFault {
        let stall = u64::try_from(self.stall.as_nanos()).unwrap_or(u64::MAX);
        // The first token that was seen here: at most one time-out after the first of all.
        let mut first = None;
        loop {
            // Before its first token a request may wait in the server's queue, as long as the server serves others.
            let last = last_token.get().unwrap_or_else(|| self.t_attempt.max(self.connection.last_token.get()));
            let now = self.clock.now();
            let Some(left) = last.saturating_add(stall).checked_sub(now).filter(|left| *left > 0) else {
                return (FailureClass::Stall, format!("no token for {} s", self.stall.as_secs_f64()));
            };
            first = first.or_else(|| last_token.get());
            if let (Some(first), Some(requested)) = (first, self.limit_of_tokens())
                && let Err(fault) =
                    self.limits.check_duration(Duration::from_nanos(now.saturating_sub(first)), requested)
            {
                return fault;
            }
            tokio::time::sleep(Duration::from_nanos(left).min(self.limits.time_out)).await;
        }
    }

    async fn exchange_messages(&self, parts: &mut [RequestProgress], state: &State) -> Result<(), RpcFault> {
        match (self.encoder, &self.connection.pool) {
            (RequestEncoder::Kserve(template), _) if self.connection.is_shared => {
                self.run_on_shared_stream(template, parts, state).await
            }
            (RequestEncoder::Kserve(template), _) => self.run_on_own_stream(template, parts, state).await,
            (RequestEncoder::Http(template), Some(pool)) => self.run_over_http(template, pool, parts, state).await,
            (RequestEncoder::Http(_), None) => {
                Err((FailureClass::Connect, "no HTTP connection pool for this server: a bug in Regatta".to_owned()))
            }
        }
    }

    async fn run_over_http(
        &self,
        template: &HttpRequestTemplate,
        pool: &ConnectionPool,
        parts: &mut [RequestProgress],
        state: &State,
    ) -> Result<(), RpcFault> {
        let (Some(part), Some(planned)) = (parts.first_mut(), self.planned.first()) else { return Ok(()) };
        let attempt = HttpAttempt {
            pool,
            template,
            model: template.model(self.id, planned),
            requested_tokens: planned.output_len,
            limits: self.limits,
            stall: self.stall,
            clock: self.clock,
            cancel_after: template.cancel_of(self.id).map(|cancel| cancel.after_tokens),
            last_token: &state.last_token,
            last_token_of_server: &self.connection.last_token,
        };
        let listener = part.listener.take();
        let keeps_events = part.keeps && listener.is_none() || part.answer_text.is_some();
        part.http_outcome.events = keeps_events.then(Vec::new);
        part.http_outcome.ids =
            listener.map(|listener| AnswerIds::new(move |token, t_read| listener.first(token, t_read)));
        let outcome = attempt.perform(self.frame.clone(), &mut part.http_outcome).await;
        if let Some(kept) = part.http_outcome.ids.take() {
            part.answer = Some(Prompt::Ids(kept.ids));
        }
        if let Some(kept) = part.http_outcome.events.take() {
            part.answer = part.answer.take().or_else(|| part.keeps.then(|| prompt_from_events(&kept)));
            // An answer that carries its count needs no other.
            part.answer_text = part.answer_text.take().map(|_| answer_text_from_events(&kept));
        }
        state.t_cancel.set(part.http_outcome.t_cancel);
        outcome
    }
}
