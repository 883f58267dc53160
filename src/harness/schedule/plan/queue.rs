//! The next requests of a closed loop. Users take sessions in the plan's order, so that faster users take more.

use std::sync::Arc;

use parking_lot::Mutex;

use super::planned_requests::{PlannedReader, PlannedRequest, PlannedRequests};
use super::schedule::{RequestSchedule, belongs};
use super::session_drawer::SessionDrawer;
use crate::schedule::arrivals;
use crate::schedule::data::PromptRenderer;
use crate::{BenchSpec, DataKind, HarnessError, Pause};

/// Requests drawn before the start where only a duration ends the run; later ones are drawn as they are needed.
pub(super) const AHEAD: u64 = 4_096;

pub(crate) struct PlanQueue {
    schedule: Arc<RequestSchedule>,
    state: Mutex<State>,
    /// As many requests at least.
    requests: u64,
    /// Sessions begin before it, ns from the start.
    until_ns: u64,
    /// Of a plan that goes on as long as users take requests: its beginning.
    drawer: Option<SessionDrawer>,
    batch: usize,
    think: Pause,
    seed: u64,
}

struct State {
    rest: PlannedReader,
    /// Read, and not taken.
    ahead: Option<PlannedRequest>,
    /// How many were taken.
    next: usize,
    /// Users who left, because their pause would have ended after the end.
    gone: u64,
    /// The error from drawing sessions, or that the data ended too early.
    failed: Option<HarnessError>,
}

impl State {
    /// What belongs together and comes next. Empty: there is nothing more.
    fn session(&mut self, batch: usize) -> Result<Vec<PlannedRequest>, HarnessError> {
        let mut session = Vec::new();
        loop {
            let next = match self.ahead.take() {
                Some(next) => Some(next),
                None => self.rest.next_request()?,
            };
            match next {
                Some(next) if session.is_empty() || belongs(batch, session.len(), &next) => session.push(next),
                next => {
                    self.ahead = next;
                    return Ok(session);
                }
            }
        }
    }
}

impl PlanQueue {
    pub fn new(schedule: &Arc<RequestSchedule>, spec: &BenchSpec) -> Result<Self, HarnessError> {
        let is_replay = spec.content.data.as_ref().is_some_and(|data| data.kind == DataKind::Plan);
        let drawer = match spec.stop.duration {
            Some(_) if !is_replay => Some(SessionDrawer::new(spec, &PromptRenderer::new(spec)?)?),
            _ => None,
        };
        let rest = drawer.clone().map_or_else(|| schedule.requests.iter(), PlannedReader::endless);
        Ok(Self {
            schedule: Arc::clone(schedule),
            state: Mutex::new(State { rest, ahead: None, next: 0, gone: 0, failed: None }),
            requests: spec.stop.requests.unwrap_or(0),
            until_ns: spec.stop.time().map_or(0, |time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)),
            drawer,
            batch: spec.request.batch(),
            think: spec.pace.think,
            seed: spec.seed,
        })
    }

    /// Whether the plan has every request that will be sent, rather than the first ones.
    pub const fn has_all(&self) -> bool {
        self.drawer.is_none()
    }

    /// The next session and the index of its first request, for a user that is idle at `now_ns`, and thinks before it
    /// sends unless this is its first. None: there are no more, or it would begin too late.
    pub fn take(&self, now_ns: u64, is_first: bool) -> Option<(u64, Vec<PlannedRequest>)> {
        let mut state = self.state.lock();
        let first = state.next;
        if state.failed.is_some() {
            return None;
        }
        let pause = if is_first || self.has_all() { 0 } else { self.pause(first as u64, state.gone) };
        if !self.has_all() && first as u64 >= self.requests && now_ns.saturating_add(pause) >= self.until_ns {
            state.gone += 1;
            return None;
        }
        let session = state.session(self.batch).map(|mut session| {
            match session.first_mut() {
                Some(turn) if is_first => turn.at_ns = 0,
                Some(turn) if !self.has_all() => turn.at_ns = pause,
                _ => {}
            }
            session
        });
        match session {
            Ok(session) if session.is_empty() => {
                // A plan that goes on until the duration ends has no other end than that of the data.
                if !self.has_all() {
                    state.failed = Some(HarnessError::DataEnd { drawn: first as u64 });
                }
                None
            }
            Ok(session) => {
                state.next = first + session.len();
                Some((first as u64, session))
            }
            Err(error) => {
                state.failed = Some(error);
                None
            }
        }
    }

    /// Before a session: as planned, until the first user has left. From then on each has a pause of its own, so that
    /// one long pause does not send everybody home who comes upon the same session.
    fn pause(&self, first: u64, gone: u64) -> u64 {
        arrivals::think_time(self.think, self.seed, first.wrapping_add(gone << 40))
    }

    /// Requests of the plan, as `close` returns it, that no user reached. Call before `close`.
    pub fn unreached_requests(&self) -> u64 {
        let next = self.state.lock().next;
        self.carried_out(next).saturating_sub(next) as u64
    }

    /// Requests of the plan of which this many were taken: where only a duration ended it, those that no user took are
    /// not part of it.
    fn carried_out(&self, taken: usize) -> usize {
        let planned = self.schedule.requests.len();
        if self.has_all() { planned } else { taken.max((self.requests as usize).min(planned)) }
    }

    /// The plan as it was carried out.
    pub fn close(&self) -> Result<Arc<RequestSchedule>, HarnessError> {
        let mut state = self.state.lock();
        if let Some(error) = state.failed.take() {
            return Err(error);
        }
        let Some(drawer) = &self.drawer else { return Ok(Arc::clone(&self.schedule)) };
        let requests = PlannedRequests::drawn(drawer.clone(), self.carried_out(state.next));
        let mut closed = RequestSchedule { requests, ..RequestSchedule::clone(&self.schedule) };
        if let Some(data) = &mut closed.data {
            data.taken = closed.requests.iter().last().map_or(0, |last| last.session + 1);
            data.repeated = data.taken > data.records;
        }
        closed.digest = closed.digested();
        Ok(Arc::new(closed))
    }
}
