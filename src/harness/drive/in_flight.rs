//! One message in flight.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio_util::sync::CancellationToken;

use super::external_driver::CallListener;
use super::request_attempt::{AttemptAnswer, RequestAttempt, RequestProgress, deadline_fault};
use crate::measure::collector::Collector;
use crate::record::{BenchClock, RequestEnd, RequestRecord};
use crate::schedule::data::Prompt;
use crate::tokens::{Accounting, AnswerText, LiveCounts};
use crate::transport::connection::Connection;
use crate::transport::http::HttpOutcome;
use crate::transport::request_encoder::RequestEncoder;
use crate::{BenchSpec, FailedAttempt, FailureClass, PlannedRequest, RequestTrigger};
use base::spec::{Retries, RetryOn, TimeSpan};

/// Requests in flight, integrated over time: the side of Little's law that does not come from records.
#[derive(Default)]
pub(crate) struct ConcurrencyGauge {
    now: Cell<u64>,
    since: Cell<u64>,
    area: Cell<f64>,
}

impl ConcurrencyGauge {
    /// `at` does not go back.
    pub fn change(&self, at: u64, by: i64) {
        self.area.set(self.area.get() + self.now.get() as f64 * (at.saturating_sub(self.since.get())) as f64);
        self.since.set(at);
        self.now.set(self.now.get().saturating_add_signed(by));
    }

    pub const fn now(&self) -> u64 {
        self.now.get()
    }

    /// request·ns
    pub const fn area(&self) -> f64 {
        self.area.get()
    }
}

/// The effect of a finished message on the next ones of its session.
pub(crate) struct MessageEnd {
    /// On the clock.
    pub t_end: u64,
    pub answer: Option<Prompt>,
}

/// One message in flight.
pub(crate) struct InFlightRequest {
    /// Answers are part of later prompts.
    pub keeps_answer: bool,
    /// Texts are to be counted after the run.
    pub keeps_text: bool,
    pub connection: Rc<Connection>,
    /// The index of the message's first request.
    pub index: u64,
    pub planned: Vec<PlannedRequest>,
    pub frame: Bytes,
    pub encoder: Arc<RequestEncoder>,
    pub t0: u64,
    pub collector: Rc<RefCell<Collector>>,
    pub gauge: Rc<ConcurrencyGauge>,
    /// The servers have allowed no request at a time for the stall time-out: it is not sent.
    pub is_refused: bool,
    pub spec: Arc<BenchSpec>,
    pub live: Arc<LiveCounts>,
    pub clock: BenchClock,
    pub stop: CancellationToken,
    pub t_issue: u64,
    /// For a request of an external driver.
    pub listener: Option<CallListener>,
}

impl InFlightRequest {
    pub async fn run(self) -> MessageEnd {
        let mut attempts = Vec::new();
        let mut t_attempt = self.t_issue;
        let (mut parts, answer) = loop {
            let (parts, mut answer) = self.attempt(t_attempt).await;
            let Some((class, why)) = self.to_try_again(attempts.len(), &parts, &answer) else { break (parts, answer) };
            let from_start = |at: u64| at.saturating_sub(self.t0);
            attempts.push(FailedAttempt {
                t_issue: from_start(t_attempt),
                t_end: from_start(answer.t_end),
                class,
                why,
            });
            let pause = self.spec.pace.retries.as_ref().map(|retries| retries.pause.time()).unwrap_or_default();
            tokio::select! {
                biased;
                () = self.stop.cancelled() => {
                    answer.ended.fill(RequestEnd::Cancelled);
                    answer.t_end = self.clock.now();
                    break (parts, answer);
                }
                (class, why) = deadline_fault(self.clock, self.t_issue, self.deadline()) => {
                    answer.ended.fill(RequestEnd::Failed { class, why });
                    answer.t_end = self.clock.now();
                    break (parts, answer);
                }
                () = tokio::time::sleep(pause) => {}
            }
            t_attempt = self.clock.now();
        };
        let AttemptAnswer { ended, final_marker, t_end, t_cancel } = answer;
        self.gauge.change(t_end, -(self.planned.len() as i64));
        self.connection.in_flight.set(self.connection.in_flight.get() - 1);
        self.connection.freed.notify_one();
        let from_start = |at: u64| at.saturating_sub(self.t0);
        let answer = parts.first_mut().and_then(|part| part.answer.take());
        let answer = self.notify_driver(answer, &parts, &ended, t_end);
        for (row, (mut part, ended)) in parts.into_iter().zip(ended).enumerate() {
            let mut counted = std::mem::take(&mut part.counted);
            for chunk in &mut counted.chunks {
                chunk.t_read = from_start(chunk.t_read);
            }
            self.live.correct(part.live_tokens, u64::from(counted.tokens));
            // Tokens of one read took no time that was measured.
            let spread = counted.chunks.first().zip(counted.chunks.last());
            let spread = spread.map(|(first, last)| last.t_read - first.t_read).filter(|ns| *ns > 0);
            let tpot =
                spread.zip(u64::from(counted.tokens).checked_sub(1)).and_then(|(ns, tokens)| ns.checked_div(tokens));
            self.live.end(matches!(ended, RequestEnd::Failed { .. }), tpot);
            let planned = &self.planned[row];
            let answers = self.spec.answers_to_a_prompt();
            let record = RequestRecord {
                index: self.index + row as u64,
                sample: self.listener.as_ref().map(|listener| u64::from(listener.sample)),
                endpoint: self.connection.endpoint,
                input_tokens: planned.input_len,
                requested_tokens: planned.output_len.saturating_mul(answers),
                token_source: counted.source,
                chunk_tokens_unknown: !counted.is_per_chunk,
                interleaved: answers > 1,
                final_marker,
                session: planned.session,
                turn: planned.turn,
                t_sched: planned.at_ns,
                t_issue: from_start(self.t_issue),
                t_end: from_start(t_end),
                t_cancel: t_cancel.map(from_start),
                server: part.server.map(Box::new),
                usage: counted.usage.map(Box::new),
                finish_reason: counted.finish,
                ended,
                attempts: attempts.clone(),
                // The collector fills in what is counted.
                ..RequestRecord::default()
            };
            let answer_text = part.answer_text.take();
            self.collector.borrow_mut().take(record, counted, answer_text);
        }
        MessageEnd { t_end, answer }
    }

