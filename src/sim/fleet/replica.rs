//! One replica: the core on its own clock, which is behind that of the balancer until it matters.

use std::collections::VecDeque;

use super::arrivals::{Balancer, FailureTimes, FleetArrival, FleetArrivals, PrefixCache};
use super::result::FleetResult;
use crate::core::{Core, CoreRequest, CoreStep, CoreTokens, EngineLimits, NeverFits};

/// A request on its way into the core.
struct Entering {
    /// When it is there, after the frontend.
    at: u64,
    request: CoreRequest,
}

/// A server.
pub(super) struct Replica {
    limits: EngineLimits,
    core: Core,
    prefixes: PrefixCache,
    entering: VecDeque<Entering>,
    /// The end of the last step, or when it became idle.
    now: u64,
    /// The one that runs.
    step: Option<CoreStep>,
    /// Before this time its requests stay what they are.
    event: u64,
    requests: usize,
    is_up: bool,
    /// In steps, nanoseconds.
    busy: u64,
    steps: u64,
}

impl Replica {
    pub(super) fn new(limits: &EngineLimits, prefixes: PrefixCache) -> Self {
        Self {
            core: Core::new(limits.clone()),
            limits: limits.clone(),
            prefixes,
            entering: VecDeque::new(),
            now: 0,
            step: None,
            event: u64::MAX,
            requests: 0,
            is_up: true,
            busy: 0,
            steps: 0,
        }
    }

    pub(super) const fn is_up(&self) -> bool {
        self.is_up
    }

    pub(super) const fn requests(&self) -> usize {
        self.requests
    }

    pub(super) const fn event(&self) -> u64 {
        self.event
    }

    pub(super) const fn busy(&self) -> u64 {
        self.busy
    }

    pub(super) const fn steps(&self) -> u64 {
        self.steps + self.core.steps
    }

    pub(super) fn has_prefix(&self, prefix: u32) -> bool {
        self.prefixes.has(prefix)
    }

    /// A request arrives at `now`, which is not before any time that it was advanced to. True: its prefix was cached.
    pub(super) fn take(&mut self, now: u64, id: u64, arrival: &FleetArrival) -> bool {
        let cached = arrival.prefix.map_or(0, |prefix| self.prefixes.use_prefix(prefix));
        let FleetArrival { isl, osl, adapter, .. } = *arrival;
        self.enter(now, CoreRequest { id, isl, osl, cached, adapter });
        cached > 0
    }

    /// Like `take`, where the KV cache of the whole prompt comes with it.
    pub(super) fn take_cached(&mut self, now: u64, id: u64, arrival: &FleetArrival) {
        let FleetArrival { isl, osl, adapter, .. } = *arrival;
        self.enter(now, CoreRequest { id, isl, osl, cached: isl, adapter });
    }

    fn enter(&mut self, now: u64, request: CoreRequest) {
        let at = now.saturating_add(self.limits.timing.frontend_ns());
        self.requests += 1;
        self.entering.push_back(Entering { at, request });
        self.event = self.event.min(at);
    }

    /// Ends the steps that end until `until` and begins those before it. Reports first and last tokens, and their time.
    pub(super) fn advance(&mut self, until: u64, mut emit: impl FnMut(u64, CoreTokens)) -> Result<(), NeverFits> {
        loop {
            if let Some(step) = self.step {
                if step.end > until {
                    break;
                }
                self.step = None;
                self.now = step.end;
                let requests = &mut self.requests;
                self.core.finish(false, |token| {
                    *requests -= usize::from(token.is_last);
                    if token.index == 0 || token.is_last {
                        emit(step.sent, token);
                    }
                });
            }
            let next = self.entering.front().map_or(u64::MAX, |entering| entering.at);
            let end = self.core.run_equal_steps(self.now, next.min(until));
            self.busy += end - self.now;
            self.now = end;
            while let Some(entering) = self.entering.pop_front_if(|entering| entering.at <= self.now) {
                self.core.arrive(entering.request)?;
            }
            if self.now >= until {
                break;
            }
            if let Some(step) = self.core.begin(self.now) {
                self.busy += step.end - self.now;
                self.step = Some(step);
            } else if let Some(entering) = self.entering.front().filter(|entering| entering.at < until) {
                self.now = entering.at;
            } else {
                break;
            }
        }
        self.event = self.next_event();
        Ok(())
    }

    fn next_event(&self) -> u64 {
        let enters = self.entering.front().map_or(u64::MAX, |entering| entering.at);
        if let Some(step) = self.step {
            step.end
        } else if self.core.is_idle() {
            enters
        } else {
            self.core.end_of_equal_steps(self.now).unwrap_or(self.now).min(enters)
        }
    }

    /// Loses everything.
    pub(super) fn fail(&mut self) {
        self.steps += self.core.steps;
        self.core = Core::new(self.limits.clone());
        self.entering.clear();
        self.prefixes.clear();
        self.step = None;
        self.event = u64::MAX;
        self.requests = 0;
        self.is_up = false;
    }

