//! The next requests of a closed loop. Users take sessions in the plan's order, so that faster users take more.

use std::sync::Arc;

use parking_lot::Mutex;

use super::planned_request::PlannedRequest;
use super::planned_requests::{PlannedReader, PlannedRequests};
use super::schedule::{RequestSchedule, belongs};
use super::session_drawer::SessionDrawer;
use crate::harness::schedule::data::PromptRenderer;
use crate::harness::{BenchSpec, DataKind, HarnessError};

/// Requests drawn before the start where only a duration ends the run; later ones are drawn as they are needed.
pub(super) const AHEAD: u64 = 4_096;

pub(in crate::harness) struct PlanQueue {
    schedule: Arc<RequestSchedule>,
    state: Mutex<State>,
    /// As many requests at least.
    requests: u64,
    /// Sessions begin before it, ns from the start.
    until_ns: u64,
    /// Of a plan that goes on as long as users take requests: its beginning.
    drawer: Option<SessionDrawer>,
    batch: usize,
}

struct State {
    rest: PlannedReader,
    /// Read, and not taken.
    ahead: Option<PlannedRequest>,
    /// How many were taken.
    next: usize,
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
            Some(_) if !is_replay => Some(SessionDrawer::new(spec, &PromptRenderer::of(spec)?)?),
            _ => None,
        };
        let rest = drawer.clone().map_or_else(|| schedule.requests.iter(), PlannedReader::endless);
        Ok(Self {
            schedule: Arc::clone(schedule),
            state: Mutex::new(State { rest, ahead: None, next: 0, failed: None }),
            requests: spec.stop.requests.unwrap_or(0),
            until_ns: spec.stop.time().map_or(0, |time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)),
            drawer,
            batch: spec.request.batch(),
        })
    }

    /// Whether the plan has every request that will be sent, rather than the first ones.
    pub const fn has_all(&self) -> bool {
        self.drawer.is_none()
    }

    /// The next session and the index of its first request, for a user that is idle at `now_ns`. None: there are no more.
    pub fn take(&self, now_ns: u64) -> Option<(u64, Vec<PlannedRequest>)> {
        let mut state = self.state.lock();
        let first = state.next;
        if state.failed.is_some() || !self.has_all() && first as u64 >= self.requests && now_ns >= self.until_ns {
            return None;
        }
        match state.session(self.batch) {
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

    /// Requests of the plan, as `close` returns it, that no user reached. Call before `close`.
    pub fn unreached_requests(&self) -> u64 {
        let next = self.state.lock().next;
        self.carried_out(next).saturating_sub(next) as u64
    }

    /// Requests of the plan of which this many were taken: where only a duration ended it, those that no user took are not part of it.
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