    /// The external driver is notified of the end of its request at once.
    fn notify_driver(
        &self,
        answer: Option<Prompt>,
        parts: &[RequestProgress],
        ended: &[RequestEnd],
        t_end: u64,
    ) -> Option<Prompt> {
        let (Some(listener), Some(ended)) = (&self.listener, ended.first()) else { return answer };
        let tokens = match answer {
            Some(Prompt::Ids(ids)) => ids,
            _ => Vec::new(),
        };
        let last = parts.first().and_then(|part| part.counted.chunks.last());
        listener.done(tokens, ended, last.map_or(t_end, |chunk| chunk.t_read));
        None
    }

    /// Where the time to its first token starts, on the clock.
    fn due(&self, planned: &PlannedRequest) -> u64 {
        if planned.due == RequestTrigger::Schedule { self.t0 + planned.at_ns } else { self.t_issue }
    }

    fn deadline(&self) -> Option<Duration> {
        self.spec.request.deadline.as_ref().map(TimeSpan::time)
    }

    async fn attempt(&self, t_attempt: u64) -> (Vec<RequestProgress>, AttemptAnswer) {
        // With an external driver, answers end long before their length limit.
        let most = if self.listener.is_some() { 16 } else { 4096 };
        let room = |planned: &PlannedRequest| planned.output_len.min(most) as usize;
        let mut parts: Vec<RequestProgress> = self
            .planned
            .iter()
            .map(|planned| RequestProgress {
                http_outcome: HttpOutcome {
                    account: Accounting::with_capacity(room(planned))
                        .with_live_counts(Arc::clone(&self.live), self.due(planned)),
                    ..HttpOutcome::default()
                },
                keeps: self.keeps_answer,
                answer_text: self.keeps_text.then(AnswerText::default),
                listener: self.listener.clone(),
                ..RequestProgress::default()
            })
            .collect();
        let answer = RequestAttempt {
            connection: &self.connection,
            encoder: &self.encoder,
            frame: self.frame.clone(),
            id: self.index,
            planned: &self.planned,
            collector: Some(&self.collector),
            clock: self.clock,
            stall: self.spec.stall_timeout,
            limits: self.spec.response_bounds(),
            deadline: self.deadline(),
            t_issue: self.t_issue,
            t_attempt,
            // Sent again after a pause, it may find a server that allows it.
            is_refused: self.is_refused && self.connection.max_in_flight() == 0,
        }
        .perform(&self.stop, &mut parts)
        .await;
        (parts, answer)
    }

    /// Why the message failed, when it is to be sent again. `before`: attempts that were followed by another.
    fn to_try_again(
        &self,
        before: usize,
        parts: &[RequestProgress],
        answer: &AttemptAnswer,
    ) -> Option<(FailureClass, String)> {
        let retries = self.spec.pace.retries.as_ref().filter(|retries| before < retries.times as usize)?;
        // A message fails as a whole, or the server has begun with it.
        let Some(RequestEnd::Failed { class, why }) = answer.ended.first() else { return None };
        let has_failed =
            |ended: &RequestEnd| matches!(ended, RequestEnd::Failed { class, .. } if covers(retries, *class));
        let is_untouched =
            answer.ended.iter().all(has_failed) && parts.iter().all(|part| part.counted.chunks.is_empty());
        is_untouched.then(|| (*class, why.clone()))
    }
}

/// Whether a request that failed like this may be sent again.
pub(super) fn covers(retries: &Retries, class: FailureClass) -> bool {
    let on = match class {
        FailureClass::Client | FailureClass::Connect => RetryOn::Connect,
        FailureClass::Refused => RetryOn::Refused,
        _ => return false,
    };
    retries.on.contains(&on)
}
