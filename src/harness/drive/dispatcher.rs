//! How a worker sends: arrivals at their times, or users one request after the other; turns of a session in their
//! order.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{Notify, OwnedSemaphorePermit};
use tokio::task::JoinSet;

use super::external_driver::{CallInbox, CallListener, ExternalCall};
use super::in_flight::{ConcurrencyGauge, InFlightRequest, MessageEnd};
use super::pacer::{Alarms, Pacer};
use super::worker::WorkerShare;
use crate::measure::collector::Collector;
use crate::schedule::data::PreviousAnswers;
use crate::transport::connection::Connection;
use crate::transport::request_encoder::{EncodedMessage, RequestEncoder};
use crate::{HarnessError, LoadPattern, PlannedRequest};

/// The state that all requests of a worker share while it runs.
pub(crate) struct Dispatcher {
    pub share: WorkerShare,
    pub connections: Vec<Rc<Connection>>,
    pub encoder: Arc<RequestEncoder>,
    pub t0: u64,
    pub collector: Rc<RefCell<Collector>>,
    pub gauge: Rc<ConcurrencyGauge>,
    pub freed: Rc<Notify>,
    pub alarms: Alarms,
    pub counts: DispatchCounts,
    /// Since when the servers have allowed no request at a time, with none in flight; on the clock.
    pub no_room_since: Cell<Option<u64>>,
    /// The error that ended the worker early.
    pub failed: RefCell<Option<HarnessError>>,
}

#[derive(Default)]
pub(crate) struct DispatchCounts {
    pub issued: Cell<u64>,
    pub not_sent: Cell<u64>,
    pub waited_for_stream: Cell<u64>,
    /// Arrivals that waited because the limit on requests in flight was reached.
    pub deferred: Cell<u64>,
    turn: Cell<usize>,
}

fn add(count: &Cell<u64>, more: u64) {
    count.set(count.get() + more);
}

/// A request that may go now.
struct AdmittedRequest {
    connection: Rc<Connection>,
    permit: Option<OwnedSemaphorePermit>,
    /// The servers have allowed no request at a time for the stall time-out: it is not sent.
    is_refused: bool,
}

impl Dispatcher {
    /// Sends this worker's share and waits for every answer.
    pub async fn run(self: &Rc<Self>, pacer: &Pacer) -> std::io::Result<()> {
        let mut running = JoinSet::new();
        if let Some(inbox) = self.share.inbox.take() {
            self.dispatch_external(inbox, &mut running).await;
        } else if let LoadPattern::Concurrency { users } = &self.share.spec.scenario {
            let users = users.highest().floor() as u32;
            for user in (self.share.number as u32..users).step_by(self.share.workers) {
                running.spawn_local(Rc::clone(self).user(user));
            }
        } else {
            self.arrivals(pacer, &mut running).await?;
        }
        while running.join_next().await.is_some() {}
        Ok(())
    }