    pub(super) fn come_back(&mut self, now: u64) {
        self.now = self.now.max(now);
        self.is_up = true;
    }
}

// One balancer and its replicas, from the first arrival to the last answer.

/// A request that has not ended.
#[derive(Clone, Copy)]
struct Live {
    request: FleetArrival,
    /// `None`: no replica is up, it waits at the balancer.
    replica: Option<usize>,
    /// When its first token came, once it has.
    first: Option<u64>,
}

/// The requests inside. A place is used again, so that it stays as small as the queue.
#[derive(Default)]
struct LiveRequests {
    places: Vec<Option<Live>>,
    free: Vec<u64>,
}

impl LiveRequests {
    fn add(&mut self, live: Live) -> u64 {
        if let Some(id) = self.free.pop() {
            self.places[id as usize] = Some(live);
            return id;
        }
        self.places.push(Some(live));
        self.places.len() as u64 - 1
    }

    /// A token came.
    fn token(&mut self, now: u64, token: CoreTokens, result: &mut FleetResult) {
        let place = &mut self.places[token.id as usize];
        let Some(live) = place else { return };
        let first = *live.first.get_or_insert(now);
        if token.is_last {
            result.answered(live.request.at, first, now, live.request.osl);
            *place = None;
            self.free.push(token.id);
        }
    }
}

/// The replicas of one balancer.
pub(super) struct Balanced {
    policy: Balancer,
    replicas: Vec<Replica>,
    failures: Vec<FailureTimes>,
    live: LiveRequests,
    /// Those that came while no replica was up.
    waiting: VecDeque<u64>,
    turn: usize,
    result: FleetResult,
}

impl Balanced {
    pub(super) fn new(
        policy: Balancer,
        replicas: Vec<Replica>,
        failures: Vec<FailureTimes>,
        result: FleetResult,
    ) -> Self {
        Self { policy, replicas, failures, live: LiveRequests::default(), waiting: VecDeque::new(), turn: 0, result }
    }

    pub(super) fn run(mut self, arrivals: FleetArrivals<'_>) -> Result<FleetResult, NeverFits> {
        for request in arrivals {
            self.change_until(request.at)?;
            self.result.arrived(request.at);
            let id = self.live.add(Live { request, replica: None, first: None });
            self.place(request.at, id)?;
        }
        while !self.waiting.is_empty() {
            let next = self.failures.iter().map(FailureTimes::next).min().unwrap_or(u64::MAX);
            self.change_until(next)?;
        }
        for at in 0..self.replicas.len() {
            self.advance(at, u64::MAX)?;
        }
        for replica in &self.replicas {
            self.result.served_by(1, replica.busy(), replica.steps());
        }
        Ok(self.result)
    }

    fn advance(&mut self, at: usize, until: u64) -> Result<(), NeverFits> {
        let Self { replicas, live, result, .. } = self;
        replicas[at].advance(until, |now, token| live.token(now, token, result))
    }

    /// Gives a request to a replica.
    fn place(&mut self, now: u64, id: u64) -> Result<(), NeverFits> {
        if self.policy != Balancer::RoundRobin {
            for at in 0..self.replicas.len() {
                if self.replicas[at].event() <= now {
                    self.advance(at, now)?;
                }
            }
        }
        let Some(live) = self.live.places[id as usize] else { return Ok(()) };
        let request = live.request;
        let chosen = self.policy.choose(&self.replicas, request.prefix, &mut self.turn);
        self.live.places[id as usize] = Some(Live { replica: chosen, ..live });
        let Some(at) = chosen else {
            self.waiting.push_back(id);
            return Ok(());
        };
        self.advance(at, now)?;
        if self.replicas[at].take(now, id, &request) {
            self.result.prefix_hits += 1;
        }
        Ok(())
    }

    /// Failures and repairs until a time.
    fn change_until(&mut self, until: u64) -> Result<(), NeverFits> {
        loop {
            let next = self.failures.iter().enumerate().min_by_key(|(at, times)| (times.next(), *at));
            let Some((at, now)) = next.map(|(at, times)| (at, times.next())).filter(|(_, now)| *now <= until) else {
                return Ok(());
            };
            if now == u64::MAX {
                return Ok(());
            }
            if self.replicas[at].is_up() {
                self.advance(at, now)?;
                self.replicas[at].fail();
                self.failures[at].fails_at(now);
                let mut lost: Vec<(u64, u64)> = Vec::new();
                for (id, live) in self.live.places.iter().enumerate() {
                    if let Some(live) = live.filter(|live| live.replica == Some(at)) {
                        lost.push((live.request.at, id as u64));
                    }
                }
                lost.sort_unstable();
                self.result.failed(lost.len() as u64);
                for (_, id) in lost {
                    self.place(now, id)?;
                }
            } else {
                self.replicas[at].come_back(now);
                self.failures[at].runs_from(now);
                for id in std::mem::take(&mut self.waiting) {
                    self.place(now, id)?;
                }
            }
        }
    }
}
