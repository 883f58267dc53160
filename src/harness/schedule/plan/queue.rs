//! The next requests of a closed loop. Users take sessions in the plan's order, so that faster users take more.

use std::sync::Arc;

use super::schedule::{PlannedRequest, RequestSchedule};
use super::session_drawer::SessionDrawer;
use crate::harness::schedule::data::PromptRenderer;
use crate::harness::{BenchSpec, DataKind, HarnessError};
use parking_lot::Mutex;

/// Requests drawn before the start where only a duration ends the run; later ones are drawn as they are needed.
pub(super) const AHEAD: u64 = 4_096;

pub(in crate::harness) struct PlanQueue {
    schedule: Arc<RequestSchedule>,
    state: Mutex<State>,
    /// As many requests at least.
    requests: u64,
    /// Sessions begin before it, ns from the start.
    until_ns: u64,
    is_all: bool,
    batch: usize,
}

struct State {
    /// Those that follow the schedule, taken and still to take, in order.
    drawn: Vec<PlannedRequest>,
    next: usize,
    /// Continues where `drawn` ends; None when no more can follow.
    drawer: Option<SessionDrawer>,
    /// The error from drawing sessions.
    failed: Option<HarnessError>,
}

impl PlanQueue {
    pub fn new(schedule: &Arc<RequestSchedule>, spec: &BenchSpec) -> Result<Self, HarnessError> {
        let is_replay = spec.content.data.as_ref().is_some_and(|data| data.kind == DataKind::Plan);
        let more = match spec.stop.duration {
            Some(_) if !is_replay => {
                let mut drawer = SessionDrawer::new(spec, &PromptRenderer::of(spec)?)?;
                for _ in 0..schedule.requests.last().map_or(0, |last| last.session + 1) {
                    drawer.next()?;
                }
                Some(drawer)
            }
            _ => None,
        };
        let until_ns = spec.stop.time().map_or(0, |time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
        Ok(Self {
            schedule: Arc::clone(schedule),
            state: Mutex::new(State { drawn: Vec::new(), next: 0, drawer: more, failed: None }),
            requests: spec.stop.requests.unwrap_or(0),
            until_ns,
            is_all: is_replay || spec.stop.duration.is_none(),
            batch: spec.request.batch(),
        })
    }

    /// Whether the plan has every request that will be sent, rather than the first ones.
    pub const fn has_all(&self) -> bool {
        self.is_all
    }

    /// The next session and the index of its first request, for a user that is idle at `now_ns`. None: there are no more.
    pub fn take(&self, now_ns: u64) -> Option<(u64, Vec<PlannedRequest>)> {
        let mut state = self.state.lock();
        let first = state.next;
        if !self.is_all && first as u64 >= self.requests && now_ns >= self.until_ns {
            return None;
        }
        while self.schedule.requests.len() + state.drawn.len() < first + self.batch {
            let Some(more) = state.drawer.as_mut() else { break };
            match more.next() {
                Ok(Some(session)) => state.drawn.extend(session),
                Ok(None) => break,
                Err(error) => {
                    state.failed = Some(error);
                    state.drawer = None;
                    return None;
                }
            }
        }
        let session: Vec<PlannedRequest> = self.session(&state, first).cloned().collect();
        if session.is_empty() {
            return None;
        }
        state.next = first + session.len();
        Some((first as u64, session))
    }

    /// What belongs together from the request `first` on.
    fn session<'s>(&'s self, state: &'s State, first: usize) -> impl Iterator<Item = &'s PlannedRequest> {
        let planned = self.schedule.requests.get(first..).unwrap_or_default();
        let drawn = state.drawn.get(first.saturating_sub(self.schedule.requests.len())..).unwrap_or_default();
        let batch = self.batch;
        let belongs = move |(at, request): &(usize, &PlannedRequest)| match batch {
            0 | 1 => *at == 0 || request.turn > 0,
            _ => *at < batch,
        };
        planned.iter().chain(drawn).enumerate().take_while(belongs).map(|(_, request)| request)
    }

    /// Requests of the plan, as `close` returns it, that no user reached. Call before `close`.
    pub fn unreached_requests(&self) -> u64 {
        let state = self.state.lock();
        let drawn = self.schedule.requests.len() + state.drawn.len();
        let planned = if self.is_all { drawn } else { (self.requests as usize).min(drawn) };
        planned.saturating_sub(state.next) as u64
    }

    /// The plan as it was carried out. Where only a duration ended it, requests that no user took are not part of it.
    pub fn close(&self) -> Result<Arc<RequestSchedule>, HarnessError> {
        let mut state = self.state.lock();
        if let Some(error) = state.failed.take() {
            return Err(error);
        }
        if self.is_all {
            return Ok(Arc::clone(&self.schedule));
        }
        let drawn = self.schedule.requests.len() + state.drawn.len();
        let next = state.next.max((self.requests as usize).min(drawn));
        let mut closed = RequestSchedule::clone(&self.schedule);
        closed.requests.append(&mut state.drawn);
        closed.requests.truncate(next);
        if let Some(data) = &mut closed.data {
            data.taken = closed.requests.last().map_or(0, |last| last.session + 1);
            data.repeated = data.taken > data.records;
        }
        closed.digest = closed.digested();
        Ok(Arc::new(closed))
    }
}