    async fn arrivals(self: &Rc<Self>, pacer: &Pacer, running: &mut JoinSet<()>) -> std::io::Result<()> {
        for (first, session) in self.share.worker_sessions() {
            let requests = session.len() as u64;
            let mut messages = self.share.messages(&session);
            let (Some(message), rest) = (messages.next(), messages.next().is_some()) else { continue };
            // Built before its time, so that building does not cause lateness.
            let Some(EncodedMessage { frame, .. }) = self.frame(first, message, &PreviousAnswers::default()) else {
                add(&self.counts.not_sent, requests);
                continue;
            };
            let due = self.t0 + message.first().map_or(0, |request| request.at_ns);
            let has_come = tokio::select! {
                biased;
                () = self.share.stop.cancelled() => false,
                waited = pacer.until(self.share.clock.instant(due)) => { waited?; true }
            };
            let slot = if has_come { self.acquire_slot().await } else { None };
            let Some(slot) = slot else {
                add(&self.counts.not_sent, requests);
                continue;
            };
            let under_way = self.dispatch(first, message.to_vec(), frame, slot, due, None);
            if rest {
                let dispatcher = Rc::clone(self);
                running.spawn_local(async move {
                    let _ = dispatcher.session(first, session, Some(under_way), 0).await;
                });
            } else {
                running.spawn_local(async move { drop(under_way.await) });
            }
            while running.try_join_next().is_some() {}
            // With a permanent backlog this loop never waits: yield, so that answers are read.
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    /// Dispatches requests as they are issued, until the inlet is closed.
    async fn dispatch_external(
        self: &Rc<Self>,
        CallInbox { sample_cache, mut arrivals }: CallInbox,
        running: &mut JoinSet<()>,
    ) {
        loop {
            let arrival = tokio::select! {
                biased;
                () = self.share.stop.cancelled() => None,
                arrival = arrivals.recv() => arrival,
            };
            let Some(ExternalCall { index, ticket, sample, at }) = arrival else { break };
            let frame = match sample_cache.message(sample, index) {
                Ok(frame) => frame,
                Err(error) => {
                    self.failed.borrow_mut().get_or_insert(error);
                    self.share.stop.cancel();
                    break;
                }
            };
            let (Some(planned), Some(slot)) = (sample_cache.sample(sample), self.acquire_slot().await) else {
                add(&self.counts.not_sent, 1);
                continue;
            };
            let due = self.share.clock.at(at);
            let planned = PlannedRequest { at_ns: due.saturating_sub(self.t0), session: index, ..planned };
            let listener =
                CallListener { sample_cache: Arc::clone(&sample_cache), ticket, sample, clock: self.share.clock };
            let under_way = self.dispatch(index, vec![planned], frame, slot, due, Some(listener));
            running.spawn_local(async move { drop(under_way.await) });
            while running.try_join_next().is_some() {}
            // When many are issued at once, the first answers are read before the last request is sent.
            tokio::task::yield_now().await;
        }
        // Requests that were issued and not sent.
        arrivals.close();
        while arrivals.try_recv().is_ok() {
            add(&self.counts.not_sent, 1);
        }
    }

    /// One user of a closed loop: a session, a pause, the next session, while the level includes this user.
    async fn user(self: Rc<Self>, user: u32) {
        let LoadPattern::Concurrency { users } = &self.share.spec.scenario else { return };
        let level = f64::from(user) + 1.0;
        let mut free = self.t0;
        let mut is_first = true;
        loop {
            // A user that leaves with the level comes back with it.
            let now = free.saturating_sub(self.t0) as f64 / 1e9;
            let Some(at) = users.reaches(level, now) else { return };
            if at > now {
                free = self.t0 + (at * 1e9).ceil() as u64;
                if !self.until(free).await {
                    return;
                }
            }
            let Some((first, session)) = self.share.queue.take(free.saturating_sub(self.t0), is_first) else { return };
            let pause = session.first().map_or(0, |turn| turn.at_ns);
            is_first = false;
            match self.session(first, session, None::<std::future::Ready<MessageEnd>>, free + pause).await {
                Some(ended) => free = ended,
                None => return,
            }
        }
    }

    /// The turns of a session, in order; the first may be in flight. Returns the end of the last; None when it was
    /// stopped.
    async fn session(
        &self,
        first: u64,
        session: Vec<PlannedRequest>,
        mut under_way: Option<impl Future<Output = MessageEnd>>,
        mut due: u64,
    ) -> Option<u64> {
        let mut previous_answers = PreviousAnswers::default();
        let mut index = first;
        for message in self.share.messages(&session) {
            let over = if let Some(under_way) = under_way.take() {
                under_way.await
            } else {
                if index > first {
                    let (pause, earliest) = message.first().map_or((0, 0), |turn| (turn.at_ns, turn.earliest_ns));
                    due = (due + pause).max(self.t0 + earliest);
                }
                let slot = match self.frame(index, message, &previous_answers) {
                    Some(encoded) if self.until(due).await => self.acquire_slot().await.map(|slot| (encoded, slot)),
                    _ => None,
                };
                let Some((EncodedMessage { frame, input_len }, slot)) = slot else {
                    add(&self.counts.not_sent, session.len() as u64 - (index - first));
                    return None;
                };
                let at_ns = due.saturating_sub(self.t0);
                let sent = |request: &PlannedRequest| PlannedRequest {
                    at_ns,
                    input_len: input_len.unwrap_or(request.input_len),
                    ..request.clone()
                };
                let message = message.iter().map(sent).collect();
                self.dispatch(index, message, frame, slot, due, None).await
            };
            due = over.t_end;
            index += message.len() as u64;
            previous_answers.answers.push(over.answer);
        }
        Some(due)
    }

    /// False when the run was stopped before.
    async fn until(&self, due: u64) -> bool {
        if due > self.share.clock.now() {
            tokio::select! {
                biased;
                () = self.share.stop.cancelled() => {}
                () = self.alarms.until(self.share.clock.instant(due)) => {}
            }
        }
        !self.share.stop.is_cancelled()
    }

    /// The message of a request: made before the start, or now.
    fn frame(&self, index: u64, message: &[PlannedRequest], previous: &PreviousAnswers) -> Option<EncodedMessage> {
        if let Some(frame) = self.share.bodies.take(index) {
            return Some(EncodedMessage { frame, input_len: None });
        }
        match self.encoder.message(&self.share.schedule, index, message, previous) {
            Ok(encoded) => Some(encoded),
            Err(error) => {
                self.failed.borrow_mut().get_or_insert(error);
                self.share.stop.cancel();
                None
            }
        }
    }

    /// Waits for room: among all requests in flight, then on a connection. None when the run was stopped.
    async fn acquire_slot(&self) -> Option<AdmittedRequest> {
        let permit = match &self.share.in_flight_permits {
            Some(room) => {
                if let Ok(permit) = Arc::clone(room).try_acquire_owned() {
                    Some(permit)
                } else {
                    add(&self.counts.deferred, 1);
                    tokio::select! {
                        biased;
                        () = self.share.stop.cancelled() => return None,
                        permit = Arc::clone(room).acquire_owned() => Some(permit.ok()?),
                    }
                }
            }
            None => None,
        };
        let mut has_waited = false;
        let (connection, is_refused) = loop {
            let turn = self.counts.turn.get() + 1;
            self.counts.turn.set(turn);
            if let Some(connection) = least_busy(&self.connections, turn) {
                self.no_room_since.set(None);
                break (connection, false);
            }
            has_waited = true;
            let left = self.patience_for_room();
            if left.is_zero() {
                // The limit may be raised while many are refused.
                tokio::task::yield_now().await;
                break (Rc::clone(&self.connections[turn % self.connections.len()]), true);
            }
            tokio::select! {
                biased;
                () = self.share.stop.cancelled() => return None,
                () = self.freed.notified() => {}
                () = tokio::time::sleep(left) => {}
            }
        };
        connection.in_flight.set(connection.in_flight.get() + 1);
        add(&self.counts.waited_for_stream, u64::from(has_waited));
        Some(AdmittedRequest { connection, permit, is_refused })
    }

    /// How long a request may still wait for room. A request in flight makes room when it ends; with none, only the
    /// servers can.
    fn patience_for_room(&self) -> Duration {
        let stall = self.share.spec.stall_timeout;
        let now = self.share.clock.now();
        if self.no_room_since.get().is_none()
            && self.connections.iter().all(|connection| connection.in_flight.get() == 0)
        {
            self.no_room_since.set(Some(now));
        }
        let waited = self.no_room_since.get().map_or(0, |since| now.saturating_sub(since));
        stall.saturating_sub(Duration::from_nanos(waited))
    }

    /// Counts a request as issued now; its future ends with the answer.
    fn dispatch(
        &self,
        index: u64,
        planned: Vec<PlannedRequest>,
        frame: Bytes,
        AdmittedRequest { connection, permit, is_refused }: AdmittedRequest,
        due: u64,
        listener: Option<CallListener>,
    ) -> impl Future<Output = MessageEnd> + use<> {
        let requests = planned.len() as u64;
        add(&self.counts.issued, requests);
        self.share.live.issue(requests);
        let t_issue = self.share.clock.now().max(due);
        self.gauge.change(t_issue, requests as i64);
        let under_way = InFlightRequest {
            connection,
            index,
            planned,
            frame,
            encoder: Arc::clone(&self.encoder),
            t0: self.t0,
            collector: Rc::clone(&self.collector),
            gauge: Rc::clone(&self.gauge),
            is_refused,
            spec: Arc::clone(&self.share.spec),
            live: Arc::clone(&self.share.live),
            clock: self.share.clock,
            stop: self.share.stop.clone(),
            t_issue,
            keeps_answer: self.share.keeps_answers || listener.is_some(),
            // Text is the only source of an answer's token count, and there is a tokenizer to count them with.
            keeps_text: self.encoder.count().is_of_text()
                && self.share.schedule.has_tokenizer()
                && !self.collector.borrow().has_usage,
            listener,
        };
        async move {
            let over = under_way.run().await;
            drop(permit);
            over
        }
    }
}

/// The connection with room and the fewest requests in flight; ties rotate.
fn least_busy(connections: &[Rc<Connection>], turn: usize) -> Option<Rc<Connection>> {
    let rotated = (0..connections.len()).map(|step| &connections[(turn + step) % connections.len()]);
    rotated
        .filter(|connection| connection.in_flight.get() < connection.max_in_flight())
        .min_by_key(|connection| connection.in_flight.get())
        .cloned()
}
